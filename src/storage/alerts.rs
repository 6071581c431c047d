//! Alerts: open once for each (kind, subject), told by durable jobs.

use std::collections::BTreeMap;

use super::bulk::{Bulk, insert_rows_returning};
use super::db::Tx;
use super::error::Result;
use super::sql::{Sql, args, texts};
use super::table::{row, table};
use crate::clock::{Span, Timestamp};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::job::{Job, JobRequest};
use crate::domain::policy::ALERTS_KEPT;

table! {
    /// An alert that opens.
    "alerts" NewAlert key(kind, subject) guard() {
        kind: AlertKind,
        subject: String,
        detail: String,
        opened_at: Timestamp,
        last_told_at: Timestamp,
    }
}

row! {
    /// An alert as it stands.
    "alerts" Alert {
        id: i64,
        kind: AlertKind,
        subject: String,
        detail: String,
        opened_at: Timestamp,
        closed_at: Option<Timestamp>,
        acknowledged_at: Option<Timestamp>,
        last_told_at: Timestamp,
    }
}

/// The columns of [`Alert`].
pub(super) const COLUMNS: &str =
    "id, kind, subject, detail, opened_at, closed_at, acknowledged_at, last_told_at";

static OPEN: std::sync::LazyLock<Bulk> = std::sync::LazyLock::new(|| {
    Bulk::insert::<NewAlert>(
        "ON CONFLICT (kind, subject) WHERE closed_at IS NULL DO NOTHING RETURNING id",
    )
});

texts! {
    CLOSE = "UPDATE alerts SET closed_at = $2 WHERE closed_at IS NULL
        AND EXISTS (SELECT 1 FROM PAIRS($1) AS p WHERE p.a = kind AND p.b = subject)
        RETURNING id";
    ACKNOWLEDGE = "UPDATE alerts SET acknowledged_at = coalesce(acknowledged_at, $2)
        WHERE id = $1";
    REMIND = "UPDATE alerts SET last_told_at = $1
        WHERE closed_at IS NULL AND acknowledged_at IS NULL AND last_told_at <= $2
        RETURNING id";
    PRUNE = "DELETE FROM alerts WHERE id IN
        (SELECT id FROM alerts WHERE closed_at <= $1 ORDER BY closed_at LIMIT $2)";
    ONE = format!("SELECT {COLUMNS} FROM alerts WHERE id = $1");
    OPEN_NOW = format!(
        "SELECT {COLUMNS} FROM alerts WHERE closed_at IS NULL AND id < $1 ORDER BY id DESC LIMIT $2"
    );
    ALL = format!("SELECT {COLUMNS} FROM alerts WHERE id < $1 ORDER BY id DESC LIMIT $2");
}

/// Opens and closes alerts; of several words on one subject the last counts. Answers the jobs that
/// tell of those that really opened or closed.
///
/// # Errors
/// The database's.
pub(super) async fn change(
    tx: &mut Tx,
    changes: &[AlertChange],
    now: Timestamp,
) -> Result<Vec<JobRequest>> {
    let mut last: BTreeMap<(AlertKind, &str), Option<&str>> = BTreeMap::new();
    for change in changes {
        match change {
            AlertChange::Open { kind, subject, detail } => {
                last.insert((*kind, subject), Some(detail))
            }
            AlertChange::Close { kind, subject } => last.insert((*kind, subject), None),
        };
    }
    let mut opens = Vec::new();
    let mut closes = Vec::new();
    for ((kind, subject), detail) in last {
        match detail {
            Some(detail) => opens.push(NewAlert {
                kind,
                subject: subject.to_owned(),
                detail: detail.to_owned(),
                opened_at: now,
                last_told_at: now,
            }),
            None => closes.push((kind.as_str().to_owned(), subject.to_owned())),
        }
    }
    let opened: Vec<(i64,)> = insert_rows_returning(tx, &OPEN, opens).await?;
    let closed: Vec<(i64,)> =
        if closes.is_empty() { Vec::new() } else { tx.all(&CLOSE, args![closes, now]).await? };
    let tell = |event: &'static str| {
        move |(alert,): (i64,)| JobRequest {
            job: Job::Alert { alert, event: event.to_owned() },
            run_at: now,
        }
    };
    let opened = opened.into_iter().map(tell("opened"));
    let closed = closed.into_iter().map(tell("closed"));
    Ok(opened.chain(closed).collect())
}

/// One alert.
///
/// # Errors
/// The database's.
pub async fn read(tx: &mut Tx, id: i64) -> Result<Option<Alert>> {
    tx.first(&ONE, args![id]).await
}

/// Alerts below an id, newest first.
///
/// # Errors
/// The database's.
pub async fn list(
    tx: &mut Tx,
    open_only: bool,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Alert>> {
    let sql: &'static Sql = if open_only { &OPEN_NOW } else { &ALL };
    tx.all(sql, args![before.unwrap_or(i64::MAX), limit]).await
}

/// Marks an alert as seen; it reminds no more. `false`: there is none with this id.
///
/// # Errors
/// The database's.
pub async fn acknowledge(tx: &mut Tx, id: i64, now: Timestamp) -> Result<bool> {
    Ok(tx.run(&ACKNOWLEDGE, args![id, now]).await? > 0)
}

/// Deletes at most `limit` alerts that have been closed for [`ALERTS_KEPT`], the longest closed first;
/// answers how many.
///
/// # Errors
/// The database's.
pub async fn prune(tx: &mut Tx, now: Timestamp, limit: i64) -> Result<u64> {
    tx.run(&PRUNE, args![now - ALERTS_KEPT, limit]).await
}

/// Owes a reminder for every alert that is open, not acknowledged, and was last told of
/// `remind_every` ago or longer; keyed by the day. Answers how many.
///
/// # Errors
/// The database's.
pub async fn remind(tx: &mut Tx, remind_every: Span, now: Timestamp) -> Result<usize> {
    let due: Vec<(i64,)> = tx.all(&REMIND, args![now, now - remind_every]).await?;
    let day = now.ceil_secs().div_euclid(86_400);
    let owed: Vec<JobRequest> = due
        .into_iter()
        .map(|(alert,)| JobRequest {
            job: Job::Alert { alert, event: format!("reminder:{day}") },
            run_at: now,
        })
        .collect();
    let count = owed.len();
    super::jobs::owe(tx, owed, now).await?;
    Ok(count)
}
