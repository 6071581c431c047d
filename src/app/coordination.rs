//! From the settings to the calming part, and from the engine's commits to its cache and notes.

use std::sync::Arc;

use secrecy::ExposeSecret;

use crate::clock::Clock;
use crate::coordination::{Coordination, Options};
use crate::engine::OnCommit;
use crate::settings::{CoordinationSettings, Settings};
use crate::storage::epochs::Epoch;

/// Opens it for this life of the store, whose replicas share what is kept there, and nobody else; not
/// even the store's lives before a restore. A Redis that does not answer is waited for only shortly,
/// and found later.
///
/// # Errors
/// When the address of Redis cannot be understood.
pub async fn open(
    settings: &Settings,
    clock: &Clock,
    epoch: &Epoch,
) -> Result<Coordination, String> {
    let options = Options {
        requests_per_second: settings.limits.requests_per_second,
        scope: epoch.id.clone(),
        ..Options::default()
    };
    let coordination = match &settings.coordination {
        CoordinationSettings::Memory => Coordination::memory(clock, &options),
        CoordinationSettings::Redis { url } => {
            Coordination::redis(url.expose_secret(), clock, &options)?
        }
    };
    coordination.connect().await;
    Ok(coordination)
}

/// Tells the cache of every commit, and the notes of what is sold out, before its replies go out.
pub fn follower(coordination: &Coordination) -> OnCommit {
    let coordination = coordination.clone();
    Arc::new(move |touched| {
        coordination.committed(&touched.levels, touched.catalogue);
        if let Some(read_at) = touched.read_at {
            coordination.note_sold_out(&touched.sold_out, read_at);
        }
    })
}
