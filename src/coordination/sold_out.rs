//! Sold-out notes: which SKUs have nothing left at any source, so that a crowd need not ask the
//! database one by one.
//!
//! What must hold: a note is believed for at most [`NOTE`] after the levels were read that it rests on;
//! it ends at the first commit of this process that touches one of them or the catalogue; one that is
//! older than what this process has committed is not taken. It is advice: what there is no note for is
//! decided as ever, so that whatever is lost here costs only time. Sharing is done beside the requests,
//! which never wait for it: see [`Notes::unwritten`], [`Notes::look`] and [`Notes::learn`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::ticks::Ticks;
use crate::domain::availability::SoldOut;
use crate::domain::names::{LevelId, SkuKey};
use crate::domain::stock::Level;

/// How long a note is believed.
pub const NOTE: Duration = Duration::from_secs(1);
/// A note of our own that is older is looked for where it was written: another may have ended it.
const OWN: Duration = Duration::from_millis(200);
/// The most notes; beyond, none is made.
const MOST: usize = 10_000;
/// The most names that are looked for at once.
const MOST_LOOKED: usize = 500;

/// A version of a level that is known here to have been committed; `None` where none is known.
pub(super) trait Newest: Fn(&LevelId) -> Option<i64> {}
impl<F: Fn(&LevelId) -> Option<i64>> Newest for F {}

struct Note {
    what: SoldOut,
    /// When it was surely so.
    at: Duration,
    /// Another replica made it.
    others: bool,
}

#[derive(Default)]
struct Known {
    notes: HashMap<SkuKey, Note>,
    /// The notes that rest on a level, by the names asked for.
    resting: HashMap<LevelId, BTreeSet<SkuKey>>,
    /// The last commit that changed the catalogue.
    catalogue_at: Duration,
    /// Asked for since the last look, without a note here.
    asked: HashSet<SkuKey>,
    /// To be written where others see it (`true`), or to be deleted there.
    unwritten: HashMap<SkuKey, bool>,
}

impl Known {
    fn end(&mut self, asked: &SkuKey) {
        let Some(note) = self.notes.remove(asked) else { return };
        for level in note.what.versions.keys() {
            if let Some(names) = self.resting.get_mut(level) {
                names.remove(asked);
                if names.is_empty() {
                    self.resting.remove(level);
                }
            }
        }
    }

    fn end_old(&mut self, now: Duration) {
        let old = self.notes.iter().filter(|(_, note)| now.saturating_sub(note.at) >= NOTE);
        let old: Vec<SkuKey> = old.map(|(asked, _)| asked.clone()).collect();
        old.iter().for_each(|asked| self.end(asked));
    }

    /// Takes a note that is still to be believed; whether it is news.
    fn take(&mut self, note: Note, now: Duration, newest: &impl Newest) -> bool {
        let outdated =
            |(level, version): (&LevelId, &i64)| newest(level).is_some_and(|n| n > *version);
        let over = now.saturating_sub(note.at) >= NOTE || note.at < self.catalogue_at;
        let there = self.notes.get(&note.what.asked);
        if over || there.is_some_and(|n| n.at > note.at) || note.what.versions.iter().any(outdated)
        {
            return false;
        }
        let is_news = there.is_none();
        if is_news && self.notes.len() >= MOST {
            self.end_old(now);
            if self.notes.len() >= MOST {
                return false;
            }
        }
        self.end(&note.what.asked);
        for level in note.what.versions.keys() {
            self.resting.entry(level.clone()).or_default().insert(note.what.asked.clone());
        }
        self.notes.insert(note.what.asked.clone(), note);
        is_news
    }
}

/// What is looked for where the replicas' notes are.
pub(super) struct Look {
    begun: Duration,
    pub names: Vec<SkuKey>,
}

/// What was found under a name: the note, and how long it is still believed.
pub(super) type Found = Option<(SoldOut, Duration)>;

pub(super) struct Notes {
    known: Mutex<Known>,
    ticks: Ticks,
    /// Whether there are others to share with.
    shared: bool,
    stirred: Notify,
}

impl Notes {
    pub fn new(ticks: Ticks, shared: bool) -> Notes {
        Notes { known: Mutex::default(), ticks, shared, stirred: Notify::new() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The note of the SKU that is asked for by this name, if it is sold out.
    pub fn find(&self, asked: &SkuKey) -> Option<SoldOut> {
        let now = self.ticks.now();
        let mut known = self.known();
        let note = known.notes.get(asked).filter(|note| now.saturating_sub(note.at) < NOTE);
        let found = note.map(|note| note.what.clone());
        if self.shared {
            if found.is_none() && known.asked.len() < MOST_LOOKED && !known.asked.contains(asked) {
                known.asked.insert(asked.clone());
            }
            drop(known);
            self.stirred.notify_one();
        }
        found
    }

    /// This process has committed: ends the notes that rested on what was changed.
    pub fn committed(&self, levels: &[Arc<Level>], catalogue: bool) {
        let mut known = self.known();
        if catalogue {
            known.catalogue_at = self.ticks.now();
        }
        if known.notes.is_empty() {
            return;
        }
        let ended: Vec<SkuKey> = if catalogue {
            known.notes.keys().cloned().collect()
        } else {
            levels.iter().filter_map(|l| known.resting.get(&l.id)).flatten().cloned().collect()
        };
        for asked in &ended {
            known.end(asked);
        }
        if self.shared && !ended.is_empty() {
            known.unwritten.extend(ended.into_iter().map(|asked| (asked, false)));
            drop(known);
            self.stirred.notify_one();
        }
    }

    /// How long ago something was read.
    pub fn age(&self, at: Instant) -> Duration {
        self.ticks.age(at)
    }

    /// This process has found SKUs sold out, `age` ago; answers how many of them were not noted yet.
    pub fn make(&self, found: &[SoldOut], age: Duration, newest: &impl Newest) -> usize {
        let now = self.ticks.now();
        let at = now.saturating_sub(age);
        let mut known = self.known();
        let mut news = 0;
        for what in found {
            let note = Note { what: what.clone(), at, others: false };
            news += usize::from(known.take(note, now, newest));
            if self.shared {
                known.unwritten.insert(what.asked.clone(), true);
            }
        }
        drop(known);
        if self.shared && !found.is_empty() {
            self.stirred.notify_one();
        }
        news
    }

    /// Waits until there may be something to share: notes made or ended, or placements.
    pub async fn stirred(&self) {
        self.stirred.notified().await;
    }

    /// Since the last time: what was noted here, with its age, and the names whose notes have ended.
    pub fn unwritten(&self) -> (Vec<(SoldOut, Duration)>, Vec<SkuKey>) {
        let now = self.ticks.now();
        let mut known = self.known();
        let (mut made, mut ended) = (Vec::new(), Vec::new());
        for (asked, is_made) in std::mem::take(&mut known.unwritten) {
            match known.notes.get(&asked) {
                Some(note) if is_made => {
                    made.push((note.what.clone(), now.saturating_sub(note.at)))
                }
                Some(_) => {}
                None => ended.push(asked),
            }
        }
        (made, ended)
    }

    /// What to look for now: what was asked for without a note here, and the notes that another may
    /// have ended.
    pub fn look(&self) -> Look {
        let begun = self.ticks.now();
        let mut known = self.known();
        known.end_old(begun);
        let mut names = std::mem::take(&mut known.asked);
        let held = known.notes.iter().filter(|(_, note)| is_checked(note, begun));
        names.extend(held.map(|(asked, _)| asked.clone()));
        Look { begun, names: names.into_iter().take(MOST_LOOKED).collect() }
    }

    /// Takes over what was found: notes that are not older than what is known here, and the ends of
    /// those that are gone. Answers how many were not noted here yet.
    pub fn learn(&self, look: Look, found: Vec<Found>, newest: &impl Newest) -> usize {
        let now = self.ticks.now();
        let mut known = self.known();
        let mut news = 0;
        for (asked, found) in look.names.into_iter().zip(found) {
            match found.filter(|(what, _)| what.asked == asked) {
                Some((what, left)) => {
                    // Counted from before they were asked for, so that it never becomes younger.
                    let at = look.begun.saturating_sub(NOTE.saturating_sub(left));
                    news += usize::from(known.take(Note { what, at, others: true }, now, newest));
                }
                None => {
                    let gone = known.notes.get(&asked).is_some_and(|n| is_checked(n, look.begun));
                    if gone {
                        known.end(&asked);
                    }
                }
            }
        }
        news
    }
}

fn is_checked(note: &Note, now: Duration) -> bool {
    note.others || now.saturating_sub(note.at) > OWN
}

#[cfg(test)]
#[path = "sold_out_tests.rs"]
mod tests;
