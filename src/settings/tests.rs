//! The configuration as a user meets it: whole files in, settings or messages out.

use secrecy::ExposeSecret;

use super::*;

mod refused;

/// A supplier that lacks nothing.
const SUPPLIER: &str = r#"
[[suppliers]]
id = "s1688"
app_key = "1000000"
app_secret = "supplier secret"
access_token = "token"
"#;

fn from(toml: &str, environment: &[(&str, &str)]) -> Result<Loaded, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stockhold.toml");
    std::fs::write(&file, toml).expect("written");
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    load(&Sources { file: Some(file), environment, listen: None })
}

fn accepted(toml: &str) -> Loaded {
    from(toml, &[]).unwrap_or_else(|e| panic!("{toml}\n{e}"))
}

fn faults(toml: &str) -> Vec<String> {
    match from(toml, &[]) {
        Err(Error::Invalid(faults)) => faults,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted: {toml}"),
    }
}

fn warnings(toml: &str) -> Vec<String> {
    accepted(toml).warnings
}

#[test]
fn the_defaults_stand_alone_and_are_those_of_the_contract() {
    let loaded = load(&Sources::default()).expect("the defaults");
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let s = loaded.settings;
    assert_eq!(s.server.listen.to_string(), "127.0.0.1:8080");
    assert!(s.server.keys.is_empty());
    assert_eq!((s.limits.requests_per_second, s.limits.max_queued_commands), (0, 20_000));
    assert_eq!(s.storage.url, "sqlite://data/stockhold.db");
    assert!(matches!(s.coordination, CoordinationSettings::Memory));
    assert_eq!(s.holds.ttl_normal, Span::minutes(30));
    assert_eq!(s.holds.ttl_hot, Span::minutes(12));
    assert_eq!(s.holds.ttl_flash, Span::minutes(5));
    assert_eq!(s.holds.sweep_interval, Span::minutes(1));
    assert_eq!(s.holds.payment_grace, Span::secs(60));
    assert_eq!(s.confirm.delay, Span::minutes(5));
    assert_eq!(s.confirm.max_answer_age, Span::secs(60));
    assert_eq!(s.confirm.retry_deadline, Span::hours(2));
    assert_eq!(s.confirm.attention_deadline, Span::hours(24));
    assert_eq!(s.orders.ship_deadline, Span::days(7));
    assert_eq!(s.orders.complete_after, Span::days(14));
    assert_eq!((s.jobs.max_attempts, s.jobs.lease), (20, Span::secs(30)));
    assert_eq!(s.reconcile.cron, "0 30 3 * * *");
    assert_eq!((s.reconcile.timezone.as_str(), s.reconcile.apply), ("UTC", true));
    assert_eq!((s.watermark.low, s.watermark.recover), (5, 8));
    assert_eq!(s.watermark.remind_every, Span::hours(24));
    assert!(s.suppliers.is_empty() && s.webhooks.is_empty());
    assert!(matches!(s.refunds, RefundSettings::Manual));
    assert!(matches!(s.alerts.channels[..], [ChannelSettings::Log]));
}

#[test]
fn a_supplier_starts_from_the_pattern() {
    let s = accepted(SUPPLIER).settings;
    let [s] = &s.suppliers[..] else { panic!("one supplier") };
    assert_eq!(s.id, "s1688");
    assert_eq!(s.gateway, "https://gw.open.1688.com/openapi");
    assert_eq!(s.app_secret.expose_secret(), "supplier secret");
    assert_eq!(s.access_token.expose_secret(), "token");
    assert!(s.refresh_token.is_none() && s.message_secret.is_none() && s.deliver_to.is_none());
    assert_eq!((s.sync_interval, s.declared_lag), (Span::minutes(10), Span::minutes(1)));
    assert_eq!((s.stock_counts_at, s.stock_counts_verified), (CountsAt::Payment, false));
    assert_eq!((s.settle_margin, s.lookup_settle), (Span::secs(60), Span::minutes(2)));
    assert_eq!((s.unpaid_deadline, s.request_timeout), (Span::hours(8), Span::secs(10)));
    assert_eq!((s.buffer, s.suspect_drop, s.max_requests_per_second), (0, Percent(30), 8));
    assert_eq!((s.flow.as_str(), s.pay), ("general", Pay::Manual));
}

#[test]
fn every_key_that_is_read_is_documented_with_its_default() {
    let everything = r#"
        server.keys = [{ name = "ops", role = "ops", key = "0123456789abcdef" }]
        watermark.recover = 9
        refunds = { provider = "webhook", url = "https://shop.example/r", secret = "s" }
        alerts.channels = [{ type = "webhook", url = "https://shop.example/a", secret = "s" }]
        [[suppliers]]
        id = "a"
        app_key = "1"
        app_secret = "s"
        access_token = "t"
        refresh_token = "r"
        deliver_to = { name = "n", phone = "1", country = "CN", province = "p", city = "c", district = "d", address = "a", postcode = "1" }
    "#;
    let shown = accepted(everything).shown;
    assert_eq!(shown.len(), 61, "{shown:#?}");
    for (path, _) in &shown {
        let key = path.rsplit('.').next().expect("a key");
        assert!(DEFAULTS.contains(&format!("{key} = ")), "{path} is not in config/default.toml");
    }
}

#[test]
fn later_layers_win() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stockhold.toml");
    std::fs::write(&file, "[server]\nlisten = \"127.0.0.1:1\"\n[holds]\nttl_hot = \"10m\"\n")
        .expect("written");
    let var = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    let mut sources = Sources { file: Some(file), ..Sources::default() };
    let listen = |sources: &Sources| load(sources).expect("legal").settings.server.listen.port();
    assert_eq!(listen(&sources), 1);
    sources.environment = vec![
        var("STOCKHOLD_SERVER__LISTEN", "127.0.0.1:2"),
        var("STOCKHOLD_JOBS__MAX_ATTEMPTS", "3"),
    ];
    assert_eq!(listen(&sources), 2);
    sources.listen = Some("127.0.0.1:3".to_owned());
    assert_eq!(listen(&sources), 3);
    let s = load(&sources).expect("legal").settings;
    assert_eq!((s.holds.ttl_hot, s.holds.ttl_flash), (Span::minutes(10), Span::minutes(5)));
    assert_eq!(s.jobs.max_attempts, 3);
}

#[test]
fn the_environment_reaches_into_lists_by_number() {
    let names: Vec<(String, String)> = (0..11)
        .flat_map(|i| {
            let name = format!("STOCKHOLD_SERVER__KEYS__{i}__");
            [
                (format!("{name}NAME"), format!("k{i}")),
                (format!("{name}ROLE"), "ops".to_owned()),
                (format!("{name}KEY"), format!("0123456789abcde-{i}")),
            ]
        })
        .collect();
    let sources = Sources { environment: names, ..Sources::default() };
    let keys = load(&sources).expect("eleven keys").settings.server.keys;
    assert_eq!(keys.len(), 11);
    assert_eq!(keys[10].name, "k10");

    let loaded = from(SUPPLIER, &[("STOCKHOLD_SUPPLIERS__0__APP_SECRET", "from outside")]);
    let s = loaded.expect("legal").settings;
    assert_eq!(s.suppliers[0].app_secret.expose_secret(), "from outside");

    let error =
        from(SUPPLIER, &[("STOCKHOLD_SUPPLIERS__2__ID", "x")]).expect_err("a gap").to_string();
    assert!(
        error.contains("STOCKHOLD_SUPPLIERS__2__ID: there is no entry 2; the list has 1"),
        "{error}"
    );
}

#[test]
fn reserved_variables_and_other_programs_are_left_alone() {
    let others = [
        ("STOCKHOLD_CONFIG", "x"),
        ("STOCKHOLD_LOG", "debug"),
        ("STOCKHOLD_LOG_FORMAT", "json"),
        ("STOCKHOLD_TEST_PG", "postgres://"),
        ("PATH", "/bin"),
    ];
    assert!(from("", &others).is_ok());
}

#[test]
fn recover_follows_low_when_absent() {
    for (low, recover) in [(0, 3), (5, 8), (6, 9), (7, 10), (8, 12), (100, 150)] {
        let s = accepted(&format!("watermark.low = {low}")).settings;
        assert_eq!(s.watermark.recover, recover, "low {low}");
    }
}

#[test]
fn a_secret_may_come_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, " kept as it is \r\n").expect("written");
    let path = path.to_str().expect("utf-8");
    let toml = SUPPLIER
        .replace("app_secret = \"supplier secret\"", &format!("app_secret_file = \"{path}\""));
    let loaded = accepted(&toml);
    assert_eq!(loaded.settings.suppliers[0].app_secret.expose_secret(), " kept as it is ");
    assert!(loaded.redacted().contains(&format!("suppliers.0.app_secret = (from \"{path}\")")));

    // A later layer's way of giving it replaces an earlier layer's other way.
    let outside = from(&toml, &[("STOCKHOLD_SUPPLIERS__0__APP_SECRET", "outside")]).expect("legal");
    assert_eq!(outside.settings.suppliers[0].app_secret.expose_secret(), "outside");
    let inside =
        from(SUPPLIER, &[("STOCKHOLD_SUPPLIERS__0__APP_SECRET_FILE", path)]).expect("legal");
    assert_eq!(inside.settings.suppliers[0].app_secret.expose_secret(), " kept as it is ");

    let both = format!("{SUPPLIER}app_secret_file = \"{path}\"\n");
    assert_eq!(faults(&both), ["`suppliers.0.app_secret`: give it or `app_secret_file`, not both"]);
    let gone = toml.replace(path, "/nowhere/secret");
    assert!(
        faults(&gone)[0].starts_with("`suppliers.0.app_secret`: cannot read /nowhere/secret: ")
    );
    std::fs::write(path, "\n").expect("written");
    assert_eq!(faults(&toml), [format!("`suppliers.0.app_secret`: {path} is empty")]);
}

#[test]
fn secrets_are_shown_nowhere() {
    let toml = format!(
        "refunds = {{ provider = \"webhook\", url = \"https://u:hush-1@shop.example/r?t=hush-2\", secret = \"hush-3\" }}\n\
         coordination.url = \"redis://hush-7:hush-8@redis.example/3\"\n\
         [[server.keys]]\nname = \"a\"\nrole = \"ops\"\nkey = \"hush-4-0123456789\"\n{}",
        SUPPLIER.replace("supplier secret", "hush-5").replace("\"token\"", "\"hush-6\"")
    );
    let loaded = accepted(&toml);
    let view = loaded.redacted();
    assert!(!view.contains("hush"), "{view}");
    assert!(view.contains("server.keys.0.key = (set)\n"), "{view}");
    assert!(view.contains("refunds.url = \"https://shop.example/r?…\"\n"), "{view}");
    assert!(view.contains("holds.ttl_hot = \"12m\"\n"), "{view}");
    assert!(view.contains("coordination.url = \"redis://redis.example/3\"\n"), "{view}");
    let Settings { suppliers, server, coordination, .. } = &loaded.settings;
    let debug = format!("{suppliers:?} {server:?} {coordination:?}");
    assert!(!debug.contains("hush"), "{debug}");
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_named() {
    let sources = Sources { file: Some("/nowhere/stockhold.toml".into()), ..Sources::default() };
    let error = load(&sources).expect_err("missing").to_string();
    assert!(
        error.starts_with("cannot read the configuration /nowhere/stockhold.toml: "),
        "{error}"
    );
    let error = from("[server\n", &[]).expect_err("no TOML").to_string();
    assert!(error.contains("stockhold.toml is not TOML: "), "{error}");
}

/// The example for replicas is understood as it stands, once its secrets are there.
#[test]
fn the_example_for_replicas_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["shop", "desk"] {
        std::fs::write(folder.path().join(name), format!("key-of-the-{name}-0123"))
            .expect("written");
    }
    let example = include_str!("../../config/replicas.example.toml");
    let here = format!("{}/", folder.path().display());
    let loaded = accepted(&example.replace("/run/secrets/", &here));
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let settings = loaded.settings;
    assert_eq!(settings.storage.url, "postgres://stockhold@postgres/stockhold");
    let CoordinationSettings::Redis { url } = &settings.coordination else {
        panic!("{:?}", settings.coordination);
    };
    assert_eq!(url.expose_secret(), "redis://redis:6379/0");
    assert_eq!(settings.server.keys.len(), 2);
}
