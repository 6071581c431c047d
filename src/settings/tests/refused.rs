//! What stops the start, and what is warned about.

use super::*;

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
        &[("STOCKHOLD_HOLDS__TTL", "5m"), ("STOCKHOLD_TTL", "5m"), ("STOCKHOLD_A__B", "")],
    );
    let Err(Error::Invalid(faults)) = error else { panic!("{error:?}") };
    assert_eq!(
        faults,
        [
            "unknown key `holds.ttl` (from STOCKHOLD_HOLDS__TTL)",
            "unknown key `a` (from STOCKHOLD_A__B)",
            "unknown key `ttl` (from STOCKHOLD_TTL)",
        ]
    );
    let error = from("", &[("STOCKHOLD_SERVER__LISTEN__PORT", "1")]).expect_err("no such key");
    assert!(error.to_string().contains("STOCKHOLD_SERVER__LISTEN__PORT: names no key"), "{error}");
}

#[test]
fn a_blank_zero_or_negative_time_to_live_stops_the_start() {
    for bad in ["\"\"", "\" \"", "\"0s\"", "\"-5m\"", "\"500ms\"", "0", "300", "\"5\""] {
        let faults = faults(&format!("[holds]\nttl_normal = {bad}\n"));
        assert!(
            faults.len() == 1 && faults[0].starts_with("`holds.ttl_normal`: "),
            "{bad}: {faults:?}"
        );
    }
    let error = from("", &[("STOCKHOLD_HOLDS__TTL_NORMAL", "")]).expect_err("blank").to_string();
    assert!(error.contains("`holds.ttl_normal`: must not be blank"), "{error}");
    for key in
        ["holds.sweep_interval", "jobs.lease", "watermark.remind_every", "confirm.retry_deadline"]
    {
        assert_eq!(faults(&format!("{key} = \"0s\"\n")), [format!("`{key}`: must be at least 1s")]);
    }
    assert!(from("holds.payment_grace = \"0s\"\nconfirm.delay = \"0s\"\n", &[]).is_ok());
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let cases = [
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
        ("protocol = \"feed_csv\"", "`suppliers.0.protocol`: `feed_csv` is not built yet"),
        ("pay = \"protocol\"", "`suppliers.0.pay`: `protocol` is not built yet"),
        (
            "message_secret = \"m\"",
            "`suppliers.0.message_secret`: `a secret of its own` is not built yet; leave it out",
        ),
        ("protocol = \"ftp\"", "`suppliers.0.protocol`: `ftp` is not one of: 1688"),
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
        (key("a", "fifteen-letters"), "`server.keys.0.key`: must have at least 16 characters"),
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
            "refunds.provider = \"webhook\"\nrefunds.url = \"https://a.example\"".to_owned(),
            "`refunds.secret`: is required (or `secret_file`)",
        ),
        (
            "refunds.url = \"https://a.example\"".to_owned(),
            "`refunds.url`: is used only with provider = \"webhook\"",
        ),
        (
            "storage.url = \"sqlite::memory:\"".to_owned(),
            "`storage.url`: must be sqlite:// and the path of a file, or postgres://user@host/database",
        ),
        (
            "coordination.url = \"redis://h/orders\"".to_owned(),
            "`coordination.url`: must be memory:, or redis://host:port/number (rediss:// with TLS)",
        ),
        (
            "coordination.url = \"memcached://h\"".to_owned(),
            "`coordination.url`: must be memory:, or redis://host:port/number (rediss:// with TLS)",
        ),
        (
            "limits.requests_per_second = -1".to_owned(),
            "`limits.requests_per_second`: -1 is out of range",
        ),
        ("server = 5".to_owned(), "`server`: must be a table"),
    ];
    for (toml, fault) in cases {
        assert_eq!(faults(&toml), [fault], "{toml}");
    }
}

#[test]
fn suppliers_that_cannot_work_are_named() {
    let cases = [
        (format!("{SUPPLIER}{SUPPLIER}"), "`suppliers.1.id`: `s1688` is used twice"),
        (SUPPLIER.replace("s1688", "main"), "`suppliers.0.id`: `main` is the own warehouse"),
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
    assert_eq!(accepted(&verified).settings.suppliers[0].stock_counts_at, CountsAt::Order);
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
    let redis = |url: &str| warnings(&format!("coordination.url = \"{url}\""));
    assert_eq!(
        redis("redis://:secret@redis.example:6379/0"),
        ["`coordination.url`: is not rediss://: the password can be read on the way"]
    );
    for url in ["redis://h:6379/0", "rediss://:secret@h", "redis://:secret@127.0.0.1/1"] {
        assert_eq!(redis(url), Vec::<String>::new(), "{url}");
    }
    let near = format!("{SUPPLIER}gateway = \"http://127.0.0.1:9/openapi\"\n");
    assert_eq!(warnings(&near), Vec::<String>::new());
}
