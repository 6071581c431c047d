//! Thousands of random lives of the shop floor, each checked step by step and played to its end.
//! `STOCKHOLD_SIMULATIONS` says how many lives each test plays.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use stockhold::clock::Span;
use stockhold::domain::alert::AlertKind;
use stockhold::domain::command::{Action as Ruling, Command};
use stockhold::domain::order::State;
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::sku::{Kind, What};
use stockhold::domain::supply::UpstreamState;

use super::driver::{Faults, Sim};
use super::script::{Act, act};
use super::shop::Habits;
use super::stage::{ITEMS, SKUS, habits, item, open, policy};

/// How a life is set up.
#[derive(Clone, Debug)]
pub struct Setting {
    pub seed: u64,
    pub counts_at_order: bool,
    pub states_time: bool,
    pub lag_minutes: i64,
    pub pays_after_minutes: i64,
    pub never_paid_percent: u32,
    pub stock: [i64; 3],
}

fn setting() -> impl Strategy<Value = Setting> {
    let shop = (
        any::<bool>(),
        any::<bool>(),
        0..40i64,
        1..90i64,
        prop_oneof![Just(0u32), Just(30), Just(100)],
    );
    let stock = [0..24i64, 0..24i64, 0..24i64];
    (any::<u64>(), shop, stock).prop_map(|(seed, shop, stock)| Setting {
        seed,
        counts_at_order: shop.0,
        states_time: shop.1,
        lag_minutes: shop.2,
        pays_after_minutes: shop.3,
        never_paid_percent: shop.4,
        stock,
    })
}

const CALM: Faults = Faults {
    silent: 0,
    lost: 0,
    not_made: 0,
    late: 0,
    refused: 0,
    left_out: 0,
    dies: 0,
    zombie: 0,
    refunds: 0,
};
const ROUGH: Faults = Faults {
    silent: 15,
    lost: 15,
    not_made: 10,
    late: 8,
    refused: 4,
    left_out: 10,
    dies: 6,
    zombie: 6,
    refunds: 30,
};

fn start(s: &Setting) -> Sim {
    let habits = Habits {
        states_time: s.states_time,
        lag: Span::minutes(s.lag_minutes),
        pays_after: Span::minutes(s.pays_after_minutes),
        never_paid_percent: s.never_paid_percent,
        ..habits(s.counts_at_order)
    };
    let mut sim = open(policy(s.counts_at_order), &habits, s.seed, s.stock);
    // In some lives the bounds are narrow and other transactions are at work on the same orders.
    if s.seed.is_multiple_of(3) {
        (sim.store.most, sim.store.busy) = (2, 15);
    }
    sim
}

/// Other buyers, lagging figures, every fault.
pub fn rough(s: &Setting, acts: &[Act]) {
    let mut sim = start(s);
    sim.faults = ROUGH;
    acts.iter().for_each(|a| sim.act(a, false));
    finish(&mut sim);
}

/// As rough, and every answer is handed in twice.
pub fn twice(s: &Setting, acts: &[Act]) {
    let mut sim = start(s);
    sim.faults = ROUGH;
    sim.twice = true;
    // Seen in another part, an item may be judged otherwise.
    (sim.store.most, sim.store.busy) = (500, 0);
    acts.iter().for_each(|a| sim.act(a, false));
    finish(&mut sim);
}

/// Everything works, but people and sellers do as they like.
pub fn calm(s: &Setting, acts: &[Act]) {
    let mut sim = start(s);
    sim.faults = CALM;
    acts.iter().for_each(|a| sim.act(a, false));
    finish(&mut sim);
}

/// All figures are true and nobody else buys: what is confirmed can be bought.
pub fn honest(s: &Setting, acts: &[Act]) {
    let honest = Setting { lag_minutes: s.lag_minutes.min(1), ..s.clone() };
    let mut sim = start(&honest);
    sim.audit.honest = true;
    sim.faults = Faults { late: 0, left_out: 0, ..ROUGH };
    acts.iter().for_each(|a| sim.act(a, true));
    finish(&mut sim);
    let refused: u32 = sim.shops.values().map(|s| s.refusals).sum();
    assert_eq!(refused, 0, "the shop refused what was confirmed");
}

/// Nothing new happens: everything comes to its end by itself, or says why it needs a person;
/// then persons see to that.
fn finish(sim: &mut Sim) {
    sim.faults = CALM;
    sim.store.restored_at = None;
    sim.store.busy = 0;
    sim.sync_every = Span::hours(1);
    let resume = |sim: &mut Sim| {
        for sku in SKUS {
            let (sku, what, reason) = (sku.into(), What::Both, "go".into());
            assert!(
                sim.submit(&Command::ResumeSku { sku, what, reason, by: "ops".into() }).is_ok()
            );
        }
        for supplier in ["east", "west"] {
            let (supplier, what, reason) = (supplier.into(), What::Both, "go".into());
            assert!(
                sim.submit(&Command::ResumeSupplier { supplier, what, reason, by: "ops".into() })
                    .is_ok()
            );
        }
    };
    resume(sim);
    // What is not listed any more tells no figure that could contain anything.
    let now = sim.now;
    for (supplier, offer) in ITEMS {
        let shop = sim.shops.get_mut(supplier).expect("a shop");
        let units = shop.has(&item(offer));
        shop.offer(&item(offer), Some(units), now);
    }
    for _ in 0..10 {
        sim.run_for(Span::hours(6));
        sim.ship_all();
    }
    for o in sim.store.orders.values() {
        match o.state {
            State::Shipped | State::Completed | State::Cancelled | State::Expired => {}
            State::Attention => {
                let alert = (AlertKind::OrderAttention, o.id.to_string());
                assert!(sim.store.alerts.contains_key(&alert), "in attention untold: {o:?}");
                let placed = o.purchases.iter().any(|p| p.state.is_placed());
                assert!(placed, "nothing stands in the way of its end: {o:?}");
            }
            _ => panic!("never ends: {o:?}"),
        }
    }
    for (n, id) in sim.store.orders.keys().cloned().enumerate().collect::<Vec<_>>() {
        let action = if n % 2 == 0 { Ruling::Cancel } else { Ruling::Retry };
        let _ = sim.submit(&Command::Decide { order: id, action });
    }
    sim.run_for(Span::hours(12));
    sim.ship_all();
    sim.run_for(Span::hours(2));
    last_look(sim);
}

/// What must be so when all is over.
fn last_look(sim: &Sim) {
    for o in sim.store.orders.values() {
        let over = o.is_end() || o.state == State::Shipped;
        assert!(over, "never ends: {o:?}");
        assert!(o.holds.iter().all(|h| !h.is_active()), "a ghost: {o:?}");
    }
    for l in sim.store.levels.values() {
        assert_eq!((l.held, l.committed), (0, 0), "a ghost on {l:?}: {:#?}", sim.store.orders);
    }
    let mut recorded = BTreeMap::new();
    for p in sim.store.orders.values().flat_map(|o| &o.purchases) {
        let placed = p.state.is_placed();
        if let Some(id) = p.supplier_order_id.as_ref().filter(|_| placed) {
            assert!(
                recorded.insert((&p.supplier, id.clone()), p).is_none(),
                "recorded twice: {p:?}"
            );
        }
        assert!(placed || p.state.is_end(), "open at the end: {p:?}");
    }
    for (name, shop) in &sim.shops {
        for sale in shop.sales.iter().filter(|s| s.alive()) {
            let known = recorded.contains_key(&(name, sale.id.clone()));
            let subject = format!("{}/{}", sale.reference, sale.id);
            let told = sim.store.alerts.contains_key(&(AlertKind::UpstreamDuplicate, subject));
            let paid = sale.state != UpstreamState::AwaitingPayment;
            assert!(known || (told && paid), "bought for nobody: {sale:?}");
        }
    }
    for p in recorded.values() {
        let id = p.supplier_order_id.as_deref();
        let mut sales = sim.shops[&p.supplier].sales.iter();
        let sale = sales.find(|s| Some(s.id.as_str()) == id);
        let alive = sale.is_some_and(|s| s.alive());
        let told = p.end_reason.is_some();
        assert!(alive || told, "{p:?} stands for {sale:?}");
        assert!(p.state == PurchaseState::Received || told, "not received: {p:?}");
    }
    for r in sim.store.orders.values().flat_map(|o| &o.refunds) {
        let made = sim.provider.made.get(&r.id);
        let succeeded = r.state == stockhold::domain::refund::RefundState::Succeeded;
        assert!(!succeeded || made == Some(&r.amount), "not made: {r:?}");
    }
    let own = sim.store.levels.values().filter(|l| l.kind == Kind::Warehouse);
    own.for_each(|l| assert!(l.quantity >= 0));
}

/// How many lives, and by which dice: the same ones each time, so that a change is judged by its own
/// merits; `STOCKHOLD_SIMULATIONS=n` plays n lives that nobody has played before.
fn lives() -> (u32, Option<TestRng>) {
    let asked = std::env::var("STOCKHOLD_SIMULATIONS").ok().and_then(|n| n.parse().ok());
    match asked {
        Some(lives) => (lives, None),
        None => (80, Some(TestRng::deterministic_rng(RngAlgorithm::ChaCha))),
    }
}

fn play(life: fn(&Setting, &[Act])) {
    let (cases, dice) = lives();
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    let acts = prop::collection::vec(act(), 1..50);
    let mut runner = match dice {
        Some(dice) => TestRunner::new_with_rng(config, dice),
        None => TestRunner::new(config),
    };
    let played = runner.run(&(setting(), acts), |(setting, acts)| {
        life(&setting, &acts);
        Ok::<(), TestCaseError>(())
    });
    if let Err(failure) = played {
        panic!("{failure}");
    }
}

#[test]
fn a_calm_life_keeps_the_promises() {
    play(calm);
}

#[test]
fn a_rough_life_keeps_the_promises() {
    play(rough);
}

#[test]
fn an_honest_supplier_never_refuses_what_was_confirmed() {
    play(honest);
}

#[test]
fn an_answer_handed_in_twice_is_as_good_as_once() {
    play(twice);
}
