//! Round trips of every aggregate, and saving by difference.

use std::collections::{BTreeMap, BTreeSet};

use stockhold::clock::Timestamp;
use stockhold::domain::alert::{AlertChange, AlertKind};
use stockhold::domain::command::Needs;
use stockhold::domain::names::{OrderId, PurchaseId, SkuKey};
use stockhold::domain::order::{HoldState, State};
use stockhold::domain::sku::{Pause, Paused};
use stockhold::domain::stock::Entry;
use stockhold::storage::Error;
use stockhold::storage::world::{self, Loaded, Saved};

use super::fixture::{entry, event, full, sku, source, unpaid, upstream, warehouse};
use super::{TestDb, at, on_both};

on_both!(
    every_aggregate_comes_back_as_it_was_saved,
    only_what_differs_is_written,
    a_repeat_finds_the_order_by_its_names,
    a_hold_ends_once,
    a_level_is_saved_only_as_it_was_loaded,
    every_change_of_a_level_counts_whoever_makes_it,
    rows_that_are_partly_alike_are_written_as_they_are,
    a_taken_key_is_done_again,
    a_lost_row_is_refused,
    sources_are_replaced_and_aliases_followed,
    two_pauses_of_one_sku_do_not_overwrite_each_other,
    what_a_group_owes_is_told,
);

const NOW: Timestamp = at(1000);

fn needs_sku() -> Needs {
    Needs { skus: BTreeSet::from([SkuKey::from("SHOE-42")]), ..Needs::default() }
}

fn needs_order(id: &str) -> Needs {
    Needs { orders: BTreeSet::from([OrderId::from(id)]), ..Needs::default() }
}

/// The SKU, its two levels, and the orders.
async fn stock(test: &TestDb, orders: Vec<stockhold::domain::order::Order>) {
    test.change(&Needs::default(), NOW, move |world| {
        world.put_sku(sku());
        world.create_level(warehouse());
        world.create_level(upstream());
        orders.into_iter().for_each(|o| world.create_order(o));
    })
    .await
    .unwrap();
}

async fn every_aggregate_comes_back_as_it_was_saved(test: TestDb) {
    stock(&test, vec![full("o1"), unpaid("o2", 2, at(1900))]).await;
    test.change(&Needs::default(), NOW, |world| {
        let paused =
            Paused { selling: None, buying: Some(Pause { at: at(12), reason: "no money".into() }) };
        world.put_supplier(source("s1688"), paused);
        world.put_alias(SkuKey::from("S1-NEW"), SkuKey::from("SHOE-42"));
    })
    .await
    .unwrap();

    let needs = Needs {
        orders: BTreeSet::from(["o1", "o2", "o3"].map(OrderId::from)),
        skus_of_orders: true,
        ..Needs::default()
    };
    let world = test.load(&needs, NOW).await.world;
    assert_eq!(
        world.orders,
        BTreeMap::from([
            (OrderId::from("o1"), full("o1").into()),
            (OrderId::from("o2"), unpaid("o2", 2, at(1900)).into()),
        ])
    );
    assert_eq!(world.skus, BTreeMap::from([(sku().key, sku().into())]));
    assert_eq!(
        world.levels,
        BTreeMap::from([(warehouse().id, warehouse().into()), (upstream().id, upstream().into())])
    );
    let paused = &world.suppliers[&source("s1688")];
    assert_eq!(paused.selling, None);
    assert_eq!(paused.buying.as_ref().unwrap().reason, "no money");

    let ids = [OrderId::from("o2"), OrderId::from("o9"), OrderId::from("o1")];
    let read = test
        .db
        .read(move |tx| Box::pin(async move { world::orders_by_id(tx, &ids).await }))
        .await
        .unwrap();
    assert_eq!(read, vec![unpaid("o2", 2, at(1900)), full("o1")]);
}

async fn only_what_differs_is_written(test: TestDb) {
    stock(&test, vec![full("o1")]).await;
    let saved = test.change(&needs_order("o1"), NOW, |_| {}).await.unwrap();
    assert_eq!((saved.levels.len(), saved.next_job), (0, None));

    let ledger = "SELECT by_held FROM ledger ORDER BY seq";
    assert_eq!(test.numbers(ledger, Vec::new()).await, Vec::<i64>::new());
    let saved = test
        .change(&needs_order("o1"), NOW, |world| {
            let level = warehouse();
            world.shift(entry(&level, "released", -2)).unwrap();
            world.shift(entry(&level, "placed", 1)).unwrap();
            let order = world.order_mut(&OrderId::from("o1")).unwrap();
            order.state = State::Confirming;
            order.tell(at(999), "order_confirming", "asked");
            order.payments[1].paid_at = Some(at(5));
            order.purchases[0].trail.unanswered = 4;
            order.refunds[0].note = None;
            order.lines[0].shipped = 2;
            order.holds[3].asked_at = Some(at(998));
            let split =
                stockhold::domain::order::Hold { part: 4, quantity: 1, ..order.holds[1].clone() };
            order.holds[1].quantity = 5;
            order.holds.insert(3, split);
        })
        .await
        .unwrap();
    assert_eq!(saved.levels, vec![warehouse().id]);
    assert_eq!(test.numbers(ledger, Vec::new()).await, vec![-2, 1]);

    let world = test.load(&needs_order("o1"), NOW).await.world;
    let mut expected = full("o1");
    expected.state = State::Confirming;
    expected.events.push(stockhold::domain::order::Event {
        n: 3,
        at: at(999),
        event: "order_confirming".into(),
        detail: "asked".into(),
    });
    expected.payments[1].paid_at = Some(at(5));
    expected.purchases[0].trail.unanswered = 4;
    expected.refunds[0].note = None;
    expected.lines[0].shipped = 2;
    expected.holds[3].asked_at = Some(at(998));
    expected.holds[1].quantity = 5;
    let mut split = expected.holds[1].clone();
    (split.part, split.quantity) = (4, 1);
    expected.holds.insert(3, split);
    assert_eq!(*world.orders[&OrderId::from("o1")], expected);
    let level = &world.levels[&warehouse().id];
    assert_eq!((level.held, level.version), (1, 9));
    let seqs = test.numbers("SELECT event_seq FROM orders WHERE id = 'o1'", Vec::new()).await;
    assert_eq!(seqs, vec![3]);
}

async fn a_repeat_finds_the_order_by_its_names(test: TestDb) {
    stock(&test, vec![full("o1"), unpaid("o2", 1, at(1900))]).await;
    let refund = full("o1").refunds[0].id.clone();
    let purchase = full("o1").purchases[0].id.clone();
    let needs = Needs {
        external: BTreeSet::from([
            ("web".to_owned(), "W-o2".to_owned()),
            ("app".to_owned(), "W-o1".to_owned()),
        ]),
        placement_keys: BTreeSet::from(["shop\nk-1".to_owned(), "shop\nk-2".to_owned()]),
        payment_ids: BTreeSet::from(["pay-1-o1".to_owned(), "pay-9".to_owned()]),
        refunds: BTreeSet::from([refund.clone()]),
        purchases: BTreeSet::from([purchase.clone(), PurchaseId::from("none")]),
        ..Needs::default()
    };
    let world = test.load(&needs, NOW).await.world;
    let o1 = OrderId::from("o1");
    assert_eq!(
        world.external,
        BTreeMap::from([(("web".to_owned(), "W-o2".to_owned()), OrderId::from("o2"))])
    );
    assert_eq!(world.placement_keys, BTreeMap::from([("shop\nk-1".to_owned(), o1.clone())]));
    assert_eq!(
        world.payments,
        BTreeMap::from([(("web".to_owned(), "pay-1-o1".to_owned()), o1.clone())])
    );
    assert_eq!(world.refunds, BTreeMap::from([(refund, o1.clone())]));
    assert_eq!(world.purchases, BTreeMap::from([(purchase, o1.clone())]));
    assert_eq!(world.orders.keys().cloned().collect::<Vec<_>>(), vec![o1, OrderId::from("o2")]);
}

/// Two loads of the same order; the second to be saved was decided on what is no more.
async fn a_hold_ends_once(test: TestDb) {
    stock(&test, vec![unpaid("o2", 2, at(1900))]).await;
    let stale = test.load(&needs_order("o2"), NOW).await;
    test.change(&needs_order("o2"), NOW, |world| {
        let order = world.order_mut(&OrderId::from("o2")).unwrap();
        order.holds[0].state = HoldState::Committed;
    })
    .await
    .unwrap();
    let again = test
        .transact(move |tx| {
            Box::pin(async move {
                let mut world = stale.world;
                let order = world.order_mut(&OrderId::from("o2")).unwrap();
                order.holds[0].state = HoldState::Released;
                order.holds[0].ended_at = Some(NOW);
                world::save(tx, &stale.before, &mut world, NOW).await
            })
        })
        .await;
    assert_eq!(again, Err(Error::Retry("holds: 1 rows decided, 0 touched".into())));
    let world = test.load(&needs_order("o2"), NOW).await.world;
    let hold = &world.orders[&OrderId::from("o2")].holds[0];
    assert_eq!((hold.state, hold.ended_at), (HoldState::Committed, None));
}

/// Holds a unit on what was loaded earlier.
async fn held_late(test: &TestDb, stale: Loaded) -> Result<Saved, Error> {
    test.transact(move |tx| {
        Box::pin(async move {
            let mut world = stale.world;
            world.shift(entry(&warehouse(), "placed", 1)).unwrap();
            world::save(tx, &stale.before, &mut world, NOW).await
        })
    })
    .await
}

async fn every_change_of_a_level_counts_whoever_makes_it(test: TestDb) {
    stock(&test, Vec::new()).await;
    let counted =
        || async { test.numbers("SELECT revision FROM levels ORDER BY id", Vec::new()).await };
    assert_eq!(counted().await, vec![0, 0]);
    test.change(&needs_sku(), NOW, |world| {
        world.shift(entry(&warehouse(), "placed", 1)).unwrap();
    })
    .await
    .unwrap();
    assert_eq!(counted().await, vec![1, 0], "by the group that changes it");
    for change in ["lock_token = 9", "as_of = 7", "held = 3, version = version + 1"] {
        let changed = format!("UPDATE levels SET {change} WHERE kind = 'supplier'");
        assert_eq!(test.run(&changed).await, Ok(1), "{change}");
    }
    assert_eq!(counted().await, vec![1, 3], "by another, who does not count");
    assert_eq!(test.run("UPDATE levels SET revision = revision + 1").await, Ok(2));
    assert_eq!(counted().await, vec![2, 4], "once by one who does");

    // What is no figure is no version, and still is a change.
    let stale = test.load(&needs_sku(), NOW).await;
    assert_eq!(test.run("UPDATE levels SET lock_token = 10").await, Ok(2));
    assert_eq!(
        held_late(&test, stale).await,
        Err(Error::Retry("levels: 1 rows decided, 0 touched".into()))
    );
}

async fn rows_that_are_partly_alike_are_written_as_they_are(test: TestDb) {
    // Each group by what its entries differ in: nothing is alike, or one or another thing, and more kinds
    // of that than are kept.
    let groups: [fn(i64, &mut Entry); 8] = [
        |n, e| e.by.held = n,
        |n, e| e.note = format!("note {n}"),
        |n, e| (e.by.held, e.note) = (n, format!("note {n}")),
        |n, e| e.at = at(n),
        |n, e| e.order = (n % 2 == 0).then(|| OrderId::from(format!("o{n}"))),
        |n, e| e.hold = (n % 3 == 0).then_some((n, 1)),
        |n, e| e.by.committed = n,
        |n, e| (e.at, e.by.quantity, e.sku) = (at(n), n, None),
    ];
    let mut expected = Vec::new();
    for (round, rows) in [(0, 40), (1, 8), (2, 1), (3, 40)] {
        for differ in groups {
            let entries = (1..=rows).map(|n| {
                let mut one = entry(&warehouse(), "placed", round);
                differ(n, &mut one);
                one
            });
            let entries: Vec<Entry> = entries.collect();
            let written = entries.clone();
            test.change(&Needs::default(), NOW, move |world| world.ledger.extend(written))
                .await
                .unwrap();
            expected.extend(entries);
        }
    }
    let kept = "SELECT at || '|' || coalesce(sku, '') || '|' || coalesce(order_id, '') || '|' ||
        coalesce(line, 0) || '|' || event || '|' || by_quantity || '|' || by_held || '|' ||
        by_committed || '|' || note FROM ledger ORDER BY seq";
    let told = |e: &Entry| {
        let order = e.order.as_ref().map_or("", OrderId::as_str);
        let sku = e.sku.as_ref().map_or("", SkuKey::as_str);
        let (line, by) = (e.hold.map_or(0, |hold| hold.0), e.by);
        format!(
            "{}|{sku}|{order}|{line}|{}|{}|{}|{}|{}",
            e.at.0, e.event, by.quantity, by.held, by.committed, e.note
        )
    };
    assert_eq!(test.texts(kept).await, expected.iter().map(told).collect::<Vec<_>>());
}

async fn a_level_is_saved_only_as_it_was_loaded(test: TestDb) {
    stock(&test, Vec::new()).await;
    let stale = test.load(&needs_sku(), NOW).await;
    test.change(&needs_sku(), NOW, |world| {
        world.shift(entry(&warehouse(), "placed", 1)).unwrap();
    })
    .await
    .unwrap();
    assert_eq!(
        held_late(&test, stale).await,
        Err(Error::Retry("levels: 1 rows decided, 0 touched".into()))
    );
    let held = test.numbers("SELECT held FROM levels WHERE kind = 'warehouse'", Vec::new()).await;
    assert_eq!(held, vec![3]);
    let entries = test.numbers("SELECT by_held FROM ledger", Vec::new()).await;
    assert_eq!(entries, vec![1], "the rolled back group left no entry");
}

async fn a_taken_key_is_done_again(test: TestDb) {
    stock(&test, vec![unpaid("o1", 1, at(1900)), full("o3")]).await;
    let mut same_name = unpaid("o2", 1, at(1900));
    same_name.external_id = "W-o1".into();
    let mut same_payment = unpaid("o4", 1, at(1900));
    same_payment.payments = full("o3").payments;
    for order in [same_name, same_payment] {
        let again =
            test.change(&Needs::default(), NOW, move |world| world.create_order(order)).await;
        assert!(matches!(again, Err(Error::Retry(_))), "{again:?}");
    }
    let orders = test.numbers("SELECT count(*) FROM orders", Vec::new()).await;
    assert_eq!(orders, vec![2]);
    let lines = test.numbers("SELECT count(*) FROM order_lines", Vec::new()).await;
    assert_eq!(lines, vec![3]);
}

async fn a_lost_row_is_refused(test: TestDb) {
    stock(&test, vec![full("o1")]).await;
    let lost = test
        .change(&needs_order("o1"), NOW, |world| {
            world.order_mut(&OrderId::from("o1")).unwrap().holds.remove(0);
        })
        .await;
    assert_eq!(lost, Err(Error::Poison("order o1 lost a row".into())));
    let rewritten = test
        .change(&needs_order("o1"), NOW, |world| {
            world.order_mut(&OrderId::from("o1")).unwrap().events[0] = event(9, "other");
        })
        .await;
    assert_eq!(rewritten, Err(Error::Poison("order o1 lost a row".into())));
}

async fn sources_are_replaced_and_aliases_followed(test: TestDb) {
    stock(&test, Vec::new()).await;
    test.change(&needs_sku(), NOW, |world| {
        let mut changed = sku();
        changed.sources.reverse();
        changed.sources[0].buffer = Some(3);
        changed.title = "Shoe".into();
        world.put_sku(changed);
        world.put_alias(SkuKey::from("S1-NEW"), SkuKey::from("SHOE-42"));
    })
    .await
    .unwrap();
    let needs =
        Needs { skus: BTreeSet::from(["S1-NEW", "NONE"].map(SkuKey::from)), ..Needs::default() };
    let world = test.load(&needs, NOW).await.world;
    let found = world.sku(&SkuKey::from("S1-NEW")).unwrap();
    assert_eq!(found.title, "Shoe");
    assert_eq!(found.sources[0].source, source("s1688"));
    assert_eq!(found.sources[0].buffer, Some(3));
    assert_eq!(found.sources[1], sku().sources[0]);
    assert_eq!(world.levels.len(), 2);
    assert!(world.sku(&SkuKey::from("NONE")).is_none());
}

async fn two_pauses_of_one_sku_do_not_overwrite_each_other(test: TestDb) {
    stock(&test, Vec::new()).await;
    let stale = test.load(&needs_sku(), NOW).await;
    test.change(&needs_sku(), NOW, |world| {
        let mut resumed = sku();
        resumed.paused.selling = None;
        world.put_sku(resumed);
    })
    .await
    .unwrap();
    let again = test
        .transact(move |tx| {
            Box::pin(async move {
                let mut world = stale.world;
                let mut paused = sku();
                paused.paused.buying = paused.paused.selling.clone();
                world.put_sku(paused);
                world::save(tx, &stale.before, &mut world, NOW).await
            })
        })
        .await;
    assert!(matches!(again, Err(Error::Retry(_))), "{again:?}");
}

async fn what_a_group_owes_is_told(test: TestDb) {
    let saved = test
        .change(&Needs::default(), NOW, |world| {
            world.owe_deadline(Timestamp(1_900_000_001));
            world.owe_deadline(at(2000));
            world.alerts.push(AlertChange::Open {
                kind: AlertKind::FeedStale,
                subject: "s1688".into(),
                detail: "no feed for an hour".into(),
            });
        })
        .await
        .unwrap();
    assert_eq!(saved.next_job, Some(NOW));
    let due = test.numbers("SELECT run_at FROM jobs ORDER BY run_at", Vec::new()).await;
    assert_eq!(due, vec![NOW.0, at(1901).0, at(2000).0]);
}
