//! Shelf counts and corrections of our own warehouse. What is promised is never counted away: a
//! count below it is refused with the holds in question, or, asked to, cancels the newest unpaid
//! orders in the same transaction.

use super::{Result, Rules};
use crate::domain::command::StockChange;
use crate::domain::names::{LevelId, OrderId, SkuKey, SourceId};
use crate::domain::order::{CancelReason, State};
use crate::domain::outcome::{Ask, Outcome, Refusal, Stop};
use crate::domain::sku::Kind;
use crate::domain::stock::{Entry, MAX_FIGURE, Shift};

impl Rules<'_> {
    pub(super) fn change_stock(
        &mut self,
        sku: &SkuKey,
        source: &SourceId,
        change: &StockChange,
        reason: &str,
    ) -> Result<Outcome> {
        let found = self.world.sku(sku).ok_or(Stop::Refused(Refusal::NotFound("SKU")))?;
        let key = found.key.clone();
        let at = found.sources.iter().find(|s| &s.source == source);
        let id = match at {
            Some(s) if s.kind == Kind::Warehouse => s.level.clone(),
            Some(_) => {
                let message = "a supplier's stock is what the supplier says";
                return Err(Refusal::invalid("source", message).into());
            }
            None => {
                return Err(Refusal::invalid("source", "the SKU has no such warehouse").into());
            }
        };
        if !self.world.counted.contains_key(&id) {
            return Err(Stop::More(Ask::Counted(id))); // the SKU was named by an alias
        }
        let level = self.level(&id)?.clone();
        let (to, field, release) = match change {
            StockChange::Delta(by) => (level.quantity.checked_add(*by), "delta", false),
            StockChange::Set { to, if_version, release_newest } => {
                if if_version.is_some_and(|v| v != level.version) {
                    return Err(Refusal::VersionConflict(Box::new(level)).into());
                }
                (Some(*to), "set_to", *release_newest)
            }
        };
        let to = to.filter(|n| (0..=MAX_FIGURE).contains(n)).ok_or_else(|| {
            let message = format!("the shelf would hold less than 0 or more than {MAX_FIGURE}");
            Stop::Refused(Refusal::invalid(field, message))
        })?;
        let cancelled = if release { self.release_newest(&id, to)? } else { Vec::new() };
        let level = self.level(&id)?.clone();
        if level.held.saturating_add(level.committed) > to {
            let holds = self.open_holds(&id);
            return Err(Refusal::BelowHeld { level: Box::new(level), holds }.into());
        }
        self.world.shift(Entry {
            at: self.now,
            level: id.clone(),
            sku: Some(key),
            order: None,
            hold: None,
            event: "correction",
            by: Shift { quantity: to.saturating_sub(level.quantity), ..Shift::default() },
            note: reason.to_owned(),
        })?;
        Ok(Outcome::Level(Box::new(self.level(&id)?.clone()), cancelled))
    }

    /// Cancels the newest unpaid orders until what is promised fits.
    fn release_newest(&mut self, id: &LevelId, to: i64) -> Result<Vec<OrderId>> {
        let newest_first = self.world.counted.get(id).cloned().unwrap_or_default();
        let mut cancelled = Vec::new();
        for order in newest_first {
            let level = self.level(id)?;
            if level.held.saturating_add(level.committed) <= to {
                break;
            }
            let o = self.order(&order)?;
            let holds_here = o.holds.iter().any(|h| h.is_active() && &h.level == id);
            if o.state == State::PendingPayment && holds_here {
                self.end_cancelled(&order, CancelReason::StockCorrection)?;
                cancelled.push(order);
            }
        }
        Ok(cancelled)
    }

    /// The holds that promise units of a level, as `order.line.part`, newest order first.
    fn open_holds(&self, id: &LevelId) -> Vec<String> {
        let orders = self.world.counted.get(id).into_iter().flatten();
        let orders = orders.filter_map(|o| self.world.orders.get(o));
        let holds = orders.flat_map(|o| {
            let here = o.holds.iter().filter(|h| h.is_open() && &h.level == id);
            here.map(|h| format!("{}.{}.{}", o.id, h.line, h.part))
        });
        holds.collect()
    }
}
