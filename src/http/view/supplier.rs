//! A supplier: how late it is seen to be, what follows from that, and how its feed does.

use serde::Serialize;
use utoipa::ToSchema;

use super::sku::PausedView;
use super::time;
use crate::clock::{Span, Timestamp};
use crate::domain::availability::{Freshness, freshness};
use crate::domain::lock_ttl;
use crate::domain::policy::{Policy, Terms};
use crate::domain::stock::Level;
use crate::storage::reads::suppliers::SupplierRow;

#[derive(Debug, Serialize, ToSchema)]
pub struct SupplierView {
    pub id: String,
    pub sync_interval_seconds: i64,
    /// The largest lag of its levels.
    pub observed_lag_seconds: i64,
    /// `1.2 × max(sync interval, observed lag)`.
    pub lock_ttl_seconds: i64,
    /// `observed lag + 1.2 × sync interval`: older figures take no new orders.
    pub stale_after_seconds: i64,
    pub derived_from: DerivedView,
    pub last_sync_at: Option<String>,
    pub last_sync_outcome: Option<String>,
    pub last_sync_detail: Option<String>,
    /// Since when its feed waits to be accepted by hand.
    pub suspect_since: Option<String>,
    pub paused: PausedView,
    /// Its levels by freshness.
    pub levels: FreshnessCounts,
}

/// What the lock's TTL and the age limit were derived from.
#[derive(Debug, Serialize, ToSchema)]
pub struct DerivedView {
    pub declared_lag_seconds: i64,
    /// Null before the first sample.
    pub largest_sample_seconds: Option<i64>,
    /// How many samples were seen, over all levels (the last 100 of each).
    pub samples: i64,
    pub formula: &'static str,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct FreshnessCounts {
    pub fresh: i64,
    pub stale: i64,
    pub not_listed: i64,
    pub unknown: i64,
}

const FORMULA: &str = "lag L = the largest sample, at least the declared lag, at most \
    max(4 x I, 60 min, declared lag); lock TTL = 1.2 x max(I, L); stale after L + 1.2 x I; \
    I = the sync interval";

/// What a supplier's levels add up to, one level at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub counts: FreshnessCounts,
    largest: Option<Span>,
    samples: i64,
}

impl Tally {
    pub fn add(&mut self, policy: &Policy, level: &Level, now: Timestamp) {
        let count = match freshness(policy, level, now) {
            Freshness::Exact | Freshness::Fresh => &mut self.counts.fresh,
            Freshness::Stale => &mut self.counts.stale,
            Freshness::NotListed => &mut self.counts.not_listed,
            Freshness::Unknown => &mut self.counts.unknown,
        };
        *count = count.saturating_add(1);
        self.largest = self.largest.max(level.lag_samples.iter().copied().max());
        let samples = i64::try_from(level.lag_samples.len()).unwrap_or(i64::MAX);
        self.samples = self.samples.saturating_add(samples);
    }
}

impl SupplierView {
    pub fn new(terms: &Terms, row: &SupplierRow, tally: &Tally) -> SupplierView {
        let samples: Vec<Span> = tally.largest.into_iter().collect();
        let lag = lock_ttl::lag(terms, &samples);
        SupplierView {
            id: row.id.to_string(),
            sync_interval_seconds: terms.sync_interval.as_secs(),
            observed_lag_seconds: lag.as_secs(),
            lock_ttl_seconds: lock_ttl::lock_ttl(terms, lag).as_secs(),
            stale_after_seconds: lock_ttl::stale_after(terms, lag).as_secs(),
            derived_from: DerivedView {
                declared_lag_seconds: terms.declared_lag.as_secs(),
                largest_sample_seconds: tally.largest.map(Span::as_secs),
                samples: tally.samples,
                formula: FORMULA,
            },
            last_sync_at: row.last_sync_at.map(time),
            last_sync_outcome: row.last_sync_outcome.clone(),
            last_sync_detail: row.last_sync_detail.clone(),
            suspect_since: row.suspect_since.map(time),
            paused: PausedView::new(&row.paused),
            levels: tally.counts,
        }
    }
}
