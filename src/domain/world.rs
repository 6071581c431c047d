//! What a group has loaded, as decisions change it. Every change goes through here, so that a
//! refused command leaves nothing behind and the rest of the group goes on.
//!
//! What must hold: between [`World::begin`] and [`World::rollback`] every touched object and every
//! appended row is put back exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::alert::AlertChange;
use super::job::{Job, JobRequest};
use super::names::{LevelId, OrderId, PurchaseId, RefundId, SkuKey, SourceId};
use super::order::{Confirmation, HoldState, Order};
use super::outcome::{Ask, Stop};
use super::purchase::PurchaseState;
use super::sku::{Paused, Sku};
use super::stock::{Entry, Level, Shift};
use crate::clock::Timestamp;

/// The units of one hold on a judged level, as far as judging needs to know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemUnits {
    pub order: OrderId,
    pub quantity: i64,
    pub state: HoldState,
    pub confirmation: Option<Confirmation>,
    pub purchase: Option<PurchaseId>,
    pub purchase_state: Option<PurchaseState>,
    pub cancel_requested: bool,
    pub counted_at: Option<Timestamp>,
    pub undone_at: Option<Timestamp>,
    pub lost: i64,
    pub surplus: i64,
    /// The recorded supplier order, where the purchase is placed and not known to be paid.
    pub unpaid_supplier_order: Option<String>,
}

/// A judged level's orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemView {
    /// Undecided orders (confirming or in attention, with an active share here that is waiting or
    /// unknown), oldest first by (paid_at, id); at most 500, all of them in `World::orders`.
    pub undecided: Vec<OrderId>,
    /// There are more undecided orders than were loaded.
    pub more: bool,
    /// Every hold on the level that is open, or undone, lost or in surplus and not yet settled; or
    /// that is settled while its purchase is placed and not known to be paid.
    pub units: Vec<ItemUnits>,
}

/// What the group has loaded, and what its decisions add.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub skus: BTreeMap<SkuKey, Arc<Sku>>,
    /// alias → SKU
    pub aliases: BTreeMap<SkuKey, SkuKey>,
    pub levels: BTreeMap<LevelId, Arc<Level>>,
    /// Shared with the answers that tell of them; whoever changes one changes a copy of its own.
    pub orders: BTreeMap<OrderId, Arc<Order>>,
    pub external: BTreeMap<(String, String), OrderId>,
    pub placement_keys: BTreeMap<String, OrderId>,
    /// (channel, payment id) → order
    pub payments: BTreeMap<(String, String), OrderId>,
    pub refunds: BTreeMap<RefundId, OrderId>,
    pub purchases: BTreeMap<PurchaseId, OrderId>,
    /// Purchases that have a supplier order, where one is named: (supplier, its order's id).
    pub supplier_orders: BTreeMap<(SourceId, String), PurchaseId>,
    /// Every supplier's stop switch.
    pub suppliers: BTreeMap<SourceId, Paused>,
    pub items: BTreeMap<LevelId, ItemView>,
    /// Open orders on a counted level, newest first.
    pub counted: BTreeMap<LevelId, Vec<OrderId>>,
    /// Overdue unpaid orders of a level, oldest first, where loaded.
    pub overdue: BTreeMap<LevelId, Vec<OrderId>>,
    /// Orders with active, confirmed shares of an item that no purchase was sent for, where loaded.
    pub unbought: BTreeMap<LevelId, Vec<OrderId>>,
    /// Purchases that may be waiting for a pause of buying to end, where one is ended.
    pub waiting: BTreeSet<PurchaseId>,
    /// There are overdue unpaid orders somewhere.
    pub any_overdue: bool,

    pub ledger: Vec<Entry>,
    pub jobs: Vec<JobRequest>,
    pub alerts: Vec<AlertChange>,
    /// When the store was last restored from a backup: what belongs to an older order may have been
    /// bought or refunded without it knowing.
    pub restored_at: Option<Timestamp>,

    undo: Undo,
}

/// What one command changed, as it was before; `None` where it was not there.
#[derive(Clone, Debug, Default)]
struct Undo {
    skus: BTreeMap<SkuKey, Option<Arc<Sku>>>,
    aliases: BTreeSet<SkuKey>,
    levels: BTreeMap<LevelId, Option<Arc<Level>>>,
    orders: BTreeMap<OrderId, Option<Arc<Order>>>,
    external: Vec<(String, String)>,
    placement_keys: BTreeMap<String, Option<OrderId>>,
    payments: Vec<(String, String)>,
    refunds: Vec<RefundId>,
    purchases: Vec<PurchaseId>,
    suppliers: BTreeMap<SourceId, Option<Paused>>,
    ledger: usize,
    jobs: usize,
    alerts: usize,
}

impl World {
    /// Starts a command: from here on everything can be put back.
    pub fn begin(&mut self) {
        self.undo = Undo {
            ledger: self.ledger.len(),
            jobs: self.jobs.len(),
            alerts: self.alerts.len(),
            ..Undo::default()
        };
    }

    /// Puts back everything since [`World::begin`].
    pub fn rollback(&mut self) {
        fn restore<K: Ord, V>(map: &mut BTreeMap<K, V>, undo: BTreeMap<K, Option<V>>) {
            for (key, before) in undo {
                match before {
                    Some(value) => map.insert(key, value),
                    None => map.remove(&key),
                };
            }
        }
        let undo = std::mem::take(&mut self.undo);
        restore(&mut self.skus, undo.skus);
        restore(&mut self.levels, undo.levels);
        restore(&mut self.orders, undo.orders);
        restore(&mut self.suppliers, undo.suppliers);
        undo.aliases.iter().for_each(|alias| drop(self.aliases.remove(alias)));
        undo.external.iter().for_each(|key| drop(self.external.remove(key)));
        restore(&mut self.placement_keys, undo.placement_keys);
        undo.payments.iter().for_each(|key| drop(self.payments.remove(key)));
        undo.refunds.iter().for_each(|id| drop(self.refunds.remove(id)));
        undo.purchases.iter().for_each(|id| drop(self.purchases.remove(id)));
        self.ledger.truncate(undo.ledger);
        self.jobs.truncate(undo.jobs);
        self.alerts.truncate(undo.alerts);
        self.begin();
    }

    /// The SKU as asked for, following an alias.
    pub fn sku(&self, asked: &SkuKey) -> Option<&Sku> {
        let sku = self.skus.get(asked).or_else(|| self.skus.get(self.aliases.get(asked)?));
        sku.map(Arc::as_ref)
    }

    pub fn put_sku(&mut self, sku: Sku) {
        let key = sku.key.clone();
        let before = self.skus.insert(key.clone(), Arc::new(sku));
        self.undo.skus.entry(key).or_insert(before);
    }

    pub fn put_alias(&mut self, alias: SkuKey, sku: SkuKey) {
        if self.aliases.insert(alias.clone(), sku).is_none() {
            self.undo.aliases.insert(alias);
        }
    }

    pub fn put_supplier(&mut self, supplier: SourceId, paused: Paused) {
        let before = self.suppliers.insert(supplier.clone(), paused);
        self.undo.suppliers.entry(supplier).or_insert(before);
    }

    /// A level to change; its former state is kept.
    pub fn level_mut(&mut self, id: &LevelId) -> Option<&mut Level> {
        let level = self.levels.get_mut(id)?;
        self.undo.levels.entry(id.clone()).or_insert_with(|| Some(Arc::clone(level)));
        Some(Arc::make_mut(level))
    }

    /// Adds a level that is not there yet.
    pub fn create_level(&mut self, level: Level) {
        let id = level.id.clone();
        let before = self.levels.insert(id.clone(), Arc::new(level));
        self.undo.levels.entry(id).or_insert(before);
    }

    /// An order to change; its former state is kept.
    pub fn order_mut(&mut self, id: &OrderId) -> Option<&mut Order> {
        let order = self.orders.get_mut(id)?;
        self.undo.orders.entry(id.clone()).or_insert_with(|| Some(Arc::clone(order)));
        Some(Arc::make_mut(order))
    }

    /// Adds a new order under its external id and idempotency key.
    pub fn create_order(&mut self, order: Order) {
        let external = (order.channel.clone(), order.external_id.clone());
        self.undo.external.push(external.clone());
        self.external.insert(external, order.id.clone());
        if let Some((key, _)) = &order.idempotency {
            let before = self.placement_keys.insert(key.clone(), order.id.clone());
            self.undo.placement_keys.entry(key.clone()).or_insert(before);
        }
        self.undo.orders.entry(order.id.clone()).or_insert(None);
        self.orders.insert(order.id.clone(), Arc::new(order));
    }

    /// Takes an idempotency key off the order that was placed under it.
    pub fn free_placement_key(&mut self, key: &str) {
        let Some(order) = self.placement_keys.remove(key) else {
            return;
        };
        if let Some(order) = self.order_mut(&order) {
            order.idempotency = None;
        }
        self.undo.placement_keys.entry(key.to_owned()).or_insert(Some(order));
    }

    /// Notes that a payment id belongs to an order.
    pub fn claim_payment(&mut self, channel: &str, payment_id: &str, order: &OrderId) {
        let key = (channel.to_owned(), payment_id.to_owned());
        if self.payments.insert(key.clone(), order.clone()).is_none() {
            self.undo.payments.push(key);
        }
    }

    /// Notes whose a new refund is.
    pub fn claim_refund(&mut self, refund: RefundId, order: &OrderId) {
        if self.refunds.insert(refund.clone(), order.clone()).is_none() {
            self.undo.refunds.push(refund);
        }
    }

    /// Notes whose a new purchase is.
    pub fn claim_purchase(&mut self, purchase: PurchaseId, order: &OrderId) {
        if self.purchases.insert(purchase.clone(), order.clone()).is_none() {
            self.undo.purchases.push(purchase);
        }
    }

    /// Changes a level's figures and writes the ledger entry, or asks for a recount.
    ///
    /// # Errors
    /// [`Ask::Recount`] when a figure would leave its range or the level is not loaded.
    pub fn shift(&mut self, entry: Entry) -> Result<(), Stop> {
        if entry.by == Shift::default() {
            return Ok(());
        }
        let recount = || Stop::More(Ask::Recount(entry.level.clone()));
        let level = self.level_mut(&entry.level).ok_or_else(recount)?;
        level.shift(entry.by).map_err(|_| recount())?;
        self.ledger.push(entry);
        Ok(())
    }

    /// Owes a job.
    pub fn owe(&mut self, job: Job, run_at: Timestamp) {
        self.jobs.push(JobRequest { job, run_at });
    }

    /// Owes the end of a deadline, at the first whole second at or after it.
    pub fn owe_deadline(&mut self, deadline: Timestamp) {
        let second = deadline.ceil_secs();
        self.owe(Job::Deadline { second }, Timestamp::from_secs(second));
    }
}
