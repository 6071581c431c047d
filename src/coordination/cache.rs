//! What availability is made of, as this process knows it: levels, and SKUs with the stop switches
//! of their suppliers.
//!
//! What must hold: nothing older than [`MAX_AGE`] is shown; an older figure never replaces a newer
//! one; a level that this process has committed is in here as it was committed, so that neither a
//! read that began before nor another replica's entry can bring the older one back. Freshness is not
//! judged here but by whoever shows the figures, at that moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::MAX_AGE;
use super::recent::{MOST, Recent};
use super::ticks::Ticks;
use crate::clock::Timestamp;
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::sku::{Paused, Sku};
use crate::domain::stock::{ItemLock, Level};

/// A SKU and the stop switches of its suppliers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub sku: Sku,
    pub suppliers: BTreeMap<SourceId, Paused>,
}

/// When a read of the database began: in time, and among this process's commits.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    at: Duration,
    /// The same by the machine's clock, whatever a test makes of time: Redis has no part in that.
    instant: Instant,
    commits: u64,
}

impl Begun {
    pub(super) fn instant(&self) -> Instant {
        self.instant
    }
}

struct Entry {
    level: Arc<Level>,
    /// When it was surely so.
    at: Duration,
    /// This process's commits that it surely contains.
    commits: u64,
}

/// Orders the states of one level: figures first, then readings that left them as they were.
pub(super) fn rank(level: &Level) -> (i64, Option<Timestamp>) {
    (level.version, level.as_of)
}

struct Known {
    levels: Recent<LevelId, Entry>,
    definitions: Recent<SkuKey, (Arc<Definition>, Duration)>,
    commits: u64,
    /// The last commit that changed definitions.
    catalogue: u64,
    /// Something that was committed had to go while it was still to be shown: until then other
    /// replicas' entries are not believed, nor reads that began before commit `lost`.
    alone_until: Duration,
    lost: u64,
}

impl Known {
    fn put(&mut self, level: Arc<Level>, at: Duration, commits: u64, now: Duration) {
        let gone = self.levels.put(level.id.clone(), Entry { level, at, commits });
        if gone.is_some_and(|gone| now.saturating_sub(gone.at) < MAX_AGE) {
            self.alone_until = now + MAX_AGE;
            self.lost = self.commits;
        }
    }
}

pub(super) struct Cache {
    known: Mutex<Known>,
    ticks: Ticks,
}

impl Cache {
    pub fn new(ticks: Ticks) -> Cache {
        Cache::sized(ticks, MOST)
    }

    fn sized(ticks: Ticks, most: usize) -> Cache {
        let known = Known {
            levels: Recent::new(most),
            definitions: Recent::new(most),
            commits: 0,
            catalogue: 0,
            alone_until: Duration::ZERO,
            lost: 0,
        };
        Cache { known: Mutex::new(known), ticks }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self) -> Begun {
        let at = self.ticks.now();
        Begun { at, instant: Instant::now(), commits: self.known().commits }
    }

    /// Those of the levels that may be shown.
    pub fn levels<'a>(
        &self,
        asked: impl Iterator<Item = &'a LevelId>,
    ) -> BTreeMap<LevelId, Arc<Level>> {
        let now = self.ticks.now();
        let known = self.known();
        let shown = asked.filter_map(|id| {
            let entry = known.levels.get(id)?;
            let young = now.saturating_sub(entry.at) < MAX_AGE;
            young.then(|| (id.clone(), Arc::clone(&entry.level)))
        });
        shown.collect()
    }

    /// Keeps what was read from the database; answers what is worth telling others.
    pub fn keep(&self, begun: &Begun, levels: Vec<Level>) -> Vec<Arc<Level>> {
        let now = self.ticks.now();
        let mut known = self.known();
        if begun.commits < known.lost || now.saturating_sub(begun.at) >= MAX_AGE {
            return Vec::new();
        }
        let mut kept = Vec::with_capacity(levels.len());
        for level in levels {
            let older = known.levels.get(&level.id).is_some_and(|entry| {
                (rank(&level), begun.commits) < (rank(&entry.level), entry.commits)
            });
            if !older {
                let level = Arc::new(slim(level));
                known.put(Arc::clone(&level), begun.at, begun.commits, now);
                kept.push(level);
            }
        }
        kept
    }

    /// The newest version of a level that is known here, however long ago.
    pub fn newest(&self, id: &LevelId) -> Option<i64> {
        self.known().levels.get(id).map(|entry| entry.level.version)
    }

    /// Whether other replicas' entries count at the moment.
    pub fn believes_others(&self) -> bool {
        self.ticks.now() >= self.known().alone_until
    }

    /// Takes over what other replicas read, with how long it may still be shown; answers what of it
    /// is not older than what is known here.
    pub fn learn(&self, shared: Vec<(Level, Duration)>) -> BTreeMap<LevelId, Arc<Level>> {
        let now = self.ticks.now();
        let mut known = self.known();
        let mut learnt = BTreeMap::new();
        for (level, left) in shared {
            let age = MAX_AGE.saturating_sub(left);
            let newest = known.levels.get(&level.id);
            if newest.is_some_and(|entry| rank(&level) < rank(&entry.level)) {
                continue;
            }
            let level = Arc::new(level);
            learnt.insert(level.id.clone(), Arc::clone(&level));
            known.put(level, now.saturating_sub(age), 0, now);
        }
        learnt
    }

    pub fn definition(&self, asked: &SkuKey) -> Option<Arc<Definition>> {
        let now = self.ticks.now();
        let known = self.known();
        let (definition, at) = known.definitions.get(asked)?;
        (now.saturating_sub(*at) < MAX_AGE).then(|| Arc::clone(definition))
    }

    /// Keeps definitions that were read, by the names asked for.
    pub fn define(&self, begun: &Begun, definitions: Vec<(SkuKey, Definition)>) {
        let mut known = self.known();
        if begun.commits >= known.catalogue {
            for (asked, definition) in definitions {
                known.definitions.put(asked, (Arc::new(definition), begun.at));
            }
        }
    }

    /// This process has committed: levels as they are now, and whether definitions changed.
    pub fn committed(&self, levels: &[Arc<Level>], catalogue: bool) {
        let now = self.ticks.now();
        let mut known = self.known();
        known.commits = known.commits.saturating_add(1);
        let commits = known.commits;
        if catalogue {
            known.catalogue = commits;
            known.definitions.clear();
        }
        for level in levels {
            let newest = known.levels.get(&level.id);
            if newest.is_none_or(|entry| rank(&entry.level) <= rank(level)) {
                known.put(Arc::new(slim(Level::clone(level))), now, commits, now);
            }
        }
    }
}

/// Without what availability is not made of. The lag is the largest sample: the others are let go.
fn slim(level: Level) -> Level {
    let lag_samples = level.lag_samples.iter().max().copied().into_iter().collect();
    Level { lag_samples, lock: ItemLock::default(), revision: 0, ..level }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
