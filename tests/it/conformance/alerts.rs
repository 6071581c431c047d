//! Alerts: open once, told once, reminded by the day.

use std::collections::BTreeSet;

use stockhold::clock::{Span, Timestamp};
use stockhold::domain::alert::{AlertChange, AlertKind};
use stockhold::domain::command::Needs;
use stockhold::storage::alerts;

use super::{TestDb, at, on_both};

on_both!(
    an_alert_is_open_once_and_told_once,
    the_last_word_of_a_group_counts,
    a_reminder_comes_once_a_period_until_acknowledged,
    two_groups_that_open_the_same_alert_make_one,
    what_was_closed_long_ago_is_deleted_and_nothing_else,
);

fn open(subject: &str) -> AlertChange {
    AlertChange::Open {
        kind: AlertKind::LowStock,
        subject: subject.into(),
        detail: "3 left".into(),
    }
}

fn close(subject: &str) -> AlertChange {
    AlertChange::Close { kind: AlertKind::LowStock, subject: subject.into() }
}

async fn say(test: &TestDb, now: Timestamp, changes: Vec<AlertChange>) {
    test.change(&Needs::default(), now, move |world| world.alerts = changes).await.unwrap();
}

/// What is owed to the channels.
async fn told(test: &TestDb) -> BTreeSet<String> {
    test.transact(|tx| {
        Box::pin(async move {
            stockhold::storage::jobs::list(tx, None, Some("alert".into()), None, 100).await
        })
    })
    .await
    .unwrap()
    .into_iter()
    .map(|job| job.key)
    .collect()
}

fn keys(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|k| (*k).to_owned()).collect()
}

async fn list(test: &TestDb, open_only: bool) -> Vec<alerts::Alert> {
    test.db
        .read(move |tx| Box::pin(async move { alerts::list(tx, open_only, None, 50).await }))
        .await
        .unwrap()
}

async fn what_was_closed_long_ago_is_deleted_and_nothing_else(test: TestDb) {
    say(&test, at(0), ["A", "B", "C", "D"].map(open).to_vec()).await;
    say(&test, at(10), vec![close("B"), close("A")]).await;
    say(&test, at(20), vec![close("C")]).await;
    let prune = |now: Timestamp| {
        test.transact(move |tx| Box::pin(async move { alerts::prune(tx, now, 1).await }))
    };
    let kept = Span::days(90);
    assert_eq!(prune(at(10) + kept - Span::micros(1)).await, Ok(0));
    assert_eq!(prune(at(10) + kept).await, Ok(1), "one at a time");
    assert_eq!(prune(at(10) + kept).await, Ok(1));
    assert_eq!(prune(at(10) + kept).await, Ok(0));
    let left: Vec<String> = list(&test, false).await.into_iter().map(|a| a.subject).collect();
    assert_eq!(left, ["D", "C"]);
    assert_eq!(prune(at(0) + Span::days(900)).await, Ok(1), "an open one stays");
    assert_eq!(list(&test, true).await.len(), 1);
}

async fn an_alert_is_open_once_and_told_once(test: TestDb) {
    say(&test, at(10), vec![open("A"), open("B"), close("C")]).await;
    say(&test, at(20), vec![open("A"), open("A")]).await;
    assert_eq!(told(&test).await, keys(&["alert:1:opened", "alert:2:opened"]));
    say(&test, at(30), vec![close("A")]).await;
    say(&test, at(40), vec![close("A")]).await;
    say(&test, at(50), vec![open("A")]).await;
    let all = list(&test, false).await;
    let seen: Vec<_> = all.iter().map(|a| (a.subject.as_str(), a.opened_at, a.closed_at)).collect();
    assert_eq!(seen, vec![("A", at(50), None), ("B", at(10), None), ("A", at(10), Some(at(30)))]);
    let newest = all[0].id;
    let reopened = format!("alert:{newest}:opened");
    let expected = ["alert:1:opened", "alert:2:opened", "alert:1:closed", &reopened];
    assert_eq!(told(&test).await, keys(&expected));
    assert_eq!(list(&test, true).await.len(), 2);
    let one = test
        .transact(move |tx| Box::pin(async move { alerts::read(tx, newest).await }))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((one.kind, one.detail.as_str()), (AlertKind::LowStock, "3 left"));
}

async fn the_last_word_of_a_group_counts(test: TestDb) {
    say(&test, at(10), vec![open("A"), close("A"), close("B"), open("B")]).await;
    let open_now = list(&test, true).await;
    assert_eq!(open_now.len(), 1);
    assert_eq!(open_now[0].subject, "B");
}

async fn a_reminder_comes_once_a_period_until_acknowledged(test: TestDb) {
    let day = 86_400;
    say(&test, at(10), vec![open("A"), open("B"), open("C")]).await;
    say(&test, at(20), vec![close("C")]).await;
    let remind = |now: i64| {
        test.transact(move |tx| {
            Box::pin(async move { alerts::remind(tx, Span::days(1), at(now)).await })
        })
    };
    assert_eq!(remind(day + 9).await.unwrap(), 0);
    assert_eq!(remind(day + 10).await.unwrap(), 2);
    assert_eq!(remind(day + 11).await.unwrap(), 0);
    assert!(told(&test).await.contains("alert:1:reminder:1"));
    let ids: Vec<i64> = list(&test, true).await.iter().map(|a| a.id).collect();
    let first = ids[0];
    for now in [day + 20, day + 30] {
        let seen = test
            .transact(move |tx| {
                Box::pin(async move { alerts::acknowledge(tx, first, at(now)).await })
            })
            .await;
        assert_eq!(seen, Ok(true));
    }
    let none = test
        .transact(|tx| Box::pin(async move { alerts::acknowledge(tx, 999, at(5)).await }))
        .await;
    assert_eq!(none, Ok(false));
    assert_eq!(remind(2 * day + 10).await.unwrap(), 1);
    let alert = list(&test, true).await.remove(0);
    assert_eq!(alert.acknowledged_at, Some(at(day + 20)), "the first time stays");
}

async fn two_groups_that_open_the_same_alert_make_one(test: TestDb) {
    let both = (0..2).map(|_| say(&test, at(10), vec![open("A"), open("B")]));
    futures::future::join_all(both).await;
    assert_eq!(list(&test, false).await.len(), 2);
    assert_eq!(told(&test).await.len(), 2);
}
