//! Saving what decisions made of a world: only rows that differ from what was loaded.
//!
//! What must hold: each update is a compare-and-set on what was loaded, and each write counts its
//! rows; rows are written in the order of their keys, tables always in the same order, jobs last.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Before;
use crate::clock::Timestamp;
use crate::domain::job::JobRequest;
use crate::domain::names::{LevelId, SkuKey};
use crate::domain::order::Order;
use crate::domain::sku::Sku;
use crate::domain::stock::Level;
use crate::domain::world::World;
use crate::storage::bulk::{Batch, insert_rows};
use crate::storage::db::Tx;
use crate::storage::error::{Error, Result};
use crate::storage::groups::{Begun, Opening};
use crate::storage::rows::order::{
    EventRow, HoldRow, LineRow, OrderRow, PaymentRow, PurchaseRow, RefundRow,
};
use crate::storage::rows::stock::{
    AliasRow, EntryRow, HeldRow, LevelRow, SkuRow, SourceRow, SupplierRow,
};
use crate::storage::sql::{list, texts};
use crate::storage::table::Table;
use crate::storage::{alerts, jobs};

texts! {
    /// Before anything of the catalogue: its triggers count there, whatever they are triggered by.
    LOCK_CATALOGUE = "SELECT version FROM catalogue FOR UPDATE";
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

/// Saves the world; `before` is what it was loaded as. Levels that are changed get their next revision.
///
/// # Errors
/// [`Error::Retry`] when another was faster, [`Error::Poison`] when the data refuses it.
pub async fn save(
    tx: &mut Tx,
    before: &Before,
    world: &mut World,
    now: Timestamp,
) -> Result<Saved> {
    if before.has_other_catalogue(world) {
        let _: Option<(i64,)> = tx.first(&LOCK_CATALOGUE, Vec::new()).await?;
        save_skus(tx, before, world).await?;
        save_suppliers(tx, before, world).await?;
    }
    let mut owed = world.jobs.clone();
    owed.extend(alerts::change(tx, &world.alerts, now).await?);
    let (jobs, next_job) = jobs::rows(owed, now);

    let mut batch = Batch::default();
    order_changes(before, world)?.write(&mut batch);
    let (changes, levels) = level_changes(before, world)?;
    changes.write(&mut batch);
    batch.insert::<EntryRow>(world.ledger.iter().map(Into::into).collect());
    batch.insert_with(&jobs::OWE, jobs);
    batch.run(tx).await?;
    Ok(Saved { levels, next_job })
}

/// New orders on levels that were not read under their locks, as they are gathered.
#[derive(Default)]
pub struct Placing {
    orders: OrderChanges,
    /// As they were known before.
    levels: BTreeMap<LevelId, Arc<Level>>,
    ledger: Vec<EntryRow>,
    jobs: Vec<JobRequest>,
}

/// New orders on levels that were not read under their locks, ready to be written.
pub struct Placed {
    batch: Batch,
    /// The levels that are changed, as they will be.
    pub levels: Vec<Arc<Level>>,
    /// The earliest job owed.
    pub next_job: Option<Timestamp>,
}

impl Placing {
    /// Notes a level as it is known now, before it is first changed.
    pub fn note(&mut self, level: &Arc<Level>) {
        self.levels.entry(level.id.clone()).or_insert_with(|| Arc::clone(level));
    }

    /// Levels noted.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Takes what a decision added to the world.
    ///
    /// # Errors
    /// [`Error::Poison`] when that is more than orders, and nothing is taken.
    pub fn take(&mut self, world: &mut World) -> Result<()> {
        if !world.alerts.is_empty() {
            return Err(Error::Poison("an alert needs more than what is known".into()));
        }
        for order in std::mem::take(&mut world.orders).values() {
            self.orders.add(None, order)?;
        }
        self.ledger.extend(world.ledger.drain(..).map(|entry| EntryRow::from(&entry)));
        self.jobs.append(&mut world.jobs);
        Ok(())
    }

    /// With the levels as they are now, which get their next revision.
    ///
    /// # Errors
    /// [`Error::Poison`] when more than what is held was changed of a level.
    pub fn close(
        self,
        levels: &mut HashMap<LevelId, Arc<Level>>,
        now: Timestamp,
    ) -> Result<Placed> {
        let (mut rows, mut changed) = (Vec::new(), Vec::new());
        for was in self.levels.into_values() {
            let Some(shared) = levels.get_mut(&was.id).filter(|is| **is != was) else { continue };
            let is = Arc::make_mut(shared);
            is.revision = next(is.revision)?;
            rows.push((HeldRow::from(&*was), HeldRow::from(&*is)));
            let (held, version, revision) = (is.held, is.version, is.revision);
            if (Level { held, version, revision, ..Arc::unwrap_or_clone(was) }) != *is {
                return Err(Error::Poison(format!("an order changes more of level {}", is.id)));
            }
            changed.push(Arc::clone(shared));
        }
        let (jobs, next_job) = jobs::rows(self.jobs, now);
        let mut batch = Batch::default();
        // First: every other group that writes orders has the locks of its levels by then.
        batch.update(rows);
        self.orders.write(&mut batch);
        batch.insert(self.ledger);
        batch.insert_with(&jobs::OWE, jobs);
        Ok(Placed { batch, levels: changed, next_job })
    }
}

impl Placed {
    /// Writes it as a group. `None`: that was committed before.
    ///
    /// # Errors
    /// [`Error::Retry`] when a level is not as it was known, or a name is taken.
    pub async fn write(self, tx: &mut Tx, group: Opening) -> Result<Option<Begun>> {
        group.write(tx, self.batch).await
    }
}

/// New rows, and changed ones as they were and as they are.
struct Changes<T> {
    new: Vec<T>,
    changed: Vec<(T, T)>,
}

impl<T: Table + Clone + PartialEq> Changes<T> {
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

impl<T> Default for Changes<T> {
    fn default() -> Changes<T> {
        Changes { new: Vec::new(), changed: Vec::new() }
    }
}

/// Every order's differences, table by table.
#[derive(Default)]
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

    /// By the keys that two groups may both want to insert.
    fn write(mut self, batch: &mut Batch) {
        self.orders
            .new
            .sort_by(|a, b| (&a.channel, &a.external_id).cmp(&(&b.channel, &b.external_id)));
        self.payments
            .new
            .sort_by(|a, b| (&a.payment_id, &a.channel).cmp(&(&b.payment_id, &b.channel)));
        self.orders.write(batch);
        self.payments.write(batch);
        self.lines.write(batch);
        self.holds.write(batch);
        self.refunds.write(batch);
        self.purchases.write(batch);
        batch.insert(self.events);
    }
}

fn next(revision: i64) -> Result<i64> {
    revision.checked_add(1).ok_or_else(|| Error::Poison("no revision is left".into()))
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

fn order_changes(before: &Before, world: &World) -> Result<OrderChanges> {
    let mut changes = OrderChanges::default();
    for (id, order) in &world.orders {
        let was = before.orders.get(id).map(Arc::as_ref);
        if was != Some(order.as_ref()) {
            changes.add(was, order)?;
        }
    }
    Ok(changes)
}

/// The levels that differ, which get their next revision, and those whose figures do.
fn level_changes(before: &Before, world: &mut World) -> Result<(Changes<LevelRow>, Vec<LevelId>)> {
    let mut changes = Changes::<LevelRow>::default();
    let mut touched = Vec::new();
    for (id, level) in &mut world.levels {
        let was = before.levels.get(id);
        if was == Some(level) {
            continue;
        }
        if was.is_some() {
            let level = Arc::make_mut(level);
            level.revision = next(level.revision)?;
        }
        changes.add(was.map(|was| was.as_ref().into()), level.as_ref().into());
        if was.map(|l| l.version) != Some(level.version) {
            touched.push(id.clone());
        }
    }
    Ok((changes, touched))
}

async fn save_skus(tx: &mut Tx, before: &Before, world: &World) -> Result<()> {
    let mut changes = Changes::<SkuRow>::default();
    let mut replaced: BTreeMap<&SkuKey, &Sku> = BTreeMap::new();
    for (key, sku) in &world.skus {
        let was = before.skus.get(key).map(Arc::as_ref);
        if was == Some(sku.as_ref()) {
            continue;
        }
        changes.add(was.map(Into::into), sku.as_ref().into());
        if was.map(|s| &s.sources) != Some(&sku.sources) {
            replaced.insert(key, sku);
        }
    }
    let mut aliases = Changes::<AliasRow>::default();
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
    let mut changes = Changes::<SupplierRow>::default();
    for (id, paused) in &world.suppliers {
        let was = before.suppliers.get(id);
        changes.add(was.map(|p| SupplierRow::of(id, p)), SupplierRow::of(id, paused));
    }
    let mut batch = Batch::default();
    changes.write(&mut batch);
    batch.run(tx).await
}
