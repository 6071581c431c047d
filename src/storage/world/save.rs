//! Saving what decisions made of a world: only rows that differ from what was loaded.
//!
//! What must hold: each update is a compare-and-set on what was loaded, and each write counts its
//! rows; rows are written in the order of their keys, tables always in the same order, jobs last.

use std::collections::BTreeMap;

use super::Before;
use crate::clock::Timestamp;
use crate::domain::names::{LevelId, SkuKey};
use crate::domain::order::Order;
use crate::domain::sku::Sku;
use crate::domain::world::World;
use crate::storage::bulk::{Batch, insert_rows};
use crate::storage::db::Tx;
use crate::storage::error::{Error, Result};
use crate::storage::rows::order::{
    EventRow, HoldRow, LineRow, OrderRow, PaymentRow, PurchaseRow, RefundRow,
};
use crate::storage::rows::stock::{AliasRow, EntryRow, LevelRow, SkuRow, SourceRow, SupplierRow};
use crate::storage::sql::{list, texts};
use crate::storage::table::Table;
use crate::storage::{alerts, jobs};

texts! {
    DROP_SOURCES = "DELETE FROM sku_sources WHERE sku IN (LIST($1))";
}

/// What a save touched, for those who follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Levels whose figures changed.
    pub levels: Vec<LevelId>,
    /// The earliest job owed.
    pub next_job: Option<Timestamp>,
}

/// Saves the world; `before` is what it was loaded as.
///
/// # Errors
/// [`Error::Retry`] when another was faster, [`Error::Poison`] when the data refuses it.
pub async fn save(tx: &mut Tx, before: &Before, world: &World, now: Timestamp) -> Result<Saved> {
    save_skus(tx, before, world).await?;
    save_suppliers(tx, before, world).await?;
    let mut owed = world.jobs.clone();
    owed.extend(alerts::change(tx, &world.alerts, now).await?);
    let (jobs, next_job) = jobs::rows(owed, now);

    let mut batch = Batch::default();
    save_orders(&mut batch, before, world)?;
    let levels = save_levels(&mut batch, before, world);
    batch.insert::<EntryRow>(world.ledger.iter().map(Into::into).collect());
    batch.insert_with(&jobs::OWE, jobs);
    batch.run(tx).await?;
    Ok(Saved { levels, next_job })
}

/// New rows, and changed ones as they were and as they are.
struct Changes<T> {
    new: Vec<T>,
    changed: Vec<(T, T)>,
}

impl<T: Table + Clone + PartialEq> Changes<T> {
    fn none() -> Changes<T> {
        Changes { new: Vec::new(), changed: Vec::new() }
    }

    fn add(&mut self, was: Option<T>, is: T) {
        match was {
            None => self.new.push(is),
            Some(was) if was != is => self.changed.push((was, is)),
            Some(_) => {}
        }
    }

    /// Changed ones first: a unique key may pass from an old row to a new one.
    fn write(self, batch: &mut Batch) {
        batch.update(self.changed);
        batch.insert(self.new);
    }
}

/// Every order's differences, table by table.
struct OrderChanges {
    orders: Changes<OrderRow>,
    lines: Changes<LineRow>,
    holds: Changes<HoldRow>,
    payments: Changes<PaymentRow>,
    refunds: Changes<RefundRow>,
    purchases: Changes<PurchaseRow>,
    events: Vec<EventRow>,
}

impl OrderChanges {
    fn add(&mut self, was: Option<&Order>, is: &Order) -> Result<()> {
        let id = &is.id;
        if let Some(was) = was {
            none_lost(was, is)?;
        }
        self.orders.add(was.map(Into::into), is.into());
        for line in &is.lines {
            let old = was.and_then(|o| o.line(line.no));
            self.lines.add(old.map(|l| LineRow::of(id, l)), LineRow::of(id, line));
        }
        for hold in &is.holds {
            let old = was.and_then(|o| o.hold(hold.line, hold.part));
            self.holds.add(old.map(|h| HoldRow::of(id, h)), HoldRow::of(id, hold));
        }
        let old = was.map_or(&[][..], |o| &o.payments);
        for (no, payment) in numbered(&is.payments) {
            let old = at(old, no).map(|p| PaymentRow::of(is, no, p));
            self.payments.add(old, PaymentRow::of(is, no, payment));
        }
        let old = was.map_or(&[][..], |o| &o.refunds);
        for (no, refund) in numbered(&is.refunds) {
            let old = at(old, no).map(|r| RefundRow::of(id, no, r));
            self.refunds.add(old, RefundRow::of(id, no, refund));
        }
        let old = was.map_or(&[][..], |o| &o.purchases);
        for (no, purchase) in numbered(&is.purchases) {
            let old = at(old, no).map(|p| PurchaseRow::of(id, no, p));
            self.purchases.add(old, PurchaseRow::of(id, no, purchase));
        }
        let told = was.and_then(|o| o.events.last()).map_or(0, |e| e.n);
        let fresh = is.events.iter().filter(|e| e.n > told);
        self.events.extend(fresh.map(|e| EventRow::of(id, e)));
        Ok(())
    }
}

/// Positions, from 1.
fn numbered<T>(items: &[T]) -> impl Iterator<Item = (i64, &T)> {
    (1..).zip(items)
}

fn at<T>(items: &[T], no: i64) -> Option<&T> {
    items.get(usize::try_from(no).ok()?.checked_sub(1)?)
}

/// What belongs to an order is never taken away from it, nor reordered.
fn none_lost(was: &Order, is: &Order) -> Result<()> {
    let kept = was.lines.iter().all(|l| is.line(l.no).is_some())
        && was.holds.iter().all(|h| is.hold(h.line, h.part).is_some())
        && prefix(&was.payments, &is.payments, |p| p.id.as_str())
        && prefix(&was.refunds, &is.refunds, |r| r.id.as_str())
        && prefix(&was.purchases, &is.purchases, |p| p.id.as_str())
        && prefix(&was.events, &is.events, |e| e.n);
    if kept { Ok(()) } else { Err(Error::Poison(format!("order {} lost a row", is.id))) }
}

fn prefix<'a, T, K: PartialEq>(was: &'a [T], is: &'a [T], key: impl Fn(&'a T) -> K) -> bool {
    was.len() <= is.len() && was.iter().zip(is).all(|(a, b)| key(a) == key(b))
}

fn save_orders(batch: &mut Batch, before: &Before, world: &World) -> Result<()> {
    let mut changes = OrderChanges {
        orders: Changes::none(),
        lines: Changes::none(),
        holds: Changes::none(),
        payments: Changes::none(),
        refunds: Changes::none(),
        purchases: Changes::none(),
        events: Vec::new(),
    };
    for (id, order) in &world.orders {
        let was = before.orders.get(id);
        if was != Some(order) {
            changes.add(was, order)?;
        }
    }
    // By the keys that two groups may both want to insert.
    changes
        .orders
        .new
        .sort_by(|a, b| (&a.channel, &a.external_id).cmp(&(&b.channel, &b.external_id)));
    changes
        .payments
        .new
        .sort_by(|a, b| (&a.payment_id, &a.channel).cmp(&(&b.payment_id, &b.channel)));
    changes.orders.write(batch);
    changes.payments.write(batch);
    changes.lines.write(batch);
    changes.holds.write(batch);
    changes.refunds.write(batch);
    changes.purchases.write(batch);
    batch.insert(changes.events);
    Ok(())
}

fn save_levels(batch: &mut Batch, before: &Before, world: &World) -> Vec<LevelId> {
    let mut changes = Changes::<LevelRow>::none();
    let mut touched = Vec::new();
    for (id, level) in &world.levels {
        let was = before.levels.get(id);
        if was != Some(level) {
            changes.add(was.map(Into::into), level.into());
            let figures = was.map(|l| l.version);
            if figures != Some(level.version) {
                touched.push(id.clone());
            }
        }
    }
    changes.write(batch);
    touched
}

async fn save_skus(tx: &mut Tx, before: &Before, world: &World) -> Result<()> {
    let mut changes = Changes::<SkuRow>::none();
    let mut replaced: BTreeMap<&SkuKey, &Sku> = BTreeMap::new();
    for (key, sku) in &world.skus {
        let was = before.skus.get(key);
        if was == Some(sku) {
            continue;
        }
        changes.add(was.map(Into::into), sku.into());
        if was.map(|s| &s.sources) != Some(&sku.sources) {
            replaced.insert(key, sku);
        }
    }
    let mut aliases = Changes::<AliasRow>::none();
    let row = |alias: &SkuKey, sku: &SkuKey| AliasRow { alias: alias.clone(), sku: sku.clone() };
    for (alias, sku) in &world.aliases {
        let was = before.aliases.get(alias);
        aliases.add(was.map(|old| row(alias, old)), row(alias, sku));
    }
    let mut batch = Batch::default();
    changes.write(&mut batch);
    aliases.write(&mut batch);
    batch.run(tx).await?;
    if !replaced.is_empty() {
        tx.run(&DROP_SOURCES, vec![list(replaced.keys())]).await?;
        let rows = replaced.iter().flat_map(|(key, sku)| {
            numbered(&sku.sources).map(|(no, source)| SourceRow::of(key, no, source))
        });
        insert_rows::<SourceRow>(tx, rows.collect()).await?;
    }
    Ok(())
}

async fn save_suppliers(tx: &mut Tx, before: &Before, world: &World) -> Result<()> {
    let mut changes = Changes::<SupplierRow>::none();
    for (id, paused) in &world.suppliers {
        let was = before.suppliers.get(id);
        changes.add(was.map(|p| SupplierRow::of(id, p)), SupplierRow::of(id, paused));
    }
    let mut batch = Batch::default();
    changes.write(&mut batch);
    batch.run(tx).await
}
