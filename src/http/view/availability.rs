//! What a shop may offer of a SKU now.

use serde::Serialize;
use utoipa::ToSchema;

use super::time;
use crate::clock::Timestamp;
use crate::domain::policy::Policy;
use crate::domain::sku::Kind;
use crate::domain::view::{self, Availability};
use crate::storage::reads::skus::Loaded;

#[derive(Debug, Serialize, ToSchema)]
pub struct AvailabilityView {
    pub sku: String,
    /// What can be ordered now, of exact and fresh sources alone.
    pub available: i64,
    pub orderable: bool,
    /// Selling is stopped, for the SKU or for every supplier of it.
    pub paused: bool,
    pub sources: Vec<SourceAvailabilityView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SourceAvailabilityView {
    pub source: String,
    /// `warehouse` or `supplier`.
    pub kind: &'static str,
    pub quantity: i64,
    pub held: i64,
    pub committed: i64,
    pub buffer: i64,
    /// `max(0, quantity − held − committed − buffer)`, whatever the freshness; less where the
    /// supplier refused that many, 0 where it closed an order of ours.
    pub available: i64,
    /// The seller closed an order of this item then: not orderable here until ops resume the SKU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_by_seller_at: Option<String>,
    /// Rises with every change of a figure.
    pub version: i64,
    /// `exact`, `fresh`, `stale`, `not_listed` or `unknown`.
    pub freshness: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_after_seconds: Option<i64>,
}

impl AvailabilityView {
    pub fn new(policy: &Policy, loaded: &Loaded, now: Timestamp) -> AvailabilityView {
        let availability =
            view::availability(policy, &loaded.sku, &loaded.levels, &loaded.suppliers, now);
        AvailabilityView {
            sku: loaded.sku.key.to_string(),
            available: availability.available,
            orderable: availability.orderable,
            paused: availability.paused,
            sources: sources(policy, &availability, now),
        }
    }
}

fn sources(
    policy: &Policy,
    availability: &Availability<'_>,
    now: Timestamp,
) -> Vec<SourceAvailabilityView> {
    let supplied = |kind: Kind| kind == Kind::Supplier;
    availability
        .sources
        .iter()
        .map(|s| SourceAvailabilityView {
            source: s.source.source.to_string(),
            kind: s.source.kind.as_str(),
            quantity: s.level.quantity,
            held: s.level.held,
            committed: s.level.committed,
            buffer: s.buffer,
            available: s.available,
            closed_by_seller_at: s.level.blocked_at.map(time),
            version: s.level.version,
            freshness: s.freshness.as_str(),
            as_of: s.level.as_of.filter(|_| supplied(s.source.kind)).map(time),
            age_seconds: view::age(s.level, now)
                .filter(|_| supplied(s.source.kind))
                .map(|age| age.as_secs()),
            stale_after_seconds: policy.stale_after(s.level).map(|span| span.as_secs()),
        })
        .collect()
}
