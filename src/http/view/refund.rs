//! Refunds, in their order and in their own list.

use serde::Serialize;
use utoipa::ToSchema;

use super::{money, time};
use crate::domain::names::OrderId;
use crate::domain::refund::Refund;

/// A refund within its order.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrderRefundView {
    pub id: String,
    /// The payment that it gives back from.
    pub payment_id: String,
    pub amount: String,
    /// `pending`, `succeeded` or `needs_attention`.
    pub state: &'static str,
    pub reason: String,
}

impl OrderRefundView {
    pub fn new(refund: &Refund, currency: &str) -> OrderRefundView {
        OrderRefundView {
            id: refund.id.to_string(),
            payment_id: refund.payment_id.clone(),
            amount: money(refund.amount, currency),
            state: refund.state.as_str(),
            reason: refund.reason.clone(),
        }
    }
}

/// A refund by itself.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefundView {
    pub id: String,
    pub order_id: String,
    pub payment_id: String,
    pub amount: String,
    /// The order's.
    pub currency: String,
    /// `pending`, `succeeded` or `needs_attention`.
    pub state: &'static str,
    pub reason: String,
    /// Rises when ops say that an attempt was not made.
    pub attempt: i64,
    /// The provider's or the person's.
    pub reference: Option<String>,
    /// What the provider last said.
    pub note: Option<String>,
    pub created_at: String,
    /// Alerts when it is still open then.
    pub deadline_at: Option<String>,
}

impl RefundView {
    pub fn new(order: &OrderId, currency: &str, refund: &Refund) -> RefundView {
        RefundView {
            id: refund.id.to_string(),
            order_id: order.to_string(),
            payment_id: refund.payment_id.clone(),
            amount: money(refund.amount, currency),
            currency: currency.to_owned(),
            state: refund.state.as_str(),
            reason: refund.reason.clone(),
            attempt: refund.attempt,
            reference: refund.reference.clone(),
            note: refund.note.clone(),
            created_at: time(refund.created_at),
            deadline_at: refund.deadline_at.map(time),
        }
    }
}
