//! What is shown of orders and stock where that is a rule and not a matter of form: a line's state,
//! a level's freshness, and what of it a shop may offer. Pure, and read-only.
//!
//! What must hold: only exact and fresh sources count in what is offered, and nothing is offered
//! that a placement would refuse for its source alone (paused, blocked, closed, below a pack).

use super::names::texts;
use super::order::{Hold, HoldState, Line, Order, State};
use super::policy::Policy;
use super::purchase::PurchaseState;
use super::sku::{Kind, Paused, Sku, Source};
use super::stock::{Level, Listing};
use crate::clock::{Span, Timestamp};

texts!(
    /// Where a line is: its least advanced share that has not ended.
    LineState {
        Held = "held",
        Sold = "sold",
        Confirming = "confirming",
        Purchased = "purchased",
        Shipped = "shipped",
        Cancelled = "cancelled",
        Released = "released",
    }
);

texts!(
    /// How far a level's figure can be believed now.
    Freshness {
        /// Our own shelf.
        Exact = "exact",
        Fresh = "fresh",
        /// Older than `L + 1.2 × I`.
        Stale = "stale",
        /// The supplier does not offer it.
        NotListed = "not_listed",
        /// Never read, or of a supplier that is not configured any more.
        Unknown = "unknown",
    }
);

impl LineState {
    /// How far along a share in this state is.
    const fn progress(self) -> u8 {
        match self {
            LineState::Held => 0,
            LineState::Confirming => 1,
            LineState::Sold => 2,
            LineState::Purchased => 3,
            LineState::Shipped => 4,
            LineState::Cancelled | LineState::Released => 5,
        }
    }
}

impl Freshness {
    /// Whether the figure may be sold from.
    pub const fn counts(self) -> bool {
        matches!(self, Freshness::Exact | Freshness::Fresh)
    }
}

/// A line's state.
pub fn line_state(order: &Order, line: &Line) -> LineState {
    let least = order
        .holds
        .iter()
        .filter(|hold| hold.line == line.no)
        .filter_map(|hold| share_state(order, hold))
        .min_by_key(|state| state.progress());
    match least {
        Some(state) => state,
        None if order.state == State::Expired => LineState::Released,
        None if line.kept() == 0 || order.state == State::Cancelled => LineState::Cancelled,
        None => LineState::Released,
    }
}

/// `None` for a share that has ended without goods.
fn share_state(order: &Order, hold: &Hold) -> Option<LineState> {
    match (hold.state, hold.kind) {
        (HoldState::Released | HoldState::Reversed, _) => None,
        (HoldState::Active, _) if hold.asked_at.is_some() => Some(LineState::Confirming),
        (HoldState::Active, _) => Some(LineState::Held),
        (HoldState::Committed, Kind::Warehouse) => Some(LineState::Sold),
        (HoldState::Settled, Kind::Warehouse) => Some(LineState::Shipped),
        (HoldState::Committed | HoldState::Settled, Kind::Supplier) => {
            let purchase = hold.purchase.as_ref().and_then(|id| order.purchase(id));
            let sent = purchase.is_some_and(|p| {
                matches!(p.state, PurchaseState::Shipped | PurchaseState::Received)
            });
            Some(if sent {
                LineState::Shipped
            } else {
                LineState::Purchased
            })
        }
    }
}

/// Seconds until an unpaid order expires; 0 once it is paid or ended.
pub fn expires_in(order: &Order, now: Timestamp) -> i64 {
    match order.state {
        State::PendingPayment => order.expires_at.since(now).as_secs().max(0),
        _ => 0,
    }
}

/// How old a level's figure is; `None` for a warehouse and for what was never read.
pub fn age(level: &Level, now: Timestamp) -> Option<Span> {
    level.as_of.map(|as_of| now.since(as_of).max(Span::ZERO))
}

/// A level's freshness at an instant.
pub fn freshness(policy: &Policy, level: &Level, now: Timestamp) -> Freshness {
    if level.kind == Kind::Warehouse {
        return Freshness::Exact;
    }
    let Some(stale_after) = policy.stale_after(level) else {
        return Freshness::Unknown;
    };
    match (level.listing, age(level, now)) {
        (Listing::Missing, _) => Freshness::NotListed,
        (Listing::Unread, _) | (_, None) => Freshness::Unknown,
        (Listing::Listed, Some(age)) if age > stale_after => Freshness::Stale,
        (Listing::Listed, Some(_)) => Freshness::Fresh,
    }
}

/// One source of a SKU as a shop sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceView<'a> {
    pub source: &'a Source,
    pub level: &'a Level,
    pub buffer: i64,
    pub freshness: Freshness,
    /// `max(0, quantity − held − committed − buffer)`.
    pub available: i64,
    /// What of it can be ordered now.
    pub orderable: i64,
}

/// A SKU as a shop sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability<'a> {
    /// The sum of what its sources can serve now.
    pub available: i64,
    /// Selling of the SKU is stopped, or of every supplier that it has left.
    pub paused: bool,
    pub orderable: bool,
    pub sources: Vec<SourceView<'a>>,
}

/// What can be offered of a SKU. `levels` and `suppliers` look up what was loaded; a source whose
/// level is not there yet has nothing to offer and is left out.
pub fn availability<'a>(
    policy: &Policy,
    sku: &'a Sku,
    levels: impl Fn(&Source) -> Option<&'a Level>,
    suppliers: impl Fn(&Source) -> Option<&'a Paused>,
    now: Timestamp,
) -> Availability<'a> {
    let stopped =
        |source: &Source| suppliers(source).is_some_and(|paused| paused.selling.is_some());
    let sources: Vec<SourceView<'a>> = sku
        .sources
        .iter()
        .filter_map(|source| {
            let level = levels(source)?;
            let buffer = policy.buffer(source);
            let freshness = freshness(policy, level, now);
            let available = level.available(buffer);
            let sells = freshness.counts() && level.blocked_at.is_none() && !stopped(source);
            Some(SourceView {
                source,
                level,
                buffer,
                freshness,
                available,
                orderable: if sells { share(source, level, available) } else { 0 },
            })
        })
        .collect();
    let available = sources
        .iter()
        .fold(0_i64, |sum, source| sum.saturating_add(source.orderable));
    let paused = sku.paused.selling.is_some()
        || (!sku.sources.is_empty() && sku.sources.iter().all(stopped));
    Availability {
        available,
        paused,
        orderable: available > 0 && !paused,
        sources,
    }
}

/// The largest share that a source can serve: below what it was closed for, whole packs of a
/// supplier, and at least the supplier's minimum.
fn share(source: &Source, level: &Level, available: i64) -> i64 {
    let below = level
        .closed
        .map_or(i64::MAX, |closed| closed.from_quantity.saturating_sub(1).max(0));
    let units = available.min(below);
    if source.kind == Kind::Warehouse {
        return units;
    }
    let whole = units.saturating_sub(units % source.pack_size.max(1));
    if whole < source.min_quantity { 0 } else { whole }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
