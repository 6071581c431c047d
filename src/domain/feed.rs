//! Whether a supplier's whole feed is to be believed.
//!
//! What must hold: a feed that shrinks by more than the supplier's `suspect_drop` since the last one
//! believed, or that could not be read whole, changes nothing and waits for a person. A feed that
//! shrinks by exactly that much is believed. Missing, zero and unknown are three readings: only
//! *missing* shrinks a feed (a sold-out item is still listed), and an unknown row is not missing.

use super::supply::Figure;

/// What a run over all of a supplier's items saw, in items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub listed: u64,
    pub missing: u64,
    /// Rows that could not be read; they keep their old figures.
    pub unknown: u64,
}

impl Seen {
    pub fn count<'a>(figures: impl Iterator<Item = &'a Figure>) -> Seen {
        let mut seen = Seen::default();
        for figure in figures {
            match figure {
                Figure::Listed(_) => seen.listed += 1,
                Figure::Missing => seen.missing += 1,
                Figure::Unknown(_) => seen.unknown += 1,
            }
        }
        seen
    }
}

/// Why a feed is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Suspicion {
    #[error("{gone} of {before} listed items are gone, more than {percent} %")]
    Shrunk { before: u64, gone: u64, percent: u8 },
    #[error("not one of {0} items could be read")]
    Unreadable(u64),
}

/// Judges a run. `before`: the items that the last believed readings call listed; `gone`: those of
/// them that this run calls missing; `percent`: the largest share of them that may go at once.
///
/// # Errors
/// The suspicion, when the feed is not to be believed.
pub fn judge(before: u64, gone: u64, seen: Seen, percent: u8) -> Result<(), Suspicion> {
    if seen.unknown > 0 && seen.listed == 0 && seen.missing == 0 {
        return Err(Suspicion::Unreadable(seen.unknown));
    }
    // gone / before > percent / 100, without a division.
    if u128::from(gone) * 100 > u128::from(before) * u128::from(percent) {
        return Err(Suspicion::Shrunk { before, gone, percent });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(before: u64, listed: u64) -> Result<(), Suspicion> {
        let gone = before - listed;
        let seen = Seen { listed, missing: gone, unknown: 0 };
        judge(before, gone, seen, 30)
    }

    #[test]
    fn a_feed_that_shrinks_by_more_than_the_drop_is_suspect() {
        assert_eq!(run(5000, 5000), Ok(()));
        assert_eq!(run(5000, 3500), Ok(())); // exactly 30 %
        let shrunk = |gone| Err(Suspicion::Shrunk { before: 5000, gone, percent: 30 });
        assert_eq!(run(5000, 3499), shrunk(1501));
        assert_eq!(run(5000, 400), shrunk(4600));
        assert_eq!(run(5000, 0), shrunk(5000));
    }

    #[test]
    fn small_feeds_are_judged_by_the_same_share() {
        assert_eq!(run(10, 7), Ok(()));
        assert!(run(10, 6).is_err());
        assert!(run(3, 2).is_err()); // 33 %
        assert!(run(1, 0).is_err());
        assert_eq!(run(0, 0), Ok(()));
    }

    #[test]
    fn unknown_rows_are_not_missing_but_a_run_of_nothing_else_is_suspect() {
        let seen = |listed, unknown| Seen { listed, missing: 0, unknown };
        assert_eq!(judge(100, 0, seen(10, 90), 30), Ok(()));
        assert_eq!(judge(100, 0, seen(0, 100), 30), Err(Suspicion::Unreadable(100)));
        assert_eq!(judge(0, 0, seen(0, 0), 30), Ok(()));
    }

    #[test]
    fn zero_is_a_figure_like_any_other() {
        let figures = [
            Figure::Listed(0),
            Figure::Listed(3),
            Figure::Missing,
            Figure::Unknown("torn row".into()),
        ];
        let seen = Seen::count(figures.iter());
        assert_eq!(seen, Seen { listed: 2, missing: 1, unknown: 1 });
    }

    #[test]
    fn the_borders_of_the_share_hold() {
        let all_gone = Seen { missing: 4, ..Seen::default() };
        assert_eq!(judge(4, 4, all_gone, 100), Ok(()));
        assert!(judge(4, 1, all_gone, 0).is_err());
        assert!(judge(u64::MAX, u64::MAX, all_gone, 99).is_err());
    }
}
