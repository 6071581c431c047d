//! Orders with their lines, holds, payments and timeline: one aggregate, decided under one lock.
//!
//! What must hold: a hold ends once (`active → committed → settled`, or `active → released`, or
//! `committed → reversed`); an order that holds stock or owes something has a deadline.

use serde::{Deserialize, Serialize};

use super::names::{LevelId, OrderId, PurchaseId, SkuKey, SourceId, texts};
use super::purchase::Purchase;
use super::refund::Refund;
use super::sku::Kind;
use super::supply::{Address, Item};
use crate::clock::Timestamp;

texts!(
    /// Where an order is; see `api.md`.
    State {
        PendingPayment = "pending_payment",
        Paid = "paid",
        Confirming = "confirming",
        Confirmed = "confirmed",
        Shipped = "shipped",
        Completed = "completed",
        Attention = "attention",
        Cancelled = "cancelled",
        Expired = "expired",
    }
);

texts!(CancelReason {
    Customer = "customer",
    SupplierShort = "supplier_short",
    SupplierRefused = "supplier_refused",
    SupplierClosed = "supplier_closed",
    SupplierUnavailable = "supplier_unavailable",
    PaymentAfterExpiry = "payment_after_expiry",
    AddressMissing = "address_missing",
    StockCorrection = "stock_correction",
    Ops = "ops",
});

texts!(
    /// What happens when a supplier is short of a line.
    ShortPolicy { CancelOrder = "cancel_order", CancelLines = "cancel_lines" }
);

texts!(HoldState {
    Active = "active",
    Committed = "committed",
    Settled = "settled",
    Released = "released",
    Reversed = "reversed",
});

texts!(
    /// What the supplier says of a share of a line.
    Confirmation {
        NotDue = "not_due",
        /// Only undecided older orders, or confirmed shares of orders not fully decided, stand
        /// before it; or it was not judged yet.
        Waiting = "waiting",
        Confirmed = "confirmed",
        Unknown = "unknown",
        Short = "short",
        Refused = "refused",
    }
);

/// A share of a line at one source. Identified by (order, line, part).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub line: i64,
    pub part: i64,
    pub sku: SkuKey,
    pub level: LevelId,
    pub source: SourceId,
    pub kind: Kind,
    /// Above 0; changes only when a part of it goes another way.
    pub quantity: i64,
    pub state: HoldState,
    /// `None` for the warehouse.
    pub confirmation: Option<Confirmation>,
    /// When the supplier was first asked about it; deadlines run from here.
    pub asked_at: Option<Timestamp>,
    /// The purchase that bought it or is about to.
    pub purchase: Option<PurchaseId>,
    /// When the definite answer reached us by which the supplier's own figure falls (payment or
    /// order, as it counts). A snapshot surely contains it from `settle_margin` after.
    pub counted_at: Option<Timestamp>,
    /// Cancelled or closed upstream then; its units may come back until a reading surely after.
    pub undone_at: Option<Timestamp>,
    /// Units of it in creates whose answer was lost and whose look-up after an hour is still to
    /// come: each of them may have taken these units.
    pub lost: i64,
    /// Units of it in surplus supplier orders that are not yet cancelled.
    pub surplus: i64,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl Hold {
    pub fn is_active(&self) -> bool {
        self.state == HoldState::Active
    }
    pub fn is_supplier(&self) -> bool {
        self.kind == Kind::Supplier
    }
    /// Its units went back, or are no longer wanted.
    pub fn is_let_go(&self) -> bool {
        matches!(self.state, HoldState::Released | HoldState::Reversed)
    }
    /// Neither ended nor gone.
    pub fn is_open(&self) -> bool {
        matches!(self.state, HoldState::Active | HoldState::Committed)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// 1-based.
    pub no: i64,
    pub sku: SkuKey,
    pub quantity: i64,
    /// Minor units.
    pub unit_price: i64,
    pub cancelled: i64,
    pub shipped: i64,
    pub returned: i64,
}

impl Line {
    /// Units that are or will be with the customer.
    pub fn kept(&self) -> i64 {
        self.quantity.saturating_sub(self.cancelled)
    }
    /// Kept and not yet shipped.
    pub fn unshipped(&self) -> i64 {
        self.kept().saturating_sub(self.shipped)
    }
}

/// Captured money, once per (channel, id).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    pub id: String,
    /// Minor units, above 0.
    pub amount: i64,
    /// The caller's information.
    pub paid_at: Option<Timestamp>,
    pub recorded_at: Timestamp,
}

/// One entry of an order's timeline, numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub n: i64,
    pub at: Timestamp,
    /// `order_placed`, `order_paid`, …
    pub event: String,
    pub detail: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Customer {
    pub id: Option<String>,
    pub email: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipment {
    pub at: Timestamp,
    /// (line number, units)
    pub lines: Vec<(i64, i64)>,
    pub carrier: String,
    pub tracking_number: String,
}

/// A cancel that waits for the definite answer of a purchase in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    pub at: Timestamp,
    pub reason: CancelReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub id: OrderId,
    pub channel: String,
    pub external_id: String,
    /// Of currency, lines, shipping, discount and ship_to as placed.
    pub content_hash: String,
    /// `{api key name}\n{Idempotency-Key}` of the placement, and the hash of its body.
    pub idempotency: Option<(String, String)>,
    pub state: State,
    pub currency: String,
    /// Minor units, as placed: lines + shipping − discount.
    pub total: i64,
    pub shipping: i64,
    pub discount: i64,
    pub short_policy: ShortPolicy,
    pub cancel_reason: Option<CancelReason>,
    pub cancel_requested: Option<CancelRequest>,
    pub created_at: Timestamp,
    /// The payment deadline shown to the storefront.
    pub expires_at: Timestamp,
    pub grace_used: bool,
    /// The `now` that the paying transaction stored; orders are confirmed in this order.
    pub paid_at: Option<Timestamp>,
    /// When what the state waits for must have happened. `Some` in every state but the ends.
    pub deadline_at: Option<Timestamp>,
    /// Why it needs a person, while it does or did.
    pub attention: Option<String>,
    pub customer: Option<Customer>,
    pub ship_to: Option<Address>,
    pub lines: Vec<Line>,
    pub holds: Vec<Hold>,
    pub payments: Vec<Payment>,
    pub refunds: Vec<Refund>,
    pub purchases: Vec<Purchase>,
    pub shipments: Vec<Shipment>,
    pub events: Vec<Event>,
}

impl Order {
    /// Minor units captured so far.
    pub fn captured(&self) -> i64 {
        self.payments.iter().fold(0, |sum, p| sum.saturating_add(p.amount))
    }
    /// Minor units given back or owed back, whatever the refund's state.
    pub fn refunded(&self) -> i64 {
        self.refunds.iter().fold(0, |sum, r| sum.saturating_add(r.amount))
    }
    pub fn is_end(&self) -> bool {
        matches!(self.state, State::Completed | State::Cancelled | State::Expired)
    }
    pub fn line(&self, no: i64) -> Option<&Line> {
        self.lines.iter().find(|l| l.no == no)
    }
    pub fn hold(&self, line: i64, part: i64) -> Option<&Hold> {
        self.holds.iter().find(|h| h.line == line && h.part == part)
    }
    /// Adds to the timeline.
    pub fn tell(&mut self, at: Timestamp, event: &str, detail: impl Into<String>) {
        let n = self.events.last().map_or(0, |e| e.n).saturating_add(1);
        self.events.push(Event { n, at, event: event.to_owned(), detail: detail.into() });
    }
    /// The next free part number of a line.
    pub fn next_part(&self, line: i64) -> i64 {
        self.holds.iter().filter(|h| h.line == line).map(|h| h.part).max().unwrap_or(0) + 1
    }
    pub fn purchase(&self, id: &PurchaseId) -> Option<&Purchase> {
        self.purchases.iter().find(|p| &p.id == id)
    }
    pub fn purchase_mut(&mut self, id: &PurchaseId) -> Option<&mut Purchase> {
        self.purchases.iter_mut().find(|p| &p.id == id)
    }
}

/// The item of a hold, for purchases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub line: i64,
    pub part: i64,
    pub level: LevelId,
    pub item: Item,
    pub quantity: i64,
}
