//! Storage as the core sees it, in memory: a group's world is built from exactly what its commands
//! name, decided, and written back. What must hold: nothing is loaded that `Needs` does not name,
//! so that a forgotten need shows; a refused command leaves its world as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stockhold::clock::Timestamp;
use stockhold::domain::alert::{AlertChange, AlertKind};
use stockhold::domain::command::{Command, Needs};
use stockhold::domain::decide::decide;
use stockhold::domain::job::Job;
use stockhold::domain::names::{LevelId, OrderId, PurchaseId, SkuKey, SourceId};
use stockhold::domain::order::{Confirmation, Hold, HoldState, Order, State};
use stockhold::domain::outcome::{Ask, Outcome, Refusal, Stop};
use stockhold::domain::policy::Policy;
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::sku::{Kind, Paused, Sku};
use stockhold::domain::stock::{Entry, Level, Shift};
use stockhold::domain::world::{ItemUnits, ItemView, World};

use super::dice::Dice;

/// So many of a level's overdue orders are loaded to be ended.
const MOST_OVERDUE: usize = 50;
/// A group that asks for more this often has gone wrong.
const MOST_ROUNDS: usize = 12;

#[derive(Clone, Debug)]
pub struct Store {
    /// So many of a level's orders are loaded to be judged, settled, counted or reopened (500).
    pub most: usize,
    /// Other people's orders that another transaction has at the moment (in a hundred).
    pub busy: u32,
    pub dice: Dice,
    pub skus: BTreeMap<SkuKey, Sku>,
    pub aliases: BTreeMap<SkuKey, SkuKey>,
    pub levels: BTreeMap<LevelId, Level>,
    pub orders: BTreeMap<OrderId, Order>,
    pub suppliers: BTreeMap<SourceId, Paused>,
    pub ledger: Vec<Entry>,
    pub jobs: BTreeMap<String, (Job, Timestamp)>,
    pub alerts: BTreeMap<(AlertKind, String), String>,
    /// Every opening, also of what was open already.
    pub opened: Vec<(AlertKind, String)>,
    /// Levels whose counters had to be corrected: none ever should.
    pub recounted: Vec<LevelId>,
    pub restored_at: Option<Timestamp>,
}

fn owned<K, V: Clone>(shared: BTreeMap<K, Arc<V>>) -> impl Iterator<Item = (K, V)> {
    shared.into_iter().map(|(key, value)| (key, Arc::unwrap_or_clone(value)))
}

impl Default for Store {
    fn default() -> Store {
        Store {
            most: 500,
            busy: 0,
            dice: Dice(0),
            skus: BTreeMap::new(),
            aliases: BTreeMap::new(),
            levels: BTreeMap::new(),
            orders: BTreeMap::new(),
            suppliers: BTreeMap::new(),
            ledger: Vec::new(),
            jobs: BTreeMap::new(),
            alerts: BTreeMap::new(),
            opened: Vec::new(),
            recounted: Vec::new(),
            restored_at: None,
        }
    }
}

impl Store {
    /// One command in a transaction of its own.
    pub fn run(
        &mut self,
        policy: &Policy,
        now: Timestamp,
        command: &Command,
    ) -> Result<Outcome, Refusal> {
        self.run_group(policy, now, std::slice::from_ref(command)).remove(0)
    }

    /// Several commands in one transaction; each gets its own answer.
    pub fn run_group(
        &mut self,
        policy: &Policy,
        now: Timestamp,
        commands: &[Command],
    ) -> Vec<Result<Outcome, Refusal>> {
        let mut needs = Needs::default();
        commands.iter().for_each(|c| needs.add(c));
        for _ in 0..MOST_ROUNDS {
            let mut world = self.load(&needs, now);
            match decide_all(&mut world, policy, now, commands) {
                Ok(answers) => {
                    self.save(world);
                    return answers;
                }
                Err(Ask::Overdue(levels)) => needs.overdue.extend(levels),
                Err(Ask::Unbought(levels)) => needs.unbought.extend(levels),
                Err(Ask::Counted(level)) => {
                    needs.counted.insert(level);
                }
                Err(Ask::Recount(level)) => {
                    needs.recount.insert(level);
                }
            }
        }
        panic!("asked for more {MOST_ROUNDS} times: {commands:?} with {needs:?}");
    }

    fn load(&mut self, needs: &Needs, now: Timestamp) -> World {
        let mut world = World::default();
        world.restored_at = self.restored_at;
        let mut ids = self.names(needs, &mut world);
        let strangers = self.strangers(needs, now);
        let busy = self.busy;
        ids.extend(strangers.into_iter().filter(|_| !self.dice.percent(busy)));
        let orders = ids.iter().filter_map(|id| self.orders.get(id));
        world.orders = orders.map(|o| (o.id.clone(), Arc::new(o.clone()))).collect();
        self.load_stock(needs, &mut world);
        world.suppliers = self.suppliers.clone();
        world.any_overdue = needs.any_overdue && self.orders.values().any(|o| is_overdue(o, now));
        self.load_lists(needs, now, &mut world);
        self.recount(needs, now, &mut world);
        world.waiting = self.waiting(needs);
        world
    }

    /// Other people's orders that may have to be settled, judged, counted, reopened or ended.
    fn strangers(&self, needs: &Needs, now: Timestamp) -> BTreeSet<OrderId> {
        let mut ids = BTreeSet::new();
        for level in &needs.settling {
            let settling = self.holders(level, |_, h| {
                (h.state == HoldState::Committed && h.counted_at.is_some()) || h.undone_at.is_some()
            });
            ids.extend(settling.into_iter().take(self.most));
        }
        for level in &needs.judged {
            ids.extend(self.judged(level).into_iter().take(self.most));
        }
        for level in &needs.counted {
            ids.extend(self.counted(level).into_iter().take(self.most));
        }
        for level in &needs.unbought {
            ids.extend(self.holders(level, unbought).into_iter().take(self.most));
        }
        for level in &needs.overdue {
            ids.extend(self.overdue(level, now));
        }
        ids
    }

    /// Pending purchases of what is bought again, the oldest first.
    fn waiting(&self, needs: &Needs) -> BTreeSet<PurchaseId> {
        let keys = needs.resumed_skus.iter().map(|s| self.aliases.get(s).unwrap_or(s));
        let skus: BTreeSet<&SkuKey> = keys.collect();
        let mut found = Vec::new();
        for o in self.orders.values() {
            for p in o.purchases.iter().filter(|p| p.state == PurchaseState::Pending) {
                let mut holds = o.holds.iter().filter(|h| h.purchase.as_ref() == Some(&p.id));
                if needs.resumed_suppliers.contains(&p.supplier)
                    || holds.any(|h| skus.contains(&h.sku))
                {
                    found.push((p.created_at, p.id.clone()));
                }
            }
        }
        found.sort();
        found.into_iter().take(self.most).map(|(_, id)| id).collect()
    }

    fn judged(&self, level: &LevelId) -> Vec<OrderId> {
        let mut ids = self.holders(level, undecided);
        ids.sort_by_key(|id| (self.orders[id].paid_at, id.clone()));
        ids
    }

    fn counted(&self, level: &LevelId) -> Vec<OrderId> {
        let mut ids = self.holders(level, |_, h| h.is_open());
        ids.sort_by_key(|id| std::cmp::Reverse((self.orders[id].created_at, id.clone())));
        ids
    }

    /// Names to ids.
    fn names(&self, needs: &Needs, world: &mut World) -> BTreeSet<OrderId> {
        let mut ids = needs.orders.clone();
        for o in self.orders.values() {
            let external = (o.channel.clone(), o.external_id.clone());
            if needs.external.contains(&external) {
                world.external.insert(external, o.id.clone());
            }
            if let Some((key, _)) = &o.idempotency
                && needs.placement_keys.contains(key)
            {
                world.placement_keys.insert(key.clone(), o.id.clone());
            }
            for p in o.payments.iter().filter(|p| needs.payment_ids.contains(&p.id)) {
                world.payments.insert((o.channel.clone(), p.id.clone()), o.id.clone());
            }
            for r in o.refunds.iter().filter(|r| needs.refunds.contains(&r.id)) {
                world.refunds.insert(r.id.clone(), o.id.clone());
            }
            for p in o.purchases.iter().filter(|p| needs.purchases.contains(&p.id)) {
                world.purchases.insert(p.id.clone(), o.id.clone());
            }
            for p in &o.purchases {
                if let Some(named) = &p.supplier_order_id
                    && needs.supplier_orders.contains(named)
                {
                    let key = (p.supplier.clone(), named.clone());
                    world.supplier_orders.insert(key, p.id.clone());
                }
            }
        }
        ids.extend(world.external.values().cloned());
        ids.extend(world.placement_keys.values().cloned());
        ids.extend(world.refunds.values().cloned());
        ids.extend(world.purchases.values().cloned());
        ids
    }

    /// SKUs (aliases followed) with their levels, the levels of every hold loaded, and those named.
    fn load_stock(&self, needs: &Needs, world: &mut World) {
        let mut skus = needs.skus.clone();
        let holds = world.orders.values().flat_map(|o| &o.holds);
        if needs.skus_of_orders {
            skus.extend(holds.clone().map(|h| h.sku.clone()));
        }
        let mut levels: BTreeSet<LevelId> = holds.map(|h| h.level.clone()).collect();
        for asked in skus {
            let key = self.aliases.get(&asked).unwrap_or(&asked);
            if key != &asked {
                world.aliases.insert(asked.clone(), key.clone());
            }
            if let Some(sku) = self.skus.get(key) {
                levels.extend(sku.sources.iter().map(|s| s.level.clone()));
                world.skus.insert(key.clone(), Arc::new(sku.clone()));
            }
        }
        for named in [
            &needs.levels,
            &needs.settling,
            &needs.judged,
            &needs.counted,
            &needs.overdue,
            &needs.unbought,
            &needs.recount,
        ] {
            levels.extend(named.iter().cloned());
        }
        let found = levels.iter().filter_map(|id| self.levels.get(id));
        world.levels = found.map(|l| (l.id.clone(), Arc::new(l.clone()))).collect();
    }

    fn load_lists(&self, needs: &Needs, now: Timestamp, world: &mut World) {
        let loaded = |ids: Vec<OrderId>| -> Vec<OrderId> {
            let here = ids.into_iter().filter(|id| world.orders.contains_key(id));
            here.take(self.most).collect()
        };
        let mut items = BTreeMap::new();
        for level in &needs.judged {
            let all = self.judged(level);
            let count = all.len();
            // Behind one that could not be loaded none is told.
            let seen = all.into_iter().take_while(|id| world.orders.contains_key(id));
            let mut view =
                ItemView { undecided: seen.take(self.most).collect(), ..ItemView::default() };
            view.more = view.undecided.len() < count;
            for o in self.orders.values() {
                let here = o
                    .holds
                    .iter()
                    .filter(|h| &h.level == level && (counts(h) || settled_unpaid(o, h)));
                view.units.extend(here.map(|h| units(o, h)));
            }
            items.insert(level.clone(), view);
        }
        let list = |levels: &BTreeSet<LevelId>, of: &dyn Fn(&LevelId) -> Vec<OrderId>| {
            levels.iter().map(|l| (l.clone(), loaded(of(l)))).collect::<BTreeMap<_, _>>()
        };
        let counted = list(&needs.counted, &|l| self.counted(l));
        let overdue = list(&needs.overdue, &|l| self.overdue(l, now));
        let unbought = list(&needs.unbought, &|l| self.holders(l, unbought));
        (world.items, world.counted, world.overdue, world.unbought) =
            (items, counted, overdue, unbought);
    }

    fn recount(&mut self, needs: &Needs, now: Timestamp, world: &mut World) {
        for id in &needs.recount {
            let sum = |state: HoldState| -> i64 {
                let holds = self.orders.values().flat_map(|o| &o.holds);
                holds.filter(|h| &h.level == id && h.state == state).map(|h| h.quantity).sum()
            };
            let (held, committed) = (sum(HoldState::Active), sum(HoldState::Committed));
            let Some(level) = world.levels.get_mut(id).map(Arc::make_mut) else { continue };
            let by = Shift {
                quantity: 0,
                held: held - level.held,
                committed: committed - level.committed,
            };
            if by != Shift::default() {
                self.recounted.push(id.clone());
                (level.held, level.committed) = (held, committed);
                world.ledger.push(Entry {
                    at: now,
                    level: id.clone(),
                    sku: None,
                    order: None,
                    hold: None,
                    event: "recount",
                    by,
                    note: String::new(),
                });
            }
        }
    }

    fn holders(&self, level: &LevelId, keep: impl Fn(&Order, &Hold) -> bool) -> Vec<OrderId> {
        let here = |o: &&Order| o.holds.iter().any(|h| &h.level == level && keep(o, h));
        self.orders.values().filter(here).map(|o| o.id.clone()).collect()
    }

    fn overdue(&self, level: &LevelId, now: Timestamp) -> Vec<OrderId> {
        let mut ids = self.holders(level, |o, h| is_overdue(o, now) && h.is_active());
        ids.sort_by_key(|id| (self.orders[id].deadline_at, id.clone()));
        ids.truncate(MOST_OVERDUE);
        ids
    }

    fn save(&mut self, world: World) {
        self.skus.extend(owned(world.skus));
        self.aliases.extend(world.aliases);
        self.levels.extend(owned(world.levels));
        self.orders.extend(owned(world.orders));
        self.suppliers.extend(world.suppliers);
        self.ledger.extend(world.ledger);
        for request in world.jobs {
            self.owe(request.job, request.run_at);
        }
        for change in world.alerts {
            match change {
                AlertChange::Open { kind, subject, detail } => {
                    self.opened.push((kind, subject.clone()));
                    self.alerts.entry((kind, subject)).or_insert(detail);
                }
                AlertChange::Close { kind, subject } => {
                    self.alerts.remove(&(kind, subject));
                }
            }
        }
    }

    /// Owing a job twice makes one, at the earlier time.
    pub fn owe(&mut self, job: Job, run_at: Timestamp) {
        let at = self.jobs.entry(job.key()).or_insert((job, run_at));
        at.1 = at.1.min(run_at);
    }
}

/// Decides a group; the first wish for more ends it.
fn decide_all(
    world: &mut World,
    policy: &Policy,
    now: Timestamp,
    commands: &[Command],
) -> Result<Vec<Result<Outcome, Refusal>>, Ask> {
    let mut answers = Vec::new();
    for command in commands {
        let before = world.clone();
        match decide(world, policy, now, command) {
            Ok(outcome) => answers.push(Ok(outcome)),
            Err(stop) => {
                assert_same(&before, world, command);
                match stop {
                    Stop::Refused(refusal) => answers.push(Err(refusal)),
                    Stop::More(ask) => return Err(ask),
                }
            }
        }
    }
    Ok(answers)
}

/// A refused command leaves nothing behind.
fn assert_same(before: &World, after: &World, command: &Command) {
    let parts = |w: &World| -> Vec<(&'static str, String)> {
        vec![
            ("skus", format!("{:?}", (&w.skus, &w.aliases, &w.suppliers))),
            ("levels", format!("{:?}", w.levels)),
            ("orders", format!("{:?}", w.orders)),
            ("names", format!("{:?}", (&w.external, &w.placement_keys, &w.payments))),
            ("refunds", format!("{:?}", w.refunds)),
            ("purchases", format!("{:?}", w.purchases)),
            ("lists", format!("{:?}", (&w.items, &w.counted, &w.overdue, &w.unbought))),
            ("rows", format!("{:?}", (&w.ledger, &w.jobs, &w.alerts))),
        ]
    };
    for ((what, was), (_, is)) in parts(before).into_iter().zip(parts(after)) {
        assert_eq!(was, is, "{what} differ after a refusal of {command:?}");
    }
}

fn is_overdue(order: &Order, now: Timestamp) -> bool {
    order.state == State::PendingPayment && order.deadline_at.is_some_and(|at| at <= now)
}

fn undecided(order: &Order, hold: &Hold) -> bool {
    let asked = Some(Confirmation::Waiting) == hold.confirmation
        || Some(Confirmation::Unknown) == hold.confirmation;
    matches!(order.state, State::Confirming | State::Attention) && hold.is_active() && asked
}

fn unbought(order: &Order, hold: &Hold) -> bool {
    let purchase = hold.purchase.as_ref().and_then(|p| order.purchase(p));
    hold.is_active()
        && hold.confirmation == Some(Confirmation::Confirmed)
        && purchase.is_none_or(|p| p.state == PurchaseState::Pending)
}

/// Whether a hold counts on its level.
fn counts(h: &Hold) -> bool {
    h.is_open() || h.undone_at.is_some() || h.lost > 0 || h.surplus > 0
}

/// In the figure since it was ordered, and its purchase is not known to be paid.
fn settled_unpaid(order: &Order, h: &Hold) -> bool {
    let purchase = h.purchase.as_ref().and_then(|p| order.purchase(p));
    h.state == HoldState::Settled && purchase.is_some_and(|p| p.state == PurchaseState::Placed)
}

fn units(order: &Order, hold: &Hold) -> ItemUnits {
    let purchase = hold.purchase.as_ref().and_then(|p| order.purchase(p));
    let placed = purchase.filter(|p| p.state == PurchaseState::Placed);
    ItemUnits {
        order: order.id.clone(),
        quantity: hold.quantity,
        state: hold.state,
        confirmation: hold.confirmation,
        purchase: hold.purchase.clone(),
        purchase_state: purchase.map(|p| p.state),
        cancel_requested: purchase.is_some_and(|p| p.cancel_requested_at.is_some()),
        counted_at: hold.counted_at,
        undone_at: hold.undone_at,
        lost: hold.lost,
        surplus: hold.surplus,
        unpaid_supplier_order: placed.and_then(|p| p.supplier_order_id.clone()),
    }
}

/// What a refund or purchase of the store belongs to.
impl Store {
    pub fn order_of_purchase(&self, id: &PurchaseId) -> Option<&Order> {
        self.orders.values().find(|o| o.purchase(id).is_some())
    }
    /// The figures (quantity, held, committed) of a level.
    pub fn figures(&self, id: &LevelId) -> (i64, i64, i64) {
        let l = &self.levels[id];
        let warehouse = l.kind == Kind::Warehouse;
        assert!(!warehouse || l.held + l.committed <= l.quantity, "oversold: {l:?}");
        (l.quantity, l.held, l.committed)
    }
}
