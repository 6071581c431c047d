//! The alert channels: where ops are told that an alert opened, still stands, or closed.
//!
//! What must hold: a channel is told at least once; each telling of the same event has the same
//! [`Notice::id`], by which a receiver can tell a repeat. When a notice is due, and retries, are the
//! jobs' business.

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::clock::{Clock, Timestamp};
use crate::domain::names::texts;
use crate::settings::{AlertSettings, ChannelSettings};

mod log;
mod webhook;

pub use log::Log;
pub use webhook::Webhook;

texts!(
    /// What happened to an alert.
    Event { Opened = "opened", Reminder = "reminder", Closed = "closed" }
);

/// What a channel is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The same for each telling of one event.
    pub id: String,
    pub event: Event,
    /// When it happened.
    pub at: Timestamp,
    pub data: Data,
}

/// The alert itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Data {
    pub id: String,
    pub kind: String,
    /// What it is about: a SKU, a supplier, an order …
    pub subject: String,
    /// For people.
    pub detail: String,
    /// RFC 3339.
    pub opened_at: String,
    pub closed_at: Option<String>,
}

/// Why a channel could not be told, in words, without addresses or secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// Somewhere ops look.
#[async_trait]
pub trait Channel: Send + Sync {
    /// Unique among the channels, and the same after a restart with the same configuration.
    fn name(&self) -> &str;

    /// # Errors
    /// When it cannot be known that the notice arrived.
    async fn deliver(&self, notice: &Notice) -> Result<(), Error>;

    /// Longest time that a delivery takes.
    fn timeout(&self) -> Duration;
}

/// The channels as configured, named by kind and position (`log-1`, `webhook-2`).
///
/// # Errors
/// When an address or a secret cannot be used.
pub fn channels(settings: &AlertSettings, clock: &Clock) -> Result<Vec<Box<dyn Channel>>, Error> {
    let numbered = settings.channels.iter().zip(1_usize..);
    numbered
        .map(|(channel, n)| -> Result<Box<dyn Channel>, Error> {
            Ok(match channel {
                ChannelSettings::Log => Box::new(Log::new(format!("log-{n}"))),
                ChannelSettings::Webhook { url, secret } => Box::new(Webhook::new(
                    format!("webhook-{n}"),
                    url,
                    secret.as_ref(),
                    clock.clone(),
                )?),
            })
        })
        .collect()
}
