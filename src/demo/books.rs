//! The books of the night, read from three sides that know nothing of each other: the storefront's
//! notes, what the daemon says through its API, and the supplier's own accounts.
//!
//! What must hold: figures and ledger are read of the same moment, or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use super::SUPPLIER;
use super::customer::Visit;
use super::night::{Night, availability};
use super::pace::real;
use super::shop::{
    AvailabilityView, HoldView, JobView, LedgerView, OrderView, RefundView, Shop, SupplierView,
};
use crate::catalogue::Row;
use crate::clock::Span;
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::supply::Item;
use crate::suppliers::simulator::{Handle, Status};

/// Readings of figures and ledger until both are of the same moment.
const ATTEMPTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(150);
/// How late the feed is, in the story.
const LAG: Span = Span::minutes(40);

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Books {
    pub visits: Vec<Visit>,
    pub orders: Vec<OrderView>,
    pub refunds: Vec<RefundView>,
    pub active_holds: Vec<String>,
    pub dead_jobs: Vec<String>,
    pub levels: Vec<Level>,
    pub ledger_entries: usize,
    pub goods: Vec<Goods>,
    pub upstream: Vec<Upstream>,
    pub feed: Feed,
    /// Calls that the supplier throttled.
    pub throttled: u64,
}

/// A stock level, and what its ledger entries add up to.
#[derive(Clone, Debug, Default)]
pub struct Level {
    pub id: String,
    /// Its SKUs.
    pub name: String,
    /// Units on the shelf at the beginning; `None` for a supplier's.
    pub shelf: Option<i64>,
    pub shown: Figures,
    pub counted: Figures,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub quantity: i64,
    pub held: i64,
    pub committed: i64,
}

/// One item in the supplier's accounts. Units.
#[derive(Clone, Debug, Default)]
pub struct Goods {
    pub level: String,
    pub name: String,
    /// What came in less what went to others.
    pub had: i64,
    /// In our orders that are paid and not closed.
    pub bought: i64,
    pub others: i64,
}

/// One order in the supplier's accounts.
#[derive(Clone, Debug, Default)]
pub struct Upstream {
    pub id: String,
    pub reference: Option<String>,
    /// Not closed.
    pub open: bool,
    pub paid: bool,
    /// By level.
    pub units: BTreeMap<String, i64>,
}

/// How late the supplier's figures were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feed {
    pub should_be: Duration,
    /// As seen from outside.
    pub was: Option<Duration>,
    pub observed_seconds: i64,
    pub lock_ttl_seconds: i64,
}

/// Reads all of it.
///
/// # Errors
/// When somebody does not answer, or the figures do not stand still.
pub async fn read(
    shop: &Shop,
    supplier: &Handle,
    rows: &[Row],
    night: Night,
) -> Result<Books, String> {
    let names = names(rows);
    let (levels, ledger_entries) = levels(shop, rows, &names).await?;
    let holds: Vec<HoldView> = shop.list("/v1/holds", "state=active").await?;
    let dead: Vec<JobView> = shop.list("/v1/jobs", "state=dead").await?;
    let seen: SupplierView = shop.get(&format!("/v1/suppliers/{SUPPLIER}")).await?;
    let faults = supplier.counts().into_values().flat_map(|count| count.faults);
    Ok(Books {
        visits: night.visits,
        orders: shop.list("/v1/orders", "").await?,
        refunds: shop.list("/v1/refunds", "").await?,
        active_holds: holds.into_iter().map(|h| format!("{} of {}", h.id, h.sku)).collect(),
        dead_jobs: dead
            .into_iter()
            .map(|j| format!("{}: {}", j.key, j.last_error.unwrap_or_default()))
            .collect(),
        levels,
        ledger_entries,
        goods: goods(supplier, &names),
        upstream: upstream(supplier),
        feed: Feed {
            should_be: real(LAG).to_std(),
            was: night.feed_late_by,
            observed_seconds: seen.observed_lag_seconds,
            lock_ttl_seconds: seen.lock_ttl_seconds,
        },
        throttled: faults.filter(|(kind, _)| *kind == "gateway").map(|(_, n)| n).sum(),
    })
}

/// The level of a SKU at a source of its catalogue row.
fn level_of(row: &Row, source: &str) -> Option<String> {
    if let Some(shelf) = row.shelf.as_ref().filter(|shelf| shelf.warehouse == source) {
        let source = SourceId::from(shelf.warehouse.as_str());
        return Some(LevelId::warehouse(&source, &SkuKey::from(row.sku.as_str())).to_string());
    }
    let offer = row.offer.as_ref().filter(|offer| offer.supplier == source)?;
    let item = Item { offer_id: offer.offer_id.clone(), spec_id: offer.spec_id.clone() };
    Some(supplier_level(&item))
}

/// The level of an item at the supplier.
pub fn supplier_level(item: &Item) -> String {
    LevelId::supplier(&SourceId::from(SUPPLIER), item).to_string()
}

/// The SKUs of each level.
fn names(rows: &[Row]) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for row in rows {
        let shelf = row.shelf.as_ref().map(|s| s.warehouse.as_str());
        let offer = row.offer.as_ref().map(|o| o.supplier.as_str());
        for level in [shelf, offer].into_iter().flatten().filter_map(|s| level_of(row, s)) {
            let name = names.entry(level).or_default();
            name.push_str(if name.is_empty() { "" } else { " + " });
            name.push_str(&row.sku);
        }
    }
    names
}

async fn levels(
    shop: &Shop,
    rows: &[Row],
    names: &BTreeMap<String, String>,
) -> Result<(Vec<Level>, usize), String> {
    for _ in 0..ATTEMPTS {
        let before = shown(&availability(shop, rows).await?, rows);
        let entries: Vec<LedgerView> = shop.list("/v1/ledger", "").await?;
        let after = shown(&availability(shop, rows).await?, rows);
        if before == after {
            return Ok((put_together(rows, names, &after, &entries), entries.len()));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err("the stock levels do not stand still long enough to be read".into())
}

/// Version and figures of each level.
type Shown = BTreeMap<String, (i64, Figures)>;

fn shown(availability: &[AvailabilityView], rows: &[Row]) -> Shown {
    let mut shown = Shown::new();
    for seen in availability {
        let Some(row) = rows.iter().find(|row| row.sku == seen.sku) else {
            continue;
        };
        for s in &seen.sources {
            let figures = Figures { quantity: s.quantity, held: s.held, committed: s.committed };
            if let Some(level) = level_of(row, &s.source) {
                shown.insert(level, (s.version, figures));
            }
        }
    }
    shown
}

fn put_together(
    rows: &[Row],
    names: &BTreeMap<String, String>,
    shown: &Shown,
    entries: &[LedgerView],
) -> Vec<Level> {
    let mut counted: BTreeMap<&str, Figures> = BTreeMap::new();
    for entry in entries {
        let sum = counted.entry(&entry.level).or_default();
        sum.quantity += entry.quantity;
        sum.held += entry.held;
        sum.committed += entry.committed;
    }
    let shelf = |id: &str| {
        let row = rows.iter().find(|row| {
            let shelf = row.shelf.as_ref().map(|s| s.warehouse.as_str());
            shelf.and_then(|s| level_of(row, s)).as_deref() == Some(id)
        });
        row.and_then(|row| row.shelf.as_ref()).map(|shelf| shelf.quantity.unwrap_or(0))
    };
    let level = |(id, name): (&String, &String)| Level {
        id: id.clone(),
        name: name.clone(),
        shelf: shelf(id),
        shown: shown.get(id).map(|(_, figures)| *figures).unwrap_or_default(),
        counted: counted.get(id.as_str()).copied().unwrap_or_default(),
    };
    names.iter().map(level).collect()
}

fn goods(supplier: &Handle, names: &BTreeMap<String, String>) -> Vec<Goods> {
    let entries = supplier.book().into_iter().map(|entry| {
        let level = supplier_level(&entry.item);
        Goods {
            name: names.get(&level).cloned().unwrap_or_default(),
            level,
            had: entry.had_for_us,
            bought: entry.bought,
            others: entry.account.others,
        }
    });
    entries.collect()
}

fn upstream(supplier: &Handle) -> Vec<Upstream> {
    let orders = supplier.orders().into_iter().map(|order| {
        let mut units = BTreeMap::new();
        for line in &order.lines {
            *units.entry(supplier_level(&line.item)).or_default() += line.quantity;
        }
        let status = order.status();
        Upstream {
            id: order.id.to_string(),
            open: status != Status::Closed,
            paid: !matches!(status, Status::Closed | Status::Unpaid),
            reference: order.reference,
            units,
        }
    });
    orders.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::import;

    #[test]
    fn a_shared_item_is_one_level_and_a_mixed_sku_has_two() {
        let text = "sku,warehouse_quantity,supplier,offer_id,spec_id\n\
                    A,5,s1688,61,x\nB,,s1688,61,x\nC,7,,,\n";
        let rows = import::check(text.as_bytes(), &[SUPPLIER]).expect("rows");
        let names = names(&rows);
        let named: Vec<(&str, &str)> =
            names.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
        assert_eq!(named, [("main:A", "A"), ("main:C", "C"), ("s1688:61:x", "A + B")]);
        let entry = |level: &str, quantity, held| LedgerView {
            level: level.into(),
            quantity,
            held,
            committed: 0,
        };
        let entries = [entry("main:A", 5, 0), entry("main:A", -1, 2), entry("s1688:61:x", 0, 3)];
        let levels = put_together(&rows, &names, &Shown::new(), &entries);
        let sums: Vec<_> =
            levels.iter().map(|l| (l.shelf, l.counted.quantity, l.counted.held)).collect();
        assert_eq!(sums, [(Some(5), 4, 2), (Some(7), 0, 0), (None, 0, 3)]);
    }
}
