//! Who asks about an upstream item, within this process.
//!
//! What must hold: a key only spares the way to the database. It lapses; a successor of its holder
//! (a later lease of the same job, or the same job made anew) passes; it is given back only by the
//! one who has it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Wait;
use super::ticks::Ticks;
use crate::domain::names::LevelId;

/// Beyond so many, those that lapsed are cleared away.
const MANY: usize = 10_000;

/// Who takes a key. Job ids rise, and so do the tokens of a job's leases: of two holders of one name
/// the one with the higher pair is the successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The job's key, which is the owner of the database's lock too.
    pub owner: String,
    pub job: i64,
    pub token: i64,
}

impl Holder {
    /// Whether this one may take what `other` still holds.
    fn succeeds(&self, other: &Holder) -> bool {
        self.owner == other.owner && (self.job, self.token) >= (other.job, other.token)
    }
}

/// The keys held, and until when.
pub(super) struct Locks {
    held: Mutex<HashMap<LevelId, (Holder, Duration)>>,
    ticks: Ticks,
}

impl Locks {
    pub fn new(ticks: Ticks) -> Locks {
        Locks { held: Mutex::default(), ticks }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<LevelId, (Holder, Duration)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// When another holds it; how long until it lapses.
    pub fn take(&self, level: &LevelId, holder: &Holder, ttl: Duration) -> Result<(), Wait> {
        let now = self.ticks.now();
        let mut held = self.held();
        if let Some((other, until)) = held.get(level)
            && *until > now
            && !holder.succeeds(other)
        {
            return Err(Wait(*until - now));
        }
        if held.len() >= MANY {
            held.retain(|_, (_, until)| *until > now);
        }
        held.insert(level.clone(), (holder.clone(), now + ttl));
        Ok(())
    }

    pub fn release(&self, level: &LevelId, holder: &Holder) {
        let mut held = self.held();
        if held.get(level).is_some_and(|(other, _)| other == holder) {
            held.remove(level);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Span, Timestamp};

    const TTL: Duration = Duration::from_secs(720);

    fn holder(owner: &str, job: i64, token: i64) -> Holder {
        Holder { owner: owner.into(), job, token }
    }

    #[test]
    fn a_key_is_kept_from_others_until_it_is_released_or_lapses() {
        let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
        let locks = Locks::new(Ticks::new(&clock));
        let level = LevelId::from("s1:61:");
        let (a, b) = (holder("a", 1, 1), holder("b", 2, 1));
        assert_eq!(locks.take(&level, &a, TTL), Ok(()));
        assert_eq!(locks.take(&level, &b, TTL), Err(Wait(TTL)));
        assert_eq!(locks.take(&LevelId::from("s1:62:"), &b, TTL), Ok(()));
        locks.release(&level, &b);
        clock.advance(Span::secs(20));
        assert_eq!(locks.take(&level, &b, TTL), Err(Wait(Duration::from_secs(700))));
        locks.release(&level, &a);
        assert_eq!(locks.take(&level, &b, TTL), Ok(()));
        clock.advance(Span::secs(720));
        assert_eq!(locks.take(&level, &a, TTL), Ok(()));
    }

    #[test]
    fn a_successor_passes_and_who_it_succeeded_does_not() {
        let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
        let locks = Locks::new(Ticks::new(&clock));
        let level = LevelId::from("s1:61:");
        assert_eq!(locks.take(&level, &holder("a", 7, 2), TTL), Ok(()));
        assert_eq!(locks.take(&level, &holder("a", 7, 1), TTL), Err(Wait(TTL)));
        assert_eq!(locks.take(&level, &holder("a", 7, 2), TTL), Ok(()));
        assert_eq!(locks.take(&level, &holder("a", 7, 3), TTL), Ok(()));
        // The job was done, and made anew: its tokens begin again.
        assert_eq!(locks.take(&level, &holder("a", 8, 1), TTL), Ok(()));
        locks.release(&level, &holder("a", 7, 3));
        assert_eq!(locks.take(&level, &holder("a", 7, 4), TTL), Err(Wait(TTL)));
    }
}
