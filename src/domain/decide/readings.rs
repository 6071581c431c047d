//! Readings of a supplier's stock, by feed or by live question, and what they settle.
//!
//! `as_of = min(the supplier's own reading time, when we sent the request) − declared_lag`. An
//! older as_of than the level's changes nothing. A newer one sets the quantity and settles exactly
//! those committed holds whose purchase surely counted by then; figures are never compared.

use super::{Result, Rules};
use crate::clock::Timestamp;
use crate::domain::lock_ttl;
use crate::domain::names::{LevelId, OrderId};
use crate::domain::order::HoldState;
use crate::domain::outcome::{Outcome, Refusal};
use crate::domain::policy::Terms;
use crate::domain::stock::{Entry, Listing, MAX_FIGURE, Shift};
use crate::domain::supply::{Figure, Reading};

/// When a reading's figure was surely not yet older than this.
pub(super) fn as_of(terms: &Terms, reading: &Reading) -> Timestamp {
    reading.stated_at.unwrap_or(reading.sent_at).min(reading.sent_at) - terms.declared_lag
}

/// An event is surely contained in a snapshot that was read more than the margin after it.
pub(super) fn contained(terms: &Terms, event: Option<Timestamp>, as_of: Timestamp) -> bool {
    event.is_some_and(|at| at + terms.settle_margin < as_of)
}

impl Rules<'_> {
    pub(super) fn take_readings(
        &mut self,
        readings: &[(LevelId, Reading)],
        feed: bool,
    ) -> Result<Outcome> {
        for (level, reading) in readings {
            self.take_reading(level, reading, feed)?;
        }
        Ok(Outcome::Done)
    }

    pub(super) fn take_reading(
        &mut self,
        id: &LevelId,
        reading: &Reading,
        feed: bool,
    ) -> Result<()> {
        let Some(level) = self.world.levels.get(id).cloned() else {
            return Ok(());
        };
        let Some(terms) = self.policy.suppliers.get(&level.source) else {
            return Ok(());
        };
        if level.item.as_ref() != Some(&reading.item) {
            return Err(Refusal::Conflict("another", format!("the reading is not of {id}")).into());
        }
        let as_of = as_of(terms, reading);
        let figure = match reading.figure {
            Figure::Listed(n) if (0..=MAX_FIGURE).contains(&n) => Some(n),
            Figure::Listed(_) | Figure::Unknown(_) => return Ok(()),
            Figure::Missing => None,
        };
        if feed && level.feed_as_of.is_none_or(|before| before < as_of) {
            let sample = lock_ttl::sample(terms, level.feed_as_of, as_of, reading.received_at);
            if let Some(l) = self.world.level_mut(id) {
                l.feed_as_of = Some(as_of);
                l.lag_samples.push(sample);
                let surplus = l.lag_samples.len().saturating_sub(lock_ttl::MAX_SAMPLES);
                l.lag_samples.drain(..surplus);
            }
        }
        if level.as_of.is_some_and(|known| as_of <= known) {
            return Ok(());
        }
        if let Some(l) = self.world.level_mut(id) {
            l.as_of = Some(as_of);
            l.listing = if figure.is_some() { Listing::Listed } else { Listing::Missing };
            if l.closed.is_some_and(|c| c.since < as_of) {
                l.closed = None;
            }
        }
        let Some(quantity) = figure else {
            return Ok(());
        };
        self.world.shift(Entry {
            at: self.now,
            level: id.clone(),
            sku: None,
            order: None,
            hold: None,
            event: "reading",
            by: Shift { quantity: quantity.saturating_sub(level.quantity), ..Shift::default() },
            note: format!("as of {as_of}"),
        })?;
        self.settle(id, terms, as_of)
    }

    /// Surplus orders that were paid before we could cancel them are in the figure by now.
    fn paid_surplus_counted(&mut self, order: &OrderId, key: (i64, i64)) -> Result<()> {
        let now = self.now;
        let mut counted = Vec::new();
        for purchase in &mut self.order_mut(order)?.purchases {
            let lines = &purchase.trail.lines;
            if lines.iter().any(|l| (l.share.line, l.share.part) == key) {
                let open = purchase.trail.surplus.iter_mut();
                open.filter(|s| s.paid).for_each(|s| {
                    s.ended_at.get_or_insert(now);
                });
                counted.push(purchase.id.clone());
            }
        }
        counted.iter().try_for_each(|purchase| self.count_surplus(order, purchase, false))
    }

    /// Settles what the level's figure surely contains by now.
    fn settle(&mut self, id: &LevelId, terms: &Terms, as_of: Timestamp) -> Result<()> {
        let here: Vec<OrderId> = self
            .world
            .orders
            .values()
            .filter(|o| o.holds.iter().any(|h| &h.level == id))
            .map(|o| o.id.clone())
            .collect();
        for order in here {
            let counted = self.holds(&order, |h| {
                &h.level == id
                    && h.state == HoldState::Committed
                    && contained(terms, h.counted_at, as_of)
            })?;
            for key in counted {
                self.step(&order, key, HoldState::Settled)?;
            }
            let undone =
                self.holds(&order, |h| &h.level == id && contained(terms, h.undone_at, as_of))?;
            for key in undone {
                let hold = self.hold_mut(&order, key)?;
                hold.undone_at = None;
                if hold.surplus > 0 {
                    self.paid_surplus_counted(&order, key)?;
                }
            }
        }
        Ok(())
    }
}
