//! An order as the contract shows it.

use serde::Serialize;
use utoipa::ToSchema;

use super::purchase::PurchaseView;
use super::refund::OrderRefundView;
use super::{amounts, hold_id, line_id, time};
use crate::clock::Timestamp;
use crate::domain::order::{Hold, Line, Order, Payment};
use crate::domain::pricing;
use crate::domain::view::{expires_in, line_state};

#[derive(Debug, Serialize, ToSchema)]
pub struct OrderView<'a> {
    pub id: &'a str,
    pub channel: &'a str,
    pub external_id: &'a str,
    /// `pending_payment`, `paid`, `confirming`, `confirmed`, `shipped`, `completed`, `attention`,
    /// `cancelled` or `expired`.
    pub state: &'static str,
    /// ISO 4217; all amounts of the order are in it.
    pub currency: &'a str,
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
    pub lines: Vec<LineView<'a>>,
    pub payments: Vec<PaymentView<'a>>,
    pub refunds: Vec<OrderRefundView>,
    pub purchase_orders: Vec<PurchaseView>,
    pub timeline: Vec<TimelineView<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LineView<'a> {
    pub id: String,
    pub sku: &'a str,
    pub quantity: i64,
    pub cancelled_quantity: i64,
    pub shipped_quantity: i64,
    pub returned_quantity: i64,
    pub unit_price: String,
    /// Its least advanced share: `held`, `confirming`, `sold`, `purchased`, `shipped`,
    /// `cancelled`, `released`.
    pub state: &'static str,
    pub allocations: Vec<AllocationView<'a>>,
}

/// A share of a line at one source.
#[derive(Debug, Serialize, ToSchema)]
pub struct AllocationView<'a> {
    pub source: &'a str,
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
pub struct PaymentView<'a> {
    pub id: &'a str,
    pub amount: String,
    /// As the caller told it.
    pub paid_at: Option<String>,
    pub recorded_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TimelineView<'a> {
    pub at: String,
    pub event: &'a str,
    pub detail: &'a str,
}

impl OrderView<'_> {
    pub fn new(order: &Order, now: Timestamp) -> OrderView<'_> {
        let amount = amounts(&order.currency);
        OrderView {
            id: order.id.as_str(),
            channel: &order.channel,
            external_id: &order.external_id,
            state: order.state.as_str(),
            currency: &order.currency,
            total: amount(order.total),
            due: amount(pricing::owed(order).saturating_sub(pricing::paid(order)).max(0)),
            paid: amount(order.captured()),
            refunded: amount(order.refunded()),
            created_at: time(order.created_at),
            expires_at: time(order.expires_at),
            expires_in_seconds: expires_in(order, now),
            cancel_reason: order.cancel_reason.map(|reason| reason.as_str()),
            cancel_requested_at: order.cancel_requested.map(|request| time(request.at)),
            lines: order.lines.iter().map(|l| LineView::new(order, l, &amount)).collect(),
            payments: order.payments.iter().map(|p| PaymentView::new(p, &amount)).collect(),
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
                .map(|e| TimelineView { at: time(e.at), event: &e.event, detail: &e.detail })
                .collect(),
        }
    }
}

impl<'a> LineView<'a> {
    fn new(order: &'a Order, line: &'a Line, amount: &impl Fn(i64) -> String) -> LineView<'a> {
        LineView {
            id: line_id(&order.id, line.no),
            sku: line.sku.as_str(),
            quantity: line.quantity,
            cancelled_quantity: line.cancelled,
            shipped_quantity: line.shipped,
            returned_quantity: line.returned,
            unit_price: amount(line.unit_price),
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

impl<'a> AllocationView<'a> {
    fn new(order: &Order, hold: &'a Hold) -> AllocationView<'a> {
        AllocationView {
            source: hold.source.as_str(),
            kind: hold.kind.as_str(),
            quantity: hold.quantity,
            hold_id: hold_id(&order.id, hold.line, hold.part),
            hold_state: hold.state.as_str(),
            confirmation: hold.confirmation.map(|c| c.as_str()),
        }
    }
}

impl<'a> PaymentView<'a> {
    fn new(payment: &'a Payment, amount: &impl Fn(i64) -> String) -> PaymentView<'a> {
        PaymentView {
            id: &payment.id,
            amount: amount(payment.amount),
            paid_at: payment.paid_at.map(time),
            recorded_at: time(payment.recorded_at),
        }
    }
}
