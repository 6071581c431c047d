//! The configuration as a user meets it: whole files in, settings or messages out.

use secrecy::ExposeSecret;

use super::*;

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
    let environment = environment
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    load(&Sources {
        file: Some(file),
        environment,
        listen: None,
    })
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
    assert_eq!(
        (s.limits.requests_per_second, s.limits.max_queued_commands),
        (0, 20_000)
    );
    assert_eq!(s.storage.url, "sqlite://data/stockhold.db");
    assert_eq!(s.coordination.url, "memory:");
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
    assert_eq!(
        (s.reconcile.timezone.as_str(), s.reconcile.apply),
        ("UTC", true)
    );
    assert_eq!((s.watermark.low, s.watermark.recover), (5, 8));
    assert_eq!(s.watermark.remind_every, Span::hours(24));
    assert!(s.suppliers.is_empty() && s.webhooks.is_empty());
    assert!(matches!(s.refunds, RefundSettings::Manual));
    assert!(matches!(s.alerts.channels[..], [ChannelSettings::Log]));
}

#[test]
fn a_supplier_starts_from_the_pattern() {
    let s = accepted(SUPPLIER).settings;
    let [s] = &s.suppliers[..] else {
        panic!("one supplier")
    };
    assert_eq!(s.id, "s1688");
    assert_eq!(s.gateway, "https://gw.open.1688.com/openapi");
    assert_eq!(s.app_secret.expose_secret(), "supplier secret");
    assert_eq!(s.access_token.expose_secret(), "token");
    assert!(s.refresh_token.is_none() && s.message_secret.is_none() && s.deliver_to.is_none());
    assert_eq!(
        (s.sync_interval, s.declared_lag),
        (Span::minutes(10), Span::minutes(1))
    );
    assert_eq!(
        (s.stock_counts_at, s.stock_counts_verified),
        (CountsAt::Payment, false)
    );
    assert_eq!(
        (s.settle_margin, s.lookup_settle),
        (Span::secs(60), Span::minutes(2))
    );
    assert_eq!(
        (s.unpaid_deadline, s.request_timeout),
        (Span::hours(8), Span::secs(10))
    );
    assert_eq!(
        (s.buffer, s.suspect_drop, s.max_requests_per_second),
        (0, Percent(30), 8)
    );
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
        assert!(
            DEFAULTS.contains(&format!("{key} = ")),
            "{path} is not in config/default.toml"
        );
    }
}

#[test]
fn later_layers_win() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stockhold.toml");
    std::fs::write(
        &file,
        "[server]\nlisten = \"127.0.0.1:1\"\n[holds]\nttl_hot = \"10m\"\n",
    )
    .expect("written");
    let var = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    let mut sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
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
    assert_eq!(
        (s.holds.ttl_hot, s.holds.ttl_flash),
        (Span::minutes(10), Span::minutes(5))
    );
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
    let sources = Sources {
        environment: names,
        ..Sources::default()
    };
    let keys = load(&sources).expect("eleven keys").settings.server.keys;
    assert_eq!(keys.len(), 11);
    assert_eq!(keys[10].name, "k10");

    let loaded = from(
        SUPPLIER,
        &[("STOCKHOLD_SUPPLIERS__0__APP_SECRET", "from outside")],
    );
    let s = loaded.expect("legal").settings;
    assert_eq!(s.suppliers[0].app_secret.expose_secret(), "from outside");

    let error = from(SUPPLIER, &[("STOCKHOLD_SUPPLIERS__2__ID", "x")])
        .expect_err("a gap")
        .to_string();
    assert!(
        error.contains("STOCKHOLD_SUPPLIERS__2__ID: there is no entry 2; the list has 1"),
        "{error}"
    );
}

#[test]
fn unknown_keys_are_named_all_of_them() {
    let toml = "colour = 1\n[server]\nlissen = \"x\"\n[[suppliers]]\nid = \"a\"\napp_key = \"1\"\n\
                app_secret = \"s\"\naccess_token = \"t\"\ninterval = \"1m\"\n";
    assert_eq!(
        faults(toml),
        [
            "unknown key `server.lissen`",
            "unknown key `suppliers.0.interval`",
            "unknown key `colour`"
        ]
    );
    let error = from(
        "",
        &[
            ("STOCKHOLD_HOLDS__TTL", "5m"),
            ("STOCKHOLD_TTL", "5m"),
            ("STOCKHOLD_A__B", ""),
        ],
    );
    let Err(Error::Invalid(faults)) = error else {
        panic!("{error:?}")
    };
    assert_eq!(
        faults,
        [
            "unknown key `holds.ttl` (from STOCKHOLD_HOLDS__TTL)",
            "unknown key `a` (from STOCKHOLD_A__B)",
            "unknown key `ttl` (from STOCKHOLD_TTL)",
        ]
    );
    let error = from("", &[("STOCKHOLD_SERVER__LISTEN__PORT", "1")]).expect_err("no such key");
    assert!(
        error
            .to_string()
            .contains("STOCKHOLD_SERVER__LISTEN__PORT: names no key"),
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
fn a_blank_zero_or_negative_time_to_live_stops_the_start() {
    for bad in [
        "\"\"",
        "\" \"",
        "\"0s\"",
        "\"-5m\"",
        "\"500ms\"",
        "0",
        "300",
        "\"5\"",
    ] {
        let faults = faults(&format!("[holds]\nttl_normal = {bad}\n"));
        assert!(
            faults.len() == 1 && faults[0].starts_with("`holds.ttl_normal`: "),
            "{bad}: {faults:?}"
        );
    }
    let error = from("", &[("STOCKHOLD_HOLDS__TTL_NORMAL", "")])
        .expect_err("blank")
        .to_string();
    assert!(
        error.contains("`holds.ttl_normal`: must not be blank"),
        "{error}"
    );
    for key in [
        "holds.sweep_interval",
        "jobs.lease",
        "watermark.remind_every",
        "confirm.retry_deadline",
    ] {
        assert_eq!(
            faults(&format!("{key} = \"0s\"\n")),
            [format!("`{key}`: must be at least 1s")]
        );
    }
    assert!(
        from(
            "holds.payment_grace = \"0s\"\nconfirm.delay = \"0s\"\n",
            &[]
        )
        .is_ok()
    );
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let cases = [
        (
            "coordination.url = \"redis://h:6379/0\"",
            "`coordination.url`: `redis://` is not built yet",
        ),
        (
            "storage.url = \"postgres://u:p@h/db\"",
            "`storage.url`: `postgres://` is not built yet",
        ),
        (
            "limits.requests_per_second = 5",
            "`limits.requests_per_second`: `a limit` is not built yet; only 0 is",
        ),
        (
            "alerts.channels = [{ type = \"slack\" }]",
            "`alerts.channels.0.type`: `slack` is not built yet",
        ),
        (
            "reconcile.cron = \"0 0 4 * * *\"",
            "`reconcile.cron`: another value is not built yet; leave the key out",
        ),
        (
            "reconcile.timezone = \"Asia/Shanghai\"",
            "`reconcile.timezone`: another value is not built yet; leave the key out",
        ),
        (
            "reconcile.apply = false",
            "`reconcile.apply`: another value is not built yet; leave the key out",
        ),
        (
            "webhooks = [{ url = \"https://a.example\", secret = \"s\", events = [\"order.*\"] }]",
            "`webhooks`: `[[webhooks]]` is not built yet; leave it out",
        ),
    ];
    for (toml, fault) in cases {
        assert_eq!(faults(toml), [fault]);
    }
    let supplier = [
        (
            "protocol = \"feed_csv\"",
            "`suppliers.0.protocol`: `feed_csv` is not built yet",
        ),
        (
            "pay = \"protocol\"",
            "`suppliers.0.pay`: `protocol` is not built yet",
        ),
        (
            "message_secret = \"m\"",
            "`suppliers.0.message_secret`: `a secret of its own` is not built yet; leave it out",
        ),
        (
            "protocol = \"ftp\"",
            "`suppliers.0.protocol`: `ftp` is not one of: 1688",
        ),
    ];
    for (line, fault) in supplier {
        assert_eq!(faults(&format!("{SUPPLIER}{line}\n")), [fault]);
    }
}

#[test]
fn keys_that_cannot_work_together_are_named() {
    let key = |name: &str, key: &str| {
        format!("[[server.keys]]\nname = \"{name}\"\nrole = \"ops\"\nkey = \"{key}\"\n")
    };
    let cases = [
        (
            "server.listen = \"0.0.0.0:8080\"".to_owned(),
            "`server.listen`: 0.0.0.0:8080 is not loopback, and no key is configured: anyone could \
             order; add [[server.keys]]",
        ),
        (
            "watermark = { low = 5, recover = 5 }".to_owned(),
            "`watermark.recover`: must exceed watermark.low (5)",
        ),
        (
            key("a", "fifteen-letters"),
            "`server.keys.0.key`: must have at least 16 characters",
        ),
        (
            key("a", "sixteen letters!"),
            "`server.keys.0.key`: must be printable ASCII without blanks",
        ),
        (
            key("a", "0123456789abcdef") + &key("a", "0123456789abcdeg"),
            "`server.keys.1.name`: `a` is used twice",
        ),
        (
            key("a", "0123456789abcdef") + &key("b", "0123456789abcdef"),
            "`server.keys.1.key`: is the same as another entry's",
        ),
        (
            format!("{SUPPLIER}{SUPPLIER}"),
            "`suppliers.1.id`: `s1688` is used twice",
        ),
        (
            SUPPLIER.replace("s1688", "main"),
            "`suppliers.0.id`: `main` is the own warehouse",
        ),
        (
            SUPPLIER.replace("s1688", "S 1688"),
            "`suppliers.0.id`: `S 1688` must be 1 to 32 of a-z, 0-9, _ and -",
        ),
        (
            format!("{SUPPLIER}declared_lag = \"0s\"\n"),
            "`suppliers.0.declared_lag`: must be above 0: 1688 states no time of reading, so 0 would \
             promise figures without age",
        ),
        (
            format!("{SUPPLIER}sync_interval = \"0s\"\n"),
            "`suppliers.0.sync_interval`: must be at least 1s",
        ),
        (
            format!("{SUPPLIER}request_timeout = \"30s\"\n"),
            "`suppliers.0.request_timeout`: must be shorter than jobs.lease (30s): no call would ever begin",
        ),
        (
            format!("{SUPPLIER}gateway = \"gw.open.1688.com\"\n"),
            "`suppliers.0.gateway`: must be an http:// or https:// address",
        ),
        (
            "refunds.provider = \"webhook\"\nrefunds.url = \"https://a.example\"".to_owned(),
            "`refunds.secret`: is required (or `secret_file`)",
        ),
        (
            "refunds.url = \"https://a.example\"".to_owned(),
            "`refunds.url`: is used only with provider = \"webhook\"",
        ),
        (
            "storage.url = \"sqlite::memory:\"".to_owned(),
            "`storage.url`: must be sqlite:// and the path of a file",
        ),
        ("server = 5".to_owned(), "`server`: must be a table"),
    ];
    for (toml, fault) in cases {
        assert_eq!(faults(&toml), [fault], "{toml}");
    }
}

#[test]
fn a_supplier_without_its_secrets_is_told_each_of_them() {
    assert_eq!(
        faults("[[suppliers]]\nid = \"a\"\n"),
        [
            "`suppliers.0.app_key`: is required",
            "`suppliers.0.app_secret`: is required (or `app_secret_file`)",
            "`suppliers.0.access_token`: is required (or `access_token_file`)",
        ]
    );
}

#[test]
fn risky_pairs_are_warned_about() {
    let order = warnings(&format!("{SUPPLIER}stock_counts_at = \"order\"\n"));
    assert_eq!(
        order,
        [
            "`suppliers.0.stock_counts_at`: `order` without stock_counts_verified = true is treated as `payment`"
        ]
    );
    let s = accepted(&format!("{SUPPLIER}stock_counts_at = \"order\"\n")).settings;
    assert_eq!(s.suppliers[0].stock_counts_at, CountsAt::Payment);
    let verified = format!("{SUPPLIER}stock_counts_at = \"order\"\nstock_counts_verified = true\n");
    assert_eq!(
        accepted(&verified).settings.suppliers[0].stock_counts_at,
        CountsAt::Order
    );
    assert_eq!(warnings(&verified), Vec::<String>::new());

    assert_eq!(
        warnings("holds.sweep_interval = \"6m\""),
        ["`holds.sweep_interval`: is longer than the shortest ttl (5m)"]
    );
    assert_eq!(
        warnings("[[server.keys]]\nname = \"a\"\nrole = \"reader\"\nkey = \"0123456789abcdef\"\n"),
        ["`server.keys`: none has the role ops: nobody can decide, refund or count stock"]
    );
    let plain = format!("{SUPPLIER}gateway = \"http://gw.example/openapi\"\n");
    assert_eq!(
        warnings(&plain),
        ["`suppliers.0.gateway`: is plain http: secrets and addresses can be read on the way"]
    );
    let near = format!("{SUPPLIER}gateway = \"http://127.0.0.1:9/openapi\"\n");
    assert_eq!(warnings(&near), Vec::<String>::new());
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
    let toml = SUPPLIER.replace(
        "app_secret = \"supplier secret\"",
        &format!("app_secret_file = \"{path}\""),
    );
    let loaded = accepted(&toml);
    assert_eq!(
        loaded.settings.suppliers[0].app_secret.expose_secret(),
        " kept as it is "
    );
    assert!(
        loaded
            .redacted()
            .contains(&format!("suppliers.0.app_secret = (from \"{path}\")"))
    );

    // A later layer's way of giving it replaces an earlier layer's other way.
    let outside = from(&toml, &[("STOCKHOLD_SUPPLIERS__0__APP_SECRET", "outside")]).expect("legal");
    assert_eq!(
        outside.settings.suppliers[0].app_secret.expose_secret(),
        "outside"
    );
    let inside = from(
        SUPPLIER,
        &[("STOCKHOLD_SUPPLIERS__0__APP_SECRET_FILE", path)],
    )
    .expect("legal");
    assert_eq!(
        inside.settings.suppliers[0].app_secret.expose_secret(),
        " kept as it is "
    );

    let both = format!("{SUPPLIER}app_secret_file = \"{path}\"\n");
    assert_eq!(
        faults(&both),
        ["`suppliers.0.app_secret`: give it or `app_secret_file`, not both"]
    );
    let gone = toml.replace(path, "/nowhere/secret");
    assert!(
        faults(&gone)[0].starts_with("`suppliers.0.app_secret`: cannot read /nowhere/secret: ")
    );
    std::fs::write(path, "\n").expect("written");
    assert_eq!(
        faults(&toml),
        [format!("`suppliers.0.app_secret`: {path} is empty")]
    );
}

#[test]
fn secrets_are_shown_nowhere() {
    let toml = format!(
        "refunds = {{ provider = \"webhook\", url = \"https://u:hush-1@shop.example/r?t=hush-2\", secret = \"hush-3\" }}\n\
         [[server.keys]]\nname = \"a\"\nrole = \"ops\"\nkey = \"hush-4-0123456789\"\n{}",
        SUPPLIER
            .replace("supplier secret", "hush-5")
            .replace("\"token\"", "\"hush-6\"")
    );
    let loaded = accepted(&toml);
    let view = loaded.redacted();
    assert!(!view.contains("hush"), "{view}");
    assert!(view.contains("server.keys.0.key = (set)\n"), "{view}");
    assert!(
        view.contains("refunds.url = \"https://shop.example/r?…\"\n"),
        "{view}"
    );
    assert!(view.contains("holds.ttl_hot = \"12m\"\n"), "{view}");
    let debug =
        format!("{:?}", loaded.settings.suppliers) + &format!("{:?}", loaded.settings.server);
    assert!(!debug.contains("hush"), "{debug}");
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_named() {
    let sources = Sources {
        file: Some("/nowhere/stockhold.toml".into()),
        ..Sources::default()
    };
    let error = load(&sources).expect_err("missing").to_string();
    assert!(
        error.starts_with("cannot read the configuration /nowhere/stockhold.toml: "),
        "{error}"
    );
    let error = from("[server\n", &[]).expect_err("no TOML").to_string();
    assert!(error.contains("stockhold.toml is not TOML: "), "{error}");
}
