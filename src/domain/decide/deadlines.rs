//! What happens when a deadline passes. Every waiting state has one; the job of its second and the
//! scan each minute both end up here, and a deadline that is not there yet is put back.
//!
//! A deadline that says *no answer came* counts only if it was waited for until then: one that is
//! noticed late passed while we were away, and what it is about is asked once more first. One that
//! says *it did not happen* is judged only by a reading asked for after it.

use std::collections::BTreeSet;

use super::{Result, Rules};
use crate::clock::Timestamp;
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::job::Job;
use crate::domain::names::{OrderId, PurchaseId};
use crate::domain::order::{CancelReason, Confirmation, State};
use crate::domain::outcome::Outcome;
use crate::domain::policy::{NOTICED_LATE, ONCE_MORE, REPEAT_EVERY};
use crate::domain::purchase::PurchaseState;
use crate::domain::refund::RefundState;

impl Rules<'_> {
    /// Whatever of the order, its purchases and its refunds is past its deadline.
    pub(super) fn due(&mut self, id: &OrderId) -> Result<Outcome> {
        let now = self.now;
        let order = self.order(id)?;
        let order_due = order.deadline_at.filter(|at| *at <= now);
        let purchases: Vec<_> = order
            .purchases
            .iter()
            .filter_map(|p| Some((p.id.clone(), p.deadline_at.filter(|at| *at <= now)?)))
            .collect();
        let refunds: Vec<_> = order
            .refunds
            .iter()
            .filter(|r| r.state != RefundState::Succeeded)
            .filter_map(|r| Some((r.id.clone(), r.deadline_at.filter(|at| *at <= now)?)))
            .collect();
        if order_due.is_none() && purchases.is_empty() && refunds.is_empty() {
            let later = order.purchases.iter().map(|p| p.deadline_at);
            let later = later.chain(order.refunds.iter().map(|r| r.deadline_at));
            let next = later.chain([order.deadline_at]).flatten().min();
            return Ok(next.map_or(Outcome::Done, Outcome::Early));
        }
        for (purchase, deadline) in purchases {
            self.purchase_overdue(id, &purchase, deadline)?;
        }
        for (refund, deadline) in refunds {
            self.refund_overdue(id, &refund, deadline)?;
        }
        if let Some(deadline) = order_due {
            self.order_due(id, deadline)?;
        }
        Ok(Outcome::Done)
    }

    fn order_due(&mut self, id: &OrderId, deadline: Timestamp) -> Result<()> {
        match self.order(id)?.state {
            State::PendingPayment => self.expire(id),
            State::Paid => self.confirm_due(id),
            State::Confirming | State::Attention if self.held_up(id)? => self.start_anew(id),
            State::Confirming | State::Attention if self.noticed_late(deadline) => {
                self.ask_once_more(id)
            }
            State::Confirming => self.attention(id, "the supplier gave no definite answer"),
            State::Attention if self.surely_not_bought(id)? => {
                self.end_cancelled(id, CancelReason::SupplierUnavailable)
            }
            State::Attention => {
                self.alert_order(id, "still undecided: something of it may be bought");
                self.enter(id, State::Attention, self.deadline_in(REPEAT_EVERY))
            }
            State::Confirmed => self.not_shipped(id, deadline),
            State::Shipped => self.completed(id),
            State::Completed | State::Cancelled | State::Expired => {
                self.order_mut(id)?.deadline_at = None;
                Ok(())
            }
        }
    }

    /// Whether a deadline passed while nobody was there to ask (the daemon was away).
    pub(super) fn noticed_late(&self, deadline: Timestamp) -> bool {
        self.now.since(deadline) > NOTICED_LATE
    }

    /// Asks whoever has not answered about an order, and waits a little longer.
    fn ask_once_more(&mut self, id: &OrderId) -> Result<()> {
        let now = self.now;
        let order = self.order(id)?;
        let open = |c: Option<Confirmation>| {
            matches!(c, Some(Confirmation::Waiting | Confirmation::Unknown))
        };
        let undecided = order.holds.iter().filter(|h| h.is_active() && open(h.confirmation));
        let asked = undecided.map(|h| Job::Confirm { level: h.level.clone() });
        let unsettled = order.purchases.iter().filter(|p| !p.state.is_end());
        let bought = unsettled.map(|p| Job::Purchase { purchase: p.id.clone() });
        let jobs: BTreeSet<Job> = asked.chain(bought).collect();
        let state = order.state;
        jobs.into_iter().for_each(|job| self.world.owe(job, now));
        self.enter(id, state, self.deadline_in(ONCE_MORE))
    }

    /// Sold and not shipped in time, unless that is only what old readings say.
    fn not_shipped(&mut self, id: &OrderId, deadline: Timestamp) -> Result<()> {
        let now = self.now;
        let unread = self.unread(id, deadline)?;
        if unread.is_empty() {
            self.alert_order(id, "confirmed and not shipped in time");
            return self.enter(id, State::Confirmed, self.deadline_in(REPEAT_EVERY));
        }
        unread.into_iter().for_each(|purchase| self.world.owe(Job::Purchase { purchase }, now));
        self.enter(id, State::Confirmed, self.deadline_in(ONCE_MORE))
    }

    /// The purchases of an order that were last asked about before it was (first) due to be shipped;
    /// none where goods of our own are late as well.
    fn unread(&self, id: &OrderId, deadline: Timestamp) -> Result<Vec<PurchaseId>> {
        let order = self.order(id)?;
        if order.holds.iter().any(|h| !h.is_supplier() && h.is_open()) {
            return Ok(Vec::new());
        }
        let confirmed = order.events.iter().rev().find(|e| e.event == "order_confirmed");
        let due = confirmed.map_or(deadline, |e| deadline.min(e.at + self.policy.ship_deadline));
        let unread = order.purchases.iter().filter(|p| {
            matches!(p.state, PurchaseState::Placed | PurchaseState::Paid)
                && p.trail.polled_at.is_none_or(|read| read < due)
        });
        Ok(unread.map(|p| p.id.clone()).collect())
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
