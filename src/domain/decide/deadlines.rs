//! What happens when a deadline passes. Every waiting state has one; the job of its second and the
//! scan each minute both end up here, and a deadline that is not there yet is put back.

use super::{Result, Rules};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::names::OrderId;
use crate::domain::order::{CancelReason, State};
use crate::domain::outcome::Outcome;
use crate::domain::policy::REPEAT_EVERY;
use crate::domain::refund::RefundState;

impl Rules<'_> {
    /// Whatever of the order, its purchases and its refunds is past its deadline.
    pub(super) fn due(&mut self, id: &OrderId) -> Result<Outcome> {
        let now = self.now;
        let order = self.order(id)?;
        let past = |at: Option<crate::clock::Timestamp>| at.is_some_and(|at| at <= now);
        let order_due = past(order.deadline_at);
        let purchases: Vec<_> =
            order.purchases.iter().filter(|p| past(p.deadline_at)).map(|p| p.id.clone()).collect();
        let refunds: Vec<_> = order
            .refunds
            .iter()
            .filter(|r| past(r.deadline_at) && r.state != RefundState::Succeeded)
            .map(|r| r.id.clone())
            .collect();
        if !order_due && purchases.is_empty() && refunds.is_empty() {
            let later = order.purchases.iter().map(|p| p.deadline_at);
            let later = later.chain(order.refunds.iter().map(|r| r.deadline_at));
            let next = later.chain([order.deadline_at]).flatten().min();
            return Ok(next.map_or(Outcome::Done, Outcome::Early));
        }
        for purchase in purchases {
            self.purchase_overdue(id, &purchase)?;
        }
        for refund in refunds {
            self.refund_overdue(id, &refund)?;
        }
        if order_due {
            self.order_due(id)?;
        }
        Ok(Outcome::Done)
    }

    fn order_due(&mut self, id: &OrderId) -> Result<()> {
        match self.order(id)?.state {
            State::PendingPayment => self.expire(id),
            State::Paid => self.confirm_due(id),
            State::Confirming | State::Attention if self.held_up(id)? => self.start_anew(id),
            State::Confirming => self.attention(id, "the supplier gave no definite answer"),
            State::Attention if self.surely_not_bought(id)? => {
                self.end_cancelled(id, CancelReason::SupplierUnavailable)
            }
            State::Attention => {
                self.alert_order(id, "still undecided: something of it may be bought");
                self.enter(id, State::Attention, self.deadline_in(REPEAT_EVERY))
            }
            State::Confirmed => {
                self.alert_order(id, "confirmed and not shipped in time");
                self.enter(id, State::Confirmed, self.deadline_in(REPEAT_EVERY))
            }
            State::Shipped => self.completed(id),
            State::Completed | State::Cancelled | State::Expired => {
                self.order_mut(id)?.deadline_at = None;
                Ok(())
            }
        }
    }

    /// The time after payment has passed: now the supplier is asked.
    fn confirm_due(&mut self, id: &OrderId) -> Result<()> {
        let order = self.order(id)?;
        let nowhere = order.ship_to.is_none()
            && order.holds.iter().filter(|h| h.is_supplier() && h.is_active()).any(|h| {
                self.policy.suppliers.get(&h.source).is_none_or(|t| t.deliver_to.is_none())
            });
        if nowhere {
            self.request_cancel(id, CancelReason::AddressMissing)?;
            return Ok(());
        }
        self.tell(id, "order_confirming", "")?;
        self.ask(id)
    }

    pub(super) fn alert_order(&mut self, id: &OrderId, detail: &str) {
        self.world.alerts.push(AlertChange::Open {
            kind: AlertKind::OrderAttention,
            subject: id.to_string(),
            detail: detail.to_owned(),
        });
    }
}
