//! How long to wait before asking again.

use sha2::{Digest, Sha256};

use crate::clock::Span;

/// Waits as long again as was waited already: intervals double without a counter being kept.
pub fn doubling(waited: Span, least: Span, most: Span) -> Span {
    waited.clamp(least, most.max(least))
}

/// `least × 2^attempt`, at most `most`. `attempt` counts from 0.
pub fn exponential(attempt: u32, least: Span, most: Span) -> Span {
    let factor = 1i64.checked_shl(attempt.min(40)).unwrap_or(i64::MAX);
    Span(least.0.saturating_mul(factor)).min(most)
}

/// Between half and all of [`exponential`]: what failed together comes back apart. The seed is the
/// name of what failed, so that the same inputs give the same wait.
pub fn jittered(attempt: u32, least: Span, most: Span, seed: &str) -> Span {
    let whole = exponential(attempt, least, most);
    let half = whole.times(1, 2);
    let digest = Sha256::digest(format!("{attempt}\n{seed}").as_bytes());
    let part = digest.iter().take(2).fold(0, |n, byte| n * 256 + i64::from(*byte));
    half + (whole - half).times(part, i64::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_between_half_and_all_and_spreads_neighbours() {
        let (least, most) = (Span::secs(2), Span::minutes(5));
        for (attempt, whole) in [(0, 2), (1, 4), (2, 8), (7, 256), (8, 300), (u32::MAX, 300)] {
            let wait = jittered(attempt, least, most, "refund:a");
            let whole = Span::secs(whole);
            assert!(wait >= whole.times(1, 2) && wait <= whole, "{attempt}: {wait:?}");
            assert_eq!(jittered(attempt, least, most, "refund:a"), wait);
        }
        let waits: std::collections::BTreeSet<Span> =
            (0..100).map(|n| jittered(4, least, most, &format!("refund:{n}"))).collect();
        assert!(waits.len() > 90, "{}", waits.len());
    }

    #[test]
    fn intervals_double_up_to_the_most() {
        let (least, most) = (Span::secs(1), Span::minutes(1));
        let waits: Vec<i64> = (0..8).map(|n| exponential(n, least, most).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(exponential(u32::MAX, least, most), most);
        assert_eq!(doubling(Span::ZERO, least, most), least);
        assert_eq!(doubling(Span::secs(7), least, most), Span::secs(7));
        assert_eq!(doubling(Span::hours(7), least, most), most);
    }
}
