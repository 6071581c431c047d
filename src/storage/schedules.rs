//! Schedules: a tick makes a durable job once for each slot, whoever ticks and however often.
//!
//! What must hold: the newest slot only rises, by compare-and-set in the transaction that owes the
//! job, so that overlapping ticks, replicas and a clock that goes back are harmless.

use super::db::Tx;
use super::error::Result;
use super::jobs;
use super::sql::{args, texts};
use super::table::row;
use crate::clock::Timestamp;
use crate::domain::job::{Job, JobRequest};

row! {
    /// A schedule as it stands.
    "schedules" Schedule {
        name: String,
        last_slot: Timestamp,
        last_started_at: Option<Timestamp>,
        last_finished_at: Option<Timestamp>,
        last_outcome: Option<String>,
    }
}

texts! {
    TICK = "INSERT INTO schedules (name, last_slot, last_started_at) VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE
        SET last_slot = excluded.last_slot, last_started_at = excluded.last_started_at
        WHERE schedules.last_slot < excluded.last_slot";
    REVIVE = "UPDATE jobs SET state = 'ready', attempts = 0, lapses = 0, run_at = $2
        WHERE key = $1 AND state = 'dead'";
    FINISHED = "UPDATE schedules SET last_finished_at = $2, last_outcome = $3 WHERE name = $1";
    LIST = "SELECT name, last_slot, last_started_at, last_finished_at, last_outcome
        FROM schedules ORDER BY name";
}

/// Owes the slot's job, unless this slot or a newer one was ticked before (`false`).
///
/// # Errors
/// The database's.
pub async fn tick(
    tx: &mut Tx,
    name: &str,
    slot: Timestamp,
    job: Job,
    now: Timestamp,
) -> Result<bool> {
    if tx.run(&TICK, args![name, slot, now]).await? == 0 {
        return Ok(false);
    }
    // A regular job that was parked gets another chance with every tick.
    tx.run(&REVIVE, args![job.key(), now]).await?;
    jobs::owe(tx, vec![JobRequest { job, run_at: now }], now).await?;
    Ok(true)
}

/// Notes how a schedule's job ended.
///
/// # Errors
/// The database's.
pub async fn finished(tx: &mut Tx, name: &str, outcome: &str, now: Timestamp) -> Result<()> {
    tx.run(&FINISHED, args![name, now, outcome]).await.map(drop)
}

/// All schedules that ever ticked, by name.
///
/// # Errors
/// The database's.
pub async fn list(tx: &mut Tx) -> Result<Vec<Schedule>> {
    tx.all(&LIST, Vec::new()).await
}
