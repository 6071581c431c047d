//! Which placements of a SKU that was sold out have a chance to be accepted: those that repeat what is
//! in the store, and all once its levels have changed.

use std::collections::{BTreeMap, HashSet};

use crate::domain::names::LevelId;
use crate::storage::groups::Scope;
use crate::storage::sql::{Arg, list, texts};
use crate::storage::{Db, Error, Result};

/// What names a placement, and the SKU's levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub channel: String,
    pub external_id: String,
    /// Its `Idempotency-Key`, as an order keeps it, and its scope, as an answer is kept under.
    pub key: Option<(String, Scope)>,
    pub payment_id: Option<String>,
    /// The versions at which nothing was left.
    pub versions: BTreeMap<LevelId, i64>,
}

texts! {
    KNOWN = "SELECT 'external' AS what, o.channel AS a, o.external_id AS b, '' AS c
            FROM PAIRS($1) AS p JOIN orders o ON o.channel = p.a AND o.external_id = p.b
        UNION ALL SELECT 'placement', idempotency_key, '', '' FROM orders
            WHERE idempotency_key IN (LIST($2))
        UNION ALL SELECT 'kept', api_key, path, key FROM idempotency WHERE key IN (LIST($3))
        UNION ALL SELECT 'payment', channel, payment_id, '' FROM payments
            WHERE payment_id IN (LIST($4))
        UNION ALL SELECT 'level', id, CAST(version AS TEXT), '' FROM levels
            WHERE id IN (LIST($5))";
}

/// For each placement, whether an order has its external id or its key, an answer is kept under that
/// key (be its time over), its payment is recorded, or a level has another version: if not, the rules
/// would refuse it for want of stock.
///
/// # Errors
/// The database's.
pub async fn have_chance(db: &Db, asked: Vec<Names>) -> Result<Vec<bool>> {
    let pairs: Vec<(String, String)> =
        asked.iter().map(|n| (n.channel.clone(), n.external_id.clone())).collect();
    let keys = || asked.iter().filter_map(|n| n.key.as_ref());
    let levels: HashSet<&LevelId> = asked.iter().flat_map(|n| n.versions.keys()).collect();
    let args: Vec<Arg> = vec![
        pairs.into(),
        list(keys().map(|(key, _)| key)),
        list(keys().map(|(_, (_, _, key))| key)),
        list(asked.iter().filter_map(|n| n.payment_id.as_ref())),
        list(levels),
    ];
    let read = db.read(move |tx| {
        Box::pin(async move { tx.all::<(String, String, String, String)>(&KNOWN, args).await })
    });
    let found: Vec<(String, String, String, String)> = read.await.map_err(|e: Error| e)?;
    let found: HashSet<(&str, &str, &str, &str)> = found
        .iter()
        .map(|(what, a, b, c)| (what.as_str(), a.as_str(), b.as_str(), c.as_str()))
        .collect();
    let has_moved = |(level, version): (&LevelId, &i64)| {
        !found.contains(&("level", level.as_str(), version.to_string().as_str(), ""))
    };
    let has_chance = |n: &Names| {
        found.contains(&("external", n.channel.as_str(), n.external_id.as_str(), ""))
            || n.key.as_ref().is_some_and(|(key, (api_key, path, name))| {
                found.contains(&("placement", key.as_str(), "", ""))
                    || found.contains(&("kept", api_key.as_str(), path.as_str(), name.as_str()))
            })
            || n.payment_id
                .as_ref()
                .is_some_and(|id| found.contains(&("payment", n.channel.as_str(), id.as_str(), "")))
            || n.versions.iter().any(has_moved)
    };
    Ok(asked.iter().map(has_chance).collect())
}
