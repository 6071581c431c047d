//! What two replicas know of each other; on one machine they are one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stockhold::clock::Span;
use stockhold::coordination::{Coordination, Holder, Submission, Wait};
use stockhold::domain::names::LevelId;
use stockhold::domain::stock::Level;

use super::{Pair, level, placement};
use crate::blackbox::daemon::eventually;

/// Declares each named `async fn(Pair)` as a test on either; the number is the limit.
macro_rules! on_both {
    ($($name:ident: $limit:literal),+ $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Pair::in_memory($limit).await).await;
            })+
        }
        mod redis {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Pair::over_redis($limit).await).await;
            })+
        }
    };
}

on_both! {
    requests_are_counted_together: 5,
    an_odd_limit_is_given_whole: 7,
    without_a_limit_all_are_let_in: 0,
    an_accepted_order_is_known_to_the_other: 0,
    an_order_that_was_not_accepted_is_not_in_the_way: 0,
    what_one_read_the_other_shows: 0,
    what_was_read_long_ago_is_not_kept: 0,
    an_older_figure_never_replaces_a_newer_one: 0,
    what_was_committed_is_shown_as_it_was_committed: 0,
    a_key_is_kept_from_others_and_passes_to_a_successor: 0,
    a_key_lapses: 0,
}

async fn requests_are_counted_together(pair: Pair) {
    let key: Arc<str> = format!("key-{:x}", rand::random::<u64>()).into();
    let started = Instant::now();
    let mut admitted = 0;
    for turn in 0..40 {
        let replica = if turn % 2 == 0 { &pair.a } else { &pair.b };
        match replica.admit(&key).await {
            Ok(()) => admitted += 1,
            Err(wait) => {
                assert!(wait.0 <= Duration::from_millis(200), "{wait:?}");
                assert_eq!(wait.secs(), 1);
            }
        }
    }
    // Five at once, and then one each 200 ms; each on its own would have let in ten.
    let later = u32::try_from(started.elapsed().as_millis() / 200).expect("soon");
    let rate = pair.requests_per_second;
    assert!((rate..=rate + later + 1).contains(&admitted), "{admitted} and {later} later");
    let other: Arc<str> = format!("key-{:x}", rand::random::<u64>()).into();
    assert_eq!(pair.b.admit(&other).await, Ok(()));
}

/// 1/7 s is no whole number of microseconds.
async fn an_odd_limit_is_given_whole(pair: Pair) {
    let key: Arc<str> = format!("key-{:x}", rand::random::<u64>()).into();
    for n in 1..=pair.requests_per_second {
        assert_eq!(pair.a.admit(&key).await, Ok(()), "the {n}th of 7");
    }
}

async fn without_a_limit_all_are_let_in(pair: Pair) {
    for _ in 0..1_000 {
        assert_eq!(pair.a.admit(&"shop".into()).await, Ok(()));
    }
}

async fn known(replica: &Coordination, external_id: &str, customer: &str) -> Option<Wait> {
    let submission = Submission::of(&placement(external_id, customer)).expect("a customer");
    replica.submit(submission).await.duplicate_for
}

async fn an_accepted_order_is_known_to_the_other(pair: Pair) {
    let started = Instant::now();
    let submission = Submission::of(&placement("W-1", "c-17")).expect("a customer");
    let submitted = pair.a.submit(submission).await;
    assert_eq!(submitted.duplicate_for, None);
    submitted.accepted().await;
    for replica in [&pair.a, &pair.b] {
        let wait = known(replica, "W-2", "c-17").await;
        if started.elapsed() < Duration::from_secs(3) {
            let wait = wait.expect("known");
            assert!((1..=3).contains(&wait.secs()), "{wait:?}");
        }
        assert_eq!(known(replica, "W-1", "c-17").await, None, "its own repeat");
        assert_eq!(known(replica, "W-2", "c-18").await, None, "another customer");
    }
    for replica in [&pair.a, &pair.b] {
        eventually("it is forgotten", async || known(replica, "W-2", "c-17").await.is_none()).await;
    }
}

async fn an_order_that_was_not_accepted_is_not_in_the_way(pair: Pair) {
    assert_eq!(known(&pair.a, "W-1", "c-17").await, None);
    assert_eq!(known(&pair.a, "W-2", "c-17").await, None);
    assert_eq!(known(&pair.b, "W-3", "c-17").await, None);
}

async fn shown(replica: &Coordination, id: &str) -> Option<Arc<Level>> {
    let mut levels: BTreeMap<LevelId, Arc<Level>> = replica.levels(&[id.into()].into()).await;
    levels.remove(&LevelId::from(id))
}

async fn version(replica: &Coordination, id: &str) -> Option<i64> {
    shown(replica, id).await.map(|level| level.version)
}

async fn what_one_read_the_other_shows(pair: Pair) {
    assert_eq!(version(&pair.b, "main:A").await, None);
    let (begun, started) = (pair.a.begin(), Instant::now());
    let whole = Level { held: 3, committed: 4, ..level("main:A", 2) };
    pair.a.keep(begun, Vec::new(), vec![whole.clone(), level("main:B", 1)]).await;
    let seen = shown(&pair.b, "main:A").await;
    if started.elapsed() < Duration::from_secs(5) {
        assert_eq!(seen.as_deref(), Some(&whole));
        assert_eq!(version(&pair.a, "main:B").await, Some(1));
    }
    for replica in [&pair.a, &pair.b] {
        let gone = async || version(replica, "main:A").await.is_none();
        eventually("it is too old to be shown", gone).await;
    }
}

async fn what_was_read_long_ago_is_not_kept(pair: Pair) {
    let begun = pair.a.begin();
    tokio::time::sleep(Duration::from_secs(5)).await;
    pair.a.keep(begun, Vec::new(), vec![level("main:A", 1)]).await;
    assert_eq!(version(&pair.a, "main:A").await, None);
    assert_eq!(version(&pair.b, "main:A").await, None);
}

async fn an_older_figure_never_replaces_a_newer_one(pair: Pair) {
    let begun = pair.a.begin();
    pair.a.keep(begun, Vec::new(), vec![level("main:A", 3)]).await;
    pair.b.keep(pair.b.begin(), Vec::new(), vec![level("main:A", 2), level("main:B", 1)]).await;
    // B itself read the older one, and so may show it; what is shared is the newer.
    assert!(version(&pair.a, "main:A").await.is_none_or(|version| version == 3));
    pair.b.keep(pair.b.begin(), Vec::new(), vec![level("main:A", 4)]).await;
    assert!(version(&pair.b, "main:A").await.is_none_or(|version| version == 4));
}

async fn what_was_committed_is_shown_as_it_was_committed(pair: Pair) {
    let begun = pair.b.begin();
    pair.a.keep(pair.a.begin(), Vec::new(), vec![level("main:A", 3)]).await;
    pair.b.committed(&[level("main:A", 4).into()], false);
    // Neither what another shares nor what was read before brings the older one back.
    let at_least_4 = async || version(&pair.b, "main:A").await.is_none_or(|version| version == 4);
    assert!(at_least_4().await);
    pair.b.keep(begun, Vec::new(), vec![level("main:A", 3)]).await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(6) {
        assert!(at_least_4().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn holder(owner: &str, job: i64, token: i64) -> Holder {
    Holder { owner: owner.into(), job, token }
}

const TTL: Span = Span::minutes(12);

async fn a_key_is_kept_from_others_and_passes_to_a_successor(pair: Pair) {
    let item = LevelId::from("s1:61:b:2");
    let (first, other) = (holder("confirm:s1:61:b:2", 7, 1), holder("other", 9, 1));
    assert_eq!(pair.a.lock_item(&item, &first, TTL).await, Ok(()));
    assert_eq!(pair.b.lock_item(&item, &other, TTL).await, Err(Wait(Duration::from_secs(5))));
    assert_eq!(pair.b.lock_item(&"s1:62:".into(), &other, TTL).await, Ok(()));
    let next = holder("confirm:s1:61:b:2", 7, 2);
    assert_eq!(pair.b.lock_item(&item, &next, TTL).await, Ok(()));
    assert!(pair.a.lock_item(&item, &first, TTL).await.is_err(), "who was succeeded");
    pair.a.unlock_item(&item, &first).await;
    assert!(pair.a.lock_item(&item, &other, TTL).await.is_err(), "not the successor's to give");
    pair.b.unlock_item(&item, &next).await;
    assert_eq!(pair.a.lock_item(&item, &other, TTL).await, Ok(()));
}

async fn a_key_lapses(pair: Pair) {
    let item = LevelId::from("s1:61:");
    let (first, other) = (holder("a", 7, 1), holder("b", 9, 1));
    assert_eq!(pair.a.lock_item(&item, &first, Span::millis(50)).await, Ok(()));
    let free = async || pair.b.lock_item(&item, &other, TTL).await.is_ok();
    eventually("it lapses", free).await;
}
