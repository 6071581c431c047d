//! Which life of the store this process writes to.
//!
//! What must hold: a process whose last committed group is gone, or whose store has begun another life,
//! writes nothing more. Somebody has restored a backup under it; what it would do next (buy, refund)
//! may have been done in the life that was lost, and only a process that starts after the restore was
//! marked knows to look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::{Clock, Span, Timestamp};
use crate::storage;
use crate::storage::epochs::Epoch;
use crate::storage::groups::KEEP_GROUPS;

/// So long before it may be deleted as too old, a group is no longer asked for.
const MARGIN: Span = Span::minutes(10);

/// What is said then.
pub(super) const RESTORED: &str = "what this process has written is gone from the store: it was \
    restored from a backup. Stop every replica, run `stockhold restore-mark`, and start them again";

/// See the module; clones share what was committed.
#[derive(Clone)]
pub(super) struct Store {
    pub life: i64,
    /// See [`super::Parts::epoch`].
    pub restored_at: Option<Timestamp>,
    last: Arc<Mutex<Option<(String, Timestamp)>>>,
    lost: Arc<AtomicBool>,
}

impl Store {
    pub(super) fn of(epoch: &Epoch) -> Store {
        Store {
            life: epoch.no,
            restored_at: epoch.restored_at(),
            last: Arc::default(),
            lost: Arc::default(),
        }
    }

    /// A group was committed that began at that time.
    pub(super) fn committed(&self, group: &str, at: Timestamp) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((group.to_owned(), at));
    }

    /// A group that must be there: the last one, unless it is so old that it may have been deleted. By a
    /// clock that a test moves any may be, at once: another process sees it move a moment earlier.
    pub(super) fn last_group(&self, clock: &Clock) -> Option<String> {
        if clock.is_manual() { None } else { self.kept_group(clock.now()) }
    }

    fn kept_group(&self, now: Timestamp) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (group, at) = last.as_ref()?;
        (now.since(*at) < Span(KEEP_GROUPS.0 - MARGIN.0)).then(|| group.clone())
    }

    /// The store is another: nothing more is written.
    pub(super) fn lose(&self) -> storage::Error {
        self.lost.store(true, Ordering::Relaxed);
        storage::Error::Unavailable(RESTORED.to_owned())
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_asked_for_while_it_is_surely_kept() {
        let store = Store::of(&Epoch::first());
        let at = Timestamp::from_secs;
        assert_eq!(store.kept_group(at(10)), None);
        store.committed("g1", at(100));
        store.committed("g2", at(200));
        assert_eq!(store.kept_group(at(200)), Some("g2".to_owned()));
        assert_eq!(store.kept_group(at(200 + 49 * 60)), Some("g2".to_owned()));
        assert_eq!(store.kept_group(at(200 + 50 * 60)), None);
    }
}
