//! Notes of what is sold out, shared by two replicas through a real Redis. Within the processes time
//! stands (a manual clock), so that a note ends there only because it was ended.

use std::time::{Duration, Instant};

use stockhold::clock::{Clock, Timestamp};
use stockhold::coordination::{Coordination, Options};
use stockhold::domain::availability::SoldOut;
use tokio_util::sync::CancellationToken;

use super::{level, redis, redis_server, some_scope};
use crate::blackbox::daemon::eventually;
use crate::proxy::{Proxy, Way};

/// A replica as the program runs it; stops when the guard is dropped.
async fn replica(url: &str, scope: &str) -> (Coordination, tokio_util::sync::DropGuard) {
    let patience = Duration::from_secs(20);
    let options = Options { scope: scope.to_owned(), patience, ..Options::default() };
    let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
    let calm = Coordination::redis(url, &clock, &options).expect("an address");
    let stopping = CancellationToken::new();
    tokio::spawn(calm.clone().run(stopping.clone()));
    eventually("Redis is used", async || calm.condition().is_none()).await;
    (calm, stopping.drop_guard())
}

/// Notes the SKU `A` as sold out at this version of its shelf.
fn note(calm: &Coordination, version: i64) {
    let versions = [("main:A".into(), version)].into();
    let found = SoldOut { asked: "A".into(), sku: "A".into(), versions };
    calm.note_sold_out(&[found], Instant::now());
}

fn is_noted(calm: &Coordination) -> bool {
    calm.sold_out(&"A".into()).is_some()
}

/// The one notes it again and again, since in Redis a second is a second.
async fn learns(from: &Coordination, version: i64, calm: &Coordination) {
    eventually("the other knows", async || {
        note(from, version);
        is_noted(calm)
    })
    .await;
}

#[tokio::test]
async fn a_note_is_every_replica_s_until_one_of_them_ends_it() {
    let (url, scope) = (redis(0), some_scope());
    let ((a, _stop_a), (b, _stop_b)) = (replica(&url, &scope).await, replica(&url, &scope).await);
    let (elsewhere, _stop) = replica(&url, &some_scope()).await;
    learns(&a, 7, &b).await;
    assert!(is_noted(&a));
    assert!(!is_noted(&elsewhere), "another shop's stock");
    // Units come back at A: it forgets at once, B when it finds the key gone.
    a.committed(&[level("main:A", 8).into()], false);
    assert!(!is_noted(&a));
    eventually("the other forgets", async || !is_noted(&b)).await;
    // What B still says of the version before is not believed by A, which knows better.
    for _ in 0..20 {
        note(&b, 7);
        assert!(!is_noted(&a));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    learns(&b, 8, &a).await;
    a.committed(&[], true);
    assert!(!is_noted(&a), "the catalogue changed");
}

#[tokio::test]
async fn without_redis_each_notes_for_itself() {
    let proxy = Proxy::before(&redis_server()).await;
    let scope = some_scope();
    let (a, _stop_a) = replica(&proxy.in_url(&redis(0)), &scope).await;
    let (b, _stop_b) = replica(&redis(0), &scope).await;
    proxy.set(Way::Shut);
    eventually("it is degraded", async || a.condition().is_some()).await;
    note(&a, 7);
    for _ in 0..20 {
        assert!(is_noted(&a) && !is_noted(&b));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    a.committed(&[level("main:A", 8).into()], false);
    assert!(!is_noted(&a));
    proxy.set(Way::Open);
    learns(&a, 8, &b).await;
}
