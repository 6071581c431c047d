//! What warns ops by figures (`domain::watermark`), judged by those of the moment it is written.
//!
//! What must hold: no alert opens by a figure that has been replaced. Whoever asks has looked without
//! locks, so a reading or a restock may have been stored since, and its alert closed already; what is
//! decided here is decided by the levels under their locks.

use std::sync::Arc;

use super::{Result, Rules};
use crate::domain::alert::AlertChange;
use crate::domain::availability::{self, Freshness};
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::outcome::Outcome;
use crate::domain::watermark::{self, Tally};

impl Rules<'_> {
    pub(super) fn low_stock(&mut self, skus: &[SkuKey]) -> Result<Outcome> {
        for sku in skus.iter().filter_map(|key| self.world.skus.get(key)) {
            let find = |id: &LevelId| self.world.levels.get(id).map(Arc::as_ref);
            let change = watermark::low_stock(sku, find, self.policy, self.now);
            self.world.alerts.extend(change);
        }
        Ok(Outcome::Done)
    }

    /// As the tally says, unless none of the levels that it names as stale is so any more: then what
    /// the others are is not known, and the next minute's walk will tell.
    pub(super) fn feed_stale(&mut self, supplier: &SourceId, tally: &Tally) -> Result<Outcome> {
        let stale = |id: &LevelId| {
            let level = self.world.levels.get(id);
            level.is_some_and(|level| {
                availability::freshness(self.policy, level, self.now) == Freshness::Stale
            })
        };
        match tally.judge(supplier) {
            AlertChange::Open { .. } if !tally.samples().any(stale) => {}
            change => self.world.alerts.push(change),
        }
        Ok(Outcome::Done)
    }
}
