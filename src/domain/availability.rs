//! What may be sold of a SKU now: freshness, and the greedy choice of sources.
//!
//! What must hold: only `exact` and `fresh` figures sell; a supplier's share is a multiple of its
//! pack size and at least its minimum, here and not when buying; quantities are summed per SKU
//! over the whole order before anything is chosen.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::lock_ttl;
use super::names::{LevelId, SkuKey, SourceId, texts};
use super::outcome::{Refusal, Shortage};
use super::policy::Policy;
use super::sku::{Kind, Paused, Sku, Source};
use super::stock::{Level, Listing};
use crate::clock::{Span, Timestamp};

texts!(
    /// How far a figure can be believed.
    Freshness {
        Exact = "exact",
        Fresh = "fresh",
        Stale = "stale",
        NotListed = "not_listed",
        Unknown = "unknown",
    }
);

/// Judged at the read, from the figure's as_of.
pub fn freshness(policy: &Policy, level: &Level, now: Timestamp) -> Freshness {
    if level.kind == Kind::Warehouse {
        return Freshness::Exact;
    }
    let (Some(as_of), Some(terms)) = (level.as_of, policy.suppliers.get(&level.source)) else {
        return Freshness::Unknown;
    };
    match level.listing {
        Listing::Unread => Freshness::Unknown,
        Listing::Missing => Freshness::NotListed,
        Listing::Listed => {
            let limit = lock_ttl::stale_after(terms, lock_ttl::lag(terms, &level.lag_samples));
            if now.since(as_of) > limit { Freshness::Stale } else { Freshness::Fresh }
        }
    }
}

/// What one source offers a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Units, whatever stands in their way.
    pub units: i64,
    pub freshness: Freshness,
    /// The supplier is paused for selling.
    pub paused: bool,
}

impl Offer {
    /// Counts, and can be ordered from.
    pub fn orderable(&self) -> bool {
        !self.paused && matches!(self.freshness, Freshness::Exact | Freshness::Fresh)
    }
}

/// What a source of a SKU offers now.
pub fn offer(
    policy: &Policy,
    suppliers: &BTreeMap<SourceId, Paused>,
    source: &Source,
    level: &Level,
    now: Timestamp,
) -> Offer {
    let mut units = level.available(policy.buffer(source));
    if let Some(closed) = level.closed {
        units = units.min(closed.from_quantity.saturating_sub(1)).max(0);
    }
    if level.blocked_at.is_some() {
        units = 0;
    }
    Offer {
        units,
        freshness: freshness(policy, level, now),
        paused: suppliers.get(&source.source).is_some_and(|p| p.selling.is_some()),
    }
}

/// Units of one SKU to be taken from one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    pub sku: SkuKey,
    pub level: LevelId,
    pub quantity: i64,
}

/// The share that a source may give of what is still wanted.
fn share(source: &Source, units: i64, wanted: i64) -> i64 {
    let most = units.min(wanted).max(0);
    if source.kind == Kind::Warehouse {
        return most;
    }
    let packed = most - most % source.pack_size.max(1);
    if packed < source.min_quantity { 0 } else { packed }
}

/// Which obstacles are looked past when asking whether stock would have been enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    Orderable,
    AndStale,
    AndPaused,
}

struct Shelf<'a, L> {
    policy: &'a Policy,
    suppliers: &'a BTreeMap<SourceId, Paused>,
    levels: &'a BTreeMap<LevelId, L>,
    now: Timestamp,
    /// Taken so far by this order.
    taken: BTreeMap<LevelId, i64>,
}

impl<L: Borrow<Level>> Shelf<'_, L> {
    fn offer(&self, source: &Source) -> Option<Offer> {
        let level = self.levels.get(&source.level)?.borrow();
        let mut offer = offer(self.policy, self.suppliers, source, level, self.now);
        let taken = self.taken.get(&source.level).copied().unwrap_or(0);
        offer.units = offer.units.saturating_sub(taken);
        Some(offer)
    }

    /// Greedy, in order of preference. Returns the takes; they may sum to less than wanted, and
    /// asking for just that sum again would give the same.
    fn fill(&self, sku: &Sku, wanted: i64, counting: Counting) -> Vec<Take> {
        let mut left = wanted;
        let mut takes = Vec::new();
        for source in &sku.sources {
            let Some(offer) = self.offer(source) else {
                continue;
            };
            let counts = match counting {
                Counting::Orderable => offer.orderable(),
                Counting::AndStale => {
                    offer.orderable() || (!offer.paused && offer.freshness == Freshness::Stale)
                }
                Counting::AndPaused => {
                    matches!(offer.freshness, Freshness::Exact | Freshness::Fresh)
                }
            };
            let quantity = if counts { share(source, offer.units, left) } else { 0 };
            if quantity > 0 {
                left -= quantity;
                takes.push(Take { sku: sku.key.clone(), level: source.level.clone(), quantity });
            }
        }
        takes
    }

    fn filled(&self, sku: &Sku, wanted: i64, counting: Counting) -> i64 {
        self.fill(sku, wanted, counting).iter().map(|t| t.quantity).sum()
    }

    /// The age of the stalest figure among the SKU's stale sources.
    fn stale_age(&self, sku: &Sku) -> Option<Span> {
        let ages = sku.sources.iter().filter_map(|s| {
            let level = self.levels.get(&s.level)?.borrow();
            let stale = freshness(self.policy, level, self.now) == Freshness::Stale;
            level.as_of.filter(|_| stale).map(|at| self.now.since(at))
        });
        ages.max()
    }
}

/// Chooses the sources of an order whose quantities are already summed per SKU.
///
/// # Errors
/// The refusal that the order deserves when not all of it can be held.
pub fn choose<L: Borrow<Level>>(
    policy: &Policy,
    suppliers: &BTreeMap<SourceId, Paused>,
    levels: &BTreeMap<LevelId, L>,
    now: Timestamp,
    wanted: &[(&Sku, i64)],
) -> Result<Vec<Take>, Refusal> {
    let paused = |p: &Paused| p.selling.is_some();
    let stopped: Vec<SkuKey> =
        wanted.iter().filter(|(s, _)| paused(&s.paused)).map(|(s, _)| s.key.clone()).collect();
    if !stopped.is_empty() {
        return Err(Refusal::SkuPaused(stopped));
    }
    let mut shelf = Shelf { policy, suppliers, levels, now, taken: BTreeMap::new() };
    let mut takes = Vec::new();
    let (mut short, mut stale, mut halted) = (Vec::new(), Vec::new(), Vec::new());
    for (sku, quantity) in wanted {
        let found = shelf.fill(sku, *quantity, Counting::Orderable);
        let available: i64 = found.iter().map(|t| t.quantity).sum();
        if available < *quantity {
            if shelf.filled(sku, *quantity, Counting::AndStale) == *quantity {
                stale.push((sku.key.clone(), shelf.stale_age(sku)));
            } else if shelf.filled(sku, *quantity, Counting::AndPaused) == *quantity {
                halted.push(sku.key.clone());
            } else {
                short.push(Shortage { sku: sku.key.clone(), requested: *quantity, available });
            }
        }
        for take in &found {
            let taken = shelf.taken.entry(take.level.clone()).or_default();
            *taken = taken.saturating_add(take.quantity);
        }
        takes.extend(found);
    }
    match (short.is_empty(), stale.is_empty(), halted.is_empty()) {
        (true, true, true) => Ok(takes),
        (false, ..) => Err(Refusal::InsufficientStock(short)),
        (_, false, _) => Err(Refusal::StaleFeed(stale)),
        _ => Err(Refusal::SkuPaused(halted)),
    }
}

/// What a sold-out note says: at these versions of its levels, no source of the SKU had a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoldOut {
    /// The name that it was asked for by: the SKU's own or an alias.
    pub asked: SkuKey,
    pub sku: SkuKey,
    pub versions: BTreeMap<LevelId, i64>,
}

/// The versions at which nothing of the SKU can be had, in whatever quantity; `None` while any source
/// could give some, be it only once its figure is fresh or its supplier goes on selling, and while the
/// SKU is refused for another reason than its stock.
pub fn sold_out<L: Borrow<Level>>(
    policy: &Policy,
    suppliers: &BTreeMap<SourceId, Paused>,
    levels: &BTreeMap<LevelId, L>,
    now: Timestamp,
    sku: &Sku,
) -> Option<BTreeMap<LevelId, i64>> {
    let shelf = Shelf { policy, suppliers, levels, now, taken: BTreeMap::new() };
    let gives = |counting| !shelf.fill(sku, i64::MAX, counting).is_empty();
    let ways = [Counting::Orderable, Counting::AndStale, Counting::AndPaused];
    if sku.paused.selling.is_some() || sku.sources.is_empty() || ways.into_iter().any(gives) {
        return None;
    }
    let version = |source: &Source| {
        levels.get(&source.level).map(|level| (source.level.clone(), level.borrow().version))
    };
    sku.sources.iter().map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::policy::Terms;
    use crate::domain::sku::{Class, Pause, Watermark};
    use crate::domain::stock::Closed;
    use crate::domain::supply::Item;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    /// A SKU of the warehouse `main` and the supplier `s1`, sold out at both.
    struct Shop {
        policy: Policy,
        suppliers: BTreeMap<SourceId, Paused>,
        levels: BTreeMap<LevelId, Level>,
        sku: Sku,
    }

    fn source(source: &str, kind: Kind, level: &LevelId, item: Option<Item>) -> Source {
        Source {
            source: source.into(),
            kind,
            level: level.clone(),
            item,
            cost: None,
            currency: None,
            min_quantity: 1,
            pack_size: 1,
            buffer: None,
        }
    }

    fn shop() -> Shop {
        let (shelf, item) = (LevelId::from("main:A"), LevelId::from("s1:61:"));
        let offer = Item { offer_id: "61".into(), spec_id: None };
        let own = Level {
            quantity: 3,
            held: 2,
            committed: 1,
            version: 7,
            ..Level::empty(shelf.clone(), "main".into(), None)
        };
        let theirs = Level {
            quantity: 5,
            held: 5,
            version: 41,
            listing: Listing::Listed,
            as_of: Some(NOW - Span::minutes(2)),
            ..Level::empty(item.clone(), "s1".into(), Some(offer.clone()))
        };
        let sku = Sku {
            key: "A".into(),
            title: "A".into(),
            class: Class::Flash,
            watermark: Watermark::default(),
            sources: vec![
                source("main", Kind::Warehouse, &shelf, None),
                source("s1", Kind::Supplier, &item, Some(offer)),
            ],
            paused: Paused::default(),
        };
        Shop {
            policy: Policy {
                suppliers: [("s1".into(), Terms::default())].into(),
                ..Policy::default()
            },
            suppliers: BTreeMap::new(),
            levels: [(shelf, own), (item, theirs)].into(),
            sku,
        }
    }

    impl Shop {
        fn level(&mut self, id: &str) -> &mut Level {
            self.levels.get_mut(&LevelId::from(id)).expect("a level")
        }

        fn versions(&self) -> Option<Vec<i64>> {
            let Shop { policy, suppliers, levels, sku } = self;
            let versions = sold_out(policy, suppliers, levels, NOW, sku)?;
            Some(versions.into_values().collect())
        }
    }

    fn pause() -> Paused {
        let pause = Some(Pause { at: NOW, reason: "fault".into() });
        Paused { selling: pause, buying: None }
    }

    #[test]
    fn sold_out_is_nothing_at_any_source() {
        let mut shop = shop();
        assert_eq!(shop.versions(), Some(vec![7, 41]));
        shop.level("main:A").held = 1;
        assert_eq!(shop.versions(), None);
        // The one unit that is left is in the buffer.
        shop.sku.sources[0].buffer = Some(1);
        assert_eq!(shop.versions(), Some(vec![7, 41]));
        shop.level("s1:61:").held = 4;
        assert_eq!(shop.versions(), None, "the other source has one");
        // One alone is no pack of three.
        shop.sku.sources[1].pack_size = 3;
        assert_eq!(shop.versions(), Some(vec![7, 41]));
        shop.level("s1:61:").held = 2;
        assert_eq!(shop.versions(), None);
        shop.level("s1:61:").closed = Some(Closed { from_quantity: 1, since: NOW });
        assert_eq!(shop.versions(), Some(vec![7, 41]));
    }

    #[test]
    fn what_is_refused_for_another_reason_is_not_sold_out() {
        let mut stale = shop();
        stale.level("s1:61:").held = 0;
        stale.level("s1:61:").as_of = Some(NOW - Span::hours(9));
        assert_eq!(stale.versions(), None, "a newer figure would sell it");
        let mut halted = shop();
        halted.level("s1:61:").held = 0;
        halted.suppliers.insert("s1".into(), pause());
        assert_eq!(halted.versions(), None, "the supplier only pauses");
        let mut paused = shop();
        paused.sku.paused = pause();
        assert_eq!(paused.versions(), None);
        let mut unknown = shop();
        unknown.levels.remove(&LevelId::from("s1:61:"));
        assert_eq!(unknown.versions(), None);
        let mut nowhere = shop();
        nowhere.sku.sources.clear();
        assert_eq!(nowhere.versions(), None);
        // Never read, or not offered any more: nobody could sell that.
        let mut missing = shop();
        missing.level("s1:61:").held = 0;
        missing.level("s1:61:").listing = Listing::Missing;
        assert_eq!(missing.versions(), Some(vec![7, 41]));
    }
}
