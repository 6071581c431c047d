//! Refunds: money that goes back, one per (order, cause, payment).
//!
//! What must hold: the id derives from those three, so that nothing makes a second one; an unknown
//! outcome is looked up, never aged into failure.

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

/// The id of the refund for one (order, cause, payment): 32 hex characters of their SHA-256.
pub fn id_of(order: &OrderId, cause: &str, payment_id: &str) -> RefundId {
    let digest = Sha256::digest(format!("{order}\n{cause}\n{payment_id}").as_bytes());
    RefundId::from(hex::encode(digest.get(..16).unwrap_or_default()))
}
