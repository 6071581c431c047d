//! The queue before the writer: two lanes, both bounded. Payments, ends and outcomes go first and
//! wait for room; placements are shed when theirs is full.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, oneshot};

use super::known::plain;
use super::{Envelope, Error, Reply};
use crate::domain::command::Needs;

/// A group closes at so many commands …
pub const MAX_COMMANDS: usize = 256;
/// … or about so many levels named.
pub const MAX_LEVELS: usize = 2_000;
/// Room for commands that are never shed; who finds it full waits.
const RESERVED: usize = 2_000;

/// A command and where its reply goes.
pub(super) struct Pending {
    pub envelope: Envelope,
    pub reply: oneshot::Sender<Result<Reply, Error>>,
}

#[derive(Default)]
struct Lanes {
    first: VecDeque<Pending>,
    placements: VecDeque<Pending>,
    /// Placements that were taken into a draft and wait there.
    drafted: usize,
    closed: bool,
}

pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    /// Permits for the lane that goes first.
    room: Semaphore,
    max_placements: usize,
    filled: Notify,
}

impl Queue {
    pub(super) fn new(max_placements: usize) -> Queue {
        Queue {
            lanes: Mutex::default(),
            room: Semaphore::new(RESERVED),
            max_placements,
            filled: Notify::new(),
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a command.
    ///
    /// # Errors
    /// [`Error::Overloaded`] for a placement without room; [`Error::ShuttingDown`].
    pub(super) async fn push(&self, pending: Pending) -> Result<(), Error> {
        if Needs::is_placement(&pending.envelope.command) {
            let mut lanes = self.lanes();
            if lanes.closed {
                return Err(Error::ShuttingDown);
            }
            if lanes.placements.len() + lanes.drafted >= self.max_placements {
                return Err(Error::Overloaded);
            }
            lanes.placements.push_back(pending);
        } else {
            let room = self.room.acquire().await.map_err(|_| Error::ShuttingDown)?;
            let mut lanes = self.lanes();
            if lanes.closed {
                return Err(Error::ShuttingDown);
            }
            room.forget();
            lanes.first.push_back(pending);
        }
        self.filled.notify_one();
        Ok(())
    }

    /// The next group: what is there now, up to the limits. Waits only while there is nothing;
    /// `None` once the queue is closed and empty.
    pub(super) async fn next_group(&self) -> Option<Vec<Pending>> {
        loop {
            let filled = self.filled.notified();
            self.let_arrive().await;
            {
                let mut lanes = self.lanes();
                let group = self.take(&mut lanes);
                if !group.is_empty() {
                    return Some(group);
                }
                if lanes.closed {
                    return None;
                }
            }
            filled.await;
        }
    }

    /// Lets the requests that have arrived already be read, as long as that brings more: one turn of
    /// the runtime each, which takes no time when nothing else is to be done.
    async fn let_arrive(&self) {
        let mut seen = self.len();
        while 0 < seen && seen < MAX_COMMANDS {
            tokio::task::yield_now().await;
            let now = self.len();
            if now <= seen {
                return;
            }
            seen = now;
        }
    }

    /// The next placement, if it can be drafted and nothing goes before it. It waits on, in the draft.
    pub(super) fn draft_next(&self) -> Option<Pending> {
        let mut lanes = self.lanes();
        let next = lanes.placements.front().filter(|_| lanes.first.is_empty());
        next.and_then(|next| plain(&next.envelope))?;
        lanes.drafted += 1;
        lanes.placements.pop_front()
    }

    /// What was drafted waits no more.
    pub(super) fn drafted_is_taken(&self) {
        self.lanes().drafted = 0;
    }

    /// Something has arrived since this was last waited for.
    pub(super) async fn arrived(&self) {
        self.filled.notified().await;
    }

    fn take(&self, lanes: &mut Lanes) -> Vec<Pending> {
        let mut group: Vec<Pending> = Vec::new();
        let mut levels = 0usize;
        let Lanes { first, placements, .. } = lanes;
        for (lane, reserved) in [(first, true), (placements, false)] {
            while let Some(next) = lane.front() {
                let weight = Needs::weight(&next.envelope.command);
                let full = group.len() >= MAX_COMMANDS
                    || (!group.is_empty() && levels.saturating_add(weight) > MAX_LEVELS);
                if full {
                    return group;
                }
                levels = levels.saturating_add(weight);
                if reserved {
                    self.room.add_permits(1);
                }
                group.extend(lane.pop_front());
            }
        }
        group
    }

    /// Commands that wait now.
    pub(super) fn len(&self) -> usize {
        let lanes = self.lanes();
        lanes.first.len() + lanes.placements.len() + lanes.drafted
    }

    /// Takes no more; what is queued still runs.
    pub(super) fn close(&self) {
        self.lanes().closed = true;
        self.room.close();
        self.filled.notify_waiters();
    }
}
