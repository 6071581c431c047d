//! Whether placements are repeats, for those that are not to trouble the writer: looked up together,
//! one statement for all that wait.
//!
//! What must hold: a look takes what is there and never waits for more; at most [`LOOKS`] are under way;
//! what waits is bounded; whoever hangs up disturbs nobody. Nothing is remembered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::storage::Db;
use crate::storage::reads::placements::{self, Names};

/// Placements in one look.
const MOST: usize = 500;
/// Looks under way at a time.
const LOOKS: usize = 2;
/// Placements that may wait.
const ROOM: usize = 20_000;

struct Asked {
    names: Names,
    answer: oneshot::Sender<bool>,
}

#[derive(Default)]
struct Waiting {
    asked: VecDeque<Asked>,
    looks: usize,
}

/// Looks placements up; clones share what waits.
#[derive(Clone)]
pub struct Repeats {
    db: Db,
    waiting: Arc<Mutex<Waiting>>,
}

impl Repeats {
    pub fn new(db: Db) -> Repeats {
        Repeats { db, waiting: Arc::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
            if waiting.looks < LOOKS {
                waiting.looks += 1;
                tokio::spawn(self.clone().look());
            }
        }
        told.await.ok()
    }

    /// Looks until nobody waits. Who is not answered for an error of the store is told by the end of
    /// its channel.
    async fn look(self) {
        while let Some(asked) = self.next() {
            let (names, answers): (Vec<Names>, Vec<_>) =
                asked.into_iter().map(|asked| (asked.names, asked.answer)).unzip();
            match placements::known(&self.db, names).await {
                Ok(known) => {
                    for (answer, known) in answers.into_iter().zip(known) {
                        let _ = answer.send(known);
                    }
                }
                Err(error) => tracing::debug!(%error, "repeats cannot be looked up"),
            }
        }
    }

    /// Those that wait and have not hung up; `None` ends the look.
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
            waiting.looks -= 1;
            return None;
        }
        Some(group)
    }
}
