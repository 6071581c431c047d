//! How long to wait before asking again.

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

#[cfg(test)]
mod tests {
    use super::*;

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
