//! Groups of commands by their id, and the answers kept under idempotency keys: what makes a repeat
//! harmless. Also the deletion of what is kept for a limited time.

use std::collections::{BTreeMap, BTreeSet};

use super::bulk::{Batch, Bulk, insert_rows_with};
use super::db::{Db, Tx};
use super::error::{Error, Result};
use super::sql::{Arg, Sql, args, list, texts};
use super::table::{row, table};
use crate::clock::{Span, Timestamp};
use crate::domain::policy::KEYS_KEPT;

/// A group's id is kept for longer than any commit can be under way.
pub const KEEP_GROUPS: Span = Span::hours(1);

/// Name of the API key, path, key.
pub type Scope = (String, String, String);

table! {
    "idempotency" KeptRow key(api_key, path, key) guard() {
        api_key: String,
        path: String,
        key: String,
        body_hash: String,
        status: i64,
        body: String,
        created_at: Timestamp,
        keep_until: Option<Timestamp>,
    }
}

/// An answer (its status and JSON text) with the hash of the body that it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub body_hash: String,
    pub status: u16,
    pub body: String,
}

/// An answer to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    pub scope: Scope,
    pub kept: Kept,
    pub for_ever: bool,
}

/// An answer whose time is over gives way.
static KEEP: std::sync::LazyLock<Bulk> = std::sync::LazyLock::new(|| {
    Bulk::insert::<KeptRow>(
        "ON CONFLICT (api_key, path, key) DO UPDATE SET body_hash = excluded.body_hash,
            status = excluded.status, body = excluded.body, created_at = excluded.created_at,
            keep_until = excluded.keep_until
         WHERE idempotency.keep_until <= excluded.created_at",
    )
});

texts! {
    TABLES = "SELECT 1 WHERE EXISTS (SELECT 1 FROM orders) OR EXISTS (SELECT 1 FROM order_lines)
        OR EXISTS (SELECT 1 FROM holds) OR EXISTS (SELECT 1 FROM levels)
        OR EXISTS (SELECT 1 FROM ledger) OR EXISTS (SELECT 1 FROM payments)
        OR EXISTS (SELECT 1 FROM events) OR EXISTS (SELECT 1 FROM jobs)";
    BEGIN = "INSERT INTO command_groups (id, at) VALUES ($1, coalesce($2, CLOCK()))
        ON CONFLICT (id) DO NOTHING RETURNING at,
            (SELECT coalesce(max(no), 1) FROM epochs) AS life,
            (SELECT count(*) FROM command_groups WHERE id = $3) AS followed,
            (SELECT max(version) FROM catalogue) AS catalogue";
    KEPT = "SELECT api_key, path, key, body_hash, status, body, created_at, keep_until
        FROM idempotency WHERE key IN (LIST($1)) AND (keep_until IS NULL OR keep_until > $2)";
    PRUNE_GROUPS = "DELETE FROM command_groups
        WHERE id IN (SELECT id FROM command_groups WHERE at <= $1 ORDER BY at LIMIT $2)";
    PRUNE_KEPT = "DELETE FROM idempotency WHERE (api_key, path, key) IN (
        SELECT api_key, path, key FROM idempotency
        WHERE keep_until <= $1 ORDER BY keep_until LIMIT $2)";
}

row! {
    /// A group's beginning: when, in which of the store's lives (`Epoch::no`), whether the group that
    /// was to be there already is, and how often the catalogue had been changed.
    "command_groups" Begun {
        at: Timestamp,
        life: i64,
        followed: bool,
        catalogue: i64,
    }
}

/// How a group begins: by writing its id.
#[derive(Clone, Debug)]
pub struct Opening {
    pub id: String,
    /// `None`: at the server's time.
    pub now: Option<Timestamp>,
    /// A group that was committed earlier.
    pub after: Option<String>,
}

impl Opening {
    /// Writes the group's id, first of all. `None`: it was committed before. Waits for a transaction that
    /// is still writing the same id.
    ///
    /// # Errors
    /// The database's.
    pub async fn begin(self, tx: &mut Tx) -> Result<Option<Begun>> {
        tx.first(&BEGIN, self.args()).await
    }

    /// The same with all that the group writes, in one trip.
    ///
    /// # Errors
    /// As [`Batch::run`].
    pub(super) async fn write(self, tx: &mut Tx, batch: Batch) -> Result<Option<Begun>> {
        batch.run_after(tx, &BEGIN, self.args()).await
    }

    fn args(self) -> Vec<Arg> {
        args![self.id, self.now, self.after]
    }
}

/// Whether orders could be taken: finds their tables, and commits a write as every group does.
///
/// # Errors
/// The database's.
pub async fn rehearse(db: &Db, id: String, now: Timestamp) -> Result<()> {
    db.transact(move |tx| {
        Box::pin(async move {
            let _: Option<(i32,)> = tx.first(&TABLES, Vec::new()).await?;
            let opening = Opening { id, now: Some(now), after: None };
            opening.begin(tx).await.map(drop)
        })
    })
    .await
}

/// The answers kept under these scopes.
///
/// # Errors
/// The database's.
pub async fn kept(
    tx: &mut Tx,
    scopes: &BTreeSet<Scope>,
    now: Timestamp,
) -> Result<BTreeMap<Scope, Kept>> {
    if scopes.is_empty() {
        return Ok(BTreeMap::new());
    }
    let keys: BTreeSet<&str> = scopes.iter().map(|(_, _, key)| key.as_str()).collect();
    let sql: &'static Sql = &KEPT;
    let rows: Vec<KeptRow> = tx.all(sql, vec![list(keys), now.into()]).await?;
    let mut kept = BTreeMap::new();
    for row in rows {
        let scope = (row.api_key, row.path, row.key);
        if scopes.contains(&scope) {
            let status = u16::try_from(row.status)
                .map_err(|e| Error::Poison(format!("a kept answer's status: {e}")))?;
            let answer = Kept { body_hash: row.body_hash, status, body: row.body };
            kept.insert(scope, answer);
        }
    }
    Ok(kept)
}

/// Keeps answers.
///
/// # Errors
/// [`Error::Retry`] when one is kept already under the same scope.
pub async fn keep(tx: &mut Tx, answers: Vec<Keep>, now: Timestamp) -> Result<()> {
    let given = answers.len();
    let mut rows: Vec<KeptRow> = answers
        .into_iter()
        .map(|keep| {
            let (api_key, path, key) = keep.scope;
            KeptRow {
                api_key,
                path,
                key,
                body_hash: keep.kept.body_hash,
                status: i64::from(keep.kept.status),
                body: keep.kept.body,
                created_at: now,
                keep_until: (!keep.for_ever).then_some(now + KEYS_KEPT),
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.api_key, &a.path, &a.key).cmp(&(&b.api_key, &b.path, &b.key)));
    let touched = insert_rows_with(tx, &KEEP, rows).await?;
    if u64::try_from(given) == Ok(touched) {
        Ok(())
    } else {
        Err(Error::miscount("idempotency", given, touched))
    }
}

/// Deletes at most `limit` rows of each kind whose time is over; answers how many, so that the
/// caller goes on while there are more.
///
/// # Errors
/// The database's.
pub async fn prune(tx: &mut Tx, now: Timestamp, limit: i64) -> Result<u64> {
    let groups = tx.run(&PRUNE_GROUPS, args![now - KEEP_GROUPS, limit]).await?;
    let kept = tx.run(&PRUNE_KEPT, args![now, limit]).await?;
    Ok(groups.saturating_add(kept))
}
