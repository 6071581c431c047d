//! The true stock of one item: where every unit came from and went, and what it was earlier.
//!
//! What must hold: `stock = initial + restocked − removed − others − ours`, never below zero; the
//! history knows the stock of every instant of the last `MAX_LAG`.

use std::collections::VecDeque;

use serde::Serialize;

use super::settings::MAX_LAG;
use crate::clock::Timestamp;

/// One item's units. All counts are whole units.
#[derive(Clone, Debug)]
pub struct Shelf {
    initial: i64,
    restocked: i64,
    removed: i64,
    others: i64,
    ours: i64,
    /// Stock from an instant on, oldest first, never empty.
    history: VecDeque<(Timestamp, i64)>,
}

/// A shelf's units, as the books show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub initial: i64,
    /// Added by hand since.
    pub restocked: i64,
    /// Taken away by hand since.
    pub removed: i64,
    /// Bought by other people.
    pub others: i64,
    /// Taken by our orders and not given back.
    pub ours: i64,
    /// What is left; never below zero.
    pub stock: i64,
}

impl Account {
    /// Units that the supplier had for us: what came in less what went elsewhere.
    pub const fn had_for_us(&self) -> i64 {
        self.initial + self.restocked - self.removed - self.others
    }
}

impl Shelf {
    /// A shelf that has always held `initial` units.
    pub fn new(initial: i64) -> Shelf {
        let history = VecDeque::from([(Timestamp(i64::MIN), initial)]);
        Shelf { initial, restocked: 0, removed: 0, others: 0, ours: 0, history }
    }

    pub fn stock(&self) -> i64 {
        self.history.back().map_or(0, |(_, stock)| *stock)
    }

    /// The stock as it was at `at`.
    pub fn stock_at(&self, at: Timestamp) -> i64 {
        let later = self.history.partition_point(|(from, _)| *from <= at);
        self.history.get(later.saturating_sub(1)).map_or(0, |(_, stock)| *stock)
    }

    /// Sets the stock by hand.
    pub fn set(&mut self, stock: i64, now: Timestamp) {
        let stock = stock.max(0);
        let change = stock.saturating_sub(self.stock());
        if change > 0 {
            self.restocked = self.restocked.saturating_add(change);
        } else {
            self.removed = self.removed.saturating_sub(change);
        }
        self.becomes(stock, now);
    }

    /// Other people buy `units`, or what is left of them. Returns how many they got.
    pub fn sell_to_others(&mut self, units: i64, now: Timestamp) -> i64 {
        let got = units.clamp(0, self.stock());
        self.others = self.others.saturating_add(got);
        self.becomes(self.stock() - got, now);
        got
    }

    /// Our order takes `units`; the caller has seen that they are there.
    pub fn take(&mut self, units: i64, now: Timestamp) {
        self.ours = self.ours.saturating_add(units);
        self.becomes(self.stock().saturating_sub(units), now);
    }

    /// Our order gives `units` back.
    pub fn give_back(&mut self, units: i64, now: Timestamp) {
        self.ours = self.ours.saturating_sub(units);
        self.becomes(self.stock().saturating_add(units), now);
    }

    pub fn account(&self) -> Account {
        Account {
            initial: self.initial,
            restocked: self.restocked,
            removed: self.removed,
            others: self.others,
            ours: self.ours,
            stock: self.stock(),
        }
    }

    fn becomes(&mut self, stock: i64, now: Timestamp) {
        if stock == self.stock() {
            return;
        }
        match self.history.back_mut() {
            Some(last) if last.0 == now => last.1 = stock,
            _ => self.history.push_back((now, stock)),
        }
        // Keep one entry from before the horizon: it says what the stock was at the horizon.
        while self.history.get(1).is_some_and(|(from, _)| *from <= now - MAX_LAG) {
            self.history.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Span;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn every_unit_is_accounted_for() {
        let mut shelf = Shelf::new(10);
        assert_eq!(shelf.sell_to_others(3, at(1)), 3); // 7
        shelf.take(4, at(2)); // 3
        assert_eq!(shelf.sell_to_others(5, at(3)), 3); // 0: only 3 were left
        shelf.set(6, at(4)); // +6
        shelf.give_back(4, at(5)); // 10
        shelf.set(9, at(6)); // -1
        let account = shelf.account();
        let expected =
            Account { initial: 10, restocked: 6, removed: 1, others: 6, ours: 0, stock: 9 };
        assert_eq!(account, expected);
        assert_eq!(account.had_for_us(), 9);
    }

    #[test]
    fn the_past_is_remembered_for_the_longest_lag() {
        let mut shelf = Shelf::new(10);
        shelf.take(1, at(200));
        shelf.take(1, at(300));
        shelf.take(1, at(300));
        assert_eq!(shelf.stock_at(at(50)), 10);
        assert_eq!(shelf.stock_at(at(199)), 10);
        assert_eq!(shelf.stock_at(at(200)), 9);
        assert_eq!(shelf.stock_at(at(299)), 9);
        assert_eq!(shelf.stock_at(at(300)), 7);
        let day_later = at(250) + Span::days(1);
        shelf.take(7, day_later);
        assert_eq!(shelf.stock_at(at(250)), 9, "the horizon itself is still known");
        assert_eq!(shelf.history.len(), 3);
        assert_eq!(shelf.stock_at(day_later), 0);
    }
}
