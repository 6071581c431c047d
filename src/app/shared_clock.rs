//! The time that replicas agree on: the database server's, read every few seconds. What no
//! transaction decides (when a job is looked for, when a supplier was asked, whether a figure shown
//! is fresh) goes by it too, so that a replica whose own clock is wrong does nothing early or late.
//!
//! What must hold: a daemon serves only after the first reading; later ones that fail change
//! nothing, the clock counts on by itself.

use std::convert::Infallible;
use std::time::Duration;

use crate::clock::Clock;
use crate::lifecycle::Lifecycle;
use crate::storage::{self, Db};

const READ_EVERY: Duration = Duration::from_secs(5);

/// The clock to run by: `own` with SQLite and in tests that move it, otherwise the server's.
///
/// # Errors
/// The database's, when the first reading fails.
pub async fn clock(db: &Db, own: Clock, life: &Lifecycle) -> Result<Clock, storage::Error> {
    if own.is_manual() {
        return Ok(own);
    }
    let Some(now) = db.server_clock().await? else {
        return Ok(own);
    };
    let off = own.now().since(now).as_secs();
    if off.abs() > 1 {
        tracing::warn!(off_secs = off, "this machine's clock differs from the database's");
    }
    let clock = Clock::followed(now);
    let (db, following, stopping) = (db.clone(), clock.clone(), life.stopping());
    life.supervise("clock", async move {
        loop {
            tokio::select! {
                () = stopping.cancelled() => return Ok::<(), Infallible>(()),
                () = tokio::time::sleep(READ_EVERY) => {}
            }
            match db.server_clock().await {
                Ok(Some(now)) => following.follow(now),
                Ok(None) => {}
                Err(error) => tracing::debug!(error = %error, "the server's clock is not read"),
            }
        }
    });
    Ok(clock)
}
