//! Groups by their id, and kept answers.

use std::collections::{BTreeMap, BTreeSet};

use stockhold::storage::groups::{self, Keep, Kept, Scope};
use stockhold::storage::{Db, Error};
use tokio::sync::oneshot;

use super::{TestDb, at, on_both};

on_both!(
    a_group_is_committed_once,
    a_repeat_waits_for_a_commit_under_way,
    a_repeat_goes_on_when_the_first_was_rolled_back,
    an_answer_is_kept_for_its_time,
    what_is_over_is_deleted_in_parts,
);

/// How a group of this name begins, at one second after the epoch.
pub fn opening(id: &str) -> groups::Opening {
    groups::Opening { id: id.to_owned(), now: Some(at(1)), after: None }
}

async fn begin(db: &Db, id: &'static str) -> Result<bool, Error> {
    db.transact(move |tx| Box::pin(async move { Ok(opening(id).begin(tx).await?.is_some()) })).await
}

async fn a_group_is_committed_once(test: TestDb) {
    assert_eq!(begin(&test.db, "g1").await, Ok(true));
    assert_eq!(begin(&test.db, "g1").await, Ok(false));
    assert_eq!(begin(&test.db, "g2").await, Ok(true));
}

/// One transaction has written the id and waits; a second asks for the same.
async fn race(test: &TestDb, first_ends_in: Result<(), Error>) -> Result<bool, Error> {
    let (written, is_written) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let db = test.db.clone();
    let ends_in = first_ends_in.clone();
    let first = tokio::spawn(async move {
        db.transact::<_, Error, _>(move |tx| {
            Box::pin(async move {
                assert!(opening("g").begin(tx).await?.is_some());
                written.send(()).unwrap();
                gone.await.unwrap();
                ends_in
            })
        })
        .await
    });
    is_written.await.unwrap();
    let db = test.db.clone();
    let second = tokio::spawn(async move { begin(&db, "g").await });
    // Whether or not the second has reached the database by now, its answer must be the same.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!second.is_finished(), "it waits for the first");
    go.send(()).unwrap();
    assert_eq!(first.await.unwrap(), first_ends_in);
    second.await.unwrap()
}

async fn a_repeat_waits_for_a_commit_under_way(test: TestDb) {
    assert_eq!(race(&test, Ok(())).await, Ok(false));
}

async fn a_repeat_goes_on_when_the_first_was_rolled_back(test: TestDb) {
    let failed = Err(Error::Poison("decided otherwise".into()));
    assert_eq!(race(&test, failed).await, Ok(true));
}

fn scope(key: &str) -> Scope {
    ("shop".into(), "/v1/orders/o1/refunds".into(), key.into())
}

fn answer(body: &str) -> Kept {
    Kept { body_hash: "h1".into(), status: 201, body: body.into() }
}

async fn keep(test: &TestDb, key: &str, body: &str, for_ever: bool, now: i64) -> Result<(), Error> {
    let keep = Keep { scope: scope(key), kept: answer(body), for_ever };
    test.transact(move |tx| Box::pin(async move { groups::keep(tx, vec![keep], at(now)).await }))
        .await
}

async fn kept(test: &TestDb, keys: &[&str], now: i64) -> BTreeMap<Scope, Kept> {
    let scopes: BTreeSet<Scope> = keys.iter().map(|k| scope(k)).collect();
    test.transact(move |tx| Box::pin(async move { groups::kept(tx, &scopes, at(now)).await }))
        .await
        .unwrap()
}

async fn an_answer_is_kept_for_its_time(test: TestDb) {
    const DAY: i64 = 86_400;
    keep(&test, "k1", "{\"a\":1}", false, 10).await.unwrap();
    keep(&test, "k2", "{}", true, 10).await.unwrap();
    let all = kept(&test, &["k1", "k2", "k3"], 11).await;
    assert_eq!(
        all,
        BTreeMap::from([(scope("k1"), answer("{\"a\":1}")), (scope("k2"), answer("{}"))])
    );
    let mut elsewhere = scope("k1");
    elsewhere.1 = "/v1/other".into();
    let none = test
        .transact(move |tx| {
            Box::pin(async move { groups::kept(tx, &BTreeSet::from([elsewhere]), at(11)).await })
        })
        .await
        .unwrap();
    assert!(none.is_empty());
    let taken = keep(&test, "k1", "{}", false, 12).await;
    assert!(matches!(taken, Err(Error::Retry(_))), "{taken:?}");
    let last = DAY + 9;
    assert_eq!(kept(&test, &["k1"], last).await.len(), 1);
    assert_eq!(kept(&test, &["k1", "k2"], DAY + 10).await.len(), 1);
    keep(&test, "k1", "{\"b\":2}", false, DAY + 10).await.unwrap();
    let again = kept(&test, &["k1"], DAY + 11).await;
    assert_eq!(again[&scope("k1")], answer("{\"b\":2}"));
}

async fn what_is_over_is_deleted_in_parts(test: TestDb) {
    for id in ["a", "b", "c"] {
        begin(&test.db, id).await.unwrap();
    }
    keep(&test, "k1", "{}", false, 10).await.unwrap();
    keep(&test, "k2", "{}", true, 10).await.unwrap();
    let prune = |now: i64| {
        test.transact(move |tx| Box::pin(async move { groups::prune(tx, at(now), 2).await }))
    };
    assert_eq!(prune(3600).await, Ok(0));
    assert_eq!(prune(3601).await, Ok(2));
    assert_eq!(prune(3601).await, Ok(1));
    assert_eq!(prune(86_410).await, Ok(1));
    assert_eq!(prune(99_999_999).await, Ok(0));
    assert_eq!(kept(&test, &["k2"], 99_999_999).await.len(), 1);
}
