//! What a supplier can tell us, in our own words: readings of stock, and definite answers to the
//! purchases that we ask for. Adapters translate a wire protocol into these and judge nothing;
//! *enough* and *short* are decided elsewhere, from these alone.
//!
//! What must hold: anything that is not a definite answer is [`Fault::Unknown`]. A time-out, a
//! throttled call, a 5xx or an unrecognised error is never "out of stock" and never "not there".

use serde::{Deserialize, Serialize};

use crate::clock::{Span, Timestamp};

/// The upstream item: an offer, and the variant inside it where it has variants.
/// `spec_id` is unique only inside one offer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Item {
    pub offer_id: String,
    pub spec_id: Option<String>,
}

/// What one reading says of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// This many units are on sale; zero is a figure like any other.
    Listed(i64),
    /// The supplier answered, whole and without error, and does not offer the item (offline,
    /// deleted, or the variant is gone).
    Missing,
    /// The row could not be read or could not be had; the old figure stays.
    Unknown(String),
}

/// A reading of one item's stock, by feed or by live question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    pub item: Item,
    pub figure: Figure,
    /// The supplier's own time of *reading*, where it states one (1688 states none; a last-changed
    /// time is not a reading time and is dropped by the adapter).
    pub stated_at: Option<Timestamp>,
    /// When we sent the request that this answers.
    pub sent_at: Timestamp,
    /// When the answer reached us.
    pub received_at: Timestamp,
}

/// The code of a [`Fault::Unknown`] where surely nothing was sent: no effect can have happened.
pub const NOT_SENT: &str = "not_sent";

/// Why there is no usable answer, or which definite refusal it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "fault")]
pub enum Fault {
    /// No usable answer: time-out, throttled, 5xx, unrecognised error, a lost or torn reply. The
    /// effect, if one was asked for, may or may not have happened.
    #[error("no usable answer ({code}): {message}")]
    Unknown {
        /// The supplier's, or an adapter's own; [`NOT_SENT`] where no call went out.
        code: String,
        message: String,
        /// Asked to wait this long before the next call.
        retry_after: Option<Span>,
    },
    /// A recognised refusal for want of stock (1688: `500_004`). Nothing was made. Matched by exact
    /// code, never by words.
    #[error("out of stock ({code}): {message}")]
    OutOfStock { code: String, message: String },
    /// A definite refusal that is not about stock: offline, address, rights, below the minimum.
    /// Nothing was made.
    #[error("refused ({code}): {message}")]
    Refused { code: String, message: String },
    /// The order is younger than the supplier lets one close (1688: `CLOSE_ORDER_TOO_FAST`).
    #[error("too soon to close")]
    TooSoon,
}

/// One line of a purchase: an item and how many. Lines of one purchase name different items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchaseItem {
    pub item: Item,
    pub quantity: i64,
}

/// Where the supplier sends the goods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub phone: String,
    #[serde(default)]
    pub country: String,
    #[serde(default)]
    pub province: String,
    #[serde(default)]
    pub city: String,
    #[serde(default)]
    pub district: String,
    #[serde(default)]
    pub address: String,
    #[serde(default)]
    pub postcode: String,
}

/// A purchase as asked of the supplier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchaseRequest {
    /// Ours, the same over all attempts of one purchase order (1688: `outOrderId`).
    pub reference: String,
    pub items: Vec<PurchaseItem>,
    pub deliver_to: Address,
}

/// The supplier's preview: what the purchase would be. It judges true stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// Goods and carriage, minor units of the supplier's currency (1688: fen).
    pub total: i64,
    /// How many supplier orders the basket would be split into.
    pub orders: u32,
}

/// A purchase that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// Exact digits as the supplier wrote them; never through a float.
    pub supplier_order_id: String,
    /// Goods and carriage, minor units (1688: fen), where stated.
    pub total: Option<i64>,
    /// Lines that the supplier left out of the order.
    pub left_out: Vec<LeftOut>,
}

/// A line that a supplier refused while it made the rest of the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub item: Item,
    pub fault: Fault,
}

/// How far a supplier's order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamState {
    AwaitingPayment,
    Paid,
    Shipped,
    Received,
    /// Closed because it was not paid in time, or by ourselves (1688: closed by buyer or system).
    ClosedUnpaid,
    /// Closed by the seller or the platform.
    ClosedBySeller,
    /// A status that we do not know; never taken for an end.
    Other,
}

/// A parcel of a supplier's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    pub carrier: String,
    pub tracking_number: String,
}

/// A supplier's order as read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamOrder {
    pub supplier_order_id: String,
    /// Our reference, where the answer carries it.
    pub reference: Option<String>,
    pub state: UpstreamState,
    pub items: Vec<PurchaseItem>,
    /// Minor units (1688: fen), where stated.
    pub total: Option<i64>,
    pub close_reason: Option<String>,
    pub parcels: Vec<Parcel>,
}
