//! How long a failed attempt waits: doubling from a base to a cap, with jitter.
//!
//! What must hold: never below half of the doubled base, so that a failing neighbour is left alone;
//! never above the cap; the same inputs give the same wait, so that tests can say it. The jitter
//! spreads what failed together: its seed is the thing that failed, not a clock.

use sha2::{Digest, Sha256};

use crate::clock::Span;

/// The wait after the `attempt`-th failure (from 1) of whatever `seed` names: between half and all
/// of `base × 2^(attempt − 1)`, and of `cap` where that is less.
pub fn delay(base: Span, cap: Span, attempt: u32, seed: &str) -> Span {
    let doublings = attempt.saturating_sub(1).min(62);
    let whole = base.times(1_i64 << doublings, 1).min(cap).max(Span::ZERO);
    let half = whole.times(1, 2);
    half + (whole - half).times(i64::from(fraction(attempt, seed)), i64::from(u16::MAX))
}

/// A number from 0 to 65,535 that depends on both inputs alone.
fn fraction(attempt: u32, seed: &str) -> u16 {
    let digest = Sha256::digest(format!("{attempt}\n{seed}").as_bytes());
    match digest.as_slice() {
        [a, b, ..] => u16::from_be_bytes([*a, *b]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Span = Span::secs(2);
    const CAP: Span = Span::minutes(5);

    #[test]
    fn each_wait_lies_between_half_and_all_of_its_doubling() {
        // 2, 4, 8, 16 … seconds, until 5 minutes.
        for (attempt, whole) in [(1, 2), (2, 4), (3, 8), (4, 16), (8, 256), (9, 300), (40, 300)] {
            let wait = delay(BASE, CAP, attempt, "refund:a");
            let whole = Span::secs(whole);
            assert!(wait >= whole.times(1, 2) && wait <= whole, "{attempt}: {wait:?}");
        }
    }

    #[test]
    fn extreme_inputs_stay_within_the_cap() {
        for attempt in [0, 1, 63, 64, u32::MAX] {
            let wait = delay(Span(i64::MAX), CAP, attempt, "x");
            assert!(wait >= CAP.times(1, 2) && wait <= CAP, "{attempt}: {wait:?}");
        }
        assert_eq!(delay(Span(-5), CAP, 3, "x"), Span::ZERO);
    }

    #[test]
    fn the_same_failure_waits_the_same_and_neighbours_spread() {
        assert_eq!(delay(BASE, CAP, 5, "a"), delay(BASE, CAP, 5, "a"));
        let waits: std::collections::BTreeSet<Span> =
            (0..100).map(|n| delay(BASE, CAP, 5, &format!("refund:{n}"))).collect();
        assert!(waits.len() > 90, "{}", waits.len());
    }
}
