//! What a command ends in: an outcome, a refusal with its code, or the wish to see more first.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::names::{LevelId, OrderId, PurchaseId, SkuKey};
use super::order::{Order, State};
use super::purchase::Purchase;
use super::sku::{Paused, Sku};
use super::stock::Level;
use super::supply::{Item, PurchaseRequest};
use crate::clock::{Span, Timestamp};

/// How an order was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Newly placed: 201.
    Created,
    /// A repeat of a placement: 200 (201 when replayed by idempotency key).
    Existing,
    /// Replayed by the placement's own idempotency key.
    Replayed,
    /// Changed, or already so: 200.
    Changed,
    /// A cancel waits for a purchase in flight: 202.
    CancelPending,
}

/// The next thing to do about a purchase, outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurchaseStep {
    /// Preview, then create.
    Place {
        attempt: i64,
        request: PurchaseRequest,
    },
    LookUp {
        reference: String,
    },
    Poll {
        supplier_order_id: String,
    },
    Cancel {
        supplier_order_id: String,
    },
    /// Nothing until then.
    Wait(Timestamp),
    /// Nothing any more.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundStep {
    /// A request may have reached the provider: ask what became of it.
    LookUp,
    Make {
        amount: i64,
    },
    Done,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub created: u64,
    pub updated: u64,
    pub unchanged: u64,
    /// Shelf counts that differ and were left alone, or were corrected: (line, level, before, file).
    pub differences: Vec<(u64, LevelId, i64, i64)>,
    /// Corrections refused because goods are promised: (line, level, held + committed, file).
    pub refused: Vec<(u64, LevelId, i64, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Order {
        order: Arc<Order>,
        touch: Touch,
    },
    Sku(Box<Sku>, Vec<Level>),
    /// The level after a change of stock, and the orders cancelled for it.
    Level(Box<Level>, Vec<OrderId>),
    Imported(ImportReport),
    Supplier(Paused),
    /// The lock is held. Ask the supplier now; `unpaid` are placed, unpaid purchases of the item
    /// with their supplier order ids.
    Locked {
        token: i64,
        item: Item,
        unpaid: Vec<(PurchaseId, String)>,
    },
    /// Before *short* is decided these must be read back; nothing was decided.
    PollFirst(Vec<(PurchaseId, String)>),
    /// Do the job again then; `None`: it is done.
    Again(Option<Timestamp>),
    Step(PurchaseStep),
    Purchase(Box<Purchase>),
    RefundStep {
        step: RefundStep,
        order: Arc<Order>,
    },
    /// The deadline is later: put the job back.
    Early(Timestamp),
    Done,
}

/// A SKU of which not enough can be held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub sku: SkuKey,
    pub requested: i64,
    /// The largest quantity that could be filled.
    pub available: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path in the request, as `lines[0].quantity`.
    pub field: String,
    pub message: String,
}

/// A refusal; each maps to one code of `api.md`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("not enough stock")]
    InsufficientStock(Vec<Shortage>),
    /// Stale sources would have been enough: (SKU, age of the stalest counted figure).
    #[error("the supplier's figures are too old to sell from")]
    StaleFeed(Vec<(SkuKey, Option<Span>)>),
    #[error("selling is paused")]
    SkuPaused(Vec<SkuKey>),
    #[error("the external id names an order with other content")]
    ExternalIdConflict,
    #[error("the payment id was recorded otherwise: {0}")]
    PaymentConflict(String),
    #[error("the order is {0}: {1}")]
    OrderState(State, String),
    /// Another object (a purchase, a refund, a SKU) is in this state, which does not allow it.
    #[error("{1}")]
    Conflict(&'static str, String),
    #[error("the stock changed meanwhile")]
    VersionConflict(Box<Level>),
    #[error("more is promised than that")]
    BelowHeld { level: Box<Level>, holds: Vec<String> },
    #[error("invalid: {}", .0.iter().map(|e| format!("{}: {}", e.field, e.message)).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
    #[error("unknown SKU")]
    UnknownSku(Vec<SkuKey>),
    #[error("the idempotency key was used with another body")]
    KeyReused,
    #[error("more than is there: {0}")]
    QuantityExceeded(String),
    /// The writer is not the owner any more (a lock's token, a lease): its outcome is dropped.
    #[error("fenced: {0}")]
    Fenced(String),
    /// The item's lock is held by another until then.
    #[error("locked")]
    Locked(Timestamp),
}

impl Refusal {
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Refusal {
        Refusal::Invalid(vec![FieldError { field: field.into(), message: message.into() }])
    }
}

/// Why a decision ended without an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    Refused(Refusal),
    /// Load these too and decide the group again.
    More(Ask),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Overdue unpaid orders of these levels might give way.
    Overdue(BTreeSet<LevelId>),
    /// A counter of this level was about to leave its range: sum its holds.
    Recount(LevelId),
    /// The open orders of this level, newest first, may have to give way to a count.
    Counted(LevelId),
    /// The confirmed, unbought shares of these items are to be decided anew.
    Unbought(BTreeSet<LevelId>),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}
