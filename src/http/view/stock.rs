//! Levels after a change, holds, and the ledger.

use serde::Serialize;
use utoipa::ToSchema;

use super::{hold_id, line_id, time};
use crate::domain::names::OrderId;
use crate::domain::order::Hold;
use crate::domain::stock::Level;
use crate::storage::reads::stock::LedgerEntry;

/// A level after its stock was changed by hand.
#[derive(Debug, Serialize, ToSchema)]
pub struct LevelView {
    pub source: String,
    /// `warehouse` or `supplier`.
    pub kind: &'static str,
    pub quantity: i64,
    pub held: i64,
    pub committed: i64,
    pub version: i64,
    /// Orders that gave way to a count.
    pub cancelled_orders: Vec<String>,
}

impl LevelView {
    pub fn new(level: &Level, cancelled: &[OrderId]) -> LevelView {
        LevelView {
            source: level.source.to_string(),
            kind: level.kind.as_str(),
            quantity: level.quantity,
            held: level.held,
            committed: level.committed,
            version: level.version,
            cancelled_orders: cancelled.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A hold: a share of an order's line at one source.
#[derive(Debug, Serialize, ToSchema)]
pub struct HoldView {
    pub id: String,
    pub order_id: String,
    pub line_id: String,
    pub sku: String,
    pub source: String,
    /// `warehouse` or `supplier`.
    pub kind: &'static str,
    pub quantity: i64,
    /// `active`, `committed`, `settled`, `released` or `reversed`.
    pub state: &'static str,
    /// `not_due`, `waiting`, `confirmed`, `unknown`, `short`, `refused`; null for the warehouse.
    pub confirmation: Option<&'static str>,
    pub purchase_order_id: Option<String>,
    pub created_at: String,
    pub ended_at: Option<String>,
}

impl HoldView {
    pub fn new(order: &OrderId, hold: &Hold) -> HoldView {
        HoldView {
            id: hold_id(order, hold.line, hold.part),
            order_id: order.to_string(),
            line_id: line_id(order, hold.line),
            sku: hold.sku.to_string(),
            source: hold.source.to_string(),
            kind: hold.kind.as_str(),
            quantity: hold.quantity,
            state: hold.state.as_str(),
            confirmation: hold.confirmation.map(|c| c.as_str()),
            purchase_order_id: hold.purchase.as_ref().map(ToString::to_string),
            created_at: time(hold.created_at),
            ended_at: hold.ended_at.map(time),
        }
    }
}

/// One entry of the append-only ledger. A level's figures are the sums of its entries.
#[derive(Debug, Serialize, ToSchema)]
pub struct LedgerView {
    pub id: String,
    pub at: String,
    /// The stock level: an item at a source.
    pub level: String,
    pub sku: Option<String>,
    pub order_id: Option<String>,
    pub hold_id: Option<String>,
    /// `placed`, `sold`, `bought`, `shipped`, `released`, `reversed`, `in_feed`, `reading` …
    pub event: String,
    pub quantity: i64,
    pub held: i64,
    pub committed: i64,
    pub note: String,
}

impl LedgerView {
    pub fn new(entry: LedgerEntry) -> LedgerView {
        let hold = match (&entry.order, entry.hold) {
            (Some(order), Some((line, part))) => Some(hold_id(order, line, part)),
            _ => None,
        };
        LedgerView {
            id: entry.seq.to_string(),
            at: time(entry.at),
            level: entry.level.to_string(),
            sku: entry.sku.map(|sku| sku.to_string()),
            order_id: entry.order.map(|order| order.to_string()),
            hold_id: hold,
            event: entry.event,
            quantity: entry.by.quantity,
            held: entry.by.held,
            committed: entry.by.committed,
            note: entry.note,
        }
    }
}
