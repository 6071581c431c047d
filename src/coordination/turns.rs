//! One after the other: placements that look like the same, sent twice, take turns within this
//! process, so that the second finds what became of the first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::guard::Fingerprint;

/// The turns that are taken or waited for.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<Fingerprint, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    fn open(&self) -> MutexGuard<'_, HashMap<Fingerprint, Arc<tokio::sync::Mutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its turn; those that wait get it in order.
    pub async fn take(self: &Arc<Self>, fingerprint: Fingerprint) -> Turn {
        let place = Place { turns: Arc::clone(self), fingerprint };
        let own = Arc::clone(self.open().entry(fingerprint).or_default());
        let held = own.lock_owned().await;
        Turn { _held: held, _place: place }
    }
}

/// Dropped in this order: the turn passes on, then the place is cleared if nobody waits.
pub(super) struct Turn {
    _held: OwnedMutexGuard<()>,
    _place: Place,
}

struct Place {
    turns: Arc<Turns>,
    fingerprint: Fingerprint,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.turns.open();
        // The map's own: nobody has it or waits for it, nor can begin to while the map is locked.
        if open.get(&self.fingerprint).is_some_and(|own| Arc::strong_count(own) == 1) {
            open.remove(&self.fingerprint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_same_take_turns_others_do_not_and_nothing_stays() {
        let turns = Arc::new(Turns::default());
        let first = turns.take([1; 32]).await;
        let other = turns.take([2; 32]).await;
        let waiting = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move { turns.take([1; 32]).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        // One that gives up waiting leaves nothing behind.
        let impatient = turns.take([2; 32]);
        assert!(futures::FutureExt::now_or_never(impatient).is_none());
        assert_eq!(turns.open().len(), 2);
        drop(first);
        let second = waiting.await.expect("joins");
        drop((second, other));
        assert_eq!(turns.open().len(), 0);
    }
}
