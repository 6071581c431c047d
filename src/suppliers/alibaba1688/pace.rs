//! Spaces the calls of one account evenly, so that the platform's limit is not met.
//!
//! What must hold: every call, of whichever kind, takes its turn here; one whose turn would come
//! after its deadline is told so at once and takes none.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

pub struct Pace {
    gap: Duration,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// At most `per_second` calls a second, evenly spaced; 0 = no limit.
    pub fn new(per_second: u32) -> Pace {
        let gap = Duration::from_secs(1).checked_div(per_second).unwrap_or_default();
        Pace { gap, next: Mutex::new(None) }
    }

    /// Waits for the next turn; false, at once, when that is not before `deadline`.
    pub async fn turn(&self, deadline: Instant) -> bool {
        let booked = self.book(&mut *self.next.lock().await, Instant::now(), deadline);
        match booked {
            Some(at) => sleep_until(at).await,
            None => return false,
        }
        true
    }

    fn book(&self, next: &mut Option<Instant>, now: Instant, deadline: Instant) -> Option<Instant> {
        let at = next.map_or(now, |next| next.max(now));
        if at >= deadline {
            return None;
        }
        *next = Some(at + self.gap);
        Some(at)
    }

    /// Gives no turn for `length` from now.
    pub async fn pause(&self, length: Duration) {
        let until = Instant::now() + length;
        let mut next = self.next.lock().await;
        *next = Some(next.map_or(until, |at| at.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn turns_are_a_gap_apart_and_none_is_saved_up() {
        let (pace, start) = (Pace::new(8), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut next = None;
        let mut book = |now: u64, deadline: u64| pace.book(&mut next, at(now), at(deadline));
        assert_eq!(book(0, 9000), Some(at(0)));
        assert_eq!(book(0, 9000), Some(at(125)));
        assert_eq!(book(10, 9000), Some(at(250)));
        assert_eq!(book(10, 375), None, "its turn is at its deadline");
        assert_eq!(book(10, 9000), Some(at(375)), "the refused turn was not booked");
        assert_eq!(book(5000, 9000), Some(at(5000)), "idle time gives no burst");
        assert_eq!(book(5000, 9000), Some(at(5125)));
    }

    #[tokio::test]
    async fn a_turn_after_the_deadline_is_not_taken() {
        let pace = Pace::new(1);
        pace.pause(HOUR).await;
        let now = Instant::now();
        assert!(!pace.turn(now + Duration::from_secs(5)).await);
        let booked = pace.next.lock().await.expect("paused");
        assert!(booked <= Instant::now() + HOUR, "the refused turn was not booked");
        assert!(!Pace::new(0).turn(now).await, "a deadline that has passed");
    }

    #[tokio::test]
    async fn without_a_limit_there_is_no_gap() {
        let pace = Pace::new(0);
        assert_eq!(pace.gap, Duration::ZERO);
        assert!(pace.turn(Instant::now() + HOUR).await);
    }
}
