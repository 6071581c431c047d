//! The judgement: each promise is a few checks over the books, and each trouble of the night must
//! have come up. A check that had nothing to look at has proved nothing and counts as broken.

use super::books::Books;
use super::{promises, troubles};

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub about: &'static str,
    /// How many things were looked at.
    pub looked_at: usize,
    /// What was wrong, with its figures.
    pub faults: Vec<String>,
}

impl Check {
    pub fn kept(&self) -> bool {
        self.looked_at > 0 && self.faults.is_empty()
    }

    /// In a word.
    pub fn word(&self) -> &'static str {
        match (self.faults.is_empty(), self.looked_at) {
            (false, _) => "BROKEN",
            (true, 0) => "NOT EXERCISED",
            (true, _) => "kept",
        }
    }
}

/// What the books say of the promises and of the night.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub promises: Vec<Check>,
    pub troubles: Vec<Check>,
}

impl Verdict {
    /// Whether every promise held, against every trouble.
    pub fn kept(&self) -> bool {
        self.promises.iter().chain(&self.troubles).all(Check::kept)
    }
}

/// Judges the books.
pub fn judge(books: &Books) -> Verdict {
    Verdict { promises: promises::all(books), troubles: troubles::all(books) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_of_nothing_is_not_kept() {
        let check = |looked_at, faults: &[&str]| Check {
            about: "x",
            looked_at,
            faults: faults.iter().map(|f| (*f).to_owned()).collect(),
        };
        let words: Vec<(bool, &str)> =
            [check(1, &[]), check(0, &[]), check(1, &["a"]), check(0, &["a"])]
                .iter()
                .map(|c| (c.kept(), c.word()))
                .collect();
        let expected =
            [(true, "kept"), (false, "NOT EXERCISED"), (false, "BROKEN"), (false, "BROKEN")];
        assert_eq!(words, expected);
    }

    #[test]
    fn books_of_nothing_are_no_proof() {
        let verdict = judge(&Books::default());
        assert!(!verdict.kept());
        assert!(verdict.promises.iter().all(|c| !c.kept()), "{:?}", verdict.promises);
        assert!(verdict.troubles.iter().all(|c| !c.kept()), "{:?}", verdict.troubles);
    }
}
