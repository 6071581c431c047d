//! Whether placements are repeats, for those that are not to trouble the writer: looked up together,
//! one statement for all that wait.
//!
//! What must hold: the database sees one look for [`WORTH`] placements, or [`PAUSE`] lies between two; who
//! comes alone is looked up at once. (Looks that only took what was there, two at a time, were one for
//! every eleven of a crowd of a hundred: a look is over before many more have come.) What waits is
//! bounded; whoever hangs up disturbs nobody; nothing is remembered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::storage::Db;
use crate::storage::reads::placements::{self, Names};

/// So many placements are worth a look at once; fewer wait for others …
const WORTH: usize = 32;
/// … until so long after the last look began.
const PAUSE: Duration = Duration::from_millis(100);
/// Placements in one look.
const MOST: usize = 500;
/// Placements that may wait.
const ROOM: usize = 20_000;

struct Asked {
    names: Names,
    answer: oneshot::Sender<bool>,
}

#[derive(Default)]
struct Waiting {
    asked: VecDeque<Asked>,
    /// Somebody looks, until nobody waits.
    looking: bool,
    last_look: Option<Instant>,
}

struct Parts {
    db: Db,
    waiting: Mutex<Waiting>,
    /// Told when so many wait that it is worth a look.
    worth: Notify,
}

/// Looks placements up; clones share what waits.
#[derive(Clone)]
pub struct Repeats(Arc<Parts>);

impl Repeats {
    pub fn new(db: Db) -> Repeats {
        Repeats(Arc::new(Parts { db, waiting: Mutex::default(), worth: Notify::new() }))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a committed order or answer has one of the names; `None` when that cannot be told now.
    pub async fn is_known(&self, names: Names) -> Option<bool> {
        let (answer, told) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.asked.len() >= ROOM {
                return None;
            }
            waiting.asked.push_back(Asked { names, answer });
            if waiting.asked.len() >= WORTH {
                self.0.worth.notify_one();
            }
            if !waiting.looking {
                waiting.looking = true;
                tokio::spawn(self.clone().look());
            }
        }
        told.await.ok()
    }

    /// Looks until nobody waits. Who is not answered, for an error of the store, is told so by the end
    /// of its channel.
    async fn look(self) {
        loop {
            self.until_worth_it().await;
            let Some(asked) = self.next() else { return };
            let (names, answers): (Vec<Names>, Vec<_>) =
                asked.into_iter().map(|asked| (asked.names, asked.answer)).unzip();
            match placements::known(&self.0.db, names).await {
                Ok(known) => {
                    for (answer, known) in answers.into_iter().zip(known) {
                        let _ = answer.send(known);
                    }
                }
                Err(error) => tracing::debug!(%error, "repeats cannot be looked up"),
            }
        }
    }

    async fn until_worth_it(&self) {
        loop {
            let (enough, last) = {
                let waiting = self.waiting();
                (waiting.asked.len() >= WORTH || waiting.asked.is_empty(), waiting.last_look)
            };
            let Some(last) = last.filter(|_| !enough) else { return };
            if timeout_at(last + PAUSE, self.0.worth.notified()).await.is_err() {
                return;
            }
        }
    }

    /// Those that wait and have not hung up; `None` ends the looking.
    fn next(&self) -> Option<Vec<Asked>> {
        let mut waiting = self.waiting();
        let mut group = Vec::new();
        while group.len() < MOST {
            let Some(asked) = waiting.asked.pop_front() else { break };
            if !asked.answer.is_closed() {
                group.push(asked);
            }
        }
        if group.is_empty() {
            waiting.looking = false;
            return None;
        }
        waiting.last_look = Some(Instant::now());
        Some(group)
    }
}
