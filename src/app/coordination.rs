//! From the settings to the calming part, and from the engine's commits to its cache.

use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use url::Url;

use crate::clock::Clock;
use crate::coordination::{Coordination, Options};
use crate::engine::OnCommit;
use crate::ids::Ids;
use crate::settings::{CoordinationSettings, Settings};

/// Opens it; a Redis that does not answer is waited for only shortly, and found later.
///
/// # Errors
/// When the address of Redis cannot be understood.
pub async fn open(settings: &Settings, clock: &Clock, ids: &Ids) -> Result<Coordination, String> {
    let options = Options {
        requests_per_second: settings.limits.requests_per_second,
        scope: scope(&settings.storage.url, clock, ids),
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

/// Whose stock it is. A file has one daemon, which shares it with nobody; a server's database is told
/// by where it is, without who asks.
fn scope(storage: &str, clock: &Clock, ids: &Ids) -> String {
    match Url::parse(storage) {
        Ok(url) if url.has_host() && url.scheme() != "sqlite" => {
            let host = url.host_str().unwrap_or_default();
            let place = format!("{host}:{}{}", url.port().unwrap_or(5432), url.path());
            let digest: String = hex::encode(Sha256::digest(place.as_bytes()));
            digest.chars().take(16).collect()
        }
        _ => ids.next(clock.now()),
    }
}

/// Tells the cache of every commit before its replies go out.
pub fn follower(coordination: &Coordination) -> OnCommit {
    let coordination = coordination.clone();
    Arc::new(move |touched| coordination.committed(&touched.levels, touched.catalogue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    #[test]
    fn replicas_of_one_database_share_and_no_others_do() {
        let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
        let ids = Ids::seeded(1);
        let of = |url: &str| scope(url, &clock, &ids);
        let shop = of("postgres://a:secret@db.example/shop");
        assert_eq!(of("postgres://b@db.example:5432/shop?sslmode=require"), shop);
        assert_ne!(of("postgres://a@db.example/other"), shop);
        assert_ne!(of("postgres://a@db2.example/shop"), shop);
        assert_eq!(shop.len(), 16);
        assert_ne!(of("sqlite://data/stockhold.db"), of("sqlite://data/stockhold.db"));
    }
}
