//! What is shown of orders and stock where that is a rule and not a matter of form: a line's state,
//! its countdown, and what a shop may offer of a SKU. Pure, and read-only.
//!
//! What must hold: what is offered is what a placement could have; both ask the same rule.

use std::collections::BTreeMap;

use super::availability::{Freshness, choose, freshness, offer};
use super::names::{LevelId, SourceId, texts};
use super::order::{Hold, HoldState, Line, Order, State};
use super::outcome::Refusal;
use super::policy::Policy;
use super::purchase::PurchaseState;
use super::sku::{Kind, Paused, Sku, Source};
use super::stock::Level;
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
            Some(if sent { LineState::Shipped } else { LineState::Purchased })
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

/// One source of a SKU as a shop sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceView<'a> {
    pub source: &'a Source,
    pub level: &'a Level,
    pub buffer: i64,
    pub freshness: Freshness,
    /// `max(0, quantity − held − committed − buffer)`, or what is left of it where the item is closed
    /// after a refusal or by the seller.
    pub available: i64,
}

/// A SKU as a shop sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability<'a> {
    /// The largest quantity that can be ordered now.
    pub available: i64,
    /// Selling of the SKU is stopped, or of every supplier that it has left.
    pub paused: bool,
    pub orderable: bool,
    /// Those whose level is there.
    pub sources: Vec<SourceView<'a>>,
}

/// What can be offered of a SKU.
pub fn availability<'a>(
    policy: &Policy,
    sku: &'a Sku,
    levels: &'a BTreeMap<LevelId, Level>,
    suppliers: &BTreeMap<SourceId, Paused>,
    now: Timestamp,
) -> Availability<'a> {
    let sources: Vec<SourceView<'a>> = sku
        .sources
        .iter()
        .filter_map(|source| {
            let level = levels.get(&source.level)?;
            let buffer = policy.buffer(source);
            Some(SourceView {
                source,
                level,
                buffer,
                freshness: freshness(policy, level, now),
                available: offer(policy, suppliers, source, level, now).units,
            })
        })
        .collect();
    let stopped = |source: &Source| {
        let supplier = suppliers.get(&source.source);
        supplier.is_some_and(|paused| paused.selling.is_some())
    };
    let paused = sku.paused.selling.is_some()
        || (!sku.sources.is_empty() && sku.sources.iter().all(stopped));
    let available = largest(policy, sku, levels, suppliers, now);
    Availability { available, paused, orderable: available > 0 && !paused, sources }
}

/// What a placement would be told that it can have at most, were the SKU itself not paused.
fn largest(
    policy: &Policy,
    sku: &Sku,
    levels: &BTreeMap<LevelId, Level>,
    suppliers: &BTreeMap<SourceId, Paused>,
    now: Timestamp,
) -> i64 {
    let sku = Sku { paused: Paused::default(), ..sku.clone() };
    match choose(policy, suppliers, levels, now, &[(&sku, i64::MAX)]) {
        Err(Refusal::InsufficientStock(short)) => short.first().map_or(0, |s| s.available),
        // Nothing has that much: it is always short.
        _ => 0,
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
