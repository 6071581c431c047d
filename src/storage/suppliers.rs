//! What syncs and adapters leave at a supplier: the last sync's outcome, a suspect feed, tokens.
//! The stop switch is part of a `World`.

use super::db::Tx;
use super::error::Result;
use super::sql::{args, texts};
use super::table::row;
use crate::clock::Timestamp;
use crate::domain::names::SourceId;

row! {
    /// A supplier's last sync.
    "suppliers" SyncState {
        id: SourceId,
        last_sync_at: Option<Timestamp>,
        last_sync_outcome: Option<String>,
        last_sync_detail: Option<String>,
        suspect_since: Option<Timestamp>,
    }
}

texts! {
    SYNCED = "INSERT INTO suppliers
            (id, last_sync_at, last_sync_outcome, last_sync_detail, suspect_since)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (id) DO UPDATE SET last_sync_at = excluded.last_sync_at,
            last_sync_outcome = excluded.last_sync_outcome,
            last_sync_detail = excluded.last_sync_detail,
            suspect_since = CASE WHEN $6 = 1 THEN suppliers.suspect_since
                WHEN excluded.suspect_since IS NULL THEN NULL
                ELSE coalesce(suppliers.suspect_since, excluded.suspect_since) END";
    OUTCOME = "SELECT last_sync_outcome FROM suppliers WHERE id = $1";
    LIST = "SELECT id, last_sync_at, last_sync_outcome, last_sync_detail, suspect_since
        FROM suppliers ORDER BY id";
    TOKENS = "SELECT tokens FROM suppliers WHERE id = $1";
    PUT_TOKENS = "INSERT INTO suppliers (id, tokens) VALUES ($1, $2)
        ON CONFLICT (id) DO UPDATE SET tokens = excluded.tokens";
}

/// Notes a sync's end. A suspect feed is so since the first time in a row; one of which nothing is
/// known (`None`) is what it was. Answers whether the outcome is another than the last sync's.
///
/// # Errors
/// The database's.
pub async fn synced(
    tx: &mut Tx,
    id: &SourceId,
    outcome: &str,
    detail: &str,
    suspect: Option<bool>,
    now: Timestamp,
) -> Result<bool> {
    let before: Option<(Option<String>,)> = tx.first(&OUTCOME, args![id.as_str()]).await?;
    let since = (suspect == Some(true)).then_some(now);
    let keep = i64::from(suspect.is_none());
    tx.run(&SYNCED, args![id.as_str(), now, outcome, detail, since, keep]).await?;
    Ok(before.and_then(|(last,)| last).as_deref() != Some(outcome))
}

/// All suppliers that ever had something noted, by id.
///
/// # Errors
/// The database's.
pub async fn list(tx: &mut Tx) -> Result<Vec<SyncState>> {
    tx.all(&LIST, Vec::new()).await
}

/// What the adapter keeps (JSON text).
///
/// # Errors
/// The database's.
pub async fn tokens(tx: &mut Tx, id: &SourceId) -> Result<Option<String>> {
    let row: Option<(Option<String>,)> = tx.first(&TOKENS, args![id.as_str()]).await?;
    Ok(row.and_then(|(tokens,)| tokens))
}

/// Keeps what the adapter keeps.
///
/// # Errors
/// The database's.
pub async fn put_tokens(tx: &mut Tx, id: &SourceId, tokens: &str) -> Result<()> {
    tx.run(&PUT_TOKENS, args![id.as_str(), tokens]).await.map(drop)
}
