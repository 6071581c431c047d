//! The jobs on the engine and a real database: deadlines, syncs, watermarks, alerts.

use std::time::Duration;

use stockhold::clock::Span;
use stockhold::domain::alert::AlertKind;
use stockhold::domain::command::Command;
use stockhold::domain::job::Job;
use stockhold::domain::names::{LevelId, SkuKey};
use stockhold::domain::order::State;
use stockhold::domain::sku::{Sku, Watermark};
use stockhold::domain::stock::{Level, Listing};
use stockhold::domain::supply::Figure;
use stockhold::domain::watermark::{Caution, Tally};
use stockhold::jobs::{self};
use stockhold::storage::pages;

use super::START;
use super::shop::Shop;
use crate::conformance::{TestDb, on_both};
on_both!(
    an_unpaid_order_is_ended_by_the_job_of_its_second,
    the_sweep_ends_what_a_lost_deadline_job_did_not,
    the_job_of_a_second_leaves_what_was_due_before_to_the_sweep,
    one_bad_order_stops_no_other_and_is_told_once,
    a_whole_feed_is_believed,
    a_suspect_feed_changes_nothing_alerts_once_and_can_be_accepted,
    a_feed_that_cannot_be_had_is_not_suspect_and_waits_for_its_slot,
    an_outage_is_one_alert_until_the_figures_are_fresh_again,
    no_alert_opens_by_figures_that_have_been_replaced,
    a_swinging_stock_makes_three_events_and_the_same_figure_none,
    an_alert_that_stays_open_is_repeated_once_a_day,
    a_dead_job_is_told_until_it_is_retried,
    a_channel_that_fails_is_tried_again_alone,
    stock_that_runs_dry_is_seen_after_the_commit_without_a_schedule,
    each_supplier_is_synced_at_the_start_whatever_the_slots_say,
    skus_are_found_by_their_levels,
    only_skus_that_may_be_low_are_looked_at,
);

fn none() -> Watermark {
    Watermark { low: Some(0), recover: Some(1) }
}

async fn an_unpaid_order_is_ended_by_the_job_of_its_second(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 3, none()).await;
    shop.run();
    shop.place("o1", "SHOE", 2).await;
    assert_eq!(shop.levels("main").await[0].held, 2);
    shop.clock.advance(Span::minutes(30) - Span::micros(1));
    shop.settle().await;
    assert_eq!(shop.order("o1").await.state, State::PendingPayment);
    shop.clock.advance(Span::micros(1));
    shop.settle().await;
    assert_eq!(shop.order("o1").await.state, State::Expired);
    assert_eq!(shop.levels("main").await[0].held, 0);
    shop.stop().await;
}

async fn the_sweep_ends_what_a_lost_deadline_job_did_not(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 3, none()).await;
    shop.place("o1", "SHOE", 2).await;
    shop.place("o2", "SHOE", 1).await;
    assert_eq!(shop.test.run("DELETE FROM jobs").await, Ok(1));
    shop.clock.advance(Span::hours(1));
    shop.run();
    shop.do_now(Job::Sweep).await;
    assert_eq!(shop.order("o1").await.state, State::Expired);
    assert_eq!(shop.order("o2").await.state, State::Expired);
    assert_eq!(shop.levels("main").await[0].held, 0);
    shop.stop().await;
}

async fn the_job_of_a_second_leaves_what_was_due_before_to_the_sweep(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 3, none()).await;
    shop.place("o1", "SHOE", 1).await;
    shop.clock.advance(Span::secs(10));
    shop.place("o2", "SHOE", 1).await;
    let keys: Vec<String> = shop.jobs().await.into_iter().map(|job| job.key).collect();
    let first = keys.iter().min().expect("a job of the first second");
    assert_eq!(shop.test.run(&format!("DELETE FROM jobs WHERE key = '{first}'")).await, Ok(1));
    shop.clock.advance(Span::minutes(31));
    shop.run();
    shop.settle().await;
    assert_eq!(shop.order("o2").await.state, State::Expired);
    assert_eq!(shop.order("o1").await.state, State::PendingPayment);
    shop.do_now(Job::Sweep).await;
    assert_eq!(shop.order("o1").await.state, State::Expired);
    assert_eq!(shop.levels("main").await[0].held, 0);
    shop.stop().await;
}

async fn one_bad_order_stops_no_other_and_is_told_once(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 10, none()).await;
    for id in ["o1", "o2", "o3"] {
        shop.place(id, "SHOE", 1).await;
    }
    let spoil = "UPDATE orders SET customer = '{' WHERE id = 'o2'";
    assert_eq!(shop.test.run(spoil).await, Ok(1));
    shop.run();
    shop.clock.advance(Span::minutes(31));
    shop.settle().await;
    assert_eq!(shop.order("o1").await.state, State::Expired);
    assert_eq!(shop.order("o3").await.state, State::Expired);
    assert_eq!(shop.levels("main").await[0].held, 1);

    shop.do_now(Job::Sweep).await;
    assert_eq!(shop.alerts(AlertKind::ReleaseFailing).await, [], "only for a minute so far");
    for _ in 0..3 {
        shop.clock.advance(Span::minutes(2));
        shop.do_now(Job::Sweep).await;
    }
    let failing = shop.alerts(AlertKind::ReleaseFailing).await;
    assert_eq!(failing.len(), 1);
    assert_eq!(failing[0].detail, "1 orders are past their deadline and cannot be ended: o2");

    let mend = "UPDATE orders SET customer = NULL WHERE id = 'o2'";
    assert_eq!(shop.test.run(mend).await, Ok(1));
    shop.do_now(Job::Sweep).await;
    assert_eq!(shop.order("o2").await.state, State::Expired);
    assert!(shop.alerts(AlertKind::ReleaseFailing).await[0].closed_at.is_some());
    shop.stop().await;
}

const OFFERS: [&str; 10] = ["11", "12", "13", "14", "15", "16", "17", "18", "19", "20"];

async fn believed(shop: &Shop) -> Vec<(i64, Listing)> {
    shop.levels("s1").await.into_iter().map(|l| (l.quantity, l.listing)).collect()
}

async fn a_whole_feed_is_believed(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.feed.figures.lock().expect("ok").insert("12".into(), Figure::Listed(0));
    shop.feed.figures.lock().expect("ok").insert("13".into(), Figure::Missing);
    shop.feed.figures.lock().expect("ok").insert("14".into(), Figure::Unknown("torn".into()));
    shop.run();
    shop.do_now(Job::Sync { supplier: "s1".into() }).await;
    let believed = believed(&shop).await;
    assert_eq!(
        believed[..4],
        [(5, Listing::Listed), (0, Listing::Listed), (0, Listing::Missing), (0, Listing::Unread)]
    );
    assert_eq!(shop.alerts(AlertKind::FeedSuspect).await, []);
    shop.stop().await;
}

async fn a_suspect_feed_changes_nothing_alerts_once_and_can_be_accepted(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.run();
    let sync = Job::Sync { supplier: "s1".into() };
    shop.do_now(sync.clone()).await;
    for gone in ["11", "12", "13", "14"] {
        shop.feed.figures.lock().expect("ok").remove(gone);
    }
    for _ in 0..3 {
        shop.clock.advance(Span::minutes(10));
        shop.do_now(sync.clone()).await;
        assert_eq!(believed(&shop).await, [(5, Listing::Listed); 10]);
    }
    let alerts = shop.alerts(AlertKind::FeedSuspect).await;
    assert_eq!(alerts.len(), 1);
    assert_eq!(
        alerts[0].detail,
        "4 of 10 listed items are gone, more than 30 %; 6 listed, 4 missing, 0 unknown"
    );
    assert!(alerts[0].closed_at.is_none());

    shop.do_now(Job::AcceptFeed { supplier: "s1".into() }).await;
    let missing = believed(&shop).await.iter().filter(|l| l.1 == Listing::Missing).count();
    assert_eq!(missing, 4);
    assert!(shop.alerts(AlertKind::FeedSuspect).await[0].closed_at.is_some());

    // From here on the six are the whole feed.
    shop.clock.advance(Span::minutes(10));
    shop.do_now(sync).await;
    assert_eq!(shop.alerts(AlertKind::FeedSuspect).await.len(), 1);
    shop.stop().await;
}

async fn a_feed_that_cannot_be_had_is_not_suspect_and_waits_for_its_slot(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(vec![("11", Figure::Listed(5))]).await;
    *shop.feed.down.lock().expect("ok") = true;
    shop.run();
    let sync = Job::Sync { supplier: "s1".into() };
    shop.do_now(sync.clone()).await;
    assert_eq!(shop.alerts(AlertKind::FeedSuspect).await, []);
    let owed = shop.jobs().await.into_iter().find(|job| job.key == sync.key());
    assert_eq!(owed, None, "nothing before the next slot");

    *shop.feed.down.lock().expect("ok") = false;
    shop.do_now(sync.clone()).await;
    assert_eq!(believed(&shop).await, [(5, Listing::Listed)]);
    // All of it gone is suspect, and an outage does not make it good.
    shop.feed.figures.lock().expect("ok").clear();
    for down in [false, true] {
        *shop.feed.down.lock().expect("ok") = down;
        shop.clock.advance(Span::minutes(10));
        shop.do_now(sync.clone()).await;
        let suspect = shop.alerts(AlertKind::FeedSuspect).await;
        assert_eq!(suspect.len(), 1);
        assert_eq!(suspect[0].closed_at, None);
        assert_eq!(believed(&shop).await, [(5, Listing::Listed)]);
    }
    shop.stop().await;
}

async fn an_outage_is_one_alert_until_the_figures_are_fresh_again(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.run();
    let sync = Job::Sync { supplier: "s1".into() };
    shop.do_now(sync.clone()).await;
    // Fresh until L + 1.2 × I = 13 minutes after the as_of, which is a minute before the reading.
    shop.clock.advance(Span::minutes(12));
    shop.do_now(Job::Watermark).await;
    assert_eq!(shop.alerts(AlertKind::FeedStale).await, []);
    for _ in 0..3 {
        shop.clock.advance(Span::minutes(10));
        shop.do_now(Job::Watermark).await;
    }
    let stale = shop.alerts(AlertKind::FeedStale).await;
    assert_eq!(stale.len(), 1);
    assert_eq!(stale[0].subject, "s1");
    assert!(stale[0].detail.starts_with("10 of 10 items"), "{}", stale[0].detail);
    shop.do_now(sync).await;
    assert!(shop.alerts(AlertKind::FeedStale).await[0].closed_at.is_some());
    assert_eq!(shop.told(0, AlertKind::FeedStale), ["opened", "closed"]);
    shop.stop().await;
}

/// Whoever looked without locks may come with what he saw after a reading or a restock was stored.
async fn no_alert_opens_by_figures_that_have_been_replaced(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.stock("SHOE", 2, Watermark { low: Some(6), recover: Some(8) }).await;
    shop.run();
    let sync = Job::Sync { supplier: "s1".into() };
    shop.do_now(sync.clone()).await;
    shop.clock.advance(Span::minutes(20));
    let mut tally = Tally::of(10);
    let now = shop.clock.now();
    shop.levels("s1").await.iter().for_each(|level| tally.look_at(level, &shop.deps.policy, now));
    assert_eq!(tally.samples().count(), 10);
    let stale = || Command::FeedStale { supplier: "s1".into(), tally: tally.clone() };
    let low = || Command::LowStock { skus: vec!["SHOE".into()] };

    shop.do_now(sync).await;
    shop.submit(stale()).await;
    assert_eq!(shop.alerts(AlertKind::FeedStale).await, []);
    shop.count_to("SHOE", 7).await;
    shop.submit(low()).await;
    assert_eq!(shop.alerts(AlertKind::LowStock).await, [], "between the limits");

    // What still is as it was seen is told; the gap between the readings has stretched the limit.
    shop.clock.advance(Span::hours(2));
    shop.submit(stale()).await;
    shop.count_to("SHOE", 5).await;
    shop.submit(low()).await;
    shop.settle().await;
    assert_eq!(shop.told(0, AlertKind::FeedStale), ["opened"]);
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened"]);
    shop.count_to("SHOE", 8).await;
    shop.submit(low()).await;
    shop.settle().await;
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened", "closed"]);
    shop.stop().await;
}

async fn a_swinging_stock_makes_three_events_and_the_same_figure_none(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 10, Watermark { low: Some(6), recover: Some(8) }).await;
    shop.run();
    for left in [6, 5, 6, 4, 6, 5, 6, 8, 5] {
        shop.clock.advance(Span::minutes(10));
        shop.count_to("SHOE", left).await;
        shop.do_now(Job::Watermark).await;
    }
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened", "closed", "opened"]);
    let opened = shop.alerts(AlertKind::LowStock).await;
    let times: Vec<i64> = opened.iter().map(|a| a.opened_at.since(START).as_secs() / 600).collect();
    assert_eq!(times, [2, 9], "at the first 5 and at the last");

    for _ in 0..20 {
        shop.count_to("SHOE", 5).await;
        shop.do_now(Job::Watermark).await;
    }
    assert_eq!(shop.told(0, AlertKind::LowStock).len(), 3);
    shop.stop().await;
}

async fn an_alert_that_stays_open_is_repeated_once_a_day(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 2, Watermark { low: Some(5), recover: Some(8) }).await;
    shop.run();
    for _ in 0..49 {
        shop.do_now(Job::Watermark).await;
        shop.clock.advance(Span::hours(1));
    }
    // Opened at hour 0; hours 24 and 48 fall into the 49 looks.
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened", "reminder", "reminder"]);
    let ids: std::collections::BTreeSet<String> = {
        let told = shop.channels[0].told.lock().expect("ok");
        told.iter().map(|t| t.0.clone()).collect()
    };
    assert_eq!(ids.len(), 3, "{ids:?}");
    shop.stop().await;
}

async fn a_dead_job_is_told_until_it_is_retried(test: TestDb) {
    let mut shop = Shop::on(test);
    let gone = Job::Recheck { purchase: "o1-gone-1".into(), lost_at: START, step: 0 };
    shop.run();
    shop.do_now(gone.clone()).await;
    // Another was parked by its payload, before any handler saw it.
    shop.owe(Job::Refund { refund: "r1".into() }).await;
    let spoil = "UPDATE jobs SET state = 'dead', payload = '{}' WHERE kind = 'refund'";
    shop.stop().await;
    shop.test.run(spoil).await.expect("spoilt");
    assert_eq!(shop.alerts(AlertKind::JobDead).await.len(), 1);
    shop.run();
    shop.do_now(Job::Watermark).await;
    let open = shop.alerts(AlertKind::JobDead).await;
    let open: Vec<(&str, bool)> =
        open.iter().map(|a| (a.subject.as_str(), a.closed_at.is_none())).collect();
    assert_eq!(open, [(gone.key().as_str(), true), ("refund:r1", true)]);

    shop.test.run("DELETE FROM jobs WHERE state = 'dead'").await.expect("deleted");
    shop.do_now(Job::Watermark).await;
    let open = shop.alerts(AlertKind::JobDead).await;
    assert!(open.iter().all(|alert| alert.closed_at.is_some()), "{open:?}");
    shop.stop().await;
}

async fn a_channel_that_fails_is_tried_again_alone(test: TestDb) {
    let mut shop = Shop::on(test);
    *shop.channels[1].failing.lock().expect("ok") = 2;
    shop.stock("SHOE", 2, Watermark { low: Some(5), recover: Some(8) }).await;
    shop.run();
    shop.do_now(Job::Watermark).await;
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened"]);
    assert_eq!(shop.told(1, AlertKind::LowStock), Vec::<String>::new());
    let waiting = shop.jobs().await.into_iter().find(|j| j.kind == "tell").expect("there");
    assert_eq!(waiting.last_error.as_deref(), Some("b: answered 500"));
    for _ in 0..2 {
        shop.clock.advance(Span::secs(10));
        shop.settle().await;
    }
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened"]);
    assert_eq!(shop.told(1, AlertKind::LowStock), ["opened"]);
    shop.stop().await;
}

async fn stock_that_runs_dry_is_seen_after_the_commit_without_a_schedule(test: TestDb) {
    let shop = Shop::on(test);
    shop.stock("SHOE", 10, Watermark { low: Some(5), recover: Some(8) }).await;
    let stopping = tokio_util::sync::CancellationToken::new();
    let tasks = jobs::tasks(&shop.deps, "a".to_owned(), &stopping);
    let tasks: Vec<_> = tasks.into_iter().map(|(_, task)| tokio::spawn(task)).collect();
    // The first round of every schedule.
    tokio::time::sleep(Duration::from_millis(50)).await;
    shop.settle().await;
    // The clock stands still: no slot is due any more.
    shop.place("o1", "SHOE", 6).await;
    assert_eq!(told_at_last(&shop, 1).await, ["opened"]);
    assert_eq!(shop.alerts(AlertKind::LowStock).await[0].detail, "4 left, below 5");
    // Enough again, and looked at nevertheless, as it is told.
    shop.count_to("SHOE", 14).await;
    assert_eq!(told_at_last(&shop, 2).await, ["opened", "closed"]);
    stopping.cancel();
    for task in tasks {
        task.await.expect("joins").expect("ends well");
    }
}

/// What is told of SKUs that run low, once it is so much.
async fn told_at_last(shop: &Shop, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..1_000 {
        told = shop.told(0, AlertKind::LowStock);
        if told.len() >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    told
}

async fn each_supplier_is_synced_at_the_start_whatever_the_slots_say(test: TestDb) {
    let shop = Shop::on(test);
    shop.offers(vec![("11", Figure::Listed(5))]).await;
    // This slot was ticked before the restart.
    let mut before = jobs::schedule::Ticker::new(shop.deps.clone());
    before.tick().await;
    assert!(shop.test.run("DELETE FROM jobs").await.expect("deleted") > 0);
    let stopping = tokio_util::sync::CancellationToken::new();
    let tasks = jobs::tasks(&shop.deps, "a".to_owned(), &stopping);
    let tasks: Vec<_> = tasks.into_iter().map(|(_, task)| tokio::spawn(task)).collect();
    for _ in 0..1_000 {
        if believed(&shop).await == [(5, Listing::Listed)] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(believed(&shop).await, [(5, Listing::Listed)]);
    stopping.cancel();
    for task in tasks {
        task.await.expect("joins").expect("ends well");
    }
}

async fn skus_are_found_by_their_levels(test: TestDb) {
    let shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.stock("SHOE", 4, none()).await;
    let read = shop.test.db.read(|tx| {
        Box::pin(async move {
            pages::skus_of_levels(tx, &["s1:12:".into(), "main:SHOE".into(), "x:y:".into()]).await
        })
    });
    let found: Vec<(Sku, Vec<Level>)> = read.await.expect("read");
    let found: Vec<(&str, i64)> =
        found.iter().map(|(sku, levels)| (sku.key.as_str(), levels[0].quantity)).collect();
    assert_eq!(found, [("SHOE", 4), ("SKU-12", 0)]);
}

/// What is surely enough is passed over; whatever may be low is named, page by page.
async fn only_skus_that_may_be_low_are_looked_at(test: TestDb) {
    let mut shop = Shop::on(test);
    // The policy's limit is 5, the supplier's buffer 2.
    let own = |low| Watermark { low: Some(low), recover: None };
    shop.stock("A-4", 4, Watermark::default()).await;
    shop.stock("B-5", 5, Watermark::default()).await;
    shop.stock("C-5-OWN-6", 5, own(6)).await;
    shop.stock("D-0-OWN-0", 0, own(0)).await;
    shop.stock("E-9-HELD-5", 9, Watermark::default()).await;
    shop.place("o1", "E-9-HELD-5", 5).await;
    shop.stock("F-90-BUFFER-88", 90, Watermark::default()).await;
    let buffer = "UPDATE sku_sources SET buffer = 88 WHERE sku = 'F-90-BUFFER-88'";
    assert_eq!(shop.test.run(buffer).await.expect("set"), 1);
    shop.offers(vec![("1", Figure::Listed(5)), ("2", Figure::Listed(8)), ("3", Figure::Missing)])
        .await;
    shop.test
        .run("UPDATE skus SET low = NULL, recover = NULL WHERE key LIKE 'SKU-%'")
        .await
        .expect("set");
    let all = ["A-4", "C-5-OWN-6", "E-9-HELD-5", "F-90-BUFFER-88", "SKU-1", "SKU-2", "SKU-3"];
    assert_eq!(scarce(&shop, 100).await, [all.to_vec()], "what was never read is looked at");
    // Both levels of a SKU are found, and that one of them is enough.
    let second =
        "INSERT INTO sku_sources (sku, position, source, kind, level_id, min_quantity, pack_size)
        VALUES ('A-4', 2, 'other', 'warehouse', 'main:B-5', 1, 1)";
    shop.test.run(second).await.expect("added");
    assert_eq!(scarce(&shop, 100).await, [all[1..].to_vec()]);
    shop.test.run("DELETE FROM sku_sources WHERE position = 2").await.expect("deleted");
    shop.run();
    shop.do_now(Job::Sync { supplier: "s1".into() }).await;
    assert_eq!(
        scarce(&shop, 2).await,
        [
            vec!["A-4"],
            vec!["C-5-OWN-6"],
            vec!["E-9-HELD-5", "F-90-BUFFER-88"],
            vec!["SKU-1"],
            vec!["SKU-3"]
        ]
    );
    shop.stop().await;
}

/// Pages of so many levels, and which of them may be low.
async fn scarce(shop: &Shop, limit: i64) -> Vec<Vec<String>> {
    let caution = Caution { low: 5, buffer: 2 };
    let mut pages = Vec::new();
    let mut after: Option<LevelId> = None;
    loop {
        let read = shop.test.db.read(move |tx| {
            Box::pin(async move { pages::scarce(tx, caution, after.as_ref(), limit).await })
        });
        let read: stockhold::storage::Result<(Vec<SkuKey>, Option<LevelId>)> = read.await;
        let (mut found, last) = read.expect("read");
        if last.is_none() {
            return pages;
        }
        after = last;
        found.sort();
        pages.push(found.iter().map(SkuKey::to_string).collect());
    }
}
