//! Purchase orders: one per (order, supplier, generation), whose reference is those three.
//!
//! What must hold: the reference is the same over all attempts; the generation rises only after a
//! definite end; nothing is created again before two clean look-ups, the second at least
//! `lookup_settle` after the last attempt surely ended.

use serde::{Deserialize, Serialize};

use super::names::{PurchaseId, SourceId, texts};
use super::order::Share;
use super::supply::{Fault, Parcel};
use crate::clock::Timestamp;

texts!(PurchaseState {
    Pending = "pending",
    /// Claimed: a worker is asking the supplier now.
    Placing = "placing",
    /// An attempt's outcome is not known.
    Unknown = "unknown",
    Placed = "placed",
    Paid = "paid",
    Shipped = "shipped",
    Received = "received",
    Failed = "failed",
    Cancelled = "cancelled",
});

impl PurchaseState {
    pub const fn is_end(self) -> bool {
        matches!(self, PurchaseState::Failed | PurchaseState::Cancelled)
    }
    /// An answer is out: what the supplier did is not known for sure.
    pub const fn in_flight(self) -> bool {
        matches!(self, PurchaseState::Placing | PurchaseState::Unknown)
    }
    /// The supplier has the order.
    pub const fn is_placed(self) -> bool {
        matches!(
            self,
            PurchaseState::Placed
                | PurchaseState::Paid
                | PurchaseState::Shipped
                | PurchaseState::Received
        )
    }
}

/// A line of a purchase: the share it buys and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchaseLine {
    #[serde(flatten)]
    pub share: Share,
    /// `None` while open; `placed`, or the refusal's code.
    pub result: Option<String>,
}

/// A supplier's order that carries our reference beside the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surplus {
    pub supplier_order_id: String,
    pub found_at: Timestamp,
    /// Cancelled or closed upstream then; or, paid, surely in the supplier's figure.
    pub ended_at: Option<Timestamp>,
    /// It was paid before we could cancel it: a person must see to it.
    pub paid: bool,
}

/// Everything that is only read and written whole; stored as one JSON column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trail {
    pub lines: Vec<PurchaseLine>,
    pub surplus: Vec<Surplus>,
    /// The last attempt whose answer came, or was given up.
    pub answered: i64,
    /// Each create whose answer was lost, oldest first.
    pub lost: Vec<Timestamp>,
    /// The lost creates up to then had their look-up after an hour: what they took is known.
    pub lost_known: Option<Timestamp>,
    /// Lost creates whose order was found: what they took is known.
    pub lost_found: usize,
    /// Clean look-ups that found nothing since the last attempt.
    pub clean_lookups: Vec<Timestamp>,
    /// A refusal that is believed only after the look-ups, since an earlier attempt was lost.
    pub doubted: Option<Fault>,
    pub parcels: Vec<Parcel>,
    /// When we asked for the newest reading of the supplier's order.
    pub polled_at: Option<Timestamp>,
    /// It should have been paid by then, and no reading asked for since has told whether it was.
    pub overdue: Option<Timestamp>,
    /// How often in a row no usable answer came; for backoff.
    pub unanswered: u32,
    /// The supplier refused to cancel it because it was paid.
    pub cancel_refused: bool,
    /// Buying was found paused then. Until it is claimed after, no deadline of it runs.
    pub paused_at: Option<Timestamp>,
    /// A cancel was not definitely answered: read the order back before anything else.
    pub read_back_first: bool,
}

impl Trail {
    /// Lost creates of which it is not known yet what they took: an order of theirs may still land.
    pub fn lost_open(&self) -> usize {
        let known = self.lost.iter().filter(|at| Some(**at) <= self.lost_known).count();
        self.lost.len().saturating_sub(known.max(self.lost_found))
    }

    /// Notes a clean look-up that found nothing. One that is handed in twice is one.
    pub fn looked_up(&mut self, now: Timestamp) {
        if self.clean_lookups.last() != Some(&now) {
            self.clean_lookups.push(now);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    pub id: PurchaseId,
    pub supplier: SourceId,
    /// From 1.
    pub generation: i64,
    pub state: PurchaseState,
    /// The recorded supplier order, exact digits.
    pub supplier_order_id: Option<String>,
    /// Minor units of `currency`, where the supplier stated it.
    pub cost: Option<i64>,
    pub currency: String,
    /// Creates sent so far.
    pub attempts: i64,
    /// The last attempt's lease and time-out have surely ended by then.
    pub attempt_until: Option<Timestamp>,
    pub cancel_requested_at: Option<Timestamp>,
    pub placed_at: Option<Timestamp>,
    pub paid_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// The refusal's or closure's code and words.
    pub end_reason: Option<String>,
    /// When something of it must have happened (placed: payment; unknown: an answer). `None` at an
    /// end, once received, and once shipped when it is not read back any more.
    pub deadline_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub trail: Trail,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_create_is_open_until_it_is_found_or_an_hour_has_passed() {
        let at = Timestamp::from_secs;
        let lost = |found, known| Trail {
            lost: vec![at(10), at(20), at(30)],
            lost_found: found,
            lost_known: known,
            ..Trail::default()
        };
        assert_eq!(lost(0, None).lost_open(), 3);
        assert_eq!(lost(1, None).lost_open(), 2);
        assert_eq!(lost(0, Some(at(20))).lost_open(), 1);
        // The one that was found may be one of those that are an hour old.
        assert_eq!(lost(1, Some(at(20))).lost_open(), 1);
        assert_eq!(lost(3, Some(at(20))).lost_open(), 0);
    }
}
