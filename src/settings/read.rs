//! From the merged table to [`Settings`]: one function for each section, one line for each key.
//!
//! What must hold: each key of `config/default.toml` is read here and no other; bounds that concern
//! one key alone are here, those across keys are in `check`. A value that is planned but not built is
//! refused here, by name.

use secrecy::SecretString;
use url::Url;

use super::section::{Section, not_built};
use super::{
    AlertSettings, ChannelSettings, ConfirmSettings, CoordinationSettings, CountsAt, HoldSettings,
    JobSettings, KeySettings, LimitSettings, OrderSettings, Pay, Protocol, ReconcileSettings,
    RefundSettings, Role, ServerSettings, Settings, StorageSettings, SupplierSettings,
    WatermarkSettings, WebhookSettings,
};
use crate::clock::Span;
use crate::domain::supply::Address;

/// The shortest time that is more than none.
const SOME: Span = Span::millis(1);
const NONE: Span = Span::ZERO;
/// Periods and leases below this would only keep the machine busy.
const SECOND: Span = Span::secs(1);
/// The largest quantity of an order's line, and of whatever is compared with one.
const MAX_UNITS: i64 = 1_000_000;

pub(super) fn settings(root: &mut Section<'_>) -> Settings {
    Settings {
        server: root.within("server", server),
        limits: root.within("limits", limits),
        storage: root.within("storage", storage),
        coordination: root.within("coordination", coordination),
        holds: root.within("holds", |s| HoldSettings {
            ttl_normal: s.span("ttl_normal", SECOND),
            ttl_hot: s.span("ttl_hot", SECOND),
            ttl_flash: s.span("ttl_flash", SECOND),
            sweep_interval: s.span("sweep_interval", SECOND),
            payment_grace: s.span("payment_grace", NONE),
        }),
        confirm: root.within("confirm", |s| ConfirmSettings {
            delay: s.span("delay", NONE),
            max_answer_age: s.span("max_answer_age", SECOND),
            retry_deadline: s.span("retry_deadline", SECOND),
            attention_deadline: s.span("attention_deadline", SECOND),
        }),
        orders: root.within("orders", |s| OrderSettings {
            ship_deadline: s.span("ship_deadline", SECOND),
            complete_after: s.span("complete_after", SECOND),
        }),
        jobs: root.within("jobs", |s| JobSettings {
            max_attempts: small(s.integer("max_attempts", 1..=1_000)),
            lease: s.span("lease", SECOND),
        }),
        reconcile: root.within("reconcile", reconcile),
        watermark: root.within("watermark", watermark),
        suppliers: root.each("suppliers", supplier),
        refunds: root.within("refunds", refunds),
        alerts: root.within("alerts", |s| AlertSettings { channels: s.each("channels", channel) }),
        webhooks: webhooks(root),
    }
}

fn server(s: &mut Section<'_>) -> ServerSettings {
    let roles = [("storefront", Role::Storefront), ("ops", Role::Ops), ("reader", Role::Reader)];
    ServerSettings {
        listen: s.address("listen"),
        keys: s.each("keys", |s| KeySettings {
            name: s.name("name"),
            role: s.choice("role", &roles, &[]),
            key: s.required_secret("key"),
        }),
    }
}

fn limits(s: &mut Section<'_>) -> LimitSettings {
    let requests_per_second = s.integer("requests_per_second", 0..=1_000_000);
    let max_queued_commands = s.integer("max_queued_commands", 1..=10_000_000);
    LimitSettings {
        requests_per_second: small(requests_per_second),
        max_queued_commands: usize::try_from(max_queued_commands).unwrap_or(usize::MAX),
    }
}

fn storage(s: &mut Section<'_>) -> StorageSettings {
    let url = s.location("url");
    let path = url.strip_prefix("sqlite://").map(|rest| rest.split('?').next().unwrap_or(rest));
    let server = url.starts_with("postgres://") || url.starts_with("postgresql://");
    if !server && path.is_none_or(|path| path.is_empty() || path.contains(":memory:")) {
        s.error(
            "url",
            "must be sqlite:// and the path of a file, or postgres://user@host/database",
        );
    }
    StorageSettings { url }
}

fn coordination(s: &mut Section<'_>) -> CoordinationSettings {
    let url = s.location("url");
    if url == "memory:" {
        return CoordinationSettings::Memory;
    }
    if !names_redis(&url) {
        let fault = "must be memory:, or redis://host:port/number (rediss:// with TLS)";
        s.error("url", fault);
    }
    CoordinationSettings::Redis { url: SecretString::from(url) }
}

/// A host, perhaps a port, and perhaps the number of one of its databases.
fn names_redis(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        let number = url.path().trim_start_matches('/');
        matches!(url.scheme(), "redis" | "rediss")
            && url.has_host()
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

fn reconcile(s: &mut Section<'_>) -> ReconcileSettings {
    let reconcile = ReconcileSettings {
        cron: s.text("cron"),
        timezone: s.text("timezone"),
        apply: s.flag("apply"),
    };
    let only = "another value is not built yet; leave the key out";
    if reconcile.cron != "0 30 3 * * *" {
        s.error("cron", only);
    }
    if reconcile.timezone != "UTC" {
        s.error("timezone", only);
    }
    if !reconcile.apply {
        s.error("apply", only);
    }
    reconcile
}

fn watermark(s: &mut Section<'_>) -> WatermarkSettings {
    let low = s.integer("low", 0..=MAX_UNITS);
    let recover = match s.optional_integer("recover", 1..=2 * MAX_UNITS) {
        Some(recover) => recover,
        None => s.derived("recover", default_recover(low)),
    };
    WatermarkSettings { low, recover, remind_every: s.span("remind_every", SECOND) }
}

/// The level at which a low-stock alert closes where none is given: `low + max(3, low / 2)`.
fn default_recover(low: i64) -> i64 {
    low.saturating_add((low / 2).max(3))
}

fn supplier(s: &mut Section<'_>) -> SupplierSettings {
    let supplier = SupplierSettings {
        id: s.name("id"),
        protocol: s.choice(
            "protocol",
            &[("1688", Protocol::Alibaba1688)],
            &["feed_csv", "feed_json"],
        ),
        gateway: s.url("gateway"),
        app_key: s.text("app_key"),
        app_secret: s.required_secret("app_secret"),
        access_token: s.required_secret("access_token"),
        refresh_token: s.secret("refresh_token"),
        sync_interval: s.span("sync_interval", SECOND),
        declared_lag: s.span("declared_lag", NONE),
        stock_counts_at: s.choice(
            "stock_counts_at",
            &[("payment", CountsAt::Payment), ("order", CountsAt::Order)],
            &[],
        ),
        stock_counts_verified: s.flag("stock_counts_verified"),
        settle_margin: s.span("settle_margin", NONE),
        lookup_settle: s.span("lookup_settle", SOME),
        pay: s.choice("pay", &[("manual", Pay::Manual)], &["protocol"]),
        unpaid_deadline: s.span("unpaid_deadline", SECOND),
        buffer: s.integer("buffer", 0..=MAX_UNITS),
        suspect_drop: s.percent("suspect_drop"),
        request_timeout: s.span("request_timeout", SOME),
        deliver_to: s.has("deliver_to").then(|| s.within("deliver_to", address)),
        max_requests_per_second: small(s.integer("max_requests_per_second", 1..=10_000)),
        flow: s.text("flow"),
        message_secret: s.secret("message_secret"),
    };
    if supplier.message_secret.is_some() {
        s.error("message_secret", format!("{}; leave it out", not_built("a secret of its own")));
    }
    if supplier.stock_counts_at == CountsAt::Order && !supplier.stock_counts_verified {
        let path = s.at("stock_counts_at");
        s.report
            .warn(&path, "`order` without stock_counts_verified = true is treated as `payment`");
        return SupplierSettings { stock_counts_at: CountsAt::Payment, ..supplier };
    }
    supplier
}

fn address(s: &mut Section<'_>) -> Address {
    let mut part = |key: &str| s.optional_text(key).unwrap_or_default();
    Address {
        phone: part("phone"),
        country: part("country"),
        province: part("province"),
        city: part("city"),
        district: part("district"),
        postcode: part("postcode"),
        name: s.text("name"),
        address: s.text("address"),
    }
}

fn refunds(s: &mut Section<'_>) -> RefundSettings {
    if s.choice("provider", &[("manual", false), ("webhook", true)], &[]) {
        return RefundSettings::Webhook { url: s.url("url"), secret: s.required_secret("secret") };
    }
    for key in ["url", "secret", "secret_file"] {
        if s.has(key) {
            s.error(key, "is used only with provider = \"webhook\"");
            s.forget(key);
        }
    }
    RefundSettings::Manual
}

fn channel(s: &mut Section<'_>) -> ChannelSettings {
    let planned = ["email", "dingtalk", "feishu", "wecom", "slack"];
    if s.choice("type", &[("log", false), ("webhook", true)], &planned) {
        return ChannelSettings::Webhook { url: s.url("url"), secret: s.secret("secret") };
    }
    ChannelSettings::Log
}

fn webhooks(root: &mut Section<'_>) -> Vec<WebhookSettings> {
    let webhooks = root.each("webhooks", |s| WebhookSettings {
        url: s.url("url"),
        secret: s.required_secret("secret"),
        events: s.texts("events"),
    });
    if !webhooks.is_empty() {
        root.error("webhooks", format!("{}; leave it out", not_built("[[webhooks]]")));
    }
    webhooks
}

/// A number that its bounds keep small.
fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
