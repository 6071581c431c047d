//! Which placements may be repeats: whether what they name is in the store.

use std::collections::HashSet;

use crate::storage::groups::Scope;
use crate::storage::sql::{Arg, list, texts};
use crate::storage::{Db, Error, Result};

/// What names a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub channel: String,
    pub external_id: String,
    /// Its `Idempotency-Key`, as an order keeps it, and its scope, as an answer is kept under.
    pub key: Option<(String, Scope)>,
    pub payment_id: Option<String>,
}

texts! {
    KNOWN = "SELECT 'external' AS what, o.channel AS a, o.external_id AS b, '' AS c
            FROM PAIRS($1) AS p JOIN orders o ON o.channel = p.a AND o.external_id = p.b
        UNION ALL SELECT 'placement', idempotency_key, '', '' FROM orders
            WHERE idempotency_key IN (LIST($2))
        UNION ALL SELECT 'kept', api_key, path, key FROM idempotency WHERE key IN (LIST($3))
        UNION ALL SELECT 'payment', channel, payment_id, '' FROM payments
            WHERE payment_id IN (LIST($4))";
}

/// For each placement, whether an order has its external id or its key, an answer is kept under that
/// key (be its time over), or its payment is recorded: if not, it repeats nothing that is committed.
///
/// # Errors
/// The database's.
pub async fn known(db: &Db, asked: Vec<Names>) -> Result<Vec<bool>> {
    let pairs: Vec<(String, String)> =
        asked.iter().map(|n| (n.channel.clone(), n.external_id.clone())).collect();
    let keys = || asked.iter().filter_map(|n| n.key.as_ref());
    let args: Vec<Arg> = vec![
        pairs.into(),
        list(keys().map(|(key, _)| key)),
        list(keys().map(|(_, (_, _, key))| key)),
        list(asked.iter().filter_map(|n| n.payment_id.as_ref())),
    ];
    let read = db.read(move |tx| {
        Box::pin(async move { tx.all::<(String, String, String, String)>(&KNOWN, args).await })
    });
    let found: Vec<(String, String, String, String)> = read.await.map_err(|e: Error| e)?;
    let found: HashSet<(&str, &str, &str, &str)> = found
        .iter()
        .map(|(what, a, b, c)| (what.as_str(), a.as_str(), b.as_str(), c.as_str()))
        .collect();
    let is_known = |n: &Names| {
        found.contains(&("external", n.channel.as_str(), n.external_id.as_str(), ""))
            || n.key.as_ref().is_some_and(|(key, (api_key, path, name))| {
                found.contains(&("placement", key.as_str(), "", ""))
                    || found.contains(&("kept", api_key.as_str(), path.as_str(), name.as_str()))
            })
            || n.payment_id
                .as_ref()
                .is_some_and(|id| found.contains(&("payment", n.channel.as_str(), id.as_str(), "")))
    };
    Ok(asked.iter().map(is_known).collect())
}
