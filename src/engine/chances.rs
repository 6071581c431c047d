//! Whether placements of a SKU that is noted as sold out have a chance all the same: looked up together,
//! one statement for all that wait, so that the others need not trouble the writer.
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
pub struct Chances(Arc<Parts>);

impl Chances {
    pub fn new(db: Db) -> Chances {
        Chances(Arc::new(Parts { db, waiting: Mutex::default(), worth: Notify::new() }))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the placement has a chance; `None` when that cannot be told now.
    pub async fn has_one(&self, names: Names) -> Option<bool> {
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
            match placements::have_chance(&self.0.db, names).await {
                Ok(chances) => {
                    for (answer, chance) in answers.into_iter().zip(chances) {
                        let _ = answer.send(chance);
                    }
                }
                Err(error) => tracing::debug!(%error, "chances cannot be looked up"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Options;

    async fn chances() -> (Chances, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}/test.db", folder.path().display());
        let db = Db::open(&url, &Options::default()).expect("opens");
        (Chances::new(db), folder)
    }

    fn names(n: usize) -> Names {
        Names { channel: "web".into(), external_id: format!("o{n}"), ..Names::default() }
    }

    #[tokio::test]
    async fn all_that_wait_are_told_and_whoever_hangs_up_disturbs_nobody() {
        let (chances, _folder) = chances().await;
        chances.0.db.migrate().await.expect("migrates");
        assert_eq!(chances.has_one(names(0)).await, Some(false), "alone");
        let impatient: Vec<_> = (0..1_000).map(|n| Box::pin(chances.has_one(names(n)))).collect();
        let patient = futures::future::join_all((0..1_000).map(|n| chances.has_one(names(n))));
        let mut hung_up = futures::future::join_all(impatient);
        assert!(futures::FutureExt::now_or_never(&mut hung_up).is_none());
        drop(hung_up);
        assert_eq!(patient.await, vec![Some(false); 1_000]);
        let waiting = chances.waiting();
        assert!(waiting.asked.is_empty());
    }

    #[tokio::test]
    async fn without_an_answer_of_the_store_it_is_not_known() {
        let (chances, _folder) = chances().await;
        // There are no tables.
        assert_eq!(chances.has_one(names(1)).await, None);
        assert_eq!(chances.has_one(names(2)).await, None);
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let (chances, _folder) = chances().await;
        let waiting: Vec<_> = (0..ROOM).map(|n| chances.has_one(names(n))).collect();
        let mut waiting = futures::future::join_all(waiting);
        assert!(futures::FutureExt::now_or_never(&mut waiting).is_none());
        assert_eq!(chances.has_one(names(ROOM)).await, None);
        assert_eq!(chances.waiting().asked.len(), ROOM);
    }
}
