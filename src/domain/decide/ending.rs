//! The ends of orders and of parts of them: cancelled, expired, a line cut. Whatever ends releases
//! or reverses its holds and refunds what no unit has earned, in the same transaction.

use super::holds::Key;
use super::{Result, Rules};
use crate::clock::Timestamp;
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::job::Job;
use crate::domain::names::{OrderId, PurchaseId};
use crate::domain::order::{CancelReason, CancelRequest, Hold, HoldState, ShortPolicy, State};
use crate::domain::outcome::{Outcome, Refusal, Stop, Touch};
use crate::domain::purchase::PurchaseState;

impl Rules<'_> {
    pub(super) fn cancel(&mut self, id: &OrderId, reason: CancelReason) -> Result<Outcome> {
        let order = self.order(id)?;
        if order.is_end() || order.state == State::Shipped {
            return Err(self.conflict(id, "nothing of it is left to cancel"));
        }
        if order.cancel_requested.is_some() {
            return self.answer(id, Touch::CancelPending);
        }
        let ended = self.request_cancel(id, reason)?;
        self.answer(id, if ended { Touch::Changed } else { Touch::CancelPending })
    }

    /// Cancels what is not shipped, at once where no purchase stands in the way; otherwise the
    /// request is recorded and carried out at the purchases' definite answers.
    pub(super) fn request_cancel(&mut self, id: &OrderId, reason: CancelReason) -> Result<bool> {
        let now = self.now;
        self.look_for_lost(id)?;
        for purchase in self.purchases(id, |s| s == PurchaseState::Pending)? {
            if !self.doubt_since_restore(id, &purchase)? {
                let why = "the order was cancelled";
                self.end_purchase(id, &purchase, PurchaseState::Cancelled, why)?;
            }
        }
        let standing = self.purchases(id, |s| {
            s.in_flight() || matches!(s, PurchaseState::Placed | PurchaseState::Paid)
        })?;
        if standing.is_empty() {
            self.end_cancelled(id, reason)?;
            return Ok(true);
        }
        self.order_mut(id)?.cancel_requested = Some(CancelRequest { at: now, reason });
        self.tell(id, "cancel_requested", reason.as_str())?;
        for purchase in standing {
            self.purchase_mut(id, &purchase)?.cancel_requested_at = Some(now);
            self.world.owe(Job::Purchase { purchase }, now);
        }
        self.advance(id)?;
        Ok(self.order(id)?.is_end())
    }

    /// Ends everything that is not shipped. What was bought and could not be undone stays with
    /// its purchase until it is in the feed.
    pub(super) fn end_cancelled(&mut self, id: &OrderId, reason: CancelReason) -> Result<()> {
        for purchase in self.purchases(id, |s| s == PurchaseState::Pending)? {
            self.end_purchase(id, &purchase, PurchaseState::Cancelled, "the order was cancelled")?;
        }
        self.let_go(id, |_| true)?;
        let order = self.order_mut(id)?;
        let shipped = order.lines.iter().any(|l| l.shipped > 0);
        // What was shipped whole before the cancel got through is not cancelled.
        if !shipped || order.lines.iter().any(|l| l.unshipped() > 0) {
            order.cancel_reason = Some(reason);
        }
        for line in &mut order.lines {
            line.cancelled = line.quantity.saturating_sub(line.shipped);
        }
        if shipped {
            self.tell(id, "rest_cancelled", reason.as_str())?;
            self.all_shipped(id)?;
        } else {
            self.tell(id, "order_cancelled", reason.as_str())?;
            self.enter(id, State::Cancelled, None)?;
        }
        self.close_attention(id);
        self.refund_due(id, "cancelled", reason.as_str())
    }

    /// Releases or reverses the open holds that satisfy a condition, except what is bought.
    fn let_go(&mut self, id: &OrderId, keep: impl Fn(&Hold) -> bool) -> Result<()> {
        for key in self.holds(id, |h| keep(h) && (h.is_active() || !h.is_supplier()))? {
            match self.hold(id, key)?.state {
                HoldState::Active => self.step(id, key, HoldState::Released)?,
                HoldState::Committed => self.step(id, key, HoldState::Reversed)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// An unpaid order's time is up.
    pub(super) fn expire(&mut self, id: &OrderId) -> Result<()> {
        self.let_go(id, |_| true)?;
        self.tell(id, "order_expired", "")?;
        self.enter(id, State::Expired, None)?;
        self.refund_due(id, "expired", "the order expired before it was paid in full")
    }

    /// By the order's policy, after a supplier could not serve some of its lines.
    pub(super) fn fall_short(
        &mut self,
        id: &OrderId,
        lines: &[i64],
        reason: CancelReason,
    ) -> Result<()> {
        if self.look_for_lost(id)? {
            return Ok(()); // it may be short because it was bought
        }
        if self.order(id)?.short_policy == ShortPolicy::CancelOrder {
            self.request_cancel(id, reason)?;
            return Ok(());
        }
        for line in lines {
            self.drop_line(id, *line)?;
            self.tell(id, "line_cancelled", format!("line {line}: {reason}"))?;
        }
        if self.order(id)?.lines.iter().all(|l| l.kept() == 0) {
            return self.end_cancelled(id, reason);
        }
        self.refund_due(id, "short", reason.as_str())?;
        self.advance(id)
    }

    /// Cancels a whole line, except units that are shipped or bought.
    fn drop_line(&mut self, id: &OrderId, line: i64) -> Result<()> {
        self.withdraw_pending(id, line)?;
        let in_purchase = self.bought_units(id, line)?;
        self.let_go(id, |h| h.line == line && h.purchase.is_none())?;
        let order = self.order_mut(id)?;
        if let Some(l) = order.lines.iter_mut().find(|l| l.no == line) {
            l.cancelled = l.quantity.saturating_sub(l.shipped).saturating_sub(in_purchase).max(0);
        }
        Ok(())
    }

    /// Units of a line that an open purchase has or may have bought, and are not shipped. (In the
    /// feed or not: a settled hold is bought all the same.)
    fn bought_units(&self, id: &OrderId, line: i64) -> Result<i64> {
        let order = self.order(id)?;
        let open = |p: &PurchaseId| {
            order.purchase(p).is_some_and(|p| {
                p.state.in_flight()
                    || matches!(p.state, PurchaseState::Placed | PurchaseState::Paid)
            })
        };
        let bought = order
            .holds
            .iter()
            .filter(|h| h.line == line && !h.is_let_go() && h.purchase.as_ref().is_some_and(open));
        Ok(bought.fold(0, |sum, h| sum.saturating_add(h.quantity)))
    }

    /// Ends the unclaimed purchases that would buy units of a line; `advance` makes new ones.
    fn withdraw_pending(&mut self, id: &OrderId, line: i64) -> Result<()> {
        for purchase in self.purchases(id, |s| s == PurchaseState::Pending)? {
            let lines = &self.purchase(id, &purchase)?.trail.lines;
            if lines.iter().any(|l| l.share.line == line) {
                self.end_purchase(id, &purchase, PurchaseState::Cancelled, "a line was cut")?;
            }
        }
        Ok(())
    }

    pub(super) fn cancel_line(&mut self, id: &OrderId, line: i64, n: i64) -> Result<Outcome> {
        let order = self.order(id)?;
        if order.is_end() || order.state == State::Shipped {
            return Err(self.conflict(id, "nothing of it is left to cancel"));
        }
        let found = order.line(line).ok_or(Stop::Refused(Refusal::NotFound("line")))?;
        if n > found.unshipped() {
            let why = format!("{} units of the line are left", found.unshipped());
            return Err(Refusal::QuantityExceeded(why).into());
        }
        if order.cancel_requested.is_some() || self.in_flight(id, line)? {
            return Err(self.conflict(id, "a purchase of it is in flight"));
        }
        self.withdraw_pending(id, line)?;
        self.cut_line(id, line, n)?;
        self.tell(id, "line_cancelled", format!("line {line}: {n}"))?;
        if self.order(id)?.lines.iter().all(|l| l.kept() == 0) {
            self.end_cancelled(id, CancelReason::Customer)?;
        } else {
            self.refund_due(id, "line", "cancelled before shipping")?;
            self.advance(id)?;
        }
        self.answer(id, Touch::Changed)
    }

    fn in_flight(&self, id: &OrderId, line: i64) -> Result<bool> {
        for purchase in &self.order(id)?.purchases {
            let covers = purchase.trail.lines.iter().any(|l| l.share.line == line);
            if covers && (purchase.state.in_flight() || self.is_doubted(id, purchase)?) {
                return Ok(true);
            }
        }
        Ok(self.perhaps_bought(id)?.iter().any(|(of, _)| *of == line))
    }

    /// Takes `n` units off a line, from the least preferred share on. A supplier's share keeps its
    /// pack size and minimum, or goes whole.
    fn cut_line(&mut self, id: &OrderId, line: i64, n: i64) -> Result<()> {
        let free = |h: &Hold| {
            h.line == line
                && match h.state {
                    HoldState::Active => h.purchase.is_none(),
                    HoldState::Committed => !h.is_supplier(),
                    _ => false,
                }
        };
        let mut keys = self.holds(id, free)?;
        let there = self.order(id)?.holds.iter().filter(|h| free(h));
        if there.fold(0i64, |sum, h| sum.saturating_add(h.quantity)) < n {
            return Err(self.conflict(id, "units of it are bought from the supplier"));
        }
        keys.reverse();
        let mut left = n;
        for key in keys {
            let units = self.cuttable(id, key, left)?;
            if units > 0 {
                let off = self.cut(id, key, units)?;
                let to = match self.hold(id, off)?.state {
                    HoldState::Active => HoldState::Released,
                    _ => HoldState::Reversed,
                };
                self.step(id, off, to)?;
                left -= units;
            }
        }
        if left > 0 {
            let message = "would leave less than the supplier's pack size or minimum";
            return Err(Refusal::invalid("quantity", message).into());
        }
        if let Some(l) = self.order_mut(id)?.lines.iter_mut().find(|l| l.no == line) {
            l.cancelled = l.cancelled.saturating_add(n);
        }
        Ok(())
    }

    /// The most units up to `most` that can be cut off a hold.
    fn cuttable(&self, id: &OrderId, key: Key, most: i64) -> Result<i64> {
        let hold = self.hold(id, key)?;
        let most = most.min(hold.quantity);
        let source = self.world.sku(&hold.sku).and_then(|sku| {
            sku.sources.iter().find(|s| s.level == hold.level).filter(|_| hold.is_supplier())
        });
        let Some(source) = source else {
            return Ok(most);
        };
        let same = self.order(id)?.holds.iter().filter(|h| {
            h.is_active() && h.level == hold.level && h.sku == hold.sku && h.purchase.is_none()
        });
        let total = same.fold(0i64, |sum, h| sum.saturating_add(h.quantity));
        let (min, pack) = (source.min_quantity, source.pack_size.max(1));
        let stands = |cut: i64| {
            let rest = total - cut;
            rest == 0 || (rest >= min && rest % pack == 0)
        };
        // A multiple of the pack lies within one pack below `most`, unless the minimum is touched;
        // then only the whole share can go.
        let near = (0..pack.min(most).saturating_add(1)).map(|k| most - k);
        Ok(near.filter(|cut| *cut > 0).find(|cut| stands(*cut)).unwrap_or(0))
    }

    pub(super) fn close_attention(&mut self, id: &OrderId) {
        for kind in [AlertKind::OrderAttention, AlertKind::CancelRefusedUpstream] {
            self.world.alerts.push(AlertChange::Close { kind, subject: id.to_string() });
        }
    }

    pub(super) fn deadline_in(&self, span: crate::clock::Span) -> Option<Timestamp> {
        Some(self.now + span)
    }
}
