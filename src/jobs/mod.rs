//! Work that is owed, done: the runner, the kinds of jobs, the schedules, the watermarks.
//!
//! `runner` claims due jobs under leases and `work` finishes them; `kinds` holds a file for each
//! kind; `schedule` owes what is due regularly; `watermark` judges after commits. A job calls the
//! outside and hands every answer to the engine as a command; it decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::alerts::Channel;
use crate::clock::{Clock, Span};
use crate::coordination::Coordination;
use crate::domain::names::SourceId;
use crate::domain::policy::Policy;
use crate::engine::Committed;
use crate::refunds::Provider;
use crate::settings::Percent;
use crate::storage::Db;
use crate::suppliers::Supplier;

mod dead;
mod held;
mod kinds;
mod run;
mod runner;
pub mod schedule;
mod store;
#[cfg(test)]
mod testing;
mod watermark;
mod work;

pub use kinds::Kinds;
pub use run::{Answer, Core, Lease, Run, Stop};
pub use runner::{Handler, Runner};

/// What jobs work with; clones share it.
#[derive(Clone)]
pub struct Deps {
    pub db: Db,
    pub engine: Arc<dyn Core>,
    pub clock: Clock,
    pub coordination: Coordination,
    pub policy: Arc<Policy>,
    pub suppliers: Arc<BTreeMap<SourceId, Arc<dyn Supplier>>>,
    /// The largest share of a supplier's feed that may go at once.
    pub suspect_drop: Arc<BTreeMap<SourceId, Percent>>,
    pub refunds: Arc<dyn Provider>,
    pub channels: Arc<[Box<dyn Channel>]>,
    /// `jobs.lease`.
    pub lease: Span,
    /// `jobs.max_attempts`.
    pub max_attempts: i64,
    /// `holds.sweep_interval`.
    pub sweep_interval: Span,
}

/// A task that lives until the stop, by its name.
pub type Task = (&'static str, BoxFuture<'static, Result<(), String>>);

/// The runner, the schedules and the watermarks, to be supervised until `stopping` is cancelled.
/// `worker` names this process in the table of jobs.
pub fn tasks(deps: &Deps, worker: String, stopping: &CancellationToken) -> Vec<Task> {
    let wake = Arc::new(Notify::new());
    let runner = Runner::new(deps.clone(), Arc::new(Kinds), worker, Arc::clone(&wake));
    let running = runner.run(stopping.clone());
    let ticking = schedule::run(deps.clone(), stopping.clone());
    let waking = wake_when_due(deps.clock.clone(), deps.engine.commits(), wake, stopping.clone());
    let following = watermark::follow(deps.clone(), deps.engine.commits(), stopping.clone());
    vec![
        ("jobs", running.map(Ok).boxed()),
        ("schedules", ticking.map_err(|e| e.to_string()).boxed()),
        ("job wake-ups", waking.map(Ok).boxed()),
        ("watermarks", following.map(Ok).boxed()),
    ]
}

/// Wakes the runner when a commit owed a job that is due already.
async fn wake_when_due(
    clock: Clock,
    mut commits: Receiver<Committed>,
    wake: Arc<Notify>,
    stopping: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            commit = commits.recv() => match commit {
                Ok(commit) if commit.next_job.is_some_and(|at| at <= clock.now()) => {
                    wake.notify_one();
                }
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => wake.notify_one(),
                Err(RecvError::Closed) => return stopping.cancelled().await,
            },
        }
    }
}
