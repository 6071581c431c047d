//! Refunds: money that goes back, one per (order, cause, payment).
//!
//! What must hold: the id derives from the order, the payment and how many of its refunds there were
//! before, so that nothing makes a second one, not even a store that was restored from a backup and
//! comes to the same refund by another way; an unknown outcome is looked up, never aged into failure.

use sha2::{Digest, Sha256};

use super::names::{OrderId, RefundId, texts};
use crate::clock::Timestamp;

texts!(RefundState {
    Pending = "pending",
    Succeeded = "succeeded",
    NeedsAttention = "needs_attention",
});

/// Why a refund is owed that ops asked for.
pub const BY_OPS: &str = "ops";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    pub id: RefundId,
    /// What owes it: `{why}:{event number}`; unique within the order.
    pub cause: String,
    /// For people.
    pub reason: String,
    pub payment_id: String,
    /// Minor units of the order's currency, above 0.
    pub amount: i64,
    pub state: RefundState,
    /// Rises when ops say that an attempt was not made.
    pub attempt: i64,
    /// A request may have reached the provider: look up before asking again.
    pub asked_at: Option<Timestamp>,
    /// The provider's or the person's reference.
    pub reference: Option<String>,
    pub note: Option<String>,
    pub created_at: Timestamp,
    /// Alerts when still pending then. `None` once succeeded.
    pub deadline_at: Option<Timestamp>,
}

impl Refund {
    /// Given by ops on top of what the order's rules owe.
    pub fn is_by_ops(&self) -> bool {
        self.cause.split_once(':').is_some_and(|(why, _)| why == BY_OPS)
    }
}

/// The id of the `nth` refund (from 1) of a payment: 32 hex characters of the SHA-256 of order,
/// payment and number.
pub fn id_of(order: &OrderId, payment_id: &str, nth: usize) -> RefundId {
    let digest = Sha256::digest(format!("{order}\n{payment_id}\n{nth}").as_bytes());
    RefundId::from(hex::encode(digest.get(..16).unwrap_or_default()))
}
