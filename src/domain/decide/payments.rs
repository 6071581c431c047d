//! Money that came in: in time, late, in parts, too much, or for an order that has ended. Captured
//! money is recorded once for each (channel, payment id), whatever the order's state.

use super::placing::Wanted;
use super::{Result, Rules};
use crate::domain::command::Capture;
use crate::domain::names::OrderId;
use crate::domain::order::{CancelReason, HoldState, Payment, State};
use crate::domain::outcome::{Outcome, Refusal, Stop, Touch};
use crate::domain::pricing;

impl Rules<'_> {
    pub(super) fn pay(&mut self, id: &OrderId, payment: &Capture) -> Result<Outcome> {
        if self.recorded_before(id, payment)? {
            return self.answer(id, Touch::Changed);
        }
        let now = self.now;
        let order = self.order_mut(id)?;
        if order.captured().checked_add(payment.amount).is_none() {
            let message = "is too large beside what was paid already";
            return Err(Refusal::invalid("amount", message).into());
        }
        let channel = order.channel.clone();
        order.payments.push(Payment {
            id: payment.id.clone(),
            amount: payment.amount,
            paid_at: payment.paid_at,
            recorded_at: now,
        });
        order.tell(now, "payment_recorded", payment.id.clone());
        let state = order.state;
        let has = pricing::paid(order);
        self.world.claim_payment(&channel, &payment.id, id);
        match state {
            // Payment and expiry race on this row: still unpaid here means that payment won.
            State::PendingPayment if has >= pricing::owed(self.order(id)?) => {
                self.paid_in_full(id)?;
                self.refund_due(id, "excess", "paid too much")?;
            }
            State::PendingPayment => {}
            State::Expired if has >= pricing::price(self.order(id)?) => self.pay_late(id)?,
            State::Expired => self.refund_due(id, "late", "paid after expiry")?,
            State::Cancelled => self.refund_due(id, "late", "paid after the order ended")?,
            _ => self.refund_due(id, "excess", "paid too much")?,
        }
        self.answer(id, Touch::Changed)
    }

    /// Whether this very payment is recorded already.
    fn recorded_before(&self, id: &OrderId, payment: &Capture) -> Result<bool> {
        let order = self.order(id)?;
        if payment.currency.as_ref().is_some_and(|c| *c != order.currency) {
            let message = format!("the order's currency is {}", order.currency);
            return Err(Refusal::invalid("currency", message).into());
        }
        let key = (order.channel.clone(), payment.id.clone());
        let Some(owner) = self.world.payments.get(&key) else {
            return Ok(false);
        };
        if owner != id {
            let why = "it belongs to another order".to_owned();
            return Err(Refusal::PaymentConflict(why).into());
        }
        match order.payments.iter().find(|p| p.id == payment.id) {
            Some(known) if known.amount == payment.amount => Ok(true),
            _ => Err(Refusal::PaymentConflict("it has another amount".to_owned()).into()),
        }
    }

    /// All is paid: the warehouse's shares are sold, the supplier's wait to be confirmed.
    pub(super) fn paid_in_full(&mut self, id: &OrderId) -> Result<()> {
        let now = self.now;
        self.order_mut(id)?.paid_at = Some(now);
        for key in self.holds(id, |h| h.is_active() && !h.is_supplier())? {
            self.step(id, key, HoldState::Committed)?;
        }
        self.tell(id, "order_paid", "")?;
        if self.holds(id, |h| h.is_active())?.is_empty() {
            return self.confirmed(id);
        }
        self.enter(id, State::Paid, Some(now + self.policy.confirm_delay))
    }

    /// Paid after expiry: held anew, or given back.
    fn pay_late(&mut self, id: &OrderId) -> Result<()> {
        let lines = self.order(id)?.lines.iter();
        let wanted: Vec<Wanted> = lines
            .filter(|l| l.kept() > 0)
            .map(|l| Wanted { line: l.no, sku: l.sku.clone(), quantity: l.kept() })
            .collect();
        match self.choose(&wanted) {
            Ok(shares) => {
                self.hold_shares(id, shares)?;
                self.tell(id, "held_again", "paid after expiry, stock was there")?;
                self.order_mut(id)?.state = State::PendingPayment;
                self.paid_in_full(id)?;
                self.refund_due(id, "excess", "paid too much")
            }
            Err(Stop::Refused(_)) => {
                self.end_cancelled(id, CancelReason::PaymentAfterExpiry)?;
                Ok(())
            }
            Err(more) => Err(more),
        }
    }

    pub(super) fn payment_in_progress(&mut self, id: &OrderId, payment: &str) -> Result<Outcome> {
        let order = self.order(id)?;
        let key = (order.channel.clone(), payment.to_owned());
        if self.world.payments.get(&key).is_some_and(|owner| owner != id) {
            let why = "it belongs to another order".to_owned();
            return Err(Refusal::PaymentConflict(why).into());
        }
        match order.state {
            State::PendingPayment if !order.grace_used => {}
            State::Expired | State::Cancelled => {
                return Err(self.conflict(id, "no payment is awaited any more"));
            }
            _ => return self.answer(id, Touch::Changed),
        }
        let grace = self.policy.payment_grace;
        let order = self.order_mut(id)?;
        order.grace_used = true;
        order.expires_at = order.expires_at + grace;
        let deadline = order.expires_at;
        self.tell(id, "payment_in_progress", payment)?;
        self.enter(id, State::PendingPayment, Some(deadline))?;
        self.answer(id, Touch::Changed)
    }
}
