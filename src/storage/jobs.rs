//! Durable jobs: owed with the state that owes them, claimed under a lease, finished once.
//!
//! What must hold: one live job for each key; a claim raises the lease's token, and a write with an
//! older one changes nothing; a job that is asked for while it runs is put back, not dropped; a
//! payload that cannot be read parks the job as dead, it stops no other.

use std::collections::{BTreeMap, BTreeSet};

use super::bulk::{Bulk, insert_rows_with};
use super::cell::Json;
use super::db::Tx;
use super::error::Result;
use super::sql::{Arg, args, list as list_of, texts};
use super::table::{row, table};
use crate::clock::Timestamp;
use crate::domain::job::{Job, JobRequest};

table! {
    /// A job that is owed.
    "jobs" NewJob key(key) guard() {
        key: String,
        kind: String,
        payload: Json<Job>,
        state: String,
        run_at: Timestamp,
        attempts: i64,
        wakes: i64,
        lease_token: i64,
        created_at: Timestamp,
    }
}

row! {
    "jobs" ClaimedRow {
        id: i64,
        payload: String,
        token: i64,
        attempts: i64,
        lapses: i64,
        wakes: i64,
        key: String,
    }
}

row! {
    /// A job as it stands, for people.
    "jobs" JobInfo {
        id: i64,
        key: String,
        kind: String,
        state: String,
        run_at: Timestamp,
        attempts: i64,
        lapses: i64,
        wakes: i64,
        lease_until: Option<Timestamp>,
        worker: Option<String>,
        last_error: Option<String>,
        created_at: Timestamp,
    }
}

/// A job under lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub id: i64,
    pub job: Job,
    /// Fences every write about it.
    pub token: i64,
    /// Claims since it last made progress, this one included; those that lapsed are not counted.
    pub attempts: i64,
    /// Leases that ended without a report since its last report: its worker died under it.
    pub lapses: i64,
    /// How often it had been asked for when it was claimed.
    pub wakes: i64,
    pub lease_until: Timestamp,
}

/// What became of a claimed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Over: deleted, unless it was asked for meanwhile.
    Done,
    /// Made progress; again then.
    At(Timestamp),
    /// Not begun; again then. Neither a failure nor progress.
    Later(Timestamp),
    /// Failed; again then.
    Failed { error: String, at: Timestamp },
    /// Given up, for a person.
    Dead { error: String },
}

/// When a job may next be claimed: the expression of the index `jobs_due`.
const DUE: &str = "coalesce(lease_until, run_at)";
/// The columns of [`JobInfo`].
pub(super) const INFO: &str =
    "id, key, kind, state, run_at, attempts, lapses, wakes, lease_until, worker,
    last_error, created_at";

/// Owes what is not owed yet; what is, it counts, and brings forward.
pub(super) static OWE: std::sync::LazyLock<Bulk> = std::sync::LazyLock::new(|| {
    Bulk::insert::<NewJob>(
        "ON CONFLICT (key) DO UPDATE SET
            wakes = jobs.wakes + 1,
            run_at = CASE WHEN jobs.state = 'ready' AND excluded.run_at < jobs.run_at
                THEN excluded.run_at ELSE jobs.run_at END,
            wake_at = CASE WHEN jobs.state <> 'running' THEN NULL
                WHEN jobs.wake_at < excluded.run_at THEN jobs.wake_at
                ELSE excluded.run_at END",
    )
});

texts! {
    LAPSE = format!("WITH lapsed AS MATERIALIZED (
            SELECT id FROM jobs WHERE state <> 'dead' AND state = 'running' AND {DUE} <= $1
            ORDER BY id FOR UPDATE SKIP LOCKED)
        UPDATE jobs SET state = 'ready', wake_at = NULL, lapses = jobs.lapses + 1,
            attempts = jobs.attempts - 1, lease_until = NULL, worker = NULL
        FROM lapsed WHERE jobs.id = lapsed.id
        RETURNING jobs.kind");
    CLAIM = format!("WITH due AS MATERIALIZED (
            SELECT id FROM jobs
            WHERE state <> 'dead' AND state = 'ready' AND {DUE} <= $1 AND kind IN (LIST($5))
            ORDER BY {DUE}, id LIMIT $2 FOR UPDATE SKIP LOCKED)
        UPDATE jobs SET state = 'running', lease_token = jobs.lease_token + 1,
            attempts = jobs.attempts + 1, lease_until = $3, worker = $4
        FROM due WHERE jobs.id = due.id
        RETURNING jobs.id, jobs.payload, jobs.lease_token, jobs.attempts, jobs.lapses, jobs.wakes,
            jobs.key");
    ORPHAN = "UPDATE jobs SET lease_until = $1 WHERE state = 'running' AND lease_until > $1";
    HEARTBEAT = "UPDATE jobs SET lease_until = $3
        WHERE id = $1 AND lease_token = $2 AND state = 'running'";
    DONE = "DELETE FROM jobs WHERE id = $1 AND lease_token = $2 AND state = 'running'
        AND wakes = $3";
    WOKEN = "UPDATE jobs SET state = 'ready', run_at = coalesce(wake_at, run_at), wake_at = NULL,
            attempts = 0, lapses = 0, lease_until = NULL, worker = NULL, last_error = NULL
        WHERE id = $1 AND lease_token = $2 AND state = 'running' AND wakes > $3";
    AGAIN = "UPDATE jobs SET state = 'ready',
            run_at = CASE WHEN wake_at < $3 THEN wake_at ELSE $3 END, wake_at = NULL,
            attempts = 0, lapses = 0, lease_until = NULL, worker = NULL, last_error = NULL
        WHERE id = $1 AND lease_token = $2 AND state = 'running'";
    LATER = "UPDATE jobs SET state = 'ready',
            run_at = CASE WHEN wake_at < $3 THEN wake_at ELSE $3 END, wake_at = NULL,
            attempts = attempts - 1, lease_until = NULL, worker = NULL
        WHERE id = $1 AND lease_token = $2 AND state = 'running'";
    FAILED = "UPDATE jobs SET state = 'ready', run_at = $3, wake_at = NULL,
            lapses = 0, lease_until = NULL, worker = NULL, last_error = $4
        WHERE id = $1 AND lease_token = $2 AND state = 'running'";
    DEAD = "UPDATE jobs SET state = 'dead', wake_at = NULL, lease_until = NULL, worker = NULL,
            last_error = $3
        WHERE id = $1 AND lease_token = $2 AND state = 'running'";
    RETRY = "UPDATE jobs SET state = 'ready', run_at = $2, attempts = 0, lapses = 0
        WHERE id = $1 AND state = 'dead'";
    RELEASE = "UPDATE jobs SET state = 'ready', wake_at = NULL, lease_until = NULL, worker = NULL,
            attempts = attempts - 1, lease_token = lease_token + 1
        WHERE worker = $1 AND state = 'running'";
    FENCES = "WITH locked AS MATERIALIZED (
            SELECT id, lease_token FROM jobs WHERE id IN (INTS($1)) AND state = 'running'
            ORDER BY id FOR UPDATE)
        SELECT id, lease_token FROM locked";
    RUNNING = "SELECT id FROM jobs WHERE key IN (LIST($1)) AND state = 'running' LIMIT 1";
    COUNT = "SELECT state, kind, count(*) FROM jobs GROUP BY state, kind ORDER BY state, kind";
    NEXT = format!("SELECT {DUE} FROM jobs WHERE state <> 'dead' ORDER BY {DUE} LIMIT 1");
    ONE = format!("SELECT {INFO} FROM jobs WHERE id = $1");
    ALL = format!("SELECT {INFO} FROM jobs WHERE id < $1
        AND ($2 IS NULL OR state = $2) AND ($3 IS NULL OR kind = $3)
        ORDER BY id DESC LIMIT $4");
}

/// Owes jobs: of several with one key the earliest time counts. One that is there already runs at
/// the earlier time and counts the asking; a dead one stays dead. Answers the earliest time.
///
/// # Errors
/// The database's.
pub async fn owe(
    tx: &mut Tx,
    requests: Vec<JobRequest>,
    now: Timestamp,
) -> Result<Option<Timestamp>> {
    let (rows, earliest) = rows(requests, now);
    insert_rows_with(tx, &OWE, rows).await?;
    Ok(earliest)
}

/// The rows for [`OWE`], one a key, by key; and the earliest time.
pub(super) fn rows(requests: Vec<JobRequest>, now: Timestamp) -> (Vec<NewJob>, Option<Timestamp>) {
    let mut by_key: BTreeMap<String, JobRequest> = BTreeMap::new();
    for request in requests {
        by_key
            .entry(request.job.key())
            .and_modify(|first| first.run_at = first.run_at.min(request.run_at))
            .or_insert(request);
    }
    let earliest = by_key.values().map(|r| r.run_at).min();
    let rows = by_key.into_iter().map(|(key, request)| NewJob {
        key,
        kind: request.job.kind().to_owned(),
        payload: Json(request.job),
        state: "ready".to_owned(),
        run_at: request.run_at,
        attempts: 0,
        wakes: 0,
        lease_token: 0,
        created_at: now,
    });
    (rows.collect(), earliest)
}

/// Takes back every job whose lease has ended without a report, so that it can be claimed again,
/// and counts that; answers their kinds. What a fence is being checked of is left for the next time.
///
/// # Errors
/// The database's.
pub async fn lapse(tx: &mut Tx, now: Timestamp) -> Result<Vec<String>> {
    let rows: Vec<(String,)> = tx.all(&LAPSE, args![now]).await?;
    Ok(rows.into_iter().map(|(kind,)| kind).collect())
}

/// Ends every lease, for a store whose only user has just begun: whoever had them is dead.
///
/// # Errors
/// The database's.
pub async fn orphan(tx: &mut Tx, now: Timestamp) -> Result<u64> {
    tx.run(&ORPHAN, args![now]).await
}

/// Claims up to `limit` jobs of these kinds that are due until `lease_until`, the longest due
/// first. Those under a lease that has ended are taken back by [`lapse`] before.
///
/// # Errors
/// The database's.
pub async fn claim(
    tx: &mut Tx,
    now: Timestamp,
    kinds: &[&str],
    limit: i64,
    worker: &str,
    lease_until: Timestamp,
) -> Result<Vec<Claimed>> {
    let mut args = args![now, limit, lease_until, worker];
    args.push(list_of(kinds));
    let rows: Vec<ClaimedRow> = tx.all(&CLAIM, args).await?;
    let mut claimed = Vec::with_capacity(rows.len());
    for row in rows {
        match serde_json::from_str::<Job>(&row.payload) {
            Ok(job) => claimed.push(Claimed {
                id: row.id,
                job,
                token: row.token,
                attempts: row.attempts,
                lapses: row.lapses,
                wakes: row.wakes,
                lease_until,
            }),
            Err(e) => {
                let error = format!("the payload of {} cannot be read: {e}", row.key);
                tx.run(&DEAD, args![row.id, row.token, error]).await?;
            }
        }
    }
    claimed.sort_by_key(|c| c.id);
    Ok(claimed)
}

/// Renews a lease. `false`: it was lost.
///
/// # Errors
/// The database's.
pub async fn heartbeat(tx: &mut Tx, id: i64, token: i64, until: Timestamp) -> Result<bool> {
    Ok(tx.run(&HEARTBEAT, args![id, token, until]).await? > 0)
}

/// Ends a claim; `wakes` as it was claimed with. `false`: the lease was lost, nothing changed.
///
/// # Errors
/// The database's.
pub async fn finish(tx: &mut Tx, id: i64, token: i64, wakes: i64, finish: Finish) -> Result<bool> {
    let touched = match finish {
        Finish::Done => match tx.run(&DONE, args![id, token, wakes]).await? {
            0 => tx.run(&WOKEN, args![id, token, wakes]).await?,
            deleted => deleted,
        },
        Finish::At(at) => tx.run(&AGAIN, args![id, token, at]).await?,
        Finish::Later(at) => tx.run(&LATER, args![id, token, at]).await?,
        Finish::Failed { error, at } => tx.run(&FAILED, args![id, token, at, error]).await?,
        Finish::Dead { error } => tx.run(&DEAD, args![id, token, error]).await?,
    };
    Ok(touched > 0)
}

/// Puts a dead job back. `false`: there is no dead job with this id.
///
/// # Errors
/// The database's.
pub async fn retry(tx: &mut Tx, id: i64, now: Timestamp) -> Result<bool> {
    Ok(tx.run(&RETRY, args![id, now]).await? > 0)
}

/// Hands back everything that a worker has under lease (at drain); its late writes are fenced.
///
/// # Errors
/// The database's.
pub async fn release(tx: &mut Tx, worker: &str) -> Result<u64> {
    tx.run(&RELEASE, args![worker]).await
}

/// Those of the given (job, token) whose lease still holds; locked, so that nobody takes them over
/// before the commit. Call it after `world::load`: orders and levels are locked before jobs.
///
/// # Errors
/// The database's.
pub async fn fences(tx: &mut Tx, fences: &[(i64, i64)]) -> Result<BTreeSet<(i64, i64)>> {
    if fences.is_empty() {
        return Ok(BTreeSet::new());
    }
    let ids: Vec<i64> = fences.iter().map(|(id, _)| *id).collect();
    let rows: Vec<(i64, i64)> = tx.all(&FENCES, args![ids]).await?;
    Ok(rows.into_iter().filter(|f| fences.contains(f)).collect())
}

/// Whether one of these jobs is being worked on.
///
/// # Errors
/// The database's.
pub async fn is_running(tx: &mut Tx, keys: &[String]) -> Result<bool> {
    let row: Option<(i64,)> = tx.first(&RUNNING, vec![list_of(keys)]).await?;
    Ok(row.is_some())
}

/// How many jobs there are, by state and kind.
///
/// # Errors
/// The database's.
pub async fn count(tx: &mut Tx) -> Result<Vec<(String, String, i64)>> {
    tx.all(&COUNT, Vec::new()).await
}

/// When the next job may be claimed (due, or its lease ends); `None` when nothing is owed.
///
/// # Errors
/// The database's.
pub async fn next_run_at(tx: &mut Tx) -> Result<Option<Timestamp>> {
    let row: Option<(i64,)> = tx.first(&NEXT, Vec::new()).await?;
    Ok(row.map(|(at,)| Timestamp(at)))
}

/// One job.
///
/// # Errors
/// The database's.
pub async fn read(tx: &mut Tx, id: i64) -> Result<Option<JobInfo>> {
    tx.first(&ONE, args![id]).await
}

/// Jobs below an id, newest first, of a state or kind where given.
///
/// # Errors
/// The database's.
pub async fn list(
    tx: &mut Tx,
    state: Option<String>,
    kind: Option<String>,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<JobInfo>> {
    let before = Arg::from(before.unwrap_or(i64::MAX));
    let args = vec![before, state.into(), kind.into(), limit.into()];
    tx.all(&ALL, args).await
}
