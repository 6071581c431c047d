//! What the HTTP views read: lists by their filters, their order, their bound, and the ledger while
//! transactions are open.

use stockhold::clock::Timestamp;
use stockhold::domain::alert::{AlertChange, AlertKind};
use stockhold::domain::command::Needs;
use stockhold::domain::job::Job;
use stockhold::domain::names::{LevelId, OrderId, PurchaseId, RefundId, SkuKey};
use stockhold::domain::order::{HoldState, State};
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::refund::RefundState;
use stockhold::domain::sku::{Pause, Paused};
use stockhold::domain::stock::Level;
use stockhold::storage::groups::{self, Keep, Kept};
use stockhold::storage::reads::placements::{self, Names};
use stockhold::storage::reads::{self, orders, purchases, refunds, skus, stock, suppliers, work};
use stockhold::storage::sql::Sql;
use tokio::sync::oneshot;

use super::fixture::{entry, full, sku, source, unpaid, upstream, warehouse};
use super::{TestDb, at, on_both};

on_both!(
    orders_are_found_by_what_they_are,
    refunds_and_purchases_are_newest_first,
    skus_are_found_by_alias_with_all_that_is_shown_of_them,
    holds_and_ledger_are_found_by_sku_state_and_order,
    a_skus_entries_are_found_however_far_apart,
    a_supplier_shows_every_level_once,
    alerts_and_jobs_are_found_by_state,
    a_placement_has_a_chance_by_a_name_that_is_known_or_a_level_that_changed,
    the_store_answers,
);

const NOW: Timestamp = at(1000);

/// The SKU with its levels and an alias, `o1` (full), `o2` and `o3` (unpaid, 2 and 3 units).
async fn fill(test: &TestDb) {
    test.change(&Needs::default(), NOW, |world| {
        world.put_sku(sku());
        world.put_alias(SkuKey::from("OLD"), SkuKey::from("SHOE-42"));
        world.create_level(warehouse());
        world.create_level(upstream());
        world.create_order(full("o1"));
        world.create_order(unpaid("o2", 2, at(1900)));
        let mut other = unpaid("o3", 3, at(1900));
        other.channel = "app".into();
        world.create_order(other);
    })
    .await
    .unwrap();
}

fn ids(orders: &[stockhold::domain::order::Order]) -> Vec<&str> {
    orders.iter().map(|o| o.id.as_str()).collect()
}

async fn orders_are_found_by_what_they_are(test: TestDb) {
    fill(&test).await;
    let db = &test.db;
    assert_eq!(orders::find(db, &"o1".into()).await.unwrap(), Some(full("o1")));
    assert_eq!(orders::find(db, &"o9".into()).await.unwrap(), None);
    assert_eq!(orders::currency(db, &"o2".into()).await.unwrap().as_deref(), Some("USD"));
    assert_eq!(orders::currency(db, &"o9".into()).await.unwrap(), None);

    let list = |filter: orders::Filter| async move {
        let found = orders::list(db, &filter, None, 10).await.unwrap();
        ids(&found).join(" ")
    };
    let all = orders::Filter::default;
    assert_eq!(list(all()).await, "o3 o2 o1");
    assert_eq!(list(orders::Filter { state: Some(State::PendingPayment), ..all() }).await, "o3 o2");
    assert_eq!(list(orders::Filter { channel: Some("web".into()), ..all() }).await, "o2 o1");
    assert_eq!(list(orders::Filter { external_id: Some("W-o2".into()), ..all() }).await, "o2");
    for name in ["SHOE-42", "OLD"] {
        assert_eq!(list(orders::Filter { sku: Some(name.into()), ..all() }).await, "o3 o2 o1");
    }
    assert_eq!(list(orders::Filter { sku: Some("shoe-42".into()), ..all() }).await, "");
    let every = orders::Filter {
        state: Some(State::Attention),
        sku: Some("SHOE-42".into()),
        channel: Some("web".into()),
        external_id: Some("W-o1".into()),
    };
    assert_eq!(list(every).await, "o1");

    // One more than the limit, from the cursor on.
    let page = orders::list(db, &all(), None, 1).await.unwrap();
    assert_eq!(ids(&page), ["o3", "o2"]);
    let page = orders::list(db, &all(), Some(&"o2".into()), 5).await.unwrap();
    assert_eq!(ids(&page), ["o1"]);
}

async fn refunds_and_purchases_are_newest_first(test: TestDb) {
    let made = |id: &str, secs: i64| {
        let mut order = full(id);
        order.external_id = id.into();
        order.idempotency = None;
        order.refunds[0].id = RefundId::from(format!("r-{id}"));
        order.refunds[0].created_at = at(secs);
        order.purchases[0].created_at = at(secs);
        order
    };
    let (first, mut second, third) = (made("a", 300), made("b", 100), made("c", 300));
    second.refunds[0].state = RefundState::Pending;
    second.purchases[0].state = PurchaseState::Unknown;
    let orders = [first.clone(), second.clone(), third];
    test.change(&Needs::default(), NOW, move |world| {
        orders.into_iter().for_each(|order| world.create_order(order));
    })
    .await
    .unwrap();
    let db = &test.db;

    let all = refunds::list(db, None, None, 10).await.unwrap();
    let names: Vec<&str> = all.iter().map(|row| row.refund.id.as_str()).collect();
    assert_eq!(names, ["r-c", "r-a", "r-b"]);
    assert_eq!((all[1].order.as_str(), all[1].currency.as_str()), ("a", "USD"));
    assert_eq!(all[1].refund, first.refunds[0]);
    let before = (at(300), RefundId::from("r-c"));
    let rest = refunds::list(db, None, Some(&before), 1).await.unwrap();
    assert_eq!(rest.len(), 2);
    let pending = refunds::list(db, Some(RefundState::Pending), None, 10).await.unwrap();
    assert_eq!(pending[0].refund, second.refunds[0]);
    assert_eq!(pending.len(), 1);

    let list = |filter: purchases::Filter, before: Option<(Timestamp, PurchaseId)>| async move {
        let found = purchases::list(db, &filter, before.as_ref(), 10).await.unwrap();
        found.iter().map(|(order, _)| order.to_string()).collect::<Vec<_>>().join(" ")
    };
    let all = purchases::Filter::default;
    assert_eq!(list(all(), None).await, "c a b");
    assert_eq!(list(all(), Some((at(300), "c-s1688-1".into()))).await, "a b");
    let unknown = purchases::Filter { state: Some(PurchaseState::Unknown), ..all() };
    assert_eq!(list(unknown, None).await, "b");
    let own = purchases::Filter { order: Some(OrderId::from("a")), ..all() };
    assert_eq!(list(own.clone(), None).await, "a");
    let found = purchases::list(db, &own, None, 10).await.unwrap();
    assert_eq!(found[0].1, first.purchases[0]);
}

async fn skus_are_found_by_alias_with_all_that_is_shown_of_them(test: TestDb) {
    fill(&test).await;
    let stop = Paused { selling: Some(Pause { at: at(12), reason: "flood".into() }), buying: None };
    let put = stop.clone();
    test.change(&Needs::default(), NOW, move |world| {
        world.put_supplier(source("s1688"), put);
        let mut second = sku();
        second.key = "AAA".into();
        second.sources.truncate(1);
        world.put_sku(second);
    })
    .await
    .unwrap();
    let db = &test.db;
    assert_eq!(skus::find(db, &"SHOE-42".into()).await.unwrap(), Some(sku()));
    assert_eq!(skus::find(db, &"OLD".into()).await.unwrap(), Some(sku()));
    assert_eq!(skus::find(db, &"old".into()).await.unwrap(), None);

    let asked = ["OLD", "NONE", "AAA"].map(SkuKey::from);
    let found = skus::load(db, &asked).await.unwrap();
    assert_eq!(found.keys().map(SkuKey::as_str).collect::<Vec<_>>(), ["AAA", "OLD"]);
    let shoe = &found["OLD"];
    assert_eq!(shoe.sku, sku());
    assert_eq!(shoe.levels.values().cloned().collect::<Vec<_>>(), [warehouse(), upstream()]);
    assert_eq!(shoe.suppliers[&source("s1688")], stop);
    assert_eq!(found["AAA"].levels.len(), 1);
    assert!(found["AAA"].suppliers.is_empty());

    let keys = |after: Option<SkuKey>, limit| async move {
        let found = skus::list(db, after.as_ref(), limit).await.unwrap();
        found.iter().map(|s| format!("{}/{}", s.key, s.sources.len())).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(None, 10).await, "AAA/1 SHOE-42/2");
    assert_eq!(keys(Some("AAA".into()), 10).await, "SHOE-42/2");
    assert_eq!(keys(Some("SHOE-42".into()), 10).await, "");
}

async fn holds_and_ledger_are_found_by_sku_state_and_order(test: TestDb) {
    fill(&test).await;
    test.change(&Needs::default(), NOW, |world| {
        world.ledger.push(entry(&warehouse(), "placed", 1));
        world.ledger.push(entry(&upstream(), "placed", 6));
        let mut reading = entry(&upstream(), "reading", 0);
        (reading.sku, reading.order, reading.hold) = (None, None, None);
        world.ledger.push(reading);
        let mut other = warehouse();
        other.id = "main:OTHER".into();
        world.ledger.push(entry(&other, "placed", 1));
    })
    .await
    .unwrap();
    let db = &test.db;
    let list = |filter: stock::HoldFilter, before: Option<stock::HoldKey>| async move {
        let found = stock::holds(db, &filter, before.as_ref(), 10).await.unwrap();
        let name = |(order, h): &(OrderId, _)| {
            let h: &stockhold::domain::order::Hold = h;
            format!("{order}.{}.{}", h.line, h.part)
        };
        found.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    let all = stock::HoldFilter::default;
    let whole = "o3.1.1 o2.1.1 o1.2.1 o1.1.3 o1.1.2 o1.1.1";
    assert_eq!(list(all(), None).await, whole);
    assert_eq!(list(stock::HoldFilter { sku: Some("OLD".into()), ..all() }, None).await, whole);
    assert_eq!(list(stock::HoldFilter { sku: Some("X".into()), ..all() }, None).await, "");
    let active = stock::HoldFilter { state: Some(HoldState::Active), ..all() };
    assert_eq!(list(active, None).await, "o3.1.1 o2.1.1 o1.2.1");
    let gone = stock::HoldFilter { state: Some(HoldState::Released), ..all() };
    assert_eq!(list(gone, None).await, "o1.1.3");
    let own = stock::HoldFilter { order: Some("o1".into()), ..all() };
    let before = stock::HoldKey { order: "o1".into(), line: 1, part: 3 };
    assert_eq!(list(own, Some(before)).await, "o1.1.2 o1.1.1");

    test.settled().await;
    let ledger = |filter: stock::LedgerFilter| async move {
        let found = stock::ledger(db, &filter, None, 10).await.unwrap();
        found.iter().map(|e| format!("{} {}", e.level, e.event)).collect::<Vec<_>>()
    };
    let item = "s1688:610947572360:b266e0";
    let (own, placed) = ("main:SHOE-42 placed", format!("{item} placed"));
    let reading = format!("{item} reading");
    let every = [own, &placed, &reading, "main:OTHER placed"];
    assert_eq!(ledger(stock::LedgerFilter::default()).await, every);
    for name in ["SHOE-42", "OLD"] {
        let filter = stock::LedgerFilter { sku: Some(name.into()), order: None };
        assert_eq!(ledger(filter).await, every[..3]);
    }
    let both = stock::LedgerFilter { sku: Some("OLD".into()), order: Some("o1".into()) };
    assert_eq!(ledger(both).await, every[..2]);

    let first = stock::ledger(db, &stock::LedgerFilter::default(), None, 1).await.unwrap();
    assert_eq!(first.len(), 2);
    assert_eq!((first[0].hold, first[0].by.held), (Some((1, 1)), 1));
    let after = stock::Position { writer: first[1].writer, seq: first[1].seq };
    let rest = stock::ledger(db, &stock::LedgerFilter::default(), Some(after), 10).await.unwrap();
    assert_eq!(rest.len(), 2);
    assert_eq!((rest[0].event.as_str(), &rest[0].order, rest[0].hold), ("reading", &None, None));
}

async fn a_skus_entries_are_found_however_far_apart(test: TestDb) {
    fill(&test).await;
    let empty = stock::LedgerFilter { sku: Some("SHOE-42".into()), order: None };
    test.settled().await;
    let before = stock::ledger(&test.db, &empty, None, 10).await.unwrap();
    assert_eq!(before, [], "nothing is told of an empty ledger");
    test.run(
        "INSERT INTO ledger (at, level_id, event, by_quantity, by_held, by_committed, note)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
         SELECT i, CASE WHEN i IN (1, 1023, 1025, 2047, 8999) THEN 'main:SHOE-42'
            WHEN i IN (2, 1024, 4000, 9000) THEN 's1688:610947572360:b266e0' ELSE 'main:OTHER' END,
            'correction', 1, 0, 0, '' FROM n ORDER BY i",
    )
    .await
    .unwrap();
    test.settled().await;
    let all = [1, 2, 1023, 1024, 1025, 2047, 4000, 8999, 9000];
    for limit in [1, 2, 3, 8, 9, 100] {
        let filter = stock::LedgerFilter { sku: Some("OLD".into()), order: None };
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let more = stock::ledger(&test.db, &filter, after, limit).await.unwrap();
            let rest = i64::try_from(all.len() - found.len()).unwrap();
            assert_eq!(i64::try_from(more.len()).unwrap(), rest.min(limit + 1));
            let page = more.iter().take(usize::try_from(limit).unwrap()).collect::<Vec<_>>();
            found.extend(page.iter().map(|e| e.at.0));
            let Some(last) = page.last().filter(|_| rest > limit) else { break };
            after = Some(stock::Position { writer: last.writer, seq: last.seq });
        }
        assert_eq!(found, all, "{limit} at a time");
    }
    let beyond = stock::Position { writer: i64::MAX, seq: i64::MAX };
    assert_eq!(stock::ledger(&test.db, &empty, Some(beyond), 10).await.unwrap(), []);
}

async fn a_supplier_shows_every_level_once(test: TestDb) {
    fill(&test).await;
    // More than one batch.
    test.change(&Needs::default(), NOW, |world| {
        for i in 0..1200 {
            let id = format!("s1688:{i}:").as_str().into();
            world.create_level(Level { id, ..upstream() });
        }
    })
    .await
    .unwrap();
    let mut seen = Vec::new();
    suppliers::each_level(&test.db, &source("s1688"), |level| seen.push(level.id.to_string()))
        .await
        .unwrap();
    assert_eq!(seen.len(), 1201);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1201);

    let unknown = suppliers::find(&test.db, &source("s2")).await.unwrap();
    assert_eq!((unknown.paused, unknown.last_sync_at), (Paused::default(), None));
    test.transact(|tx| {
        Box::pin(async move {
            let id = source("s1688");
            stockhold::storage::suppliers::synced(tx, &id, "suspect", "31 % less", Some(true), NOW)
                .await
        })
    })
    .await
    .unwrap();
    let row = suppliers::find(&test.db, &source("s1688")).await.unwrap();
    assert_eq!((row.last_sync_at, row.suspect_since), (Some(NOW), Some(NOW)));
    assert_eq!(row.last_sync_outcome.as_deref(), Some("suspect"));
}

async fn alerts_and_jobs_are_found_by_state(test: TestDb) {
    test.change(&Needs::default(), NOW, |world| {
        let open = |subject: &str| AlertChange::Open {
            kind: AlertKind::LowStock,
            subject: subject.into(),
            detail: "3 left".into(),
        };
        world.alerts.extend([open("A"), open("B")]);
        world.owe(Job::Sweep, at(5));
        world.owe(Job::Prune, at(6));
    })
    .await
    .unwrap();
    test.change(&Needs::default(), NOW, |world| {
        world.alerts.push(AlertChange::Close { kind: AlertKind::LowStock, subject: "A".into() });
    })
    .await
    .unwrap();
    let db = &test.db;
    let subjects = |open, before, limit| async move {
        let found = work::alerts(db, open, before, limit).await.unwrap();
        found.iter().map(|a| a.subject.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(subjects(None, None, 10).await, "B A");
    assert_eq!(subjects(Some(true), None, 10).await, "B");
    assert_eq!(subjects(Some(false), None, 10).await, "A");
    let newest = work::alerts(db, None, None, 10).await.unwrap()[0].id;
    assert_eq!(subjects(None, Some(newest), 10).await, "A");
    assert_eq!(work::alert(db, newest).await.unwrap().unwrap().subject, "B");
    assert_eq!(work::alert(db, 999).await.unwrap(), None);

    let kinds = |filter: work::JobFilter| async move {
        let found = work::jobs(db, &filter, None, 10).await.unwrap();
        found.iter().map(|j| j.kind.clone()).filter(|k| k != "alert").collect::<Vec<_>>().join(" ")
    };
    let all = work::JobFilter::default;
    assert_eq!(kinds(work::JobFilter { state: Some("dead"), ..all() }).await, "");
    assert_eq!(kinds(work::JobFilter { kind: Some("sweep".into()), ..all() }).await, "sweep");
    let ready = kinds(work::JobFilter { state: Some("ready"), ..all() }).await;
    let mut ready: Vec<&str> = ready.split(' ').collect();
    ready.sort_unstable();
    assert_eq!(ready, ["prune", "sweep"]);
    assert_eq!(work::job(db, 999).await.unwrap(), None);
}

async fn a_placement_has_a_chance_by_a_name_that_is_known_or_a_level_that_changed(test: TestDb) {
    fill(&test).await;
    let scope = |name: &str| ("shop".to_owned(), "/v1/orders".to_owned(), name.to_owned());
    let kept = Kept { body_hash: "b".into(), status: 200, body: "{}".into() };
    let keep = vec![Keep { scope: scope("k-kept"), kept, for_ever: false }];
    test.transact(move |tx| Box::pin(async move { groups::keep(tx, keep, NOW).await }))
        .await
        .unwrap();
    let new = || Names { channel: "web".into(), external_id: "new".into(), ..Names::default() };
    let named = |channel: &str, external_id: &str| Names {
        channel: channel.into(),
        external_id: external_id.into(),
        ..Names::default()
    };
    let keyed = |name: &str| Names { key: Some((format!("shop\n{name}"), scope(name))), ..new() };
    let elsewhere = ("desk".to_owned(), "/v1/orders".to_owned(), "k-kept".to_owned());
    let paid = |channel: &str, id: &str| Names {
        channel: channel.into(),
        payment_id: Some(id.into()),
        ..new()
    };
    let (shelf, theirs) = (warehouse(), upstream());
    let at = |versions: &[(&LevelId, i64)]| Names {
        versions: versions.iter().map(|(id, version)| ((*id).clone(), *version)).collect(),
        ..new()
    };
    let asked = vec![
        (named("web", "W-o2"), true),
        (named("app", "W-o2"), false),
        (named("app", "W-o3"), true),
        (new(), false),
        // The key of the order `o1`, one of an answer, and others.
        (keyed("k-1"), true),
        (keyed("k-kept"), true),
        (keyed("k-2"), false),
        (Names { key: Some(("desk\nk-kept".into(), elsewhere)), ..new() }, false),
        (paid("web", "pay-1-o1"), true),
        (paid("app", "pay-1-o1"), false),
        (paid("web", "pay-1-o9"), false),
        (named("", ""), false),
        (at(&[(&shelf.id, shelf.version)]), false),
        (at(&[(&shelf.id, shelf.version), (&theirs.id, theirs.version)]), false),
        (at(&[(&shelf.id, shelf.version), (&theirs.id, theirs.version - 1)]), true),
        (at(&[(&"main:gone".into(), 1)]), true),
    ];
    let (names, expected): (Vec<Names>, Vec<bool>) = asked.into_iter().unzip();
    assert_eq!(placements::have_chance(&test.db, names).await, Ok(expected));
    assert_eq!(placements::have_chance(&test.db, Vec::new()).await, Ok(Vec::new()));
}

async fn the_store_answers(test: TestDb) {
    assert_eq!(reads::ping(&test.db).await, Ok(()));
}

/// Takes a ledger number (and a transaction id) when told to, and commits when told to.
fn writer(
    test: &TestDb,
    note: &str,
) -> (oneshot::Sender<()>, oneshot::Receiver<()>, oneshot::Sender<()>, tokio::task::JoinHandle<()>)
{
    let begin: &'static Sql = Box::leak(Box::new(Sql::new(format!(
        "INSERT INTO command_groups (id, at) VALUES ('{note}', 0)"
    ))));
    let write: &'static Sql = Box::leak(Box::new(Sql::new(format!(
        "INSERT INTO ledger (at, level_id, event, by_quantity, by_held, by_committed, note)
         VALUES (0, 'l', 'e', 0, 0, 0, '{note}')"
    ))));
    let (write_now, told_to_write) = oneshot::channel::<()>();
    let (wrote, written) = oneshot::channel::<()>();
    let (commit_now, told_to_commit) = oneshot::channel::<()>();
    let db = test.db.clone();
    let task = tokio::spawn(async move {
        db.transact(move |tx| {
            Box::pin(async move {
                tx.run(begin, Vec::new()).await?;
                told_to_write.await.unwrap();
                tx.run(write, Vec::new()).await?;
                wrote.send(()).unwrap();
                told_to_commit.await.unwrap();
                Ok::<_, stockhold::storage::Error>(())
            })
        })
        .await
        .unwrap();
    });
    (write_now, written, commit_now, task)
}

/// Waits until so many transactions have taken an id.
async fn open_writers(test: &TestDb, count: i64) {
    let text = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_xid IS NOT NULL";
    loop {
        let found = test.numbers(text, Vec::new()).await;
        if found == [count] {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_the_ledger_passes_no_entry_that_commits_late() {
    let test = TestDb::postgres().await;
    // `early` takes its transaction id first and its number last; `late` the other way round.
    let (early_write, early_written, early_commit, early) = writer(&test, "early");
    open_writers(&test, 1).await;
    let (late_write, late_written, late_commit, late) = writer(&test, "late");
    open_writers(&test, 2).await;
    late_write.send(()).unwrap();
    late_written.await.unwrap();
    early_write.send(()).unwrap();
    early_written.await.unwrap();

    let all = stock::LedgerFilter::default();
    let seen = stock::ledger(&test.db, &all, None, 10).await.unwrap();
    assert_eq!(seen, []);
    early_commit.send(()).unwrap();
    early.await.unwrap();
    test.settled().await;
    let seen = stock::ledger(&test.db, &all, None, 10).await.unwrap();
    assert_eq!(seen.iter().map(|e| e.note.as_str()).collect::<Vec<_>>(), ["early"]);
    let after = stock::Position { writer: seen[0].writer, seq: seen[0].seq };
    late_commit.send(()).unwrap();
    late.await.unwrap();
    test.settled().await;
    let rest = stock::ledger(&test.db, &all, Some(after), 10).await.unwrap();
    assert_eq!(rest.iter().map(|e| e.note.as_str()).collect::<Vec<_>>(), ["late"]);
    assert!(rest[0].seq < seen[0].seq, "the case that numbers alone would lose");
}
