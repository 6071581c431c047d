//! The refund port: who gives the money back.
//!
//! What must hold: a refund's id is the same over all attempts, also over those that ops start after
//! `not_made`, and the provider makes at most one refund under one id. So a request whose answer was
//! lost can be looked up, and is never guessed about. Adapters translate and decide nothing; whatever
//! is not a definite answer is [`RefundAnswer::Unknown`].

use async_trait::async_trait;

use crate::domain::command::RefundAnswer;
use crate::domain::money::{self, Currency};
use crate::domain::names::{OrderId, RefundId};
use crate::domain::order::Order;
use crate::domain::refund::Refund;

mod manual;
mod webhook;

pub use manual::Manual;
pub use webhook::Webhook;

/// A refund as asked of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub refund_id: RefundId,
    pub order_id: OrderId,
    pub external_id: String,
    pub payment_id: String,
    /// Decimal text with exactly the currency's decimals.
    pub amount: String,
    pub currency: String,
    pub reason: String,
}

impl Request {
    /// `amount` in minor units of the order's currency.
    ///
    /// # Errors
    /// When the order's currency is not one of ISO 4217.
    pub fn of(order: &Order, refund: &Refund, amount: i64) -> Result<Request, money::Error> {
        let currency = Currency::parse(&order.currency)?;
        Ok(Request {
            refund_id: refund.id.clone(),
            order_id: order.id.clone(),
            external_id: order.external_id.clone(),
            payment_id: refund.payment_id.clone(),
            amount: money::format_minor(amount, currency),
            currency: order.currency.clone(),
            reason: refund.reason.clone(),
        })
    }
}

/// Someone who gives money back.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Asks for the refund. Repeating a request under the same id must not make a second one.
    async fn make(&self, request: &Request) -> RefundAnswer;

    /// What became of a refund that may have been asked for.
    async fn look_up(&self, refund: &RefundId) -> RefundAnswer;

    /// Longest time that one call takes, in real time.
    fn timeout(&self) -> std::time::Duration;
}
