//! A replica dies (SIGKILL) or stands still (SIGSTOP) while it holds leases, an item's lock, a purchase
//! or a transaction. The other one takes over when what was held ends, everything owed is done, and
//! nothing twice, also when the one that stood still goes on and still believes that it is its turn.

use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api as Call, Fault, Repeated};

use super::shop::{Shop, go_on, pair, setup, stop};
use crate::blackbox::api::Api;
use crate::blackbox::daemon::{Home, eventually};
use crate::faults::world::{basket, paid_basket};

const ITEMS: [&str; 4] = ["700000000001", "700000000002", "700000000003", "700000000004"];

/// Long enough for a test to see that calls are under way. A lease that a call needs lasts 9 s with
/// it, a purchase's 23 s.
const PATIENT: &str = "[jobs]\nlease = \"5s\"\n[supplier]\nrequest_timeout = \"4s\"\n";

/// Two replicas, and a supplier of so many items that makes a second order when it is asked twice.
async fn shop(items: usize, keys: &str) -> Shop {
    let offers: Vec<(&str, i64)> = ITEMS[..items].iter().map(|id| (*id, 5)).collect();
    let setup = setup().with(PATIENT).with(keys).selling(&offers);
    Shop::of(2, setup.simulated(|s| s.trade.repeated_reference = Repeated::SecondOrder)).await
}

/// A paid order of one unit of each item; their ids.
async fn bought(api: &Api, items: &[&str]) -> Vec<String> {
    let mut orders = Vec::new();
    for item in items {
        let placed = api.place(&paid_basket(&format!("o-{item}"), &[(item, 1)])).await;
        assert_eq!(placed.status, 201, "{}", placed.text);
        orders.push(placed.id());
    }
    orders
}

/// Waits until so many purchases are being made and so many creates were sent.
async fn until_placing(shop: &Shop, purchases: i64) {
    eventually("the creates are under way", async || {
        let placing = "SELECT count(*) FROM purchase_orders WHERE state = 'placing'";
        shop.number(placing).await == purchases
            && i64::try_from(shop.sim.calls(Call::Create)) == Ok(purchases)
    })
    .await;
}

/// Each order stands at the supplier once, its unit was committed once, and no money went back.
async fn stands_once(shop: &Shop, orders: &[String]) {
    for order in orders {
        shop.upstream(order);
        let committed = format!(
            "SELECT count(*) FROM ledger WHERE order_id = '{order}' AND by_held = -1
            AND by_committed = 1"
        );
        assert_eq!(shop.number(&committed).await, 1, "{order}");
        let holds = format!("SELECT count(*) FROM holds WHERE order_id = '{order}'");
        assert_eq!(shop.number(&holds).await, 1, "{order}");
    }
    let made = i64::try_from(orders.len()).expect("small");
    assert_eq!(shop.number("SELECT count(*) FROM purchase_orders").await, made);
    assert_eq!(shop.number("SELECT count(*) FROM refunds").await, 0);
    shop.pay_upstream().await;
    shop.check().await;
}

/// What the supplier's confirmation and an expiry owed the dead, the living does; not before the
/// dead one's lease ends, and with the item's lock, which would lapse later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_replica_held_is_done_by_the_other_when_the_lease_ends() {
    let shop = shop(1, "[holds]\nttl_normal = \"12s\"\n").await;
    let (dies, lives) = pair(&shop.fleet).await;
    shop.supply(&dies, &ITEMS[..1]).await;
    stop(&lives);
    let unpaid = dies.place(&basket("unpaid", &[(ITEMS[0], 2)])).await;
    assert_eq!(unpaid.status, 201, "{}", unpaid.text);
    let orders = bought(&dies, &ITEMS[..1]).await;
    shop.always(Call::Product, Some(Fault::TIMED_OUT));
    let asking = "SELECT count(*) FROM jobs j JOIN levels l ON l.lock_owner = j.key
        WHERE j.kind = 'confirm' AND j.state = 'running' AND l.lock_until IS NOT NULL";
    shop.until("the item is locked and asked about", asking, 1).await;
    dies.kill().await;
    let held: Vec<(i64, i64, i64)> = shop
        .fleet
        .tables
        .rows(
            "SELECT j.lease_until, j.lease_token, l.lock_token FROM jobs j
            JOIN levels l ON l.lock_owner = j.key WHERE j.state = 'running'",
            &[],
        )
        .await;
    let [(lease_until, lease_token, lock_token)] = held[..] else { panic!("{held:?}") };
    assert!(lease_token > 0);
    shop.always(Call::Product, None);
    go_on(&lives);
    shop.until_orders("confirmed", 1).await;
    shop.until_orders("expired", 1).await;
    let told: Vec<(i64,)> =
        shop.fleet.tables.rows("SELECT at FROM events WHERE event = 'share_confirmed'", &[]).await;
    let [(confirmed_at,)] = told[..] else { panic!("confirmed once: {told:?}") };
    assert!(confirmed_at >= lease_until, "{confirmed_at} is before {lease_until}");
    let lock = format!(
        "SELECT count(*) FROM levels WHERE lock_until IS NULL AND lock_token > {lock_token}"
    );
    assert_eq!(shop.number(&lock).await, 1);
    let expired = "SELECT count(*) FROM events WHERE event = 'order_expired'";
    assert_eq!(shop.number(expired).await, 1);
    stands_once(&shop, &orders).await;
    lives.stop().await;
    assert_eq!(shop.fleet.deadlocks().await, 0);
}

/// Creates that were made, not made, and made after a while, under which the replica died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_of_a_killed_replica_are_looked_up_by_the_other_and_stand_once() {
    let shop = shop(3, "").await;
    let (dies, lives) = pair(&shop.fleet).await;
    shop.supply(&dies, &ITEMS[..3]).await;
    stop(&lives);
    let late = Fault::Late { after: Span::secs(6) };
    shop.script(Call::Create, &[Fault::LOST, Fault::TIMED_OUT, late]);
    let orders = bought(&dies, &ITEMS[..3]).await;
    until_placing(&shop, 3).await;
    dies.kill().await;
    go_on(&lives);
    shop.until_orders("confirmed", 3).await;
    // Only what was not made is asked for again.
    assert_eq!(shop.sim.calls(Call::Create), 4);
    stands_once(&shop, &orders).await;
    lives.stop().await;
}

/// What the tables say of orders and purchases.
async fn written(shop: &Shop) -> Vec<(String,)> {
    let sql = "SELECT 'event ' || order_id || ' ' || n || ' ' || event FROM events
        UNION ALL SELECT 'ledger ' || level_id || ' ' || seq || ' ' || event FROM ledger
        UNION ALL SELECT 'hold ' || order_id || ' ' || state || ' ' || quantity FROM holds
        UNION ALL SELECT 'purchase ' || id || ' ' || state || ' ' || attempts || ' ' ||
            coalesce(supplier_order_id, '') FROM purchase_orders
        ORDER BY 1";
    shop.fleet.tables.rows(sql, &[]).await
}

/// Waits until a replica has noticed of so many jobs that they are another's.
async fn until_fenced(home: &Home, jobs: usize) {
    eventually("it learns that its leases are gone", async || {
        let log = home.log();
        let noticed = |line: &&str| {
            line.contains("purchase:")
                && (line.contains("lease lost") || line.contains("another owner"))
        };
        log.lines().filter(noticed).count() >= jobs
    })
    .await;
}

/// It slept while its creates were under way, until another had finished them; then their answers
/// (one of them a good one) are written nowhere and nothing is sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_sleeps_past_its_lease_in_its_creates_is_fenced_and_buys_nothing_twice() {
    let shop = shop(4, "").await;
    let (sleeps, lives) = pair(&shop.fleet).await;
    shop.supply(&sleeps, &ITEMS).await;
    stop(&lives);
    let late = Fault::Late { after: Span::secs(6) };
    let slow = Fault::Slow { by: Span::millis(3500) };
    shop.script(Call::Create, &[slow, Fault::LOST, Fault::TIMED_OUT, late]);
    let orders = bought(&sleeps, &ITEMS).await;
    until_placing(&shop, 4).await;
    stop(&sleeps);
    go_on(&lives);
    shop.until_orders("confirmed", 4).await;
    let before = written(&shop).await;
    go_on(&sleeps);
    until_fenced(&shop.fleet.homes[0], 4).await;
    assert_eq!(sleeps.get("/readyz").await.status, 200);
    assert_eq!(written(&shop).await, before, "it wrote nothing");
    assert_eq!(shop.sim.calls(Call::Create), 5, "only what was not made is asked for again");
    stands_once(&shop, &orders).await;
    for daemon in [sleeps, lives] {
        daemon.stop().await;
    }
    assert_eq!(shop.fleet.deadlocks().await, 0);
}

/// It slept in the preview: the create that would come next is not its to send any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_sleeps_past_its_lease_in_a_preview_sends_no_create() {
    let shop = shop(1, "").await;
    let (sleeps, lives) = pair(&shop.fleet).await;
    shop.supply(&sleeps, &ITEMS[..1]).await;
    stop(&lives);
    shop.script(Call::Preview, &[Fault::Slow { by: Span::millis(3500) }]);
    let orders = bought(&sleeps, &ITEMS[..1]).await;
    eventually("the preview is under way", async || shop.sim.calls(Call::Preview) == 1).await;
    stop(&sleeps);
    go_on(&lives);
    shop.until_orders("confirmed", 1).await;
    let before = written(&shop).await;
    go_on(&sleeps);
    until_fenced(&shop.fleet.homes[0], 1).await;
    assert_eq!(written(&shop).await, before, "it wrote nothing");
    assert_eq!(shop.sim.calls(Call::Create), 1);
    stands_once(&shop, &orders).await;
    for daemon in [sleeps, lives] {
        daemon.stop().await;
    }
}
