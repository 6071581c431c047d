//! When ops are warned that a SKU runs dry, or that a supplier's figures are too old.
//!
//! What must hold: `low_stock` opens when fewer than `low` units are left and closes at `recover` or
//! more; between the two nothing changes, so that a figure swinging about the limit alerts once. A
//! stale source counts at its last figure: an outage is one alert about the supplier and not a storm
//! about its SKUs. A source that was never read is not none: a new catalogue is no storm either.
//! Leaves out reminders, which every kind of alert has.

use std::collections::BTreeMap;

use super::alert::{AlertChange, AlertKind};
use super::availability;
use super::availability::Freshness::{Exact, Fresh, Stale};
use super::names::{LevelId, SkuKey, SourceId};
use super::policy::Policy;
use super::sku::{Kind, Sku, Watermark};
use super::stock::{Level, Listing};
use crate::clock::{Span, Timestamp};

/// So many levels are named in one `feed_stale`.
pub const SAMPLES: usize = 10;

/// The limits that hold for a SKU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Opens below this.
    pub low: i64,
    /// Closes at this or more; exceeds `low`.
    pub recover: i64,
}

impl Limits {
    /// A SKU's own, else the policy's. A SKU that states only `low` recovers at
    /// `low + max(3, low / 2)`, as the policy does by default.
    pub fn of(own: Watermark, policy: &Policy) -> Limits {
        let low = own.low.unwrap_or(policy.low);
        let recover = match (own.recover, own.low) {
            (Some(recover), _) => recover,
            (None, Some(low)) => low.saturating_add((low / 2).max(3)),
            (None, None) => policy.recover,
        };
        Limits { low, recover: recover.max(low.saturating_add(1)) }
    }
}

/// What could be sold of a SKU over all its sources, counting stale ones at their last figure.
/// `None` while the first figure of one of them is still to come.
fn left<'a>(
    sku: &Sku,
    level: impl Fn(&LevelId) -> Option<&'a Level>,
    policy: &Policy,
    now: Timestamp,
) -> Option<i64> {
    let not_paused = BTreeMap::new();
    let mut left = 0i64;
    for source in &sku.sources {
        let Some(level) = level(&source.level) else { continue };
        let to_come = level.listing == Listing::Unread && level.kind == Kind::Supplier;
        if to_come && policy.suppliers.contains_key(&level.source) {
            return None;
        }
        let offer = availability::offer(policy, &not_paused, source, level, now);
        if matches!(offer.freshness, Exact | Fresh | Stale) {
            left = left.saturating_add(offer.units);
        }
    }
    Some(left)
}

/// The SKU of a warehouse's level that leaves enough of it not to be low, whatever other sources have;
/// `None` where that is not so, or cannot be told from what is loaded: `sku` finds it there by its key.
pub fn plenty<'a>(
    sku: impl FnOnce(&str) -> Option<&'a Sku>,
    level: &Level,
    policy: &Policy,
) -> Option<SkuKey> {
    if level.kind != Kind::Warehouse {
        return None; // other SKUs may be mapped to the item
    }
    let sku = sku(level.id.at_source())?;
    let source = sku.sources.iter().find(|source| source.level == level.id)?;
    let units = level.available(policy.buffer(source));
    (units >= Limits::of(sku.watermark, policy).low).then(|| sku.key.clone())
}

/// With which a SKU is surely not low: so many units, where it has no limit of its own, beyond the largest
/// buffer of all suppliers where a supplier's item has none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caution {
    pub low: i64,
    pub buffer: i64,
}

impl Caution {
    pub fn of(policy: &Policy) -> Caution {
        let buffers = policy.suppliers.values().map(|terms| terms.buffer);
        Caution { low: policy.low, buffer: buffers.max().unwrap_or(0).max(0) }
    }
}

/// A SKU's `low_stock` as it is to be; `None` between its limits, where it stays as it is, and while what is
/// left is not known.
pub fn low_stock<'a>(
    sku: &Sku,
    level: impl Fn(&LevelId) -> Option<&'a Level>,
    policy: &Policy,
    now: Timestamp,
) -> Option<AlertChange> {
    judge(&sku.key, left(sku, level, policy, now)?, Limits::of(sku.watermark, policy))
}

fn judge(sku: &SkuKey, left: i64, limits: Limits) -> Option<AlertChange> {
    let (kind, subject) = (AlertKind::LowStock, sku.to_string());
    if left < limits.low {
        let detail = format!("{left} left, below {}", limits.low);
        Some(AlertChange::Open { kind, subject, detail })
    } else if left >= limits.recover {
        Some(AlertChange::Close { kind, subject })
    } else {
        None
    }
}

/// A supplier's levels: how many there are, and those found too old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    levels: u64,
    stale: u64,
    samples: Vec<(LevelId, Span)>,
}

impl Tally {
    /// Of so many levels.
    pub fn of(levels: u64) -> Tally {
        Tally { levels, stale: 0, samples: Vec::new() }
    }

    /// Looks at one of them. One that was never read, or is not offered, is neither fresh nor stale.
    pub fn look_at(&mut self, level: &Level, policy: &Policy, now: Timestamp) {
        let age = level.as_of.map_or(Span::ZERO, |as_of| now.since(as_of));
        if availability::freshness(policy, level, now) == Stale {
            self.stale += 1;
            if self.samples.len() < SAMPLES {
                self.samples.push((level.id.clone(), age));
            }
        }
    }

    /// The levels named as stale: at most [`SAMPLES`], and none only where none is.
    pub fn samples(&self) -> impl Iterator<Item = &LevelId> {
        self.samples.iter().map(|(level, _)| level)
    }

    /// One alert for the supplier, whatever the number of its stale levels; none is as good as
    /// closed. Opening an open one and closing a closed one change nothing.
    pub fn judge(&self, supplier: &SourceId) -> AlertChange {
        let subject = supplier.to_string();
        let kind = AlertKind::FeedStale;
        if self.stale == 0 {
            return AlertChange::Close { kind, subject };
        }
        let samples: Vec<String> = self
            .samples
            .iter()
            .map(|(level, age)| format!("{level} ({} s old)", age.as_secs()))
            .collect();
        let more = if self.stale > samples.len() as u64 { ", …" } else { "" };
        AlertChange::Open {
            kind,
            subject,
            detail: format!(
                "{} of {} items have no figure young enough to sell from: {}{more}",
                self.stale,
                self.levels,
                samples.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::policy::Terms;
    use crate::domain::sku::{Class, Paused, Source};
    use crate::domain::stock::Closed;
    use crate::domain::supply::Item;

    const LIMITS: Limits = Limits { low: 6, recover: 8 };

    fn supplier() -> SourceId {
        SourceId::from("s1")
    }

    fn policy() -> Policy {
        let terms = Terms { buffer: 2, ..Terms::default() };
        Policy { suppliers: [(supplier(), terms)].into(), ..Policy::default() }
    }

    /// A level of supplier `s1`, last read at `as_of`.
    fn level(offer: usize, quantity: i64, as_of: Option<Timestamp>) -> Level {
        let item = Item { offer_id: offer.to_string(), spec_id: None };
        let id = LevelId::supplier(&supplier(), &item);
        let mut level = Level::empty(id, supplier(), Some(item));
        level.quantity = quantity;
        level.as_of = as_of;
        if as_of.is_some() {
            level.listing = Listing::Listed;
        }
        level
    }

    fn warehouse(quantity: i64) -> Level {
        let main = SourceId::from("main");
        let id = LevelId::warehouse(&main, &SkuKey::from("SHOE"));
        let mut level = Level::empty(id, main, None);
        level.quantity = quantity;
        level
    }

    fn sku(levels: &[Level]) -> Sku {
        let source = |level: &Level| Source {
            source: level.source.clone(),
            kind: level.kind,
            level: level.id.clone(),
            item: level.item.clone(),
            cost: None,
            currency: None,
            min_quantity: 1,
            pack_size: 1,
            buffer: None,
        };
        Sku {
            key: "SHOE".into(),
            title: "Shoe".into(),
            class: Class::Normal,
            watermark: Watermark::default(),
            sources: levels.iter().map(source).collect(),
            paused: Paused::default(),
        }
    }

    fn left_of(levels: &[Level]) -> Option<i64> {
        let find = |id: &LevelId| levels.iter().find(|l| &l.id == id);
        left(&sku(levels), find, &policy(), Timestamp::from_secs(10_000_000))
    }

    /// Feeds a sequence through and tells at which positions (from 0) an alert opened or closed.
    fn story(sequence: &[i64], limits: Limits) -> Vec<(usize, &'static str)> {
        let mut open = false;
        let mut told = Vec::new();
        for (n, left) in sequence.iter().enumerate() {
            match judge(&"SHOE".into(), *left, limits) {
                Some(change) if change.is_open() == open => {}
                Some(AlertChange::Open { .. }) => {
                    open = true;
                    told.push((n, "open"));
                }
                Some(AlertChange::Close { .. }) => {
                    open = false;
                    told.push((n, "close"));
                }
                None => {}
            }
        }
        told
    }

    #[test]
    fn a_swinging_figure_alerts_once_until_it_recovers() {
        assert_eq!(
            story(&[6, 5, 6, 4, 6, 5, 6, 8, 5], LIMITS),
            [(1, "open"), (7, "close"), (8, "open")]
        );
    }

    #[test]
    fn the_same_low_figure_again_and_again_alerts_once() {
        assert_eq!(story(&[2; 20], LIMITS), [(0, "open")]);
        assert_eq!(story(&[7; 20], LIMITS), []);
        // A watermark of 0 never warns.
        let never = Limits { low: 0, recover: 3 };
        assert_eq!(story(&[0, 0, 5, 0], never), []);
    }

    #[test]
    fn an_alert_says_how_much_is_left() {
        assert_eq!(
            judge(&"SHOE".into(), 5, LIMITS),
            Some(AlertChange::Open {
                kind: AlertKind::LowStock,
                subject: "SHOE".into(),
                detail: "5 left, below 6".into(),
            })
        );
    }

    #[test]
    fn a_skus_own_limits_come_before_the_policys() {
        let limits = |low, recover| Limits::of(Watermark { low, recover }, &policy());
        assert_eq!(limits(None, None), Limits { low: 5, recover: 8 });
        assert_eq!(limits(Some(6), Some(8)), LIMITS);
        assert_eq!(limits(Some(2), None), Limits { low: 2, recover: 5 });
        assert_eq!(limits(Some(20), None), Limits { low: 20, recover: 30 });
        assert_eq!(limits(None, Some(3)), Limits { low: 5, recover: 6 });
    }

    #[test]
    fn every_source_counts_with_its_buffer_and_a_stale_one_at_its_last_figure() {
        let long_ago = Timestamp::from_secs(0);
        // Warehouse 3, and 7 less the supplier's buffer of 2.
        assert_eq!(left_of(&[warehouse(3), level(1, 7, Some(long_ago))]), Some(8));
        assert_eq!(left_of(&[warehouse(3), level(1, 1, Some(long_ago))]), Some(3));
    }

    #[test]
    fn plenty_is_what_a_warehouse_alone_leaves_enough_of() {
        let of = |level: &Level, low: Option<i64>, known: &[Level]| {
            let sku = Sku { watermark: Watermark { low, recover: None }, ..sku(known) };
            plenty(|key| (key == sku.key.as_str()).then_some(&sku), level, &policy())
        };
        let shoe = Some(SkuKey::from("SHOE"));
        // The policy's limit is 5.
        assert_eq!(of(&warehouse(5), None, &[warehouse(5)]), shoe);
        assert_eq!(of(&warehouse(4), None, &[warehouse(4)]), None);
        assert_eq!(of(&warehouse(5), Some(6), &[warehouse(5)]), None);
        let held = Level { held: 1, ..warehouse(5) };
        assert_eq!(of(&held, None, &[warehouse(5)]), None);
        // Whatever the other sources have: less than nothing they cannot.
        let item = level(1, 0, None);
        assert_eq!(of(&warehouse(5), None, &[item.clone(), warehouse(5)]), shoe);
        let full = level(1, 90, Some(Timestamp::from_secs(0)));
        assert_eq!(
            of(&full, None, std::slice::from_ref(&full)),
            None,
            "others may be mapped to it"
        );
        assert_eq!(of(&warehouse(5), None, &[item]), None, "no source of the SKU");
        assert_eq!(plenty(|_| None, &warehouse(5), &policy()), None);
    }

    #[test]
    fn what_cannot_be_ordered_does_not_count() {
        let read = Some(Timestamp::from_secs(0));
        let mut gone = level(1, 9, read);
        gone.listing = Listing::Missing;
        let mut blocked = level(2, 9, read);
        blocked.blocked_at = read;
        let mut closed = level(3, 9, read);
        closed.closed = Some(Closed { from_quantity: 4, since: Timestamp::from_secs(0) });
        assert_eq!(left_of(&[gone, blocked]), Some(0));
        assert_eq!(left_of(&[closed]), Some(3));
    }

    #[test]
    fn a_source_that_was_never_read_leaves_open_what_is_left() {
        assert_eq!(left_of(&[warehouse(3), level(1, 0, None)]), None);
        // What is not configured will never be read.
        let mut gone = level(1, 0, None);
        gone.source = "gone".into();
        assert_eq!(left_of(&[warehouse(3), gone]), Some(3));
    }

    #[test]
    fn a_storm_of_stale_levels_is_one_alert_with_ten_samples() {
        let now = Timestamp::from_secs(10_000_000);
        let mut tally = Tally::of(3000);
        for n in 0..3000 {
            tally.look_at(&level(n, 5, Some(now - Span::minutes(30))), &policy(), now);
        }
        let AlertChange::Open { kind, subject, detail } = tally.judge(&supplier()) else {
            panic!("it must open");
        };
        assert_eq!((kind, subject.as_str()), (AlertKind::FeedStale, "s1"));
        assert!(
            detail.starts_with("3000 of 3000 items have no figure young enough to sell from: "),
            "{detail}"
        );
        assert_eq!(detail.matches("(1800 s old)").count(), 10);
    }

    #[test]
    fn fresh_again_closes_and_the_limit_itself_is_fresh() {
        let now = Timestamp::from_secs(10_000_000);
        let judged = |age: Span| {
            let mut tally = Tally::of(2);
            tally.look_at(&level(1, 5, Some(now - age)), &policy(), now);
            tally.look_at(&level(2, 5, None), &policy(), now);
            tally.judge(&supplier())
        };
        // L + 1.2 × I = 1 + 12 minutes.
        let close = AlertChange::Close { kind: AlertKind::FeedStale, subject: "s1".into() };
        assert_eq!(judged(Span::minutes(13)), close);
        assert_eq!(
            judged(Span::minutes(13) + Span::micros(1)),
            AlertChange::Open {
                kind: AlertKind::FeedStale,
                subject: "s1".into(),
                detail: "1 of 2 items have no figure young enough to sell from: s1:1: (780 s old)"
                    .into(),
            }
        );
    }
}
