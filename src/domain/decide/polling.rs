//! Supplier orders read back: paid, shipped, received or closed, and the cancelling of them.

use super::buying::share_keys;
use super::{Result, Rules};
use crate::clock::{Span, Timestamp};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::backoff;
use crate::domain::names::{OrderId, PurchaseId};
use crate::domain::order::{CancelReason, Confirmation, Hold, HoldState, Order, State};
use crate::domain::outcome::Outcome;
use crate::domain::policy::READ_AFTER_SHIPPED;
use crate::domain::purchase::PurchaseState;
use crate::domain::supply::{Fault, UpstreamOrder, UpstreamState};

/// `CLOSE_ORDER_TOO_FAST` is asked again after this.
const TOO_SOON: Span = Span::secs(10);

impl Rules<'_> {
    pub(super) fn polled(
        &mut self,
        id: &PurchaseId,
        sent_at: Timestamp,
        answer: &std::result::Result<UpstreamOrder, Fault>,
    ) -> Result<Outcome> {
        let (order, now) = (self.order_of_purchase(id)?, self.now);
        let upstream = match answer {
            Ok(upstream) => upstream,
            Err(_) => return self.poll_later(&order, id),
        };
        let purchase = self.purchase_mut(&order, id)?;
        if purchase.supplier_order_id.as_deref() != Some(&upstream.supplier_order_id)
            || !purchase.state.is_placed()
        {
            return self.next_look(&order, id);
        }
        purchase.trail.polled_at = purchase.trail.polled_at.max(Some(sent_at));
        purchase.trail.unanswered = 0;
        let cancel_failed = std::mem::take(&mut purchase.trail.read_back_first);
        purchase.cost = upstream.total.or(purchase.cost);
        match upstream.state {
            UpstreamState::AwaitingPayment | UpstreamState::Other => {}
            UpstreamState::Paid => self.upstream_paid(&order, id)?,
            UpstreamState::Shipped | UpstreamState::Received => {
                self.upstream_paid(&order, id)?;
                self.upstream_shipped(&order, id, upstream)?;
            }
            UpstreamState::ClosedUnpaid => self.closed_unpaid(&order, id, upstream)?,
            UpstreamState::ClosedBySeller => self.closed_by_seller(&order, id, upstream)?,
        }
        self.judge_unpaid(&order, id)?;
        if cancel_failed && self.purchase(&order, id)?.state == PurchaseState::Placed {
            // Refused, and yet it could be cancelled: not asked again at once.
            return Ok(Outcome::Again(Some(now + self.poll_every(&order, id)?)));
        }
        self.next_look(&order, id)
    }

    fn poll_later(&mut self, order: &OrderId, id: &PurchaseId) -> Result<Outcome> {
        let trail = &mut self.purchase_mut(order, id)?.trail;
        let wait = backoff::exponential(trail.unanswered, Span::secs(1), Span::minutes(10));
        trail.unanswered = trail.unanswered.saturating_add(1);
        Ok(Outcome::Again(Some(self.now + wait)))
    }

    /// `placed → paid`: from here on the supplier's figure counts it, where it counts at payment.
    fn upstream_paid(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        let now = self.now;
        if self.purchase(order, id)?.state != PurchaseState::Placed {
            return Ok(());
        }
        let supplier = self.purchase(order, id)?.supplier.clone();
        let at_order = self.policy.suppliers.get(&supplier).is_some_and(|t| t.counts_at_order);
        let deadline = now + self.policy.ship_deadline;
        let purchase = self.purchase_mut(order, id)?;
        purchase.state = PurchaseState::Paid;
        purchase.paid_at = Some(now);
        purchase.deadline_at = Some(deadline);
        self.world.owe_deadline(deadline);
        for key in share_keys(self.order(order)?, id) {
            let hold = self.hold_mut(order, key)?;
            if !at_order && hold.state == HoldState::Committed {
                hold.counted_at.get_or_insert(now);
            }
        }
        let kind = AlertKind::PurchaseUnpaid;
        self.world.alerts.push(AlertChange::Close { kind, subject: id.to_string() });
        self.tell(order, "purchase_paid", id.to_string())?;
        self.advance(order)
    }

    fn upstream_shipped(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        upstream: &UpstreamOrder,
    ) -> Result<()> {
        let purchase = self.purchase_mut(order, id)?;
        purchase.trail.parcels.clone_from(&upstream.parcels);
        let first = purchase.state == PurchaseState::Paid;
        // Answers may arrive out of order: what was received stays so.
        let received =
            upstream.state == UpstreamState::Received || purchase.state == PurchaseState::Received;
        purchase.state = if received { PurchaseState::Received } else { PurchaseState::Shipped };
        if received {
            purchase.deadline_at = None;
        } else if first {
            self.purchase_deadline(order, id, READ_AFTER_SHIPPED)?;
        }
        if first {
            self.supplier_shipped(order, id, &upstream.parcels)?;
        }
        self.advance(order)
    }

    /// Not paid in time, or cancelled by ourselves.
    fn closed_unpaid(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        upstream: &UpstreamOrder,
    ) -> Result<()> {
        if self.shipped_before(order, id, upstream)? {
            return Ok(());
        }
        let reason = upstream.close_reason.as_deref().unwrap_or("closed unpaid");
        self.not_sold(order, id, reason)
    }

    /// Closed without a sale. Once the item stays orderable and the share is confirmed once more;
    /// a second time it is given up.
    fn not_sold(&mut self, order: &OrderId, id: &PurchaseId, reason: &str) -> Result<()> {
        if !self.wanted_still(order)? {
            return self.undone(order, id, reason);
        }
        let first = !self.closed_before(order, id)?;
        let lines = self.undo_holds(order, id, reason)?;
        if first {
            self.hold_once_more(order, &lines)?;
            return self.ask(order);
        }
        self.fall_short(order, &distinct_lines(&lines), CancelReason::SupplierClosed)?;
        self.keep_place(order, &lines)
    }

    /// Whether an earlier purchase of the same supplier for this order was placed and is gone.
    fn closed_before(&self, order: &OrderId, id: &PurchaseId) -> Result<bool> {
        let this = self.purchase(order, id)?;
        let mut others = self.order(order)?.purchases.iter().filter(|p| &p.id != id);
        Ok(others.any(|p| p.supplier == this.supplier && p.placed_at.is_some() && p.state.is_end()))
    }

    fn closed_by_seller(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        upstream: &UpstreamOrder,
    ) -> Result<()> {
        if self.shipped_before(order, id, upstream)? {
            return Ok(());
        }
        let now = self.now;
        for line in self.purchase(order, id)?.trail.lines.clone() {
            if let Some(level) = self.world.level_mut(&line.share.level) {
                level.blocked_at.get_or_insert(now);
            }
            self.world.alerts.push(AlertChange::Open {
                kind: AlertKind::SupplierClosed,
                subject: line.share.level.to_string(),
                detail: format!("the seller closed {id}: not orderable there until resumed"),
            });
        }
        let reason = upstream.close_reason.as_deref().unwrap_or("closed by the seller");
        if !self.wanted_still(order)? {
            return self.undone(order, id, reason);
        }
        let lines = self.undo_holds(order, id, reason)?;
        self.fall_short(order, &distinct_lines(&lines), CancelReason::SupplierClosed)?;
        self.keep_place(order, &lines)
    }

    /// Shipped and then closed is a matter of returns: nothing is let go by it, and there is
    /// nothing more to read. A person is told, once.
    fn shipped_before(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        upstream: &UpstreamOrder,
    ) -> Result<bool> {
        let purchase = self.purchase_mut(order, id)?;
        if !matches!(purchase.state, PurchaseState::Shipped | PurchaseState::Received) {
            return Ok(false);
        }
        if purchase.end_reason.is_none() {
            let reason = upstream.close_reason.as_deref().unwrap_or("closed");
            purchase.end_reason = Some(reason.to_owned());
            purchase.deadline_at = None;
            let why = format!("the supplier closed {id} after it was shipped");
            if self.order(order)?.is_end() {
                self.tell(order, "shipped_purchase_closed", id.to_string())?;
                self.alert_order(order, &why);
            } else {
                self.attention(order, &why)?;
            }
        }
        Ok(true)
    }

    /// Whether the order still wants what a purchase was to bring.
    fn wanted_still(&self, order: &OrderId) -> Result<bool> {
        let o = self.order(order)?;
        Ok(o.cancel_requested.is_none() && !o.is_end() && o.state != State::Shipped)
    }

    /// The purchase is gone, and the order wants it no more.
    fn undone(&mut self, order: &OrderId, id: &PurchaseId, reason: &str) -> Result<()> {
        let holds = self.undo_holds(order, id, reason)?;
        self.advance(order)?;
        self.keep_place(order, &holds)
    }

    /// Where another purchase still keeps a cancel from being carried out, undone units keep their
    /// place until that is decided: ops may yet let the order go on.
    fn keep_place(&mut self, order: &OrderId, undone: &[Hold]) -> Result<()> {
        let o = self.order(order)?;
        if o.is_end() || o.state == State::Shipped {
            return Ok(());
        }
        let lacks = |h: &&Hold| lacking(o, h.line) >= h.quantity;
        let lacking: Vec<Hold> = undone.iter().filter(lacks).cloned().collect();
        if lacking.is_empty() { Ok(()) } else { self.hold_once_more(order, &lacking) }
    }

    /// The supplier's order is definitely undone: its holds are reversed, its units may come back.
    /// Returns the holds as they were.
    fn undo_holds(&mut self, order: &OrderId, id: &PurchaseId, reason: &str) -> Result<Vec<Hold>> {
        let now = self.now;
        let mut undone = Vec::new();
        for key in share_keys(self.order(order)?, id) {
            let hold = self.hold(order, key)?.clone();
            let bought = matches!(hold.state, HoldState::Committed | HoldState::Settled);
            if hold.purchase.as_ref() == Some(id) && bought {
                // A settled hold is in the figure already: only its units come back.
                self.step(order, key, HoldState::Reversed)?;
                self.hold_mut(order, key)?.undone_at = Some(now);
                undone.push(hold);
            }
        }
        self.end_purchase(order, id, PurchaseState::Cancelled, reason)?;
        Ok(undone)
    }

    /// New active holds in place of reversed ones, without testing what is available: they keep
    /// the order's place in the queue.
    fn hold_once_more(&mut self, order: &OrderId, before: &[Hold]) -> Result<()> {
        let now = self.now;
        for hold in before {
            let part = self.order(order)?.next_part(hold.line);
            self.occupy(
                order,
                Hold {
                    part,
                    state: HoldState::Active,
                    confirmation: Some(Confirmation::Waiting),
                    asked_at: None,
                    purchase: None,
                    counted_at: None,
                    undone_at: None,
                    lost: 0,
                    surplus: 0,
                    created_at: now,
                    ended_at: None,
                    ..hold.clone()
                },
            )?;
        }
        self.tell(order, "held_again", "the supplier's order is gone")
    }

    pub(super) fn cancel_answered(
        &mut self,
        id: &PurchaseId,
        supplier_order_id: &str,
        answer: &std::result::Result<(), Fault>,
    ) -> Result<Outcome> {
        let (order, now) = (self.order_of_purchase(id)?, self.now);
        let recorded =
            self.purchase(&order, id)?.supplier_order_id.as_deref() == Some(supplier_order_id);
        match answer {
            Err(Fault::TooSoon) => return Ok(Outcome::Again(Some(now + TOO_SOON))),
            Ok(()) if recorded => self.cancelled_upstream(&order, id)?,
            Ok(()) => self.surplus_ended(&order, id, supplier_order_id, false)?,
            Err(Fault::Refused { .. }) if !recorded => {
                self.surplus_ended(&order, id, supplier_order_id, true)?;
            }
            // Paid meanwhile, closed already, or no answer: reading it back tells.
            Err(_) if recorded => {
                self.purchase_mut(&order, id)?.trail.read_back_first = true;
                let refused = matches!(answer, Err(Fault::Refused { .. }));
                if refused {
                    return Ok(Outcome::Again(Some(now)));
                }
                return self.poll_later(&order, id);
            }
            Err(_) => return self.poll_later(&order, id),
        }
        self.next_look(&order, id)
    }

    /// Our cancel went through. (Ops may have decided meanwhile that the order goes on.)
    fn cancelled_upstream(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        if self.purchase(order, id)?.state.is_end() {
            return Ok(());
        }
        self.not_sold(order, id, "cancelled upstream")
    }

    /// A surplus order is gone, or is paid and needs a person.
    pub(super) fn surplus_ended(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        supplier_order_id: &str,
        paid: bool,
    ) -> Result<()> {
        let now: Timestamp = self.now;
        let trail = &mut self.purchase_mut(order, id)?.trail;
        let found = trail.surplus.iter_mut().find(|s| s.supplier_order_id == supplier_order_id);
        let Some(surplus) = found.filter(|s| s.ended_at.is_none()) else {
            return Ok(());
        };
        if paid {
            if std::mem::replace(&mut surplus.paid, true) {
                return Ok(());
            }
            self.count_surplus(order, id, true)?;
            return self.tell(order, "surplus_not_cancelled", supplier_order_id);
        }
        surplus.ended_at = Some(now);
        self.count_surplus(order, id, true)?;
        self.world.alerts.push(AlertChange::Close {
            kind: AlertKind::UpstreamDuplicate,
            subject: format!("{id}/{supplier_order_id}"),
        });
        self.tell(order, "surplus_cancelled", supplier_order_id)
    }
}

/// Units of a line that are neither cancelled nor held, sold, bought or shipped.
fn lacking(order: &Order, line: i64) -> i64 {
    let undone = |h: &Hold| {
        let purchase = h.purchase.as_ref().and_then(|p| order.purchase(p));
        h.is_let_go() || (!h.is_open() && purchase.is_some_and(|p| p.state.is_end()))
    };
    let there = order.holds.iter().filter(|h| h.line == line && !undone(h));
    let units = there.fold(0, |sum: i64, h| sum.saturating_add(h.quantity));
    order.line(line).map_or(0, |l| l.kept()).saturating_sub(units)
}

fn distinct_lines(holds: &[Hold]) -> Vec<i64> {
    let mut lines: Vec<i64> = holds.iter().map(|h| h.line).collect();
    lines.dedup();
    lines
}
