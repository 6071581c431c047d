//! Rows of an order and what belongs to it.

use crate::clock::Timestamp;
use crate::domain::names::{LevelId, OrderId, PurchaseId, RefundId, SkuKey, SourceId};
use crate::domain::order::{
    CancelReason, CancelRequest, Confirmation, Customer, Event, Hold, HoldState, Line, Order,
    Payment, Shipment, ShortPolicy, State,
};
use crate::domain::purchase::{Purchase, PurchaseState, Trail};
use crate::domain::refund::{Refund, RefundState};
use crate::domain::sku::Kind;
use crate::domain::supply::Address;
use crate::storage::cell::Json;
use crate::storage::table::table;

table! {
    /// An order's own columns.
    "orders" OrderRow key(id) guard(state, event_seq) {
        id: OrderId,
        channel: String,
        external_id: String,
        content_hash: String,
        idempotency_key: Option<String>,
        idempotency_hash: Option<String>,
        state: State,
        currency: String,
        total: i64,
        shipping: i64,
        discount: i64,
        short_policy: ShortPolicy,
        cancel_reason: Option<CancelReason>,
        cancel_requested_at: Option<Timestamp>,
        cancel_requested_reason: Option<CancelReason>,
        created_at: Timestamp,
        expires_at: Timestamp,
        grace_used: bool,
        paid_at: Option<Timestamp>,
        deadline_at: Option<Timestamp>,
        attention: Option<String>,
        customer: Option<Json<Customer>>,
        ship_to: Option<Json<Address>>,
        shipments: Json<Vec<Shipment>>,
        event_seq: i64,
    }
}

impl From<&Order> for OrderRow {
    fn from(o: &Order) -> OrderRow {
        let (idempotency_key, idempotency_hash) = o.idempotency.clone().unzip();
        OrderRow {
            id: o.id.clone(),
            channel: o.channel.clone(),
            external_id: o.external_id.clone(),
            content_hash: o.content_hash.clone(),
            idempotency_key,
            idempotency_hash,
            state: o.state,
            currency: o.currency.clone(),
            total: o.total,
            shipping: o.shipping,
            discount: o.discount,
            short_policy: o.short_policy,
            cancel_reason: o.cancel_reason,
            cancel_requested_at: o.cancel_requested.map(|c| c.at),
            cancel_requested_reason: o.cancel_requested.map(|c| c.reason),
            created_at: o.created_at,
            expires_at: o.expires_at,
            grace_used: o.grace_used,
            paid_at: o.paid_at,
            deadline_at: o.deadline_at,
            attention: o.attention.clone(),
            customer: o.customer.clone().map(Json),
            ship_to: o.ship_to.clone().map(Json),
            shipments: Json(o.shipments.clone()),
            event_seq: o.events.last().map_or(0, |e| e.n),
        }
    }
}

/// Without what belongs to it.
impl From<OrderRow> for Order {
    fn from(r: OrderRow) -> Order {
        Order {
            id: r.id,
            channel: r.channel,
            external_id: r.external_id,
            content_hash: r.content_hash,
            idempotency: r.idempotency_key.zip(r.idempotency_hash),
            state: r.state,
            currency: r.currency,
            total: r.total,
            shipping: r.shipping,
            discount: r.discount,
            short_policy: r.short_policy,
            cancel_reason: r.cancel_reason,
            cancel_requested: r
                .cancel_requested_at
                .zip(r.cancel_requested_reason)
                .map(|(at, reason)| CancelRequest { at, reason }),
            created_at: r.created_at,
            expires_at: r.expires_at,
            grace_used: r.grace_used,
            paid_at: r.paid_at,
            deadline_at: r.deadline_at,
            attention: r.attention,
            customer: r.customer.map(|j| j.0),
            ship_to: r.ship_to.map(|j| j.0),
            lines: Vec::new(),
            holds: Vec::new(),
            payments: Vec::new(),
            refunds: Vec::new(),
            purchases: Vec::new(),
            shipments: r.shipments.0,
            events: Vec::new(),
        }
    }
}

table! {
    "order_lines" LineRow key(order_id, no) guard() {
        order_id: OrderId,
        no: i64,
        sku: SkuKey,
        quantity: i64,
        unit_price: i64,
        cancelled: i64,
        shipped: i64,
        returned: i64,
    }
}

impl LineRow {
    pub fn of(order: &OrderId, l: &Line) -> LineRow {
        LineRow {
            order_id: order.clone(),
            no: l.no,
            sku: l.sku.clone(),
            quantity: l.quantity,
            unit_price: l.unit_price,
            cancelled: l.cancelled,
            shipped: l.shipped,
            returned: l.returned,
        }
    }
}

impl From<LineRow> for Line {
    fn from(r: LineRow) -> Line {
        Line {
            no: r.no,
            sku: r.sku,
            quantity: r.quantity,
            unit_price: r.unit_price,
            cancelled: r.cancelled,
            shipped: r.shipped,
            returned: r.returned,
        }
    }
}

table! {
    /// A hold ends once: an update compares the state it had, and the quantity.
    "holds" HoldRow key(order_id, line, part) guard(quantity, state) {
        order_id: OrderId,
        line: i64,
        part: i64,
        sku: SkuKey,
        level_id: LevelId,
        source: SourceId,
        kind: Kind,
        quantity: i64,
        state: HoldState,
        confirmation: Option<Confirmation>,
        asked_at: Option<Timestamp>,
        purchase_id: Option<PurchaseId>,
        counted_at: Option<Timestamp>,
        undone_at: Option<Timestamp>,
        lost: i64,
        surplus: i64,
        created_at: Timestamp,
        ended_at: Option<Timestamp>,
    }
}

impl HoldRow {
    pub fn of(order: &OrderId, h: &Hold) -> HoldRow {
        HoldRow {
            order_id: order.clone(),
            line: h.line,
            part: h.part,
            sku: h.sku.clone(),
            level_id: h.level.clone(),
            source: h.source.clone(),
            kind: h.kind,
            quantity: h.quantity,
            state: h.state,
            confirmation: h.confirmation,
            asked_at: h.asked_at,
            purchase_id: h.purchase.clone(),
            counted_at: h.counted_at,
            undone_at: h.undone_at,
            lost: h.lost,
            surplus: h.surplus,
            created_at: h.created_at,
            ended_at: h.ended_at,
        }
    }
}

impl From<HoldRow> for Hold {
    fn from(r: HoldRow) -> Hold {
        Hold {
            line: r.line,
            part: r.part,
            sku: r.sku,
            level: r.level_id,
            source: r.source,
            kind: r.kind,
            quantity: r.quantity,
            state: r.state,
            confirmation: r.confirmation,
            asked_at: r.asked_at,
            purchase: r.purchase_id,
            counted_at: r.counted_at,
            undone_at: r.undone_at,
            lost: r.lost,
            surplus: r.surplus,
            created_at: r.created_at,
            ended_at: r.ended_at,
        }
    }
}

table! {
    "payments" PaymentRow key(payment_id, channel) guard() {
        payment_id: String,
        channel: String,
        order_id: OrderId,
        no: i64,
        amount: i64,
        paid_at: Option<Timestamp>,
        recorded_at: Timestamp,
    }
}

impl PaymentRow {
    /// `no`: its position in the order, from 1.
    pub fn of(order: &Order, no: i64, p: &Payment) -> PaymentRow {
        PaymentRow {
            payment_id: p.id.clone(),
            channel: order.channel.clone(),
            order_id: order.id.clone(),
            no,
            amount: p.amount,
            paid_at: p.paid_at,
            recorded_at: p.recorded_at,
        }
    }
}

impl From<PaymentRow> for Payment {
    fn from(r: PaymentRow) -> Payment {
        Payment {
            id: r.payment_id,
            amount: r.amount,
            paid_at: r.paid_at,
            recorded_at: r.recorded_at,
        }
    }
}

table! {
    "refunds" RefundRow key(id) guard(state, attempt) {
        id: RefundId,
        order_id: OrderId,
        no: i64,
        cause: String,
        reason: String,
        payment_id: String,
        amount: i64,
        state: RefundState,
        attempt: i64,
        asked_at: Option<Timestamp>,
        reference: Option<String>,
        note: Option<String>,
        created_at: Timestamp,
        deadline_at: Option<Timestamp>,
    }
}

impl RefundRow {
    /// `no`: its position in the order, from 1.
    pub fn of(order: &OrderId, no: i64, r: &Refund) -> RefundRow {
        RefundRow {
            id: r.id.clone(),
            order_id: order.clone(),
            no,
            cause: r.cause.clone(),
            reason: r.reason.clone(),
            payment_id: r.payment_id.clone(),
            amount: r.amount,
            state: r.state,
            attempt: r.attempt,
            asked_at: r.asked_at,
            reference: r.reference.clone(),
            note: r.note.clone(),
            created_at: r.created_at,
            deadline_at: r.deadline_at,
        }
    }
}

impl From<RefundRow> for Refund {
    fn from(r: RefundRow) -> Refund {
        Refund {
            id: r.id,
            cause: r.cause,
            reason: r.reason,
            payment_id: r.payment_id,
            amount: r.amount,
            state: r.state,
            attempt: r.attempt,
            asked_at: r.asked_at,
            reference: r.reference,
            note: r.note,
            created_at: r.created_at,
            deadline_at: r.deadline_at,
        }
    }
}

table! {
    "purchase_orders" PurchaseRow key(id) guard(state, attempts) {
        id: PurchaseId,
        order_id: OrderId,
        no: i64,
        supplier: SourceId,
        generation: i64,
        state: PurchaseState,
        supplier_order_id: Option<String>,
        cost: Option<i64>,
        currency: String,
        attempts: i64,
        attempt_until: Option<Timestamp>,
        cancel_requested_at: Option<Timestamp>,
        placed_at: Option<Timestamp>,
        paid_at: Option<Timestamp>,
        ended_at: Option<Timestamp>,
        end_reason: Option<String>,
        deadline_at: Option<Timestamp>,
        created_at: Timestamp,
        trail: Json<Trail>,
    }
}

impl PurchaseRow {
    /// `no`: its position in the order, from 1.
    pub fn of(order: &OrderId, no: i64, p: &Purchase) -> PurchaseRow {
        PurchaseRow {
            id: p.id.clone(),
            order_id: order.clone(),
            no,
            supplier: p.supplier.clone(),
            generation: p.generation,
            state: p.state,
            supplier_order_id: p.supplier_order_id.clone(),
            cost: p.cost,
            currency: p.currency.clone(),
            attempts: p.attempts,
            attempt_until: p.attempt_until,
            cancel_requested_at: p.cancel_requested_at,
            placed_at: p.placed_at,
            paid_at: p.paid_at,
            ended_at: p.ended_at,
            end_reason: p.end_reason.clone(),
            deadline_at: p.deadline_at,
            created_at: p.created_at,
            trail: Json(p.trail.clone()),
        }
    }
}

impl From<PurchaseRow> for Purchase {
    fn from(r: PurchaseRow) -> Purchase {
        Purchase {
            id: r.id,
            supplier: r.supplier,
            generation: r.generation,
            state: r.state,
            supplier_order_id: r.supplier_order_id,
            cost: r.cost,
            currency: r.currency,
            attempts: r.attempts,
            attempt_until: r.attempt_until,
            cancel_requested_at: r.cancel_requested_at,
            placed_at: r.placed_at,
            paid_at: r.paid_at,
            ended_at: r.ended_at,
            end_reason: r.end_reason,
            deadline_at: r.deadline_at,
            created_at: r.created_at,
            trail: r.trail.0,
        }
    }
}

table! {
    /// One entry of the timeline; its global `seq` is given by the database.
    "events" EventRow key(order_id, n) guard() {
        order_id: OrderId,
        n: i64,
        at: Timestamp,
        event: String,
        detail: String,
    }
}

impl EventRow {
    pub fn of(order: &OrderId, e: &Event) -> EventRow {
        EventRow {
            order_id: order.clone(),
            n: e.n,
            at: e.at,
            event: e.event.clone(),
            detail: e.detail.clone(),
        }
    }
}

impl From<EventRow> for Event {
    fn from(r: EventRow) -> Event {
        Event { n: r.n, at: r.at, event: r.event, detail: r.detail }
    }
}
