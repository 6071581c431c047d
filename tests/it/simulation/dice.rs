//! Chance that can be replayed: the same seed throws the same faults.

use stockhold::clock::Span;

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    /// Whether something that happens so many times in a hundred happens now.
    pub fn percent(&mut self, rate: u32) -> bool {
        self.next() % 100 < u64::from(rate)
    }

    pub fn span(&mut self, low: Span, high: Span) -> Span {
        Span(self.between(low.0, high.0))
    }
}
