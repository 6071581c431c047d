//! Where an order stands after something of it changed: what follows is decided in one place.

use super::{Result, Rules};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::command::Action;
use crate::domain::job::Job;
use crate::domain::names::{LevelId, OrderId, PurchaseId};
use crate::domain::order::{CancelReason, Confirmation, HoldState, State};
use crate::domain::outcome::{Outcome, Touch};
use crate::domain::pricing;
use crate::domain::purchase::PurchaseState;

/// Why an order is in attention when the supplier would not cancel.
pub(super) const CANCEL_REFUSED: &str = "cancel_refused_upstream";

impl Rules<'_> {
    /// The ids of an order's purchases in certain states.
    pub(super) fn purchases(
        &self,
        id: &OrderId,
        keep: impl Fn(PurchaseState) -> bool,
    ) -> Result<Vec<PurchaseId>> {
        let purchases = self.order(id)?.purchases.iter();
        Ok(purchases.filter(|p| keep(p.state)).map(|p| p.id.clone()).collect())
    }

    /// Goes on from here: carries out a requested cancel that nothing stands in the way of any
    /// more, buys once every supplier share is confirmed, confirms, ships.
    pub(super) fn advance(&mut self, id: &OrderId) -> Result<()> {
        let order = self.order(id)?;
        if order.is_end() || order.state == State::Shipped {
            return Ok(());
        }
        if let Some(request) = order.cancel_requested {
            return self.advance_cancel(id, request.reason);
        }
        match order.state {
            State::PendingPayment => {
                // Also an order that was cut down to what costs nothing.
                if pricing::paid(order) >= pricing::owed(order) {
                    self.paid_in_full(id)?;
                }
                return Ok(());
            }
            State::Attention if order.attention.as_deref() == Some(CANCEL_REFUSED) => {
                return Ok(());
            }
            _ => {}
        }
        let waiting = self.holds(id, |h| h.is_supplier() && h.is_active())?;
        if waiting.is_empty() {
            let bought = self.purchases(id, |s| s.in_flight() || s == PurchaseState::Pending)?;
            if bought.is_empty() && order_awaits(self.order(id)?.state) {
                self.confirmed(id)?;
            }
        } else if self
            .order(id)?
            .holds
            .iter()
            .filter(|h| h.is_supplier() && h.is_active())
            .all(|h| h.confirmation == Some(Confirmation::Confirmed))
        {
            self.buy(id)?;
        }
        let lines = &self.order(id)?.lines;
        if lines.iter().any(|l| l.shipped > 0) && lines.iter().all(|l| l.unshipped() == 0) {
            self.all_shipped(id)?;
        }
        Ok(())
    }

    fn advance_cancel(&mut self, id: &OrderId, reason: CancelReason) -> Result<()> {
        let waiting = self.order(id)?.purchases.iter().any(|p| {
            p.state.in_flight() || (p.state == PurchaseState::Placed && !p.trail.cancel_refused)
        });
        if waiting {
            return Ok(());
        }
        let paid = self.purchases(id, |s| s == PurchaseState::Paid)?;
        if paid.is_empty() {
            return self.end_cancelled(id, reason);
        }
        for purchase in &paid {
            self.purchase_mut(id, purchase)?.trail.cancel_refused = true;
        }
        if self.order(id)?.attention.as_deref() == Some(CANCEL_REFUSED) {
            return Ok(());
        }
        self.world.alerts.push(AlertChange::Open {
            kind: AlertKind::CancelRefusedUpstream,
            subject: id.to_string(),
            detail: "the supplier's order is paid: the purchase goes on until ops decide".into(),
        });
        self.attention(id, CANCEL_REFUSED)
    }

    /// Needs a person; nothing is let go by it.
    pub(super) fn attention(&mut self, id: &OrderId, why: &str) -> Result<()> {
        self.order_mut(id)?.attention = Some(why.to_owned());
        self.tell(id, "order_attention", why)?;
        self.enter(id, State::Attention, self.deadline_in(self.policy.attention_deadline))?;
        self.world.alerts.push(AlertChange::Open {
            kind: AlertKind::OrderAttention,
            subject: id.to_string(),
            detail: why.to_owned(),
        });
        Ok(())
    }

    /// Every share is sold from the warehouse or placed upstream.
    pub(super) fn confirmed(&mut self, id: &OrderId) -> Result<()> {
        self.order_mut(id)?.attention = None;
        self.tell(id, "order_confirmed", "")?;
        self.close_attention(id);
        self.enter(id, State::Confirmed, self.deadline_in(self.policy.ship_deadline))
    }

    /// Everything that was not cancelled has left.
    pub(super) fn all_shipped(&mut self, id: &OrderId) -> Result<()> {
        self.tell(id, "order_shipped", "")?;
        self.close_attention(id);
        self.enter(id, State::Shipped, self.deadline_in(self.policy.complete_after))
    }

    /// Starts (or starts anew) to ask the supplier about every undecided share.
    pub(super) fn ask(&mut self, id: &OrderId) -> Result<()> {
        let now = self.now;
        let mut levels: Vec<LevelId> = Vec::new();
        for hold in &mut self.order_mut(id)?.holds {
            if hold.is_active() && hold.is_supplier() && hold.purchase.is_none() {
                // What was decided while a cancel was pending is open again when ops retry.
                if !matches!(
                    hold.confirmation,
                    Some(Confirmation::Confirmed | Confirmation::Unknown)
                ) {
                    hold.confirmation = Some(Confirmation::Waiting);
                }
                hold.asked_at.get_or_insert(now);
                levels.push(hold.level.clone());
            }
        }
        for level in levels {
            self.world.owe(Job::Confirm { level }, now);
        }
        self.enter(id, State::Confirming, self.deadline_in(self.policy.retry_deadline))
    }

    /// What ops decide of an order in attention.
    pub(super) fn decide_attention(&mut self, id: &OrderId, action: Action) -> Result<Outcome> {
        let order = self.order(id)?;
        if order.state != State::Attention {
            return Err(self.conflict(id, "it is not in attention"));
        }
        let refused = order.attention.as_deref() == Some(CANCEL_REFUSED);
        self.tell(id, "ops_decided", if action == Action::Retry { "retry" } else { "cancel" })?;
        match action {
            Action::Cancel if refused => self.end_cancelled(id, CancelReason::Ops)?,
            Action::Cancel => {
                if !self.request_cancel(id, CancelReason::Ops)? {
                    return self.answer(id, Touch::CancelPending);
                }
            }
            Action::Retry => self.retry_order(id)?,
        }
        self.answer(id, Touch::Changed)
    }

    fn retry_order(&mut self, id: &OrderId) -> Result<()> {
        let now = self.now;
        let order = self.order_mut(id)?;
        order.attention = None;
        order.cancel_requested = None;
        let mut open = Vec::new();
        for purchase in order.purchases.iter_mut().filter(|p| !p.state.is_end()) {
            purchase.cancel_requested_at = None;
            purchase.trail.cancel_refused = false;
            purchase.trail.unanswered = 0;
            open.push(purchase.id.clone());
        }
        for purchase in open {
            self.world.owe(Job::Purchase { purchase }, now);
        }
        self.close_attention(id);
        self.ask(id)?;
        self.advance(id)
    }

    pub(super) fn ship_to(
        &mut self,
        id: &OrderId,
        address: &crate::domain::supply::Address,
    ) -> Result<Outcome> {
        let order = self.order(id)?;
        let begun =
            order.purchases.iter().any(|p| p.state != PurchaseState::Pending && !p.state.is_end());
        if order.is_end() || order.state == State::Shipped || begun {
            return Err(self.conflict(id, "buying or shipping has begun"));
        }
        if order.ship_to.as_ref() != Some(address) {
            self.order_mut(id)?.ship_to = Some(address.clone());
            self.tell(id, "ship_to_changed", "")?;
        }
        self.answer(id, Touch::Changed)
    }

    /// Surely nothing of it is bought, or may yet turn out to be.
    pub(super) fn surely_not_bought(&self, id: &OrderId) -> Result<bool> {
        let order = self.order(id)?;
        let bought = order.purchases.iter().any(|p| p.state.in_flight() || p.state.is_placed());
        let lost = order.holds.iter().any(|h| {
            h.lost > 0 || h.surplus > 0 || (h.is_supplier() && h.state == HoldState::Committed)
        });
        Ok(!bought && !lost)
    }
}

/// Waits for its supplier shares.
pub(super) fn order_awaits(state: State) -> bool {
    matches!(state, State::Paid | State::Confirming | State::Attention)
}
