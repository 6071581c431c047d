//! What the groups before left of catalogue and stock, so that new orders need not read it again under
//! locks: they are decided on what is known as they come in, while the group before is still being
//! written, and the whole draft is written once that has committed.
//!
//! What must hold: nothing known is trusted. A draft is written only if the catalogue is still of the
//! version that was read, each level is still of the revision that is known, and no name of the orders
//! is taken; otherwise all of it is decided again under locks. Only orders that are created are decided
//! so: what would be refused, is paid already, or may be there already, is decided under locks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use super::group::{Decided, Results};
use super::queue::{MAX_COMMANDS, MAX_LEVELS, Pending};
use super::{Committed, Envelope, Moved, Reply, Touched};
use crate::clock::{Span, Timestamp};
use crate::domain::command::{Command, Placement};
use crate::domain::decide::decide;
use crate::domain::names::{LevelId, SkuKey};
use crate::domain::order::State;
use crate::domain::outcome::{Outcome, Touch};
use crate::domain::policy::Policy;
use crate::domain::sku::Sku;
use crate::domain::stock::Level;
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
    skus: HashMap<SkuKey, Arc<Sku>>,
    /// alias → SKU
    aliases: HashMap<SkuKey, SkuKey>,
    levels: HashMap<LevelId, Arc<Level>>,
    /// The names of orders whose drafts are not committed yet.
    names: HashSet<String>,
    /// What one placement after the other is decided on: the stop switches, and, only while it is
    /// decided, what is known of what it asks for.
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
        self.skus.extend(read.skus);
        self.aliases.extend(read.aliases);
        self.levels.extend(read.levels);
    }

    /// This was read without locks, maybe before what is known already.
    pub(super) fn add_read(&mut self, catalogue: i64, read: World) {
        if self.skus.is_empty() {
            self.catalogue = catalogue;
            self.world.suppliers = read.suppliers;
        } else if catalogue != self.catalogue {
            return; // what is known now is about to be found out
        }
        fn add<K: Eq + Hash, V>(known: &mut HashMap<K, V>, read: BTreeMap<K, V>) {
            read.into_iter().for_each(|(key, value)| {
                known.entry(key).or_insert(value);
            });
        }
        add(&mut self.skus, read.skus);
        add(&mut self.aliases, read.aliases);
        add(&mut self.levels, read.levels);
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
            self.names.remove(&name(placement));
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
        self.levels.len() > MOST
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
        let name = name(placement);
        if self.names.contains(&name) {
            return Some(pending);
        }
        self.show(placement);
        self.world.levels.values().for_each(|level| draft.placing.note(level));
        let decided = decide(&mut self.world, policy, now, &pending.envelope.command);
        let taken = match decided {
            Ok(Outcome::Order { order, touch: touch @ Touch::Created })
                if order.state == State::PendingPayment
                    && draft.placing.take(&mut self.world).is_ok() =>
            {
                Some(Reply::Outcome(Outcome::Order { order, touch }))
            }
            Ok(_) => {
                self.world.rollback();
                None
            }
            Err(_) => None,
        };
        self.unshow();
        let Some(reply) = taken else { return Some(pending) };
        self.names.insert(name);
        draft.results.push(Ok(reply));
        draft.pending.push(pending);
        draft.begun_at.get_or_insert(now);
        None
    }

    fn sku(&self, asked: &SkuKey) -> Option<&Arc<Sku>> {
        self.skus.get(asked).or_else(|| self.skus.get(self.aliases.get(asked)?))
    }

    /// Puts what is known of what a placement asks for into the world.
    fn show(&mut self, placement: &Placement) {
        for asked in placement.lines.iter().map(|line| &line.sku) {
            let Some(sku) = self.sku(asked).cloned() else { continue };
            for source in &sku.sources {
                if let Some(level) = self.levels.get(&source.level) {
                    self.world.levels.insert(source.level.clone(), Arc::clone(level));
                }
            }
            if sku.key != *asked {
                self.world.aliases.insert(asked.clone(), sku.key.clone());
            }
            self.world.skus.insert(sku.key.clone(), sku);
        }
    }

    /// Takes it out again, with its levels as they are now.
    fn unshow(&mut self) {
        self.levels.extend(std::mem::take(&mut self.world.levels));
        self.world.skus.clear();
        self.world.aliases.clear();
        self.world.external.clear();
    }

    /// Every SKU that a placement asks for, with all its levels.
    pub(super) fn knows(&self, envelope: &Envelope) -> bool {
        let known = |asked: &SkuKey| {
            let sku = self.sku(asked);
            sku.is_some_and(|sku| sku.sources.iter().all(|s| self.levels.contains_key(&s.level)))
        };
        plain(envelope).is_some_and(|placement| placement.lines.iter().all(|l| known(&l.sku)))
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
        let placed = placing.close(&mut self.levels, now)?;
        let touched = Touched {
            levels: placed.levels.clone(),
            read_at: Some(Instant::now()),
            ..Touched::default()
        };
        let moved = placed.levels.iter();
        let sku = |key: &str| self.skus.get(key).map(Arc::as_ref);
        let levels = moved.map(|level| Moved::now(level, sku, policy)).collect();
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

/// An order's name: neither part of it has a U+0000.
fn name(placement: &Placement) -> String {
    format!("{}\0{}", placement.channel, placement.external_id)
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
