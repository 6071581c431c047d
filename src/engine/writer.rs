//! The writer: runs groups one after the other, does again what can be done again, and finds the
//! one command that spoils a group by halving it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};

use super::group::{Decided, Group};
use super::known::{Known, plain};
use super::queue::{Pending, Queue};
use super::store::{RESTORED, Store};
use super::{Committed, Envelope, Error, OnCommit, Reply};
use crate::clock::Clock;
use crate::domain::policy::Policy;
use crate::ids::Ids;
use crate::storage::{self, Db};

/// Where a group's replies go, in order.
pub(super) type Replies = Vec<oneshot::Sender<Result<Reply, Error>>>;

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
    pub known: Known,
    pub on_commit: OnCommit,
}

impl Writer {
    /// Runs until the queue is closed and empty.
    ///
    /// # Errors
    /// In words, when the store is not the one any more that was written to.
    pub(super) async fn run(mut self) -> Result<(), &'static str> {
        while let Some(group) = self.queue.next_group().await {
            let plain = group.iter().all(|pending| plain(&pending.envelope).is_some());
            let draft = if plain { self.known.first_draft() } else { None };
            let left = match draft {
                Some(draft) => self.write_drafts(draft, group).await,
                None => group,
            };
            self.queue.drafted_is_taken();
            if !left.is_empty() {
                self.run_group(left).await;
            }
            if self.store.is_lost() {
                self.queue.close(); // and run empty
            }
        }
        if self.store.is_lost() { Err(RESTORED) } else { Ok(()) }
    }

    /// A group of its own, and where its replies go.
    pub(super) fn group(&self, pending: Vec<Pending>) -> (Group, Replies) {
        metrics::histogram!("stockhold_group_commands").record(pending.len() as f64);
        let (commands, replies): (Vec<Envelope>, Replies) =
            pending.into_iter().map(|p| (p.envelope, p.reply)).unzip();
        (Group::new(self.ids.next(self.clock.now()), Arc::new(commands)), replies)
    }

    /// Decides a group under locks.
    async fn run_group(&mut self, pending: Vec<Pending>) {
        if self.store.is_lost() {
            for pending in pending {
                let _ = pending.reply.send(Err(Error::StorageUnavailable(RESTORED.into())));
            }
        } else {
            let (group, replies) = self.group(pending);
            self.finish(group, replies, None).await;
        }
    }

    /// Brings a group to its end, whatever became of it first.
    pub(super) async fn finish(
        &mut self,
        group: Group,
        replies: Replies,
        first: Option<storage::Error>,
    ) {
        let mut open = VecDeque::from([(group, replies, first)]);
        while let Some((mut group, mut replies, first)) = open.pop_front() {
            match self.settle(&mut group, first).await {
                Ok(mut decided) => {
                    match decided.read.take() {
                        Some(_) if decided.touched.catalogue => self.known.forget(),
                        Some((catalogue, world)) => self.known.learn(catalogue, world),
                        None => {}
                    }
                    self.answer(decided, replies);
                }
                Err(Error::Internal(why)) if replies.len() > 1 => {
                    tracing::debug!(group.id = %group.id, error = %why, "halving a group");
                    let half = replies.len() / 2;
                    let second = replies.split_off(half);
                    let (a, b) = group.commands.split_at(half);
                    for (half, replies) in [(b, second), (a, replies)] {
                        let id = self.ids.next(self.clock.now());
                        open.push_front((Group::new(id, Arc::new(half.to_vec())), replies, None));
                    }
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

    /// Tells everybody of a group that has committed.
    pub(super) fn answer(&self, decided: Decided, replies: Replies) {
        (self.on_commit)(&decided.touched);
        // Followers hear of it first: who has a reply can rely on the rest going on.
        let _ = self.committed.send(decided.committed);
        for (reply, result) in replies.into_iter().zip(decided.results) {
            let _ = reply.send(result);
        }
    }

    /// Runs a group to its end: committed, or an error for all of it. `Internal` means that some
    /// command of it cannot be stored.
    async fn settle(
        &self,
        group: &mut Group,
        mut first: Option<storage::Error>,
    ) -> Result<Decided, Error> {
        let mut retries = 0;
        let mut unknown_since: Option<tokio::time::Instant> = None;
        loop {
            let error = match first.take() {
                Some(error) => error,
                None => match group.run(self).await {
                    Ok(decided) => return Ok(decided),
                    Err(error) => error,
                },
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
