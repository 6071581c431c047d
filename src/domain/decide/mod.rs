//! `decide`: the one place where commands meet the rules. Pure: the world, the policy and the time
//! are given; changes land in the world; a refused command leaves nothing behind.

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
        match command {
            Command::Place(placement) => self.place(placement),
            Command::Pay { order, payment } => self.pay(order, payment),
            Command::PaymentInProgress { order, payment_id } => {
                self.payment_in_progress(order, payment_id)
            }
            Command::Cancel { order, reason } => self.cancel(order, *reason),
            Command::CancelLine { order, line, quantity } => {
                self.cancel_line(order, *line, *quantity)
            }
            Command::ShipTo { order, address } => self.ship_to(order, address),
            Command::Decide { order, action } => self.decide_attention(order, *action),
            Command::Ship { order, lines, carrier, tracking_number } => {
                self.ship(order, lines, carrier, tracking_number)
            }
            Command::Complete { order } => self.complete(order),
            Command::RefundOrder { order, amount, reason } => {
                self.refund_by_ops(order, *amount, reason)
            }
            Command::Due { order } => self.due(order),

            Command::PutSku(sku) => self.put_sku(sku),
            Command::Import { rows, set_quantities } => self.import(rows, *set_quantities),
            Command::PauseSku { sku, what, reason } => self.pause_sku(sku, *what, Some(reason)),
            Command::ResumeSku { sku, what, .. } => self.pause_sku(sku, *what, None),
            Command::PauseSupplier { supplier, what, reason } => {
                self.pause_supplier(supplier, *what, Some(reason))
            }
            Command::ResumeSupplier { supplier, what, .. } => {
                self.pause_supplier(supplier, *what, None)
            }
            Command::AddAlias { sku, alias } => self.add_alias(sku, alias),
            Command::ChangeStock { sku, source, change, reason } => {
                self.change_stock(sku, source, change, reason)
            }

            Command::Readings { readings, feed, .. } => self.take_readings(readings, *feed),
            Command::LockItem { level, owner } => self.lock_item(level, owner),
            Command::JudgeItem { level, token, answer, polled } => {
                self.judge_item(level, *token, answer, *polled)
            }

            Command::ClaimPurchase { purchase, busy_for } => {
                self.claim_purchase(purchase, *busy_for)
            }
            Command::Placed { purchase, attempt, sent, answer } => {
                self.create_answered(purchase, *attempt, *sent, answer)
            }
            Command::LookedUp { purchase, late, answer } => self.looked_up(purchase, *late, answer),
            Command::Polled { purchase, answer } => self.polled(purchase, answer),
            Command::CancelAnswered { purchase, supplier_order_id, answer } => {
                self.cancel_answered(purchase, supplier_order_id, answer)
            }
            Command::RetryPurchase { purchase } => self.retry_purchase(purchase),
            Command::ResolvePurchase { purchase, resolution } => {
                self.resolve_purchase(purchase, resolution)
            }

            Command::ClaimRefund { refund } => self.claim_refund(refund),
            Command::RefundAnswered { refund, answer } => self.refund_answered(refund, answer),
            Command::RetryRefund { refund } => self.retry_refund(refund),
            Command::ResolveRefund { refund, made, reference } => {
                self.resolve_refund(refund, *made, reference.as_deref())
            }

            Command::Alerts(changes) => {
                self.world.alerts.extend(changes.iter().cloned());
                Ok(Outcome::Done)
            }
        }
    }

    fn order(&self, id: &OrderId) -> Result<&Order> {
        self.world.orders.get(id).ok_or(Stop::Refused(Refusal::NotFound("order")))
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
        Ok(Outcome::Order { order: Box::new(self.order(order)?.clone()), touch })
    }

    fn conflict(&self, order: &OrderId, why: &str) -> Stop {
        match self.order(order) {
            Ok(o) => Stop::Refused(Refusal::OrderState(o.state, why.to_owned())),
            Err(stop) => stop,
        }
    }
}
