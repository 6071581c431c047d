//! What is shared through Redis. Every call answers `None` when Redis is not there in time; then the
//! caller goes on as if it were alone.
//!
//! What must hold: each step that reads and then writes is one script, so that replicas cannot come
//! between; time is Redis's own; every key has an end. Keys: `stockhold:limit:<API key's name>`, and
//! below `stockhold:<scope>:` `level:<id>`, `placed:<fingerprint>`, `lock:<id>` and `sold_out:<SKU>`.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::Script;
use tokio_util::sync::CancellationToken;

use super::guard::Submission;
use super::locks::Holder;
use super::sold_out::{Found, Look, NOTE};
use super::{GUARD, MAX_AGE, Options, Wait};
use crate::domain::availability::SoldOut;
use crate::domain::names::{LevelId, SkuKey};
use crate::domain::stock::Level;

mod figures;
mod link;
mod notes;

use link::Link;

/// Counts a request by when the one after the last admitted is due (GCRA, whole microseconds):
/// 0, or the microseconds until the next.
static ADMIT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local now = time[1] * 1000000 + time[2]
         local step = math.floor(1000000 / tonumber(ARGV[1]))
         local due = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + step
         if due - now > 1000000 then return due - now - 1000000 end
         redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', 2000)
         return 0",
    )
});

/// Each key's value and how many milliseconds it still lives.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local found = {}
         for i, key in ipairs(KEYS) do
             found[2 * i - 1] = redis.call('GET', key)
             found[2 * i] = redis.call('PTTL', key)
         end
         return found",
    )
});

/// Sets each level that is not older than what is there, until a time of Redis's clock in milliseconds:
/// that, then version, as_of and value of each. A script that arrives late sets nothing.
static KEEP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local left = math.floor(tonumber(ARGV[1]) - time[1] * 1000 - time[2] / 1000)
         if left <= 0 then return end
         for i, key in ipairs(KEYS) do
             local version, as_of = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
             local there = redis.call('GET', key) or ''
             local v, a = string.match(there, '^(%d+) (-?%d+) ')
             v, a = tonumber(v), tonumber(a)
             if not v or version > v or (version == v and as_of >= a) then
                 redis.call('SET', key, ARGV[3 * i + 1], 'PX', left)
             end
         end",
    )
});

/// Sets each key until a time of Redis's clock in milliseconds: that and the value of each. A script that
/// arrives late sets nothing.
static NOTES: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local now = time[1] * 1000 + time[2] / 1000
         for i, key in ipairs(KEYS) do
             local left = math.floor(tonumber(ARGV[2 * i - 1]) - now)
             if left > 0 then redis.call('SET', key, ARGV[2 * i], 'PX', left) end
         end",
    )
});

/// Takes a key for an owner, a job and a token, unless another has it: 0, or its milliseconds.
static LOCK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner, job, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
         local left = redis.call('PTTL', KEYS[1])
         if left > 0 then
             local there = redis.call('GET', KEYS[1])
             local j, t, o = string.match(there, '^(%d+):(%d+):(.*)$')
             j, t = tonumber(j), tonumber(t)
             if o ~= owner or j > job or (j == job and t > token) then return left end
         end
         redis.call('SET', KEYS[1], ARGV[2] .. ':' .. ARGV[3] .. ':' .. owner, 'PX', ARGV[4])
         return 0",
    )
});

/// Deletes a key that still has this value.
static UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end")
});

pub(super) struct Redis {
    link: Link,
    scope: String,
}

impl Redis {
    /// # Errors
    /// When the address cannot be understood.
    pub fn new(url: &str, options: &Options) -> Result<Redis, String> {
        let link = Link::new(url, options.patience)?;
        Ok(Redis { link, scope: format!("stockhold:{}", options.scope) })
    }

    /// Why Redis is not used; `None` while it is.
    pub fn trouble(&self) -> Option<String> {
        self.link.trouble()
    }

    /// Looks whether it answers.
    pub async fn look(&self) {
        self.link.look().await;
    }

    /// Looks again and again, until `stopping`.
    pub async fn watch(&self, stopping: &CancellationToken) {
        self.link.watch(stopping).await;
    }

    pub async fn admit(&self, key: &str, per_second: u32) -> Option<Result<(), Wait>> {
        let mut call = ADMIT.key(format!("stockhold:limit:{key}"));
        call.arg(per_second);
        let micros: u64 = self.link.invoke(&call).await?;
        Some(if micros == 0 { Ok(()) } else { Err(Wait(Duration::from_micros(micros))) })
    }

    fn placed(&self, submission: &Submission) -> String {
        format!("{}:placed:{}", self.scope, hex::encode(submission.fingerprint()))
    }

    /// How long until `submission` is no duplicate, if it is one.
    pub async fn seen(&self, submission: &Submission) -> Option<Wait> {
        let call = READ.key(self.placed(submission));
        let found: Vec<(Option<String>, i64)> = self.link.invoke(&call).await?;
        let (external_id, millis) = found.into_iter().next()?;
        let other = external_id.is_some_and(|id| id != submission.external_id());
        let left = millis_left(millis).filter(|_| other)?;
        Some(Wait(left.min(GUARD)))
    }

    pub async fn remember(&self, submission: &Submission) {
        let mut set = redis::cmd("SET");
        set.arg(self.placed(submission)).arg(submission.external_id());
        set.arg("PX").arg(millis(GUARD));
        self.link.query::<()>(&set).await;
    }

    fn level(&self, id: &LevelId) -> String {
        format!("{}:level:{id}", self.scope)
    }

    /// Those of the levels that are there, with how long they may still be shown.
    pub async fn levels(&self, asked: &[&LevelId]) -> Option<Vec<(Level, Duration)>> {
        let mut call = READ.prepare_invoke();
        for id in asked {
            call.key(self.level(id));
        }
        let found: Vec<(Option<String>, i64)> = self.link.invoke(&call).await?;
        let found = found.into_iter().zip(asked).filter_map(|((text, millis), id)| {
            let level = figures::read(&text?).filter(|level| level.id == **id)?;
            Some((level, millis_left(millis)?.min(MAX_AGE)))
        });
        Some(found.collect())
    }

    /// Keeps levels for as long as they may be shown, whose reading began at `began`.
    pub async fn keep_levels(&self, levels: &[impl AsRef<Level>], began: Instant) {
        let Some(time) = self.link.time_at(began).filter(|_| !levels.is_empty()) else { return };
        let mut call = KEEP.prepare_invoke();
        call.arg(millis(time.saturating_add(MAX_AGE)));
        for level in levels.iter().map(AsRef::as_ref) {
            let (version, as_of, text) = figures::write(level);
            call.key(self.level(&level.id)).arg(version).arg(as_of).arg(text);
        }
        self.link.invoke::<()>(&call).await;
    }

    fn note(&self, asked: &SkuKey) -> String {
        format!("{}:sold_out:{asked}", self.scope)
    }

    /// Writes notes, each with its age, for what is left of their time.
    pub async fn write_notes(&self, notes: &[(SoldOut, Duration)]) {
        let Some(now) = self.link.time_at(Instant::now()).filter(|_| !notes.is_empty()) else {
            return;
        };
        let mut call = NOTES.prepare_invoke();
        for (note, age) in notes {
            let until = millis(now.saturating_sub(*age).saturating_add(NOTE));
            call.key(self.note(&note.asked)).arg(until).arg(notes::write(note, until));
        }
        self.link.invoke::<()>(&call).await;
    }

    pub async fn delete_notes(&self, asked: &[SkuKey]) {
        if !asked.is_empty() {
            let mut delete = redis::cmd("DEL");
            delete.arg(asked.iter().map(|asked| self.note(asked)).collect::<Vec<_>>());
            self.link.query::<()>(&delete).await;
        }
    }

    /// What there is under each name.
    pub async fn notes(&self, look: &Look) -> Option<Vec<Found>> {
        let now = self.link.time_at(Instant::now())?;
        let mut get = redis::cmd("MGET");
        get.arg(look.names.iter().map(|asked| self.note(asked)).collect::<Vec<_>>());
        let texts: Vec<Option<String>> = self.link.query(&get).await?;
        Some(texts.into_iter().map(|text| notes::read(&text?, now)).collect())
    }

    fn lock_key(&self, level: &LevelId) -> String {
        format!("{}:lock:{level}", self.scope)
    }

    pub async fn lock(
        &self,
        level: &LevelId,
        holder: &Holder,
        ttl: Duration,
    ) -> Option<Result<(), Wait>> {
        let mut call = LOCK.key(self.lock_key(level));
        call.arg(&holder.owner).arg(holder.job).arg(holder.token).arg(millis(ttl).max(1));
        let left: i64 = self.link.invoke(&call).await?;
        Some(millis_left(left).map_or(Ok(()), |left| Err(Wait(left))))
    }

    pub async fn unlock(&self, level: &LevelId, holder: &Holder) {
        let mut call = UNLOCK.key(self.lock_key(level));
        call.arg(format!("{}:{}:{}", holder.job, holder.token, holder.owner));
        self.link.invoke::<()>(&call).await;
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs() / 2)
}

/// Redis tells a missing key or one without an end by a negative number.
fn millis_left(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis)
}
