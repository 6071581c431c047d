//! The one order of locks, other people's orders, and the readers of append-only tables.

use std::collections::BTreeSet;

use stockhold::clock::Timestamp;
use stockhold::domain::command::Needs;
use stockhold::domain::names::OrderId;
use stockhold::domain::order::{Confirmation, Hold, HoldState, Order, State};
use stockhold::storage::Error;
use stockhold::storage::sql::Sql;
use stockhold::storage::world;
use tokio::sync::oneshot;

use super::fixture::{entry, hold, unpaid, upstream, warehouse};
use super::groups::opening;
use super::{TestDb, at, clock, on_both};

on_both!(
    groups_that_name_the_same_things_in_any_order_do_not_deadlock,
    the_time_is_the_clocks_that_was_given,
);

const NOW: Timestamp = at(1000);

fn waiting(id: &str, paid_secs: i64) -> Order {
    let mut order = unpaid(id, 1, at(5000));
    order.state = State::Confirming;
    order.paid_at = Some(at(paid_secs));
    order.holds = vec![Hold {
        confirmation: Some(Confirmation::Waiting),
        ..hold(1, 1, &upstream(), 1, HoldState::Active)
    }];
    order
}

async fn filled(test: &TestDb, orders: Vec<Order>) {
    test.change(&Needs::default(), NOW, move |world| {
        let mut shelf = warehouse();
        shelf.quantity = 1_000_000;
        world.create_level(shelf);
        world.create_level(upstream());
        orders.into_iter().for_each(|o| world.create_order(o));
    })
    .await
    .unwrap();
}

/// 8 tasks × 25 groups, half of them by the orders (which bring the levels), half by the levels and
/// the item's orders: every one commits at its first try, and every unit is counted.
async fn groups_that_name_the_same_things_in_any_order_do_not_deadlock(test: TestDb) {
    let orders = (1..=6).map(|n| waiting(&format!("o{n}"), n)).collect();
    filled(&test, orders).await;
    let tasks: Vec<_> = (0..8)
        .map(|task: usize| {
            let db = test.db.clone();
            tokio::spawn(async move {
                for round in 0..25 {
                    let needs = if (task + round).is_multiple_of(2) {
                        let ids = [1 + round % 6, 1 + (round + task) % 6];
                        Needs {
                            orders: ids.iter().map(|n| OrderId::from(format!("o{n}"))).collect(),
                            levels: BTreeSet::from([warehouse().id]),
                            ..Needs::default()
                        }
                    } else {
                        Needs {
                            levels: BTreeSet::from([warehouse().id, upstream().id]),
                            judged: BTreeSet::from([upstream().id]),
                            ..Needs::default()
                        }
                    };
                    db.transact::<_, Error, _>(move |tx| {
                        Box::pin(async move {
                            let mut loaded = world::load(tx, &needs, NOW).await?;
                            let world = &mut loaded.world;
                            for level in [upstream(), warehouse()] {
                                world.shift(entry(&level, "placed", 1)).unwrap();
                            }
                            for id in world.orders.keys().cloned().collect::<Vec<_>>() {
                                world.order_mut(&id).unwrap().tell(NOW, "touched", "");
                            }
                            world.owe_deadline(NOW);
                            world::save(tx, &loaded.before, world, NOW).await
                        })
                    })
                    .await
                    .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let held = "SELECT held FROM levels ORDER BY kind";
    assert_eq!(test.numbers(held, Vec::new()).await, vec![209, 202]);
    let entries = "SELECT count(*) FROM ledger";
    assert_eq!(test.numbers(entries, Vec::new()).await, vec![400]);
    let told = "SELECT CAST(sum(event_seq) AS BIGINT) FROM orders
        UNION ALL SELECT count(*) FROM events";
    let told = test.numbers(told, Vec::new()).await;
    assert_eq!(told[0], told[1]);
    let wakes = "SELECT wakes FROM jobs";
    assert_eq!(test.numbers(wakes, Vec::new()).await, vec![199]);
}

async fn the_time_is_the_clocks_that_was_given(test: TestDb) {
    let clock = clock(123);
    let now = test.transact(move |tx| Box::pin(async move { tx.now(&clock).await })).await;
    assert_eq!(now, Ok(at(123)));
}

/// Holds what `needs` locks until told to go on.
async fn holding(
    test: &TestDb,
    needs: Needs,
) -> (oneshot::Sender<()>, tokio::task::JoinHandle<Result<(), Error>>) {
    let db = test.db.clone();
    let (locked, is_locked) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        db.transact(move |tx| {
            Box::pin(async move {
                let mut loaded = world::load(tx, &needs, NOW).await?;
                locked.send(()).unwrap();
                gone.await.unwrap();
                let world = &mut loaded.world;
                for id in world.orders.keys().cloned().collect::<Vec<_>>() {
                    let order = world.order_mut(&id).unwrap();
                    order.holds[0].confirmation = Some(Confirmation::Unknown);
                    order.tell(NOW, "touched", "");
                }
                world::save(tx, &loaded.before, world, NOW).await.map(drop)
            })
        })
        .await
    });
    is_locked.await.unwrap();
    (go, task)
}

/// Older orders that another group has are waited for by nobody, and no younger one is judged as if
/// they were not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_another_has_cuts_the_undecided_short() {
    let test = TestDb::postgres().await;
    filled(&test, vec![waiting("o1", 1), waiting("o2", 2), waiting("o3", 3)]).await;
    let locked_order: &'static Sql =
        Box::leak(Box::new(Sql::new("SELECT paid_at FROM orders WHERE id = 'o2' FOR UPDATE")));
    let db = test.db.clone();
    let (locked, is_locked) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let other = tokio::spawn(async move {
        db.transact::<_, Error, _>(move |tx| {
            Box::pin(async move {
                let _: Vec<(i64,)> = tx.all(locked_order, Vec::new()).await?;
                locked.send(()).unwrap();
                gone.await.unwrap();
                Ok(())
            })
        })
        .await
    });
    is_locked.await.unwrap();
    let needs = Needs { judged: BTreeSet::from([upstream().id]), ..Needs::default() };
    let world = test.load(&needs, NOW).await.world;
    let view = &world.items[&upstream().id];
    assert_eq!(view.undecided, vec![OrderId::from("o1")]);
    assert!(view.more);
    assert_eq!(view.units.len(), 3);
    go.send(()).unwrap();
    other.await.unwrap().unwrap();
    let view = &test.load(&needs, NOW).await.world.items[&upstream().id];
    assert_eq!(view.undecided.len(), 3);
    assert!(!view.more);
}

/// An order that the group owns is waited for, and read as it is then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owned_order_is_read_after_its_lock() {
    let test = TestDb::postgres().await;
    filled(&test, vec![waiting("o1", 1)]).await;
    let needs = Needs { orders: BTreeSet::from([OrderId::from("o1")]), ..Needs::default() };
    let (go, first) = holding(&test, needs.clone()).await;
    let db = test.db.clone();
    let second = tokio::spawn(async move {
        db.transact::<_, Error, _>(move |tx| {
            Box::pin(async move { world::load(tx, &needs, NOW).await })
        })
        .await
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!second.is_finished(), "it waits for the lock");
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    let world = second.await.unwrap().unwrap().world;
    let order = &world.orders[&OrderId::from("o1")];
    assert_eq!(order.holds[0].confirmation, Some(Confirmation::Unknown));
    assert_eq!(order.events.len(), 2);
}

/// A level that is loaded after waiting shows the figures of whoever had it before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_is_read_after_its_lock() {
    let test = TestDb::postgres().await;
    filled(&test, Vec::new()).await;
    let needs = Needs { levels: BTreeSet::from([warehouse().id]), ..Needs::default() };
    let shifted: Vec<_> = (0..20)
        .map(|_| {
            test.change(&needs, NOW, |world| {
                world.shift(entry(&warehouse(), "placed", 1)).unwrap();
            })
        })
        .collect();
    for saved in futures::future::join_all(shifted).await {
        assert_eq!(saved.unwrap().levels, vec![warehouse().id]);
    }
    let world = test.load(&needs, NOW).await.world;
    let level = &world.levels[&warehouse().id];
    assert_eq!((level.held, level.version), (22, 27));
}

/// Entries are numbered before they are committed. Readers stop before the oldest writer that is
/// still at work, and page by writer: by number alone they would never see what a later writer
/// numbered earlier and commits later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_miss_nothing_that_commits_late() {
    let test = TestDb::postgres().await;
    filled(&test, vec![waiting("o1", 1)]).await;
    let (first, second) = (writer(&test, "first").await, writer(&test, "second").await);
    // The later writer takes the earlier number …
    second.go_on().await;
    let second = second.wrote().await;
    first.go_on().await;
    let first = first.wrote().await;
    assert_eq!(seen(&test).await, Vec::<i64>::new(), "the earlier writer is at work");
    // … and the earlier one commits first.
    first.commit().await;
    while seen(&test).await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(seen(&test).await, vec![2]);
    second.commit().await;
    test.settled().await;
    assert_eq!(seen(&test).await, vec![2, 1]);
    test.db.migrate().await.unwrap();
    assert_eq!(seen(&test).await, vec![2, 1], "nothing to adopt");

    // Restored into a server that has run fewer transactions.
    test.run("UPDATE ledger SET xact = (900000000000 + seq)::text::xid8").await.unwrap();
    assert_eq!(seen(&test).await, Vec::<i64>::new());
    test.db.migrate().await.unwrap();
    test.settled().await;
    assert_eq!(seen(&test).await, vec![1, 2]);
}

async fn seen(test: &TestDb) -> Vec<i64> {
    let text = "SELECT seq FROM ledger WHERE SETTLED(ledger) ORDER BY xact, seq";
    test.numbers(text, Vec::new()).await
}

/// A transaction that goes on step by step: it has its number, it has written, it commits.
struct Writer {
    steps: tokio::sync::mpsc::Sender<()>,
    told: tokio::sync::mpsc::Receiver<()>,
    task: tokio::task::JoinHandle<Result<(), Error>>,
}

async fn writer(test: &TestDb, name: &'static str) -> Writer {
    let db = test.db.clone();
    let (steps, mut step) = tokio::sync::mpsc::channel::<()>(1);
    let (tell, mut told) = tokio::sync::mpsc::channel::<()>(1);
    let task = tokio::spawn(async move {
        db.transact(move |tx| {
            Box::pin(async move {
                assert!(opening(name).begin(tx).await?.is_some());
                tell.send(()).await.unwrap();
                step.recv().await.unwrap();
                let mut loaded = world::load(tx, &Needs::default(), NOW).await?;
                loaded.world.ledger.push(entry(&warehouse(), name, 1));
                world::save(tx, &loaded.before, &mut loaded.world, NOW).await?;
                tell.send(()).await.unwrap();
                step.recv().await.unwrap();
                Ok(())
            })
        })
        .await
    });
    told.recv().await.unwrap();
    Writer { steps, told, task }
}

impl Writer {
    async fn go_on(&self) {
        self.steps.send(()).await.unwrap();
    }
    async fn wrote(mut self) -> Writer {
        self.told.recv().await.unwrap();
        self
    }
    async fn commit(self) {
        self.go_on().await;
        self.task.await.unwrap().unwrap();
    }
}
