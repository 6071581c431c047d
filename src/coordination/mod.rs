//! What makes a busy shop calmer: the wait for an item's lock, the availability cache, the guard
//! against orders that are sent twice, the notes of what is sold out, and the limit of requests for each
//! API key. In this process alone (`memory:`), or shared by all replicas through Redis.
//!
//! What must hold: nothing here decides. The database's rows are the truth of stock and of locks; if
//! Redis is lost, slow or emptied, each process goes on by itself, at once and within a bounded time
//! for each call, says so in [`Coordination::condition`], and returns to Redis when it answers again.
//! What this process has committed it never shows older.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Span};
use crate::domain::availability::SoldOut;
use crate::domain::names::{LevelId, SkuKey};
use crate::domain::stock::Level;

mod cache;
mod guard;
mod limit;
mod locks;
mod recent;
mod redis;
mod sold_out;
mod ticks;
mod turns;

pub use cache::{Begun, Definition};
pub use guard::Submission;
pub use locks::Holder;

use self::redis::Redis;
use ticks::Ticks;

/// How old a figure may be that is shown from the cache.
pub const MAX_AGE: Duration = Duration::from_secs(5);
/// An order like one that was accepted so shortly before is taken for the same, sent twice.
pub const GUARD: Duration = Duration::from_secs(3);
/// Notes of what is sold out are shared this often, while there are placements.
const SHARE_NOTES: Duration = Duration::from_millis(50);
/// Whoever finds an item's key held looks again after this at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long to wait before asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub Duration);

impl Wait {
    /// As `Retry-After` has it: whole seconds, rounded up, at least 1.
    pub fn secs(self) -> u32 {
        let whole = self.0.as_secs().saturating_add(u64::from(self.0.subsec_nanos() > 0));
        u32::try_from(whole).unwrap_or(u32::MAX).max(1)
    }
}

/// What can be chosen; the defaults are the program's.
#[derive(Clone, Debug)]
pub struct Options {
    /// For each API key; 0 = no limit.
    pub requests_per_second: u32,
    /// Whose stock it is: replicas of one database share it, two databases never do.
    pub scope: String,
    /// What one call of Redis may take; then it is left alone until it answers again.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            requests_per_second: 0,
            scope: "stock".into(),
            patience: Duration::from_millis(150),
        }
    }
}

/// The calming part; clones share it.
#[derive(Clone)]
pub struct Coordination(Arc<Parts>);

struct Parts {
    limit: limit::Limit,
    guard: guard::Guard,
    turns: Arc<turns::Turns>,
    locks: locks::Locks,
    cache: cache::Cache,
    notes: sold_out::Notes,
    redis: Option<Redis>,
}

impl Coordination {
    /// In this process alone.
    pub fn memory(clock: &Clock, options: &Options) -> Coordination {
        Coordination::of(clock, options, None)
    }

    /// Shared through the Redis at `url` (`redis://` or `rediss://`); nothing is connected yet.
    ///
    /// # Errors
    /// When the address cannot be understood; in words, without what is secret in it.
    pub fn redis(url: &str, clock: &Clock, options: &Options) -> Result<Coordination, String> {
        let redis = Redis::new(url, options)?;
        Ok(Coordination::of(clock, options, Some(redis)))
    }

    fn of(clock: &Clock, options: &Options, redis: Option<Redis>) -> Coordination {
        let ticks = Ticks::new(clock);
        Coordination(Arc::new(Parts {
            limit: limit::Limit::new(options.requests_per_second, ticks.clone()),
            guard: guard::Guard::new(ticks.clone()),
            turns: Arc::default(),
            locks: locks::Locks::new(ticks.clone()),
            cache: cache::Cache::new(ticks.clone()),
            notes: sold_out::Notes::new(ticks, redis.is_some()),
            redis,
        }))
    }

    /// Looks once whether Redis answers, for a bounded time, so that it is used from the first
    /// request on.
    pub async fn connect(&self) {
        if let Some(redis) = &self.0.redis {
            redis.look().await;
        }
    }

    /// Watches over Redis: finds out when it stops answering and when it is back. And shares what is
    /// noted as sold out.
    pub async fn run(self, stopping: CancellationToken) {
        match &self.0.redis {
            Some(redis) => {
                let sharing = stopping.run_until_cancelled(self.share_notes(redis));
                tokio::join!(redis.watch(&stopping), sharing);
            }
            None => stopping.cancelled().await,
        }
    }

    async fn share_notes(&self, redis: &Redis) {
        let Parts { notes, cache, .. } = &*self.0;
        loop {
            notes.stirred().await;
            let (made, ended) = notes.unwritten();
            redis.delete_notes(&ended).await;
            redis.write_notes(&made).await;
            let look = notes.look();
            if !look.names.is_empty()
                && let Some(found) = redis.notes(&look).await
                && cache.believes_others()
            {
                count_notes("redis", notes.learn(look, found, &|id| cache.newest(id)));
            }
            tokio::time::sleep(SHARE_NOTES).await;
        }
    }

    /// Why it works less well than it could; `None` when all is well.
    pub fn condition(&self) -> Option<String> {
        let why = self.0.redis.as_ref()?.trouble()?;
        Some(format!("Redis is not used, each process is on its own: {why}"))
    }

    /// Lets a request of an API key through.
    ///
    /// # Errors
    /// When the key has used up its requests; how long until the next.
    pub async fn admit(&self, key: &Arc<str>) -> Result<(), Wait> {
        let Some(rate) = self.0.limit.rate() else { return Ok(()) };
        let shared = match &self.0.redis {
            Some(redis) => redis.admit(key, rate.get()).await,
            None => None,
        };
        let admitted = shared.unwrap_or_else(|| self.0.limit.check(key));
        if admitted.is_err() {
            metrics::counter!("stockhold_rate_limited_total").increment(1);
        }
        admitted
    }

    /// Waits until no other placement of the same customer and lines is under way in this process,
    /// and tells whether one was accepted a moment ago under another external id.
    pub async fn submit(&self, submission: Submission) -> Submitted {
        let turn = self.0.turns.take(submission.fingerprint()).await;
        let known = match self.0.guard.seen(&submission) {
            None => match &self.0.redis {
                Some(redis) => redis.seen(&submission).await,
                None => None,
            },
            known => known,
        };
        Submitted { coordination: self.clone(), submission, duplicate_for: known, _turn: turn }
    }

    /// The levels that are known and at most [`MAX_AGE`] old.
    pub async fn levels(&self, asked: &BTreeSet<LevelId>) -> BTreeMap<LevelId, Arc<Level>> {
        let mut found = self.0.cache.levels(asked.iter());
        count_levels("process", found.len());
        let Some(redis) = &self.0.redis else { return found };
        let missing: Vec<&LevelId> = asked.iter().filter(|id| !found.contains_key(*id)).collect();
        if missing.is_empty() || !self.0.cache.believes_others() {
            return found;
        }
        let shared = redis.levels(&missing).await.unwrap_or_default();
        let shared = self.0.cache.learn(shared);
        count_levels("redis", shared.len());
        found.extend(shared);
        found
    }

    /// A SKU's definition by the name asked for, if it is known and at most [`MAX_AGE`] old.
    pub fn definition(&self, asked: &SkuKey) -> Option<Arc<Definition>> {
        self.0.cache.definition(asked)
    }

    /// To be called before the database is read for what [`Coordination::keep`] is then given.
    pub fn begin(&self) -> Begun {
        self.0.cache.begin()
    }

    /// Keeps what was read from the database: definitions by the names asked for, and levels.
    pub async fn keep(
        &self,
        begun: Begun,
        definitions: Vec<(SkuKey, Definition)>,
        levels: Vec<Level>,
    ) {
        metrics::counter!("stockhold_availability_cache_misses_total")
            .increment(u64::try_from(levels.len()).unwrap_or(u64::MAX));
        self.0.cache.define(&begun, definitions);
        let kept = self.0.cache.keep(&begun, levels);
        if let Some(redis) = &self.0.redis {
            redis.keep_levels(&kept, begun.instant()).await;
        }
    }

    /// This process has committed: levels as they are now, and whether SKUs or stop switches were
    /// changed. To be called before anybody is told.
    pub fn committed(&self, levels: &[Arc<Level>], catalogue: bool) {
        self.0.cache.committed(levels, catalogue);
        self.0.notes.committed(levels, catalogue);
    }

    /// This process has found SKUs sold out, by levels that were read at `read_at`. To be called after
    /// [`Coordination::committed`] of the same group.
    pub fn note_sold_out(&self, found: &[SoldOut], read_at: Instant) {
        if !found.is_empty() {
            let Parts { notes, cache, .. } = &*self.0;
            count_notes("process", notes.make(found, notes.age(read_at), &|id| cache.newest(id)));
        }
    }

    /// What is noted of the SKU of this name or alias, if it is sold out. Takes no time.
    pub fn sold_out(&self, asked: &SkuKey) -> Option<SoldOut> {
        self.0.notes.find(asked)
    }

    /// Takes an item's key, so that others do not go to the database in vain. The database's row
    /// decides who has the lock; a key that is free, lost or not to be had never refuses anybody.
    ///
    /// # Errors
    /// When another holds it; when to look again.
    pub async fn lock_item(&self, level: &LevelId, holder: &Holder, ttl: Span) -> Result<(), Wait> {
        let ttl = ttl.to_std();
        let mut taken = self.0.locks.take(level, holder, ttl);
        if let (Ok(()), Some(redis)) = (taken, &self.0.redis) {
            taken = redis.lock(level, holder, ttl).await.unwrap_or(Ok(()));
            if taken.is_err() {
                self.0.locks.release(level, holder);
            }
        }
        taken.map_err(|wait| Wait(wait.0.min(LOOK_AGAIN)))
    }

    /// Gives an item's key back, if `holder` still has it.
    pub async fn unlock_item(&self, level: &LevelId, holder: &Holder) {
        self.0.locks.release(level, holder);
        if let Some(redis) = &self.0.redis {
            redis.unlock(level, holder).await;
        }
    }
}

/// A placement's turn; the next one like it begins when this is dropped.
#[must_use]
pub struct Submitted {
    coordination: Coordination,
    submission: Submission,
    /// One like it was accepted under another external id; how long until it is no duplicate.
    pub duplicate_for: Option<Wait>,
    _turn: turns::Turn,
}

impl Submitted {
    /// The placement was refused as a duplicate.
    pub fn refused(self) {
        metrics::counter!("stockhold_duplicate_submissions_total").increment(1);
    }

    /// The placement was accepted: remembers it for [`GUARD`], before its answer goes out.
    pub async fn accepted(self) {
        let parts = &self.coordination.0;
        parts.guard.remember(&self.submission);
        if let Some(redis) = &parts.redis {
            redis.remember(&self.submission).await;
        }
    }
}

fn count_levels(from: &'static str, found: usize) {
    if found > 0 {
        metrics::counter!("stockhold_availability_cache_hits_total", "from" => from)
            .increment(u64::try_from(found).unwrap_or(u64::MAX));
    }
}

fn count_notes(from: &'static str, made: usize) {
    if made > 0 {
        metrics::counter!("stockhold_sold_out_notes_total", "from" => from)
            .increment(u64::try_from(made).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_in_whole_seconds_and_never_as_none() {
        let secs = |millis| Wait(Duration::from_millis(millis)).secs();
        assert_eq!([0, 1, 1_000, 1_001, 2_999, 3_000].map(secs), [1, 1, 1, 2, 3, 3]);
    }
}
