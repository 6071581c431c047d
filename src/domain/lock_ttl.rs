//! How late a supplier's figures are, and what follows: the lock's TTL and when a level is stale.
//!
//! With I the sync interval and L the lag: `lock_ttl = 1.2 × max(I, L)`, stale after `L + 1.2 × I`.
//! L is the largest of the last 100 samples, never below the declared lag, and capped at
//! `max(4 × I, 60 min)` where that is above the declared lag.

use super::policy::Terms;
use crate::clock::{Span, Timestamp};

/// So many samples are kept for each level.
pub const MAX_SAMPLES: usize = 100;

/// L from the samples of one level (or, for a supplier's page, of all its levels).
pub fn lag(terms: &Terms, samples: &[Span]) -> Span {
    let cap = terms.sync_interval.times(4, 1).max(Span::minutes(60)).max(terms.declared_lag);
    samples.iter().copied().max().unwrap_or(Span::ZERO).clamp(terms.declared_lag, cap)
}

/// `1.2 × max(I, L)`.
pub fn lock_ttl(terms: &Terms, lag: Span) -> Span {
    terms.sync_interval.max(lag).times(12, 10)
}

/// `L + 1.2 × I`.
pub fn stale_after(terms: &Terms, lag: Span) -> Span {
    lag + terms.sync_interval.times(12, 10)
}

/// The sample that a feed row gives: the age that the previous as_of had reached when the newer
/// one replaced it, less I; for the first row, its age on arrival.
pub fn sample(
    terms: &Terms,
    previous: Option<Timestamp>,
    as_of: Timestamp,
    received_at: Timestamp,
) -> Span {
    match previous {
        Some(previous) => (received_at.since(previous) - terms.sync_interval).max(Span::ZERO),
        None => received_at.since(as_of).max(Span::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(interval: Span, declared: Span) -> Terms {
        Terms { sync_interval: interval, declared_lag: declared, ..Terms::default() }
    }

    #[test]
    fn ten_minutes_give_twelve_and_a_lag_of_forty_gives_forty_eight() {
        let t = terms(Span::minutes(10), Span::minutes(1));
        assert_eq!(lock_ttl(&t, lag(&t, &[])), Span::minutes(12));
        assert_eq!(stale_after(&t, lag(&t, &[])), Span::minutes(13));
        let late = lag(&t, &[Span::minutes(3), Span::minutes(40)]);
        assert_eq!(lock_ttl(&t, late), Span::minutes(48));
        assert_eq!(stale_after(&t, late), Span::minutes(52));
    }

    #[test]
    fn the_lag_is_capped_unless_more_was_declared() {
        let t = terms(Span::minutes(10), Span::minutes(1));
        assert_eq!(lag(&t, &[Span::hours(9)]), Span::minutes(60));
        let t = terms(Span::minutes(20), Span::minutes(1));
        assert_eq!(lag(&t, &[Span::hours(9)]), Span::minutes(80));
        let t = terms(Span::minutes(10), Span::hours(3));
        assert_eq!(lag(&t, &[Span::hours(9)]), Span::hours(3));
    }

    #[test]
    fn a_sample_is_the_age_reached_less_the_interval() {
        let t = terms(Span::minutes(10), Span::minutes(1));
        let at = |m: i64| Timestamp::from_secs(m * 60);
        assert_eq!(sample(&t, None, at(100), at(107)), Span::minutes(7));
        // The figure as of minute 60 was replaced at minute 110: it had reached 50 minutes.
        assert_eq!(sample(&t, Some(at(60)), at(70), at(110)), Span::minutes(40));
        assert_eq!(sample(&t, Some(at(105)), at(109), at(110)), Span::ZERO);
    }
}
