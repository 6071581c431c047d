//! A purchase order as the contract shows it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{line_id, money, time};
use crate::domain::names::OrderId;
use crate::domain::purchase::Purchase;

#[derive(Debug, Serialize, ToSchema)]
pub struct PurchaseView {
    pub id: String,
    pub order_id: String,
    pub supplier: String,
    /// Ours, given to the supplier; the same over all attempts.
    pub reference: String,
    /// From 1; rises only after a definite end.
    pub generation: i64,
    /// `pending`, `placing`, `unknown`, `placed`, `paid`, `shipped`, `received`, `failed` or
    /// `cancelled`.
    pub state: &'static str,
    pub supplier_orders: Vec<SupplierOrderView>,
    pub lines: Vec<PurchaseLineView>,
    /// Goods and carriage in `currency`, where the supplier stated it.
    pub cost: Option<String>,
    pub currency: String,
    /// Creates sent so far.
    pub attempts: i64,
    pub cancel_requested_at: Option<String>,
    /// The refusal's or closure's code and words.
    pub end_reason: Option<String>,
    pub parcels: Vec<ParcelView>,
    pub created_at: String,
}

/// An order of the supplier that carries our reference.
#[derive(Debug, Serialize, ToSchema)]
pub struct SupplierOrderView {
    /// Exact digits as the supplier wrote them.
    pub id: String,
    /// `recorded` (the one that counts), `surplus`, or `surplus_ended`.
    pub role: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PurchaseLineView {
    pub line_id: String,
    pub offer_id: String,
    pub spec_id: Option<String>,
    pub quantity: i64,
    /// Null while open; `placed`, or the refusal's code.
    pub result: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ParcelView {
    pub carrier: String,
    pub tracking_number: String,
}

impl PurchaseView {
    pub fn new(order: &OrderId, purchase: &Purchase) -> PurchaseView {
        let recorded = purchase
            .supplier_order_id
            .iter()
            .map(|id| SupplierOrderView { id: id.clone(), role: "recorded" });
        let surplus = purchase.trail.surplus.iter().map(|s| SupplierOrderView {
            id: s.supplier_order_id.clone(),
            role: if s.ended_at.is_some() { "surplus_ended" } else { "surplus" },
        });
        let lines = purchase.trail.lines.iter().map(|line| PurchaseLineView {
            line_id: line_id(order, line.share.line),
            offer_id: line.share.item.offer_id.clone(),
            spec_id: line.share.item.spec_id.clone(),
            quantity: line.share.quantity,
            result: line.result.clone(),
        });
        let parcels = purchase.trail.parcels.iter().map(|p| ParcelView {
            carrier: p.carrier.clone(),
            tracking_number: p.tracking_number.clone(),
        });
        PurchaseView {
            id: purchase.id.to_string(),
            order_id: order.to_string(),
            supplier: purchase.supplier.to_string(),
            reference: purchase.id.to_string(),
            generation: purchase.generation,
            state: purchase.state.as_str(),
            supplier_orders: recorded.chain(surplus).collect(),
            lines: lines.collect(),
            cost: purchase.cost.map(|cost| money(cost, &purchase.currency)),
            currency: purchase.currency.clone(),
            attempts: purchase.attempts,
            cancel_requested_at: purchase.cancel_requested_at.map(time),
            end_reason: purchase.end_reason.clone(),
            parcels: parcels.collect(),
            created_at: time(purchase.created_at),
        }
    }
}
