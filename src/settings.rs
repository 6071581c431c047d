//! The configuration: what can be set, with types that leave nothing to check later.
//!
//! `config/default.toml` documents every key with its default and is the lowest layer; field names
//! here are key names. [`load`] merges the layers, reads every key, checks across keys, and either
//! answers [`Loaded`] or all faults at once.
//!
//! What must hold: an unknown key, a value whose feature is not built, a secret that cannot be read,
//! or a pair that cannot work stops the start and is named; a pair that works but is risky is a
//! warning. Secrets are [`SecretString`] and are shown nowhere.

mod check;
mod layers;
mod read;
mod section;
mod unit;

use std::net::SocketAddr;
use std::path::PathBuf;

use secrecy::SecretString;

pub use layers::{DEFAULTS, Sources};
pub use section::is_name;
pub use unit::Percent;

use crate::clock::Span;
use crate::domain::supply::Address;

/// Why the configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the configuration {path}: {cause}", path = path.display())]
    Read { path: PathBuf, cause: std::io::Error },
    #[error("the configuration {path} is not TOML: {cause}", path = path.display())]
    Syntax { path: PathBuf, cause: Box<toml::de::Error> },
    /// All faults, each naming its key.
    #[error("the configuration is refused:\n  {}", .0.join("\n  "))]
    Invalid(Vec<String>),
}

/// A configuration that passed every check.
#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// Legal, but risky; to be logged at start.
    pub warnings: Vec<String>,
    shown: Vec<(String, String)>,
}

impl Loaded {
    /// What is in force, one `path = value` a line in the order of the documentation, without
    /// secrets.
    pub fn redacted(&self) -> String {
        self.shown.iter().map(|(path, value)| format!("{path} = {value}\n")).collect()
    }
}

/// Merges the layers and checks the result.
///
/// # Errors
/// A file that cannot be read or parsed, or any key at fault.
pub fn load(sources: &Sources) -> Result<Loaded, Error> {
    let merged = layers::merge(sources)?;
    let mut report = section::Report { variables: merged.variables, ..section::Report::default() };
    let settings = section::read_table("", merged.table, &mut report, read::settings);
    if report.errors.is_empty() {
        check::across(&settings, &mut report);
    }
    if report.errors.is_empty() {
        Ok(Loaded { settings, warnings: report.warnings, shown: report.shown })
    } else {
        Err(Error::Invalid(report.errors))
    }
}

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    pub server: ServerSettings,
    pub limits: LimitSettings,
    pub storage: StorageSettings,
    pub coordination: CoordinationSettings,
    pub holds: HoldSettings,
    pub confirm: ConfirmSettings,
    pub orders: OrderSettings,
    pub jobs: JobSettings,
    pub reconcile: ReconcileSettings,
    pub watermark: WatermarkSettings,
    pub suppliers: Vec<SupplierSettings>,
    pub refunds: RefundSettings,
    pub alerts: AlertSettings,
    pub webhooks: Vec<WebhookSettings>,
}

#[derive(Clone, Debug)]
pub struct ServerSettings {
    pub listen: SocketAddr,
    /// Empty: loopback only, with every right.
    pub keys: Vec<KeySettings>,
}

/// An API key and its one role.
#[derive(Clone, Debug)]
pub struct KeySettings {
    pub name: String,
    pub role: Role,
    pub key: SecretString,
}

/// What an API key may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Orders except decide and refunds; payments, cancel, ship_to; availability and SKUs to read.
    Storefront,
    /// Everything.
    Ops,
    /// GET only.
    #[default]
    Reader,
}

#[derive(Clone, Debug)]
pub struct LimitSettings {
    /// Per key; 0 = no limit.
    pub requests_per_second: u32,
    /// Placements that may wait; above 0.
    pub max_queued_commands: usize,
}

#[derive(Clone, Debug)]
pub struct StorageSettings {
    /// `sqlite://<path>`.
    pub url: String,
}

/// What replicas share beside the database.
#[derive(Clone, Debug)]
pub enum CoordinationSettings {
    /// Nothing: `memory:`.
    Memory,
    /// `redis://` or `rediss://`; secret, since it may hold a password.
    Redis { url: SecretString },
}

#[derive(Clone, Debug)]
pub struct HoldSettings {
    pub ttl_normal: Span,
    pub ttl_hot: Span,
    pub ttl_flash: Span,
    pub sweep_interval: Span,
    /// May be zero.
    pub payment_grace: Span,
}

#[derive(Clone, Debug)]
pub struct ConfirmSettings {
    /// After payment; may be zero.
    pub delay: Span,
    pub max_answer_age: Span,
    pub retry_deadline: Span,
    pub attention_deadline: Span,
}

#[derive(Clone, Debug)]
pub struct OrderSettings {
    pub ship_deadline: Span,
    pub complete_after: Span,
}

#[derive(Clone, Debug)]
pub struct JobSettings {
    /// Above 0.
    pub max_attempts: u32,
    pub lease: Span,
}

#[derive(Clone, Debug)]
pub struct ReconcileSettings {
    /// Six fields, seconds first.
    pub cron: String,
    pub timezone: String,
    pub apply: bool,
}

#[derive(Clone, Debug)]
pub struct WatermarkSettings {
    /// Units; 0 = never.
    pub low: i64,
    /// Units; exceeds `low`.
    pub recover: i64,
    pub remind_every: Span,
}

/// One supplier.
#[derive(Clone, Debug)]
pub struct SupplierSettings {
    /// `[a-z0-9_-]{1,32}`, not `main`.
    pub id: String,
    pub protocol: Protocol,
    /// An http or https address.
    pub gateway: String,
    pub app_key: String,
    pub app_secret: SecretString,
    pub access_token: SecretString,
    pub refresh_token: Option<SecretString>,
    pub sync_interval: Span,
    pub declared_lag: Span,
    /// [`CountsAt::Order`] only where somebody has verified it.
    pub stock_counts_at: CountsAt,
    pub stock_counts_verified: bool,
    /// May be zero.
    pub settle_margin: Span,
    pub lookup_settle: Span,
    pub pay: Pay,
    pub unpaid_deadline: Span,
    /// Units, 0 or more.
    pub buffer: i64,
    pub suspect_drop: Percent,
    pub request_timeout: Span,
    /// In place of the customer's address.
    pub deliver_to: Option<Address>,
    /// Above 0.
    pub max_requests_per_second: u32,
    pub flow: String,
    /// For push callbacks; the app secret when absent.
    pub message_secret: Option<SecretString>,
}

/// How a supplier is spoken to. Only what is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// `1688`.
    #[default]
    Alibaba1688,
}

/// The event at which a supplier's figure falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountsAt {
    #[default]
    Payment,
    Order,
}

/// Who pays the supplier. Only what is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pay {
    #[default]
    Manual,
}

/// Who makes refunds.
#[derive(Clone, Debug)]
pub enum RefundSettings {
    /// Ops, who resolve them here.
    Manual,
    /// Posted to `url`, signed with `secret`.
    Webhook { url: String, secret: SecretString },
}

#[derive(Clone, Debug)]
pub struct AlertSettings {
    pub channels: Vec<ChannelSettings>,
}

/// Where alerts go.
#[derive(Clone, Debug)]
pub enum ChannelSettings {
    Log,
    /// Posted to `url`, signed where there is a secret.
    Webhook {
        url: String,
        secret: Option<SecretString>,
    },
}

/// A receiver of outgoing webhooks.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    pub url: String,
    pub secret: SecretString,
    /// Types, with `*` at the end of a family.
    pub events: Vec<String>,
}

#[cfg(test)]
mod tests;
