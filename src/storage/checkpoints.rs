//! SQLite's checkpoints: committed pages go from the write-ahead log into the file. Left to itself the
//! writer does this at the end of a commit, and every order of that group and of the next waits for it.
//!
//! Here a reader's connection does it beside the writer, often, and so in small parts (`PASSIVE`: it
//! waits for nobody and nobody waits for it), and at once again while much came in meanwhile. The
//! writer's own comes late ([`WRITER_AT_PAGES`]), finds little left to do, and lets the log begin anew.

use std::convert::Infallible;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::db::Db;

/// The writer's own checkpoint: when the log has so many pages (of 4 KiB). Whoever orders then waits
/// for it; but a log of a new store grows until then, and growing makes its flushes slower.
pub(super) const WRITER_AT_PAGES: u32 = 16_000;

const EVERY: Duration = Duration::from_millis(250);
/// After a checkpoint of more pages than these the next follows at once.
const MANY: i64 = 1_500;

/// Runs until `stopping`; with PostgreSQL there is nothing to do.
///
/// # Errors
/// None: a checkpoint that fails is left to the next, or to the writer, whose commits tell of a disk
/// that takes no writes.
pub async fn run(db: Db, stopping: CancellationToken) -> Result<(), Infallible> {
    if !db.is_sqlite() {
        stopping.cancelled().await;
        return Ok(());
    }
    loop {
        tokio::select! {
            () = stopping.cancelled() => return Ok(()),
            () = tokio::time::sleep(EVERY) => {}
        }
        catch_up(&db).await;
    }
}

/// Until little is left to do.
async fn catch_up(db: &Db) {
    let mut before = 0;
    loop {
        match db.checkpoint().await {
            Ok(moved) if moved - before > MANY => before = moved,
            Ok(_) => return,
            Err(error) => return tracing::debug!(error = %error, "a checkpoint failed"),
        }
    }
}
