//! What the groups before left of catalogue and stock, so that new orders need not read it again under
//! locks: they are decided on what is known as they come in, while the group before is still being
//! written, and the whole draft is written once that has committed.
//!
//! What must hold: nothing known is trusted. A draft is written only if the catalogue is still of the
//! version that was read, each level is still of the revision that is known, and no name of the orders
//! is taken; otherwise all of it is decided again under locks. Only orders that are created are decided
//! so: what would be refused, is paid already, or may be there already, is decided under locks.

use std::collections::BTreeMap;
use std::time::Instant;

use super::group::{Decided, Results};
use super::queue::{MAX_COMMANDS, MAX_LEVELS, Pending};
use super::{Committed, Envelope, Moved, Reply, Touched};
use crate::clock::{Span, Timestamp};
use crate::domain::command::{Command, Placement};
use crate::domain::decide::decide;
use crate::domain::names::SkuKey;
use crate::domain::order::State;
use crate::domain::outcome::{Outcome, Touch};
use crate::domain::policy::Policy;
use crate::domain::world::World;
use crate::storage::{
    self,
    world::{Placed, Placing},
};

/// When so many levels are known (about a kilobyte each, with its SKU) they are forgotten.
const MOST: usize = 100_000;
/// Room for the commands of a usual draft.
const USUAL: usize = 64;
/// After drafts that came to nothing, one after the other, so many groups at most go without one.
const LONGEST_REST: u32 = 64;
/// Counts drafts.
const DRAFTS: &str = "stockhold_drafts_total";
/// A draft that was begun longer ago when it is written is decided again.
const FRESH: Span = Span::secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Known {
    /// How often the catalogue had been changed when it was read.
    catalogue: i64,
    /// SKUs, stop switches and levels; and the names of orders whose drafts are not committed yet.
    world: World,
    rest: u32,
    resting: u32,
}

/// Placements that are decided.
pub(super) struct Draft {
    pub pending: Vec<Pending>,
    results: Results,
    placing: Placing,
    /// When the first was decided.
    begun_at: Option<Timestamp>,
}

/// A draft that takes no more.
pub(super) struct Closed {
    pub decided: Decided,
    pub placed: Placed,
    pub basis: Basis,
}

/// What a draft was decided on.
#[derive(Clone, Copy)]
pub(super) struct Basis {
    catalogue: i64,
    at: Timestamp,
}

impl Basis {
    /// Whether it may be written by a group that begins at that time, with that catalogue.
    pub(super) fn holds(self, at: Timestamp, catalogue: i64) -> bool {
        let age = at.since(self.at);
        self.catalogue == catalogue && -FRESH.0 <= age.0 && age.0 <= FRESH.0
    }
}

impl Known {
    /// A group has committed that read this under locks and left it so.
    pub(super) fn learn(&mut self, catalogue: i64, read: World) {
        if catalogue != self.catalogue {
            self.forget();
        }
        self.catalogue = catalogue;
        self.world.suppliers = read.suppliers;
        self.world.skus.extend(read.skus);
        self.world.aliases.extend(read.aliases);
        self.world.levels.extend(read.levels);
    }

    /// This was read without locks, maybe before what is known already.
    pub(super) fn add_read(&mut self, catalogue: i64, read: World) {
        if self.world.skus.is_empty() {
            self.catalogue = catalogue;
            self.world.suppliers = read.suppliers;
        } else if catalogue != self.catalogue {
            return; // what is known now is about to be found out
        }
        fn add<K: Ord, V>(known: &mut BTreeMap<K, V>, read: BTreeMap<K, V>) {
            read.into_iter().for_each(|(key, value)| {
                known.entry(key).or_insert(value);
            });
        }
        add(&mut self.world.skus, read.skus);
        add(&mut self.world.aliases, read.aliases);
        add(&mut self.world.levels, read.levels);
    }

    /// Whatever is known may be wrong; no draft that was decided on it may be written.
    pub(super) fn forget(&mut self) {
        *self = Known { rest: self.rest, resting: self.resting, ..Known::default() };
    }

    /// A draft was written, with these orders.
    pub(super) fn proved_right(&mut self, written: &[Envelope]) {
        metrics::counter!(DRAFTS, "outcome" => "written").increment(1);
        self.rest = 0;
        for placement in written.iter().filter_map(plain) {
            let name = (placement.channel.clone(), placement.external_id.clone());
            self.world.external.remove(&name);
        }
    }

    /// A draft came to nothing: the longer that goes on, the less often one is tried.
    pub(super) fn proved_wrong(&mut self) {
        metrics::counter!(DRAFTS, "outcome" => "undone").increment(1);
        self.forget();
        self.rest = self.rest.saturating_mul(2).clamp(1, LONGEST_REST);
        self.resting = self.rest;
    }

    /// A first draft; `None` while none is to be tried.
    pub(super) fn first_draft(&mut self) -> Option<Draft> {
        if self.resting > 0 {
            self.resting -= 1;
            return None;
        }
        if self.is_full() {
            self.forget();
        }
        Some(Draft::empty())
    }

    /// It is time to begin anew.
    pub(super) fn is_full(&self) -> bool {
        self.world.levels.len() > MOST
    }

    /// Decides one more command, which leaves what is known as it would be then; or hands it back, to be
    /// decided under locks.
    #[must_use]
    pub(super) fn add(
        &mut self,
        draft: &mut Draft,
        pending: Pending,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Pending> {
        let Some(placement) = plain(&pending.envelope) else { return Some(pending) };
        self.note_levels(&mut draft.placing, placement);
        match decide(&mut self.world, policy, now, &pending.envelope.command) {
            Ok(Outcome::Order { order, touch: touch @ Touch::Created })
                if order.state == State::PendingPayment
                    && draft.placing.take(&mut self.world).is_ok() =>
            {
                draft.results.push(Ok(Reply::Outcome(Outcome::Order { order, touch })));
                draft.pending.push(pending);
                draft.begun_at.get_or_insert(now);
                return None;
            }
            Ok(_) => self.world.rollback(),
            Err(_) => {}
        }
        Some(pending)
    }

    /// Every SKU that a placement asks for, with all its levels.
    pub(super) fn knows(&self, envelope: &Envelope) -> bool {
        let known = |sku: &SkuKey| {
            let sku = self.world.sku(sku);
            sku.is_some_and(|sku| {
                sku.sources.iter().all(|s| self.world.levels.contains_key(&s.level))
            })
        };
        plain(envelope).is_some_and(|placement| placement.lines.iter().all(|l| known(&l.sku)))
    }

    fn note_levels(&self, placing: &mut Placing, placement: &Placement) {
        let skus = placement.lines.iter().filter_map(|line| self.world.sku(&line.sku));
        let levels = skus.flat_map(|sku| &sku.sources);
        levels.filter_map(|s| self.world.levels.get(&s.level)).for_each(|l| placing.note(l));
    }

    /// Ends a draft, which leaves what is known as it will be when that is written.
    ///
    /// # Errors
    /// When it changes more than it may.
    pub(super) fn close(
        &mut self,
        draft: Draft,
        policy: &Policy,
        now: Timestamp,
    ) -> storage::Result<Closed> {
        let Draft { results, placing, begun_at, .. } = draft;
        let placed = placing.close(&mut self.world.levels, now)?;
        let touched = Touched {
            levels: placed.levels.clone(),
            read_at: Some(Instant::now()),
            ..Touched::default()
        };
        let moved = placed.levels.iter();
        let levels = moved.map(|level| Moved::now(level, &self.world.skus, policy)).collect();
        let committed = Committed { levels, next_job: placed.next_job };
        let decided = Decided { results, committed, touched, ..Decided::default() };
        let basis = Basis { catalogue: self.catalogue, at: begun_at.unwrap_or(now) };
        Ok(Closed { decided, placed, basis })
    }
}

impl Draft {
    pub(super) fn empty() -> Draft {
        Draft {
            pending: Vec::with_capacity(USUAL),
            results: Results::with_capacity(USUAL),
            placing: Placing::default(),
            begun_at: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes no more, with others that wait to be added.
    pub(super) fn is_full(&self, others: usize) -> bool {
        self.pending.len() + others >= MAX_COMMANDS || self.placing.levels() >= MAX_LEVELS
    }
}

/// A placement that asks for nothing else: unpaid, without a key, and nobody's job.
pub(super) fn plain(envelope: &Envelope) -> Option<&Placement> {
    match &envelope.command {
        Command::Place(placement)
            if envelope.fence.is_none()
                && envelope.idempotency.is_none()
                && placement.idempotency.is_none()
                && placement.payment.is_none() =>
        {
            Some(placement)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_holds_for_a_second_of_either_clock_and_for_its_catalogue() {
        let at = Timestamp::from_secs(100);
        let basis = Basis { catalogue: 7, at };
        let micro = Span::micros(1);
        for (at, holds) in [
            (at, true),
            (at + Span::secs(1), true),
            (at + Span::secs(1) + micro, false),
            (at - Span::secs(1), true),
            (at - Span::secs(1) - micro, false),
        ] {
            assert_eq!(basis.holds(at, 7), holds, "{at:?}");
            assert!(!basis.holds(at, 8));
        }
    }
}
