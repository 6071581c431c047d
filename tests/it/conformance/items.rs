//! What judging, settling, counting, ending overdue orders and recounting are shown.

use std::collections::{BTreeMap, BTreeSet};

use stockhold::clock::Timestamp;
use stockhold::domain::command::Needs;
use stockhold::domain::names::{LevelId, OrderId, PurchaseId};
use stockhold::domain::order::{Confirmation, Hold, HoldState, Order, State};
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::sku::Kind;
use stockhold::domain::stock::{Level, Shift};
use stockhold::domain::world::{ItemUnits, ItemView};

use super::fixture::{hold, purchase, sku, unpaid, upstream, warehouse};
use super::{TestDb, at, on_both};

on_both!(
    a_judged_item_shows_its_undecided_orders_and_every_unit,
    no_more_than_five_hundred_are_judged,
    settling_finds_what_a_reading_may_settle,
    a_count_shows_open_orders_newest_first,
    overdue_orders_come_oldest_first_and_fifty_at_most,
    overdue_orders_are_found_behind_many_others,
    a_recount_puts_the_counters_right_and_says_so,
    a_recount_never_promises_more_than_there_is,
    what_waits_for_buying_is_found_by_supplier_and_by_sku,
);

const NOW: Timestamp = at(1000);

/// An order in `state` whose only hold is on the supplier's level.
fn order(id: &str, state: State, paid_secs: i64, held: Hold) -> Order {
    let mut order = unpaid(id, held.quantity, at(5000));
    order.state = state;
    order.paid_at = Some(at(paid_secs));
    order.holds = vec![held];
    order
}

fn share(quantity: i64, state: HoldState, confirmation: Confirmation) -> Hold {
    Hold { confirmation: Some(confirmation), ..hold(1, 1, &upstream(), quantity, state) }
}

fn bought(order: &mut Order, state: PurchaseState) -> PurchaseId {
    let purchase = purchase(&order.id, 1, state);
    order.holds[0].purchase = Some(purchase.id.clone());
    order.purchases = vec![purchase.clone()];
    purchase.id
}

/// o1 and o2 are undecided; o3 is not due; o4 is bought and unpaid; o5 was undone; o6 is over;
/// o7 has surplus upstream; o8 waits at another level; o9 is paid and its create is unknown; pa is
/// in the figure and unpaid, pb in the figure and paid.
fn orders() -> Vec<Order> {
    let mut o1 =
        order("o1", State::Confirming, 10, share(2, HoldState::Active, Confirmation::Waiting));
    o1.holds.push(Hold { line: 2, ..share(3, HoldState::Active, Confirmation::Confirmed) });
    let mut o2 =
        order("o2", State::Attention, 5, share(1, HoldState::Active, Confirmation::Unknown));
    o2.holds[0].lost = 2;
    let o3 = order("o3", State::Paid, 1, share(1, HoldState::Active, Confirmation::NotDue));
    let mut o4 =
        order("o4", State::Confirming, 2, share(4, HoldState::Committed, Confirmation::Confirmed));
    o4.holds[0].counted_at = Some(at(78));
    bought(&mut o4, PurchaseState::Placed);
    let mut o5 =
        order("o5", State::Cancelled, 3, share(5, HoldState::Reversed, Confirmation::Confirmed));
    o5.holds[0].undone_at = Some(at(79));
    let o6 =
        order("o6", State::Completed, 3, share(6, HoldState::Settled, Confirmation::Confirmed));
    let mut o7 =
        order("o7", State::Shipped, 4, share(7, HoldState::Settled, Confirmation::Confirmed));
    o7.holds[0].surplus = 7;
    bought(&mut o7, PurchaseState::Shipped);
    let o8 = order("o8", State::Confirming, 1, hold(1, 1, &warehouse(), 1, HoldState::Active));
    let mut o9 =
        order("o9", State::Confirmed, 4, share(8, HoldState::Active, Confirmation::Confirmed));
    bought(&mut o9, PurchaseState::Unknown);
    o9.purchases[0].cancel_requested_at = None;
    let settled = || share(9, HoldState::Settled, Confirmation::Confirmed);
    let mut pa = order("pa", State::Confirmed, 4, settled());
    bought(&mut pa, PurchaseState::Placed);
    let mut pb = order("pb", State::Confirmed, 4, settled());
    bought(&mut pb, PurchaseState::Paid);
    vec![o1, o2, o3, o4, o5, o6, o7, o8, o9, pa, pb]
}

async fn filled(test: &TestDb, orders: Vec<Order>) {
    test.change(&Needs::default(), NOW, move |world| {
        world.create_level(warehouse());
        world.create_level(upstream());
        orders.into_iter().for_each(|o| world.create_order(o));
    })
    .await
    .unwrap();
}

fn units(order: &str, quantity: i64, state: HoldState, confirmation: Confirmation) -> ItemUnits {
    ItemUnits {
        order: OrderId::from(order),
        quantity,
        state,
        confirmation: Some(confirmation),
        purchase: None,
        purchase_state: None,
        cancel_requested: false,
        counted_at: None,
        undone_at: None,
        lost: 0,
        surplus: 0,
        unpaid_supplier_order: None,
    }
}

fn ids<'a>(ids: impl IntoIterator<Item = &'a OrderId>) -> Vec<&'a str> {
    ids.into_iter().map(OrderId::as_str).collect()
}

fn at_level(level: &Level) -> BTreeSet<LevelId> {
    BTreeSet::from([level.id.clone()])
}

async fn a_judged_item_shows_its_undecided_orders_and_every_unit(test: TestDb) {
    filled(&test, orders()).await;
    let needs = Needs { judged: at_level(&upstream()), ..Needs::default() };
    let world = test.load(&needs, NOW).await.world;
    let purchase = |order: &str| Some(PurchaseId::from(format!("{order}-s1688-1")));
    let expected = ItemView {
        undecided: vec![OrderId::from("o2"), OrderId::from("o1")],
        more: false,
        units: vec![
            units("o1", 2, HoldState::Active, Confirmation::Waiting),
            units("o1", 3, HoldState::Active, Confirmation::Confirmed),
            ItemUnits { lost: 2, ..units("o2", 1, HoldState::Active, Confirmation::Unknown) },
            units("o3", 1, HoldState::Active, Confirmation::NotDue),
            ItemUnits {
                purchase: purchase("o4"),
                purchase_state: Some(PurchaseState::Placed),
                cancel_requested: true,
                counted_at: Some(at(78)),
                unpaid_supplier_order: Some("00123456789012345678".into()),
                ..units("o4", 4, HoldState::Committed, Confirmation::Confirmed)
            },
            ItemUnits {
                undone_at: Some(at(79)),
                ..units("o5", 5, HoldState::Reversed, Confirmation::Confirmed)
            },
            ItemUnits {
                purchase: purchase("o7"),
                purchase_state: Some(PurchaseState::Shipped),
                cancel_requested: true,
                surplus: 7,
                ..units("o7", 7, HoldState::Settled, Confirmation::Confirmed)
            },
            ItemUnits {
                purchase: purchase("o9"),
                purchase_state: Some(PurchaseState::Unknown),
                ..units("o9", 8, HoldState::Active, Confirmation::Confirmed)
            },
            ItemUnits {
                purchase: purchase("pa"),
                purchase_state: Some(PurchaseState::Placed),
                cancel_requested: true,
                unpaid_supplier_order: Some("00123456789012345678".into()),
                ..units("pa", 9, HoldState::Settled, Confirmation::Confirmed)
            },
        ],
    };
    assert_eq!(world.items, BTreeMap::from([(upstream().id, expected)]));
    assert_eq!(ids(world.orders.keys()), vec!["o1", "o2"]);
    assert_eq!(*world.orders[&OrderId::from("o2")], orders()[1]);
    assert_eq!(world.levels.len(), 1, "its level, and those of its orders");
}

async fn no_more_than_five_hundred_are_judged(test: TestDb) {
    let waiting = |n: i64| {
        let share = share(1, HoldState::Active, Confirmation::Waiting);
        order(&format!("o{n:03}"), State::Confirming, 900 - n, share)
    };
    filled(&test, (1..=503).map(waiting).collect()).await;
    let needs = Needs { judged: at_level(&upstream()), ..Needs::default() };
    let world = test.load(&needs, NOW).await.world;
    let view = &world.items[&upstream().id];
    assert!(view.more);
    assert_eq!(view.units.len(), 503);
    assert_eq!(view.undecided.len(), 500);
    assert_eq!(view.undecided[0].as_str(), "o503", "paid first");
    assert_eq!(view.undecided[499].as_str(), "o004");
    assert_eq!(world.orders.len(), 500);
}

async fn settling_finds_what_a_reading_may_settle(test: TestDb) {
    filled(&test, orders()).await;
    let needs = Needs { settling: at_level(&upstream()), ..Needs::default() };
    let world = test.load(&needs, NOW).await.world;
    assert_eq!(ids(world.orders.keys()), vec!["o4", "o5"]);
    assert!(world.items.is_empty());
    assert_eq!(*world.orders[&OrderId::from("o4")], orders()[3]);
}

/// Bought from the supplier: o1 and o3 are pending, o2 is placed, o4 is pending for another SKU.
async fn what_waits_for_buying_is_found_by_supplier_and_by_sku(test: TestDb) {
    let pending = |id: &str, created: i64, state: PurchaseState| {
        let held = share(2, HoldState::Active, Confirmation::Confirmed);
        let mut order = order(id, State::Confirming, 10, held);
        bought(&mut order, state);
        order.purchases[0].created_at = at(created);
        order
    };
    let mut other = pending("o4", 50, PurchaseState::Pending);
    other.holds[0].sku = "HAT".into();
    let orders = vec![
        pending("o1", 40, PurchaseState::Pending),
        pending("o2", 30, PurchaseState::Placed),
        pending("o3", 20, PurchaseState::Pending),
        other,
    ];
    filled(&test, orders).await;
    test.change(&Needs::default(), NOW, |world| {
        let sku = sku();
        world.put_alias("SHOE".into(), sku.key.clone());
        world.put_sku(sku);
    })
    .await
    .unwrap();
    let waiting = async |needs: Needs| {
        let world = test.load(&needs, NOW).await.world;
        assert!(world.orders.is_empty(), "nothing is locked for it");
        let ids = world.waiting.iter().map(|id| id.as_str().replace("-s1688-1", ""));
        ids.collect::<Vec<_>>()
    };
    let supplier =
        |id: &str| Needs { resumed_suppliers: BTreeSet::from([id.into()]), ..Needs::default() };
    assert_eq!(waiting(supplier("s1688")).await, ["o1", "o3", "o4"]);
    assert_eq!(waiting(supplier("other")).await, Vec::<String>::new());
    let resumed = |key: &str| {
        let skus = BTreeSet::from([key.into()]);
        Needs { skus: skus.clone(), resumed_skus: skus, ..Needs::default() }
    };
    assert_eq!(waiting(resumed("SHOE-42")).await, ["o1", "o3"]);
    assert_eq!(waiting(resumed("SHOE")).await, ["o1", "o3"], "by its alias");
    assert_eq!(waiting(Needs::default()).await, Vec::<String>::new());
}

async fn a_count_shows_open_orders_newest_first(test: TestDb) {
    let shelf = |id: &str, created: i64, state: HoldState| {
        let mut order = unpaid(id, 1, at(5000));
        order.created_at = at(created);
        order.holds[0].state = state;
        order
    };
    let elsewhere =
        order("o5", State::Confirming, 1, share(1, HoldState::Active, Confirmation::Waiting));
    let orders = vec![
        shelf("o1", 10, HoldState::Active),
        shelf("o2", 30, HoldState::Committed),
        shelf("o3", 20, HoldState::Active),
        shelf("o4", 40, HoldState::Released),
        elsewhere,
        shelf("o6", 30, HoldState::Active),
    ];
    filled(&test, orders).await;
    let needs = Needs { counted: at_level(&warehouse()), ..Needs::default() };
    let world = test.load(&needs, NOW).await.world;
    assert_eq!(ids(&world.counted[&warehouse().id]), vec!["o6", "o2", "o3", "o1"]);
    assert_eq!(world.orders.len(), 4);
}

async fn overdue_orders_come_oldest_first_and_fifty_at_most(test: TestDb) {
    let mut orders: Vec<Order> =
        (1..=52).map(|n| unpaid(&format!("o{n:02}"), 1, at(1000 - n))).collect();
    orders.push(unpaid("p1", 1, at(1001)));
    let mut paid = unpaid("p2", 1, at(10));
    paid.state = State::Paid;
    orders.push(paid);
    // Two lines of one order on the level count once.
    orders[0].holds.push(Hold { line: 2, ..hold(2, 1, &warehouse(), 1, HoldState::Active) });
    filled(&test, orders).await;
    let needs = Needs { overdue: at_level(&warehouse()), any_overdue: true, ..Needs::default() };
    let world = test.load(&needs, NOW).await.world;
    assert!(world.any_overdue);
    let overdue = &world.overdue[&warehouse().id];
    assert_eq!(overdue.len(), 50);
    assert_eq!((overdue[0].as_str(), overdue[49].as_str()), ("o52", "o03"));
    assert!(overdue.iter().all(|id| world.orders.contains_key(id)));

    let earlier = test.load(&needs, at(948)).await.world;
    assert_eq!(ids(&earlier.overdue[&warehouse().id]), vec!["o52"]);
    let none = test.load(&needs, at(947)).await.world;
    assert!(!none.any_overdue);
    assert_eq!(ids(&none.overdue[&warehouse().id]), Vec::<&str>::new());
}

/// A level's overdue orders are found behind a thousand older ones that hold other things.
async fn overdue_orders_are_found_behind_many_others(test: TestDb) {
    let elsewhere = |n: i64| {
        let mut order = unpaid(&format!("a{n:04}"), 1, at(n));
        order.holds = vec![share(1, HoldState::Active, Confirmation::NotDue)];
        order
    };
    let mut orders: Vec<Order> = (1..=1001).map(elsewhere).collect();
    orders.push(unpaid("b1", 1, at(2000)));
    orders.push(unpaid("b2", 1, at(2000)));
    filled(&test, orders).await;
    let needs = Needs { overdue: at_level(&warehouse()), ..Needs::default() };
    let world = test.load(&needs, at(2000)).await.world;
    assert_eq!(ids(&world.overdue[&warehouse().id]), vec!["b1", "b2"]);
    assert_eq!(world.orders.len(), 2);
}

fn recount() -> Needs {
    Needs { recount: BTreeSet::from([warehouse().id, upstream().id]), ..Needs::default() }
}

/// The counters say held 2 and committed 1 (warehouse), held 9 and committed 4 (supplier); the
/// rows say 3 and 0, and 2 + 3 + 1 + 1 + 8 = 15 and 4.
async fn a_recount_puts_the_counters_right_and_says_so(test: TestDb) {
    let mut all = orders();
    all.push(unpaid("q1", 2, at(5000)));
    filled(&test, all).await;
    test.change(&recount(), NOW, |world| {
        let told: Vec<_> = world
            .ledger
            .iter()
            .map(|e| (e.level.clone(), e.event, e.by, e.note.as_str()))
            .collect();
        let shift = |held, committed| Shift { quantity: 0, held, committed };
        assert_eq!(
            told,
            vec![
                (warehouse().id, "recount", shift(1, -1), "held 2 → 3, committed 1 → 0"),
                (upstream().id, "recount", shift(6, 0), "held 9 → 15, committed 4 → 4"),
            ]
        );
    })
    .await
    .unwrap();
    let world = test.load(&recount(), NOW).await.world;
    assert!(world.ledger.is_empty(), "again it finds nothing");
    let level = &world.levels[&upstream().id];
    assert_eq!((level.held, level.committed, level.version), (15, 4, 42));
    let level = &world.levels[&warehouse().id];
    assert_eq!((level.quantity, level.held, level.committed, level.version), (10, 3, 0, 8));
    let entries = "SELECT by_held FROM ledger ORDER BY seq";
    assert_eq!(test.numbers(entries, Vec::new()).await, vec![1, 6]);
}

async fn a_recount_never_promises_more_than_there_is(test: TestDb) {
    filled(&test, vec![unpaid("q1", 12, at(5000))]).await;
    test.change(&recount(), NOW, |_| {}).await.unwrap();
    let world = test.load(&recount(), NOW).await.world;
    let level = &world.levels[&warehouse().id];
    assert_eq!(level.kind, Kind::Warehouse);
    assert_eq!((level.quantity, level.held, level.committed), (12, 12, 0));
    assert_eq!(level.available(0), 0);
}
