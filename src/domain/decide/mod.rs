//! `decide`: the one place where commands meet the rules. Pure: the world, the policy and the time
//! are given; changes land in the world; a refused command leaves nothing behind.

use std::sync::Arc;

use super::command::Command;
use super::names::{OrderId, PurchaseId, RefundId};
use super::order::{Order, State};
use super::outcome::{Outcome, Refusal, Stop, Touch};
use super::policy::Policy;
use super::purchase::Purchase;
use super::world::World;
use crate::clock::Timestamp;

mod buying;
mod buying_answers;
mod catalogue;
mod deadlines;
mod ending;
mod holds;
mod judging;
mod payments;
mod placing;
mod polling;
mod progress;
mod readings;
mod refunds;
mod shipping;
mod stock_changes;
mod warnings;

pub use judging::{Claim, Standing, Verdict, judge};

type Result<T> = std::result::Result<T, Stop>;

/// Decides one command. On a refusal, or when more must be loaded first, the world is as before.
///
/// # Errors
/// [`Stop`].
pub fn decide(
    world: &mut World,
    policy: &Policy,
    now: Timestamp,
    command: &Command,
) -> Result<Outcome> {
    world.begin();
    let outcome = Rules { world, policy, now }.apply(command);
    if outcome.is_err() {
        world.rollback();
    }
    outcome
}

/// The rules at work on one command.
struct Rules<'a> {
    world: &'a mut World,
    policy: &'a Policy,
    now: Timestamp,
}

impl Rules<'_> {
    fn apply(&mut self, command: &Command) -> Result<Outcome> {
        use Command as C;
        match command {
            C::Place(placement) => self.place(placement),
            C::Pay { order, payment } => self.pay(order, payment),
            C::PaymentInProgress { order, payment_id } => {
                self.payment_in_progress(order, payment_id)
            }
            C::Cancel { order, reason } => self.cancel(order, *reason),
            C::CancelLine { order, line, quantity } => self.cancel_line(order, *line, *quantity),
            C::ShipTo { order, address } => self.ship_to(order, address),
            C::Decide { order, action } => self.decide_attention(order, *action),
            C::Ship { order, lines, carrier, tracking_number } => {
                self.ship(order, lines, carrier, tracking_number)
            }
            C::Complete { order } => self.complete(order),
            C::RefundOrder { order, amount, reason } => self.refund_by_ops(order, *amount, reason),
            C::Due { order } => self.due(order),

            C::PutSku(sku) => self.put_sku(sku),
            C::Import { rows, set_quantities } => self.import(rows, *set_quantities),
            C::PauseSku { .. }
            | C::ResumeSku { .. }
            | C::PauseSupplier { .. }
            | C::ResumeSupplier { .. } => self.switch(command),
            C::AddAlias { sku, alias } => self.add_alias(sku, alias),
            C::ChangeStock { sku, source, change, reason } => {
                self.change_stock(sku, source, change, reason)
            }

            C::Readings { readings, feed, .. } => self.take_readings(readings, *feed),
            C::LockItem { level, owner } => self.lock_item(level, owner),
            C::JudgeItem { level, token, answer, polled } => {
                self.judge_item(level, *token, answer, *polled)
            }

            C::ClaimPurchase { purchase, busy_for } => self.claim_purchase(purchase, *busy_for),
            C::Placed { purchase, attempt, sent, answer } => {
                self.create_answered(purchase, *attempt, *sent, answer)
            }
            C::LookedUp { purchase, late, answer } => self.looked_up(purchase, *late, answer),
            C::Polled { purchase, sent_at, answer } => self.polled(purchase, *sent_at, answer),
            C::CancelAnswered { purchase, supplier_order_id, answer } => {
                self.cancel_answered(purchase, supplier_order_id, answer)
            }
            C::RetryPurchase { purchase } => self.retry_purchase(purchase),
            C::ResolvePurchase { purchase, resolution } => {
                self.resolve_purchase(purchase, resolution)
            }

            C::ClaimRefund { refund } => self.claim_refund(refund),
            C::RefundAnswered { refund, answer } => self.refund_answered(refund, answer),
            C::RetryRefund { refund } => self.retry_refund(refund),
            C::ResolveRefund { refund, made, reference } => {
                self.resolve_refund(refund, *made, reference.as_deref())
            }

            C::Alerts(changes) => {
                self.world.alerts.extend(changes.iter().cloned());
                Ok(Outcome::Done)
            }
            C::LowStock { skus } => self.low_stock(skus),
            C::FeedStale { supplier, tally } => self.feed_stale(supplier, tally),
        }
    }

    fn order(&self, id: &OrderId) -> Result<&Order> {
        let order = self.world.orders.get(id).map(Arc::as_ref);
        order.ok_or(Stop::Refused(Refusal::NotFound("order")))
    }

    /// The order as it is now, to be told.
    fn whole(&self, id: &OrderId) -> Result<Arc<Order>> {
        self.world.orders.get(id).cloned().ok_or(Stop::Refused(Refusal::NotFound("order")))
    }

    fn order_mut(&mut self, id: &OrderId) -> Result<&mut Order> {
        self.world.order_mut(id).ok_or(Stop::Refused(Refusal::NotFound("order")))
    }

    fn order_of_purchase(&self, id: &PurchaseId) -> Result<OrderId> {
        let order = self.world.purchases.get(id).cloned();
        order.ok_or(Stop::Refused(Refusal::NotFound("purchase order")))
    }

    fn order_of_refund(&self, id: &RefundId) -> Result<OrderId> {
        let order = self.world.refunds.get(id).cloned();
        order.ok_or(Stop::Refused(Refusal::NotFound("refund")))
    }

    fn purchase(&self, order: &OrderId, id: &PurchaseId) -> Result<&Purchase> {
        let found = self.order(order)?.purchase(id);
        found.ok_or(Stop::Refused(Refusal::NotFound("purchase order")))
    }

    fn purchase_mut(&mut self, order: &OrderId, id: &PurchaseId) -> Result<&mut Purchase> {
        let found = self.order_mut(order)?.purchase_mut(id);
        found.ok_or(Stop::Refused(Refusal::NotFound("purchase order")))
    }

    fn tell(&mut self, order: &OrderId, event: &str, detail: impl Into<String>) -> Result<()> {
        let now = self.now;
        self.order_mut(order)?.tell(now, event, detail);
        Ok(())
    }

    /// Enters a state with its deadline, owing the deadline's job in the same transaction.
    fn enter(&mut self, order: &OrderId, state: State, deadline: Option<Timestamp>) -> Result<()> {
        let o = self.order_mut(order)?;
        o.state = state;
        o.deadline_at = deadline;
        if let Some(at) = deadline {
            self.world.owe_deadline(at);
        }
        Ok(())
    }

    fn answer(&self, order: &OrderId, touch: Touch) -> Result<Outcome> {
        Ok(Outcome::Order { order: self.whole(order)?, touch })
    }

    fn conflict(&self, order: &OrderId, why: &str) -> Stop {
        match self.order(order) {
            Ok(o) => Stop::Refused(Refusal::OrderState(o.state, why.to_owned())),
            Err(stop) => stop,
        }
    }
}
