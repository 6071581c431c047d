//! The writer: runs groups one after the other, does again what can be done again, and finds the
//! one command that spoils a group by halving it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use super::group::{Decided, Group};
use super::queue::{Pending, Queue};
use super::store::{RESTORED, Store};
use super::{Committed, Envelope, Error, OnCommit};
use crate::clock::Clock;
use crate::domain::policy::Policy;
use crate::ids::Ids;
use crate::storage::{self, Db};

/// A group's commands, shared with the transaction that runs them.
type Commands = Arc<Vec<Envelope>>;

/// A group that others are in the way of is done again so many times …
const MAX_RETRIES: u32 = 20;
/// … and one whose commit's fate is unknown is asked about for so long.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);

pub(super) struct Writer {
    pub db: Db,
    pub clock: Clock,
    pub ids: Ids,
    pub policy: Arc<Policy>,
    pub queue: Arc<Queue>,
    pub committed: broadcast::Sender<Committed>,
    pub store: Store,
    pub on_commit: OnCommit,
}

impl Writer {
    /// Runs until the queue is closed and empty.
    ///
    /// # Errors
    /// In words, when the store is not the one any more that was written to.
    pub(super) async fn run(self) -> Result<(), &'static str> {
        while let Some(group) = self.queue.next_group().await {
            metrics::histogram!("stockhold_group_commands").record(group.len() as f64);
            if self.store.is_lost() {
                for pending in group {
                    let _ = pending.reply.send(Err(Error::StorageUnavailable(RESTORED.into())));
                }
            } else {
                self.run_group(group).await;
            }
            if self.store.is_lost() {
                self.queue.close(); // and run empty
            }
        }
        if self.store.is_lost() { Err(RESTORED) } else { Ok(()) }
    }

    async fn run_group(&self, pending: Vec<Pending>) {
        let (commands, replies): (Vec<Envelope>, Vec<_>) =
            pending.into_iter().map(|p| (p.envelope, p.reply)).unzip();
        let mut open: VecDeque<(Commands, Vec<_>)> = VecDeque::new();
        open.push_back((Arc::new(commands), replies));
        while let Some((commands, mut replies)) = open.pop_front() {
            let mut group = Group::new(self.ids.next(self.clock.now()), commands);
            match self.settle(&mut group).await {
                Ok(decided) => {
                    (self.on_commit)(&decided.touched);
                    // Followers hear of it first: who has a reply can rely on the rest going on.
                    let _ = self.committed.send(decided.committed);
                    for (reply, result) in replies.into_iter().zip(decided.results) {
                        let _ = reply.send(result);
                    }
                }
                Err(Error::Internal(why)) if replies.len() > 1 => {
                    tracing::debug!(group.id = %group.id, error = %why, "halving a group");
                    let half = replies.len() / 2;
                    let second = replies.split_off(half);
                    let (a, b) = group.commands.split_at(half);
                    open.push_front((Arc::new(b.to_vec()), second));
                    open.push_front((Arc::new(a.to_vec()), replies));
                }
                Err(error) => {
                    if let Error::Internal(why) = &error {
                        tracing::error!(group.id = %group.id, error = %why, "a command trips the store");
                    }
                    for reply in replies {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Runs a group to its end: committed, or an error for all of it. `Internal` means that some
    /// command of it cannot be stored.
    async fn settle(&self, group: &mut Group) -> Result<Decided, Error> {
        let mut retries = 0;
        let mut unknown_since: Option<tokio::time::Instant> = None;
        loop {
            let run = group.run(self);
            let error = match run.await {
                Ok(decided) => return Ok(decided),
                Err(error) => error,
            };
            if matches!(error, storage::Error::CommitUnknown(_)) {
                metrics::counter!("stockhold_commits_unknown_total").increment(1);
                unknown_since.get_or_insert_with(tokio::time::Instant::now);
            }
            // Once a commit's fate is unknown, the same group under the same id finds it out.
            if let Some(since) = unknown_since {
                if since.elapsed() > UNKNOWN_FOR || self.store.is_lost() {
                    return Err(Error::OutcomeUnknown);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
            match error {
                storage::Error::Retry(why) => {
                    metrics::counter!("stockhold_group_retries_total").increment(1);
                    retries += 1;
                    if retries > MAX_RETRIES {
                        // One of many may be at fault; one alone only finds the store too busy.
                        let many = group.commands.len() > 1;
                        let busy = Error::StorageUnavailable(why.clone());
                        return Err(if many { Error::Internal(why) } else { busy });
                    }
                    tokio::time::sleep(Duration::from_millis(u64::from(retries.min(10)))).await;
                }
                storage::Error::Unavailable(why) => return Err(Error::StorageUnavailable(why)),
                storage::Error::Poison(why) => return Err(Error::Internal(why)),
                storage::Error::CommitUnknown(_) => {}
            }
        }
    }
}
