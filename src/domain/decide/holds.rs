//! The life of a hold: `active → committed → settled`, `active → released`,
//! `committed → reversed`. Each step once, each with its shift of the level and its ledger entry.

use std::sync::Arc;

use super::{Result, Rules};
use crate::domain::names::{LevelId, OrderId};
use crate::domain::order::{Hold, HoldState};
use crate::domain::outcome::{Ask, Refusal, Stop};
use crate::domain::sku::Kind;
use crate::domain::stock::{Entry, Shift};

/// A hold within its order: line number and part.
pub(super) type Key = (i64, i64);

impl Rules<'_> {
    /// The keys of an order's holds that satisfy a condition, in order.
    pub(super) fn holds(&self, order: &OrderId, keep: impl Fn(&Hold) -> bool) -> Result<Vec<Key>> {
        let holds = self.order(order)?.holds.iter();
        Ok(holds.filter(|h| keep(h)).map(|h| (h.line, h.part)).collect())
    }

    pub(super) fn hold(&self, order: &OrderId, key: Key) -> Result<&Hold> {
        let hold = self.order(order)?.hold(key.0, key.1);
        hold.ok_or(Stop::Refused(Refusal::NotFound("hold")))
    }

    pub(super) fn hold_mut(&mut self, order: &OrderId, key: Key) -> Result<&mut Hold> {
        let holds = &mut self.order_mut(order)?.holds;
        let hold = holds.iter_mut().find(|h| (h.line, h.part) == key);
        hold.ok_or(Stop::Refused(Refusal::NotFound("hold")))
    }

    /// Takes a hold one step on; a step that was taken before changes nothing.
    pub(super) fn step(&mut self, order: &OrderId, key: Key, to: HoldState) -> Result<()> {
        let now = self.now;
        let hold = self.hold(order, key)?.clone();
        let n = hold.quantity;
        let (by, event) = match (hold.state, to) {
            (HoldState::Active, HoldState::Committed) => (
                Shift { held: -n, committed: n, ..Shift::default() },
                if hold.kind == Kind::Warehouse { "sold" } else { "bought" },
            ),
            (HoldState::Active, HoldState::Released) => {
                (Shift { held: -n, ..Shift::default() }, "released")
            }
            (HoldState::Committed, HoldState::Reversed) => {
                (Shift { committed: -n, ..Shift::default() }, "reversed")
            }
            (HoldState::Committed, HoldState::Settled) if hold.kind == Kind::Warehouse => {
                (Shift { quantity: -n, committed: -n, ..Shift::default() }, "shipped")
            }
            (HoldState::Committed, HoldState::Settled) => {
                (Shift { committed: -n, ..Shift::default() }, "in_feed")
            }
            _ => return Ok(()),
        };
        self.world.shift(Entry {
            at: now,
            level: hold.level.clone(),
            sku: Some(hold.sku.clone()),
            order: Some(order.clone()),
            hold: Some(key),
            event,
            by,
            note: String::new(),
        })?;
        let hold = self.hold_mut(order, key)?;
        hold.state = to;
        if !hold.is_open() {
            hold.ended_at = Some(now);
        }
        Ok(())
    }

    /// Holds stock: adds the hold and pre-occupies its units. `force` skips nothing but the test
    /// of what is available, which is the caller's; the counter's range is always kept.
    pub(super) fn occupy(&mut self, order: &OrderId, hold: Hold) -> Result<()> {
        self.world.shift(Entry {
            at: self.now,
            level: hold.level.clone(),
            sku: Some(hold.sku.clone()),
            order: Some(order.clone()),
            hold: Some((hold.line, hold.part)),
            event: "placed",
            by: Shift { held: hold.quantity, ..Shift::default() },
            note: String::new(),
        })?;
        self.order_mut(order)?.holds.push(hold);
        Ok(())
    }

    /// Cuts `n` units off a hold into a new one that is otherwise the same, so that they can go
    /// another way. The whole hold is returned when `n` is all of it.
    pub(super) fn cut(&mut self, order: &OrderId, key: Key, n: i64) -> Result<Key> {
        let part = self.order(order)?.next_part(key.0);
        let hold = self.hold_mut(order, key)?;
        if n >= hold.quantity {
            return Ok(key);
        }
        let mut off = hold.clone();
        hold.quantity -= n;
        // Surplus and lost upstream orders stay with the share that they were made for.
        (off.part, off.quantity, off.surplus, off.lost) = (part, n, 0, 0);
        self.order_mut(order)?.holds.push(off);
        Ok((key.0, part))
    }

    pub(super) fn level(&self, id: &LevelId) -> Result<&crate::domain::stock::Level> {
        let level = self.world.levels.get(id).map(Arc::as_ref);
        level.ok_or_else(|| Stop::More(Ask::Recount(id.clone())))
    }
}
