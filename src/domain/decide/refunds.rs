//! Money that goes back. What is owed back is `pricing::due_back`; a refund's id derives from
//! (order, payment, number), so that none is made twice. After a restore from a backup an older
//! order's refunds are looked up before they are made: the lost life of the store may have made them.
//! What ops give is a gift on top: it lessens neither what counts as paid nor what is due back.

use super::{Result, Rules};
use crate::clock::{Span, Timestamp};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::backoff;
use crate::domain::command::RefundAnswer;
use crate::domain::job::Job;
use crate::domain::names::{OrderId, RefundId};
use crate::domain::outcome::{Outcome, RefundStep, Refusal, Stop, Touch};
use crate::domain::policy::{ONCE_MORE, REFUND_ALERT_AFTER};
use crate::domain::pricing;
use crate::domain::refund::{self, Refund, RefundState};

/// Of a refund that the lost life of a restored store may have made.
const DOUBTED: &str = "may have been made before the restore, perhaps with another amount";

impl Rules<'_> {
    /// When the store was restored, if the order is older.
    pub(super) fn predates_restore(&self, order: &OrderId) -> Result<Option<Timestamp>> {
        let created_at = self.order(order)?.created_at;
        Ok(self.world.restored_at.filter(|restored_at| created_at <= *restored_at))
    }

    /// Owes everything that is due back, if anything is.
    pub(super) fn refund_due(&mut self, id: &OrderId, why: &str, reason: &str) -> Result<()> {
        let due = pricing::due_back(self.order(id)?);
        if due > 0 { self.owe_refund(id, due, why, reason) } else { Ok(()) }
    }

    /// Owes an amount, newest payment first.
    fn owe_refund(&mut self, id: &OrderId, amount: i64, why: &str, reason: &str) -> Result<()> {
        let (now, by_provider) = (self.now, self.policy.refunds_by_provider);
        let deadline = now + REFUND_ALERT_AFTER;
        let doubted = self.predates_restore(id)?.is_some();
        self.tell(id, "refund_owed", reason)?;
        let order = self.order_mut(id)?;
        let cause = format!("{why}:{}", order.events.last().map_or(0, |e| e.n));
        let mut left = amount;
        let mut made = Vec::new();
        for payment in order.payments.iter().rev() {
            let back = order.refunds.iter().filter(|r| r.payment_id == payment.id);
            let gone = back.clone().fold(0i64, |sum, r| sum.saturating_add(r.amount));
            let nth = back.count().saturating_add(1);
            let part = left.min(payment.amount.saturating_sub(gone));
            if part > 0 {
                left -= part;
                made.push(Refund {
                    id: refund::id_of(id, &payment.id, nth),
                    cause: cause.clone(),
                    reason: reason.to_owned(),
                    payment_id: payment.id.clone(),
                    amount: part,
                    state: RefundState::Pending,
                    attempt: 1,
                    asked_at: doubted.then_some(now),
                    reference: None,
                    note: doubted.then(|| DOUBTED.to_owned()),
                    created_at: now,
                    deadline_at: Some(deadline),
                });
            }
        }
        let ids: Vec<RefundId> = made.iter().map(|r| r.id.clone()).collect();
        order.refunds.extend(made);
        for refund in ids {
            self.world.claim_refund(refund.clone(), id);
            if by_provider {
                self.world.owe(Job::Refund { refund }, now);
            }
        }
        self.world.owe_deadline(deadline);
        Ok(())
    }

    pub(super) fn refund_by_ops(
        &mut self,
        id: &OrderId,
        amount: i64,
        reason: &str,
    ) -> Result<Outcome> {
        let order = self.order(id)?;
        let most = order.captured().saturating_sub(order.refunded());
        if amount > most {
            let why = format!("{most} minor units are left to give back");
            return Err(Refusal::QuantityExceeded(why).into());
        }
        self.owe_refund(id, amount, refund::BY_OPS, reason)?;
        self.answer(id, Touch::Changed)
    }

    fn refund(&self, order: &OrderId, id: &RefundId) -> Result<&Refund> {
        let found = self.order(order)?.refunds.iter().find(|r| &r.id == id);
        found.ok_or(Stop::Refused(Refusal::NotFound("refund")))
    }

    fn refund_mut(&mut self, order: &OrderId, id: &RefundId) -> Result<&mut Refund> {
        let found = self.order_mut(order)?.refunds.iter_mut().find(|r| &r.id == id);
        found.ok_or(Stop::Refused(Refusal::NotFound("refund")))
    }

    pub(super) fn claim_refund(&mut self, id: &RefundId) -> Result<Outcome> {
        let (order, now) = (self.order_of_refund(id)?, self.now);
        let refund = self.refund_mut(&order, id)?;
        let step = match (refund.state, refund.asked_at) {
            (RefundState::Pending, None) => {
                refund.asked_at = Some(now);
                RefundStep::Make { amount: refund.amount }
            }
            (RefundState::Pending, Some(_)) => RefundStep::LookUp,
            _ => RefundStep::Done,
        };
        Ok(Outcome::RefundStep { step, order: self.whole(&order)? })
    }

    pub(super) fn refund_answered(
        &mut self,
        id: &RefundId,
        answer: &RefundAnswer,
    ) -> Result<Outcome> {
        let (order, now) = (self.order_of_refund(id)?, self.now);
        let refund = self.refund_mut(&order, id)?;
        if refund.state != RefundState::Pending {
            return Ok(Outcome::Again(None));
        }
        // From when it was owed: an attempt that failed and was surely not made starts no new count.
        let waited = now.since(refund.created_at);
        let again = now + backoff::doubling(waited, Span::secs(1), Span::minutes(10));
        match answer {
            RefundAnswer::Succeeded { reference } => {
                self.refund_made(&order, id, reference.as_deref())?;
                Ok(Outcome::Again(None))
            }
            RefundAnswer::Pending => Ok(Outcome::Again(Some(again))),
            RefundAnswer::NotMade => {
                refund.asked_at = None;
                Ok(Outcome::Again(Some(now)))
            }
            RefundAnswer::Unknown { message } => {
                refund.note = Some(message.clone());
                Ok(Outcome::Again(Some(again)))
            }
            RefundAnswer::Refused { message } => {
                refund.state = RefundState::NeedsAttention;
                refund.note = Some(message.clone());
                self.tell(&order, "refund_needs_attention", message.clone())?;
                self.alert_refund(id, &format!("the provider refused it: {message}"));
                Ok(Outcome::Again(None))
            }
        }
    }

    fn refund_made(
        &mut self,
        order: &OrderId,
        id: &RefundId,
        reference: Option<&str>,
    ) -> Result<()> {
        let refund = self.refund_mut(order, id)?;
        refund.state = RefundState::Succeeded;
        refund.reference = reference.map(str::to_owned);
        refund.deadline_at = None;
        self.world
            .alerts
            .push(AlertChange::Close { kind: AlertKind::RefundFailing, subject: id.to_string() });
        self.tell(order, "refund_succeeded", id.to_string())
    }

    pub(super) fn alert_refund(&mut self, id: &RefundId, detail: &str) {
        self.world.alerts.push(AlertChange::Open {
            kind: AlertKind::RefundFailing,
            subject: id.to_string(),
            detail: detail.to_owned(),
        });
    }

    /// A refund that is still open: alerts now and again a day later. A provider that could not be
    /// asked until the deadline is asked first.
    pub(super) fn refund_overdue(
        &mut self,
        order: &OrderId,
        id: &RefundId,
        deadline: Timestamp,
    ) -> Result<()> {
        let asked = self.policy.refunds_by_provider
            && self.refund(order, id)?.state == RefundState::Pending;
        if asked && self.noticed_late(deadline) {
            let again = self.now + ONCE_MORE;
            self.refund_mut(order, id)?.deadline_at = Some(again);
            self.world.owe_deadline(again);
            self.world.owe(Job::Refund { refund: id.clone() }, self.now);
            return Ok(());
        }
        let deadline: Timestamp = self.now + REFUND_ALERT_AFTER;
        self.refund_mut(order, id)?.deadline_at = Some(deadline);
        self.world.owe_deadline(deadline);
        self.alert_refund(id, "not made yet");
        Ok(())
    }

    pub(super) fn retry_refund(&mut self, id: &RefundId) -> Result<Outcome> {
        let order = self.order_of_refund(id)?;
        if self.refund(&order, id)?.state == RefundState::Succeeded {
            return Err(made_already());
        }
        self.try_again(&order, id)?;
        self.answer(&order, Touch::Changed)
    }

    /// Pending again; what was asked before is looked up before it is asked again.
    fn try_again(&mut self, order: &OrderId, id: &RefundId) -> Result<()> {
        let (now, by_provider) = (self.now, self.policy.refunds_by_provider);
        self.refund_mut(order, id)?.state = RefundState::Pending;
        if by_provider {
            self.world.owe(Job::Refund { refund: id.clone() }, now);
        }
        Ok(())
    }

    /// What was made stays so, under the reference it has. One that comes later fills a gap.
    fn made_before(
        &mut self,
        order: &OrderId,
        id: &RefundId,
        made: bool,
        reference: Option<&str>,
    ) -> Result<Outcome> {
        let refund = self.refund(order, id)?;
        match (refund.reference.as_deref(), reference) {
            _ if !made => return Err(made_already()),
            (Some(known), Some(given)) if known != given => {
                let why = format!("the refund was made under the reference {known}");
                return Err(Refusal::Conflict(RefundState::Succeeded.as_str(), why).into());
            }
            (None, Some(given)) => {
                self.refund_mut(order, id)?.reference = Some(given.to_owned());
            }
            _ => {}
        }
        self.answer(order, Touch::Changed)
    }

    pub(super) fn resolve_refund(
        &mut self,
        id: &RefundId,
        made: bool,
        reference: Option<&str>,
    ) -> Result<Outcome> {
        let order = self.order_of_refund(id)?;
        if self.refund(&order, id)?.state == RefundState::Succeeded {
            return self.made_before(&order, id, made, reference);
        }
        if made {
            self.refund_made(&order, id, reference)?;
        } else {
            let refund = self.refund_mut(&order, id)?;
            refund.attempt = refund.attempt.saturating_add(1);
            refund.asked_at = None;
            self.try_again(&order, id)?;
            self.tell(&order, "refund_not_made", id.to_string())?;
        }
        self.answer(&order, Touch::Changed)
    }
}

fn made_already() -> Stop {
    let state = RefundState::Succeeded.as_str();
    Refusal::Conflict(state, "the refund was made".into()).into()
}
