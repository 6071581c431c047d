//! An order as the contract shows it.

use serde::Serialize;
use utoipa::ToSchema;

use super::purchase::PurchaseView;
use super::refund::OrderRefundView;
use super::{hold_id, line_id, money, time};
use crate::clock::Timestamp;
use crate::domain::order::{Hold, Line, Order, Payment};
use crate::domain::pricing;
use crate::domain::view::{expires_in, line_state};

#[derive(Debug, Serialize, ToSchema)]
pub struct OrderView {
    pub id: String,
    pub channel: String,
    pub external_id: String,
    /// `pending_payment`, `paid`, `confirming`, `confirmed`, `shipped`, `completed`, `attention`,
    /// `cancelled` or `expired`.
    pub state: &'static str,
    /// ISO 4217; all amounts of the order are in it.
    pub currency: String,
    #[schema(example = "23.99")]
    pub total: String,
    /// What is still to be paid for what was not cancelled; 0 once it is paid or ended.
    pub due: String,
    /// Captured so far.
    pub paid: String,
    /// Given back or owed back.
    pub refunded: String,
    pub created_at: String,
    /// The payment deadline.
    pub expires_at: String,
    /// 0 once it is paid or ended.
    pub expires_in_seconds: i64,
    /// `customer`, `supplier_short`, `supplier_refused`, `supplier_closed`,
    /// `supplier_unavailable`, `payment_after_expiry`, `address_missing`, `stock_correction`, `ops`.
    pub cancel_reason: Option<&'static str>,
    /// A cancel waits for a purchase in flight.
    pub cancel_requested_at: Option<String>,
    pub lines: Vec<LineView>,
    pub payments: Vec<PaymentView>,
    pub refunds: Vec<OrderRefundView>,
    pub purchase_orders: Vec<PurchaseView>,
    pub timeline: Vec<TimelineView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LineView {
    pub id: String,
    pub sku: String,
    pub quantity: i64,
    pub cancelled_quantity: i64,
    pub shipped_quantity: i64,
    pub returned_quantity: i64,
    pub unit_price: String,
    /// Its least advanced share: `held`, `confirming`, `sold`, `purchased`, `shipped`,
    /// `cancelled`, `released`.
    pub state: &'static str,
    pub allocations: Vec<AllocationView>,
}

/// A share of a line at one source.
#[derive(Debug, Serialize, ToSchema)]
pub struct AllocationView {
    pub source: String,
    /// `warehouse` or `supplier`.
    pub kind: &'static str,
    pub quantity: i64,
    pub hold_id: String,
    /// `active`, `committed`, `settled`, `released` or `reversed`.
    pub hold_state: &'static str,
    /// `not_due`, `waiting`, `confirmed`, `unknown`, `short`, `refused`; null for the warehouse.
    pub confirmation: Option<&'static str>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PaymentView {
    pub id: String,
    pub amount: String,
    /// As the caller told it.
    pub paid_at: Option<String>,
    pub recorded_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TimelineView {
    pub at: String,
    pub event: String,
    pub detail: String,
}

impl OrderView {
    pub fn new(order: &Order, now: Timestamp) -> OrderView {
        let amount = |units| money(units, &order.currency);
        OrderView {
            id: order.id.to_string(),
            channel: order.channel.clone(),
            external_id: order.external_id.clone(),
            state: order.state.as_str(),
            currency: order.currency.clone(),
            total: amount(order.total),
            due: amount(pricing::owed(order).saturating_sub(pricing::paid(order)).max(0)),
            paid: amount(order.captured()),
            refunded: amount(order.refunded()),
            created_at: time(order.created_at),
            expires_at: time(order.expires_at),
            expires_in_seconds: expires_in(order, now),
            cancel_reason: order.cancel_reason.map(|reason| reason.as_str()),
            cancel_requested_at: order.cancel_requested.map(|request| time(request.at)),
            lines: order.lines.iter().map(|l| LineView::new(order, l)).collect(),
            payments: order.payments.iter().map(|p| PaymentView::new(p, &order.currency)).collect(),
            refunds: order
                .refunds
                .iter()
                .map(|r| OrderRefundView::new(r, &order.currency))
                .collect(),
            purchase_orders: order
                .purchases
                .iter()
                .map(|p| PurchaseView::new(&order.id, p))
                .collect(),
            timeline: order
                .events
                .iter()
                .map(|e| TimelineView {
                    at: time(e.at),
                    event: e.event.clone(),
                    detail: e.detail.clone(),
                })
                .collect(),
        }
    }
}

impl LineView {
    fn new(order: &Order, line: &Line) -> LineView {
        LineView {
            id: line_id(&order.id, line.no),
            sku: line.sku.to_string(),
            quantity: line.quantity,
            cancelled_quantity: line.cancelled,
            shipped_quantity: line.shipped,
            returned_quantity: line.returned,
            unit_price: money(line.unit_price, &order.currency),
            state: line_state(order, line).as_str(),
            allocations: order
                .holds
                .iter()
                .filter(|hold| hold.line == line.no)
                .map(|hold| AllocationView::new(order, hold))
                .collect(),
        }
    }
}

impl AllocationView {
    fn new(order: &Order, hold: &Hold) -> AllocationView {
        AllocationView {
            source: hold.source.to_string(),
            kind: hold.kind.as_str(),
            quantity: hold.quantity,
            hold_id: hold_id(&order.id, hold.line, hold.part),
            hold_state: hold.state.as_str(),
            confirmation: hold.confirmation.map(|c| c.as_str()),
        }
    }
}

impl PaymentView {
    fn new(payment: &Payment, currency: &str) -> PaymentView {
        PaymentView {
            id: payment.id.clone(),
            amount: money(payment.amount, currency),
            paid_at: payment.paid_at.map(time),
            recorded_at: time(payment.recorded_at),
        }
    }
}
