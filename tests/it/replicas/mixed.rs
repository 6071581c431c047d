//! Everything that a shop does, by 64 callers at two replicas for a minute, with a supplier that loses,
//! throttles and delays its answers, other buyers, and refunds whose answers get lost. Then calm, until
//! nothing is under way; and the ledger, the sums, the money and the supplier's own book agree.

use std::sync::atomic::Ordering;
use std::time::Duration;

use stockhold::suppliers::simulator::Status;
use tokio::time::{Instant, sleep};

use super::front::Front;
use super::shop::{Shop, go_on, stop};
use super::traffic::{self, MIXED_ITEM, PLENTY_ITEMS, SCARCE_ITEM, Told};
use crate::blackbox::daemon::{Daemon, together};
use crate::faults::books;
use crate::faults::refunder::Refunder;
use crate::faults::world::item;

const CALLERS: u64 = 64;
const TRAFFIC: Duration = Duration::from_secs(60);
/// What is not settled in this time after the traffic is not settled at all.
const GIVE_UP: Duration = Duration::from_secs(240);

/// What is still to come to an end by itself, or by payment upstream.
const UNDER_WAY: &str = "SELECT
    (SELECT count(*) FROM orders
        WHERE state IN ('pending_payment', 'paid', 'confirming', 'attention')
        OR (state = 'confirmed' AND cancel_requested_at IS NOT NULL))
    + (SELECT count(*) FROM purchase_orders WHERE state IN ('pending', 'placing', 'unknown', 'placed')
        OR (state <> 'cancelled' AND state <> 'failed' AND cancel_requested_at IS NOT NULL))
    + (SELECT count(*) FROM refunds WHERE state <> 'succeeded')";

/// Waits until nothing is under way, with what was placed upstream paid there once no cancel may
/// still come; a payment beyond the supplier's stock has the seller close the order.
async fn settle(shop: &Shop) {
    let give_up = Instant::now() + GIVE_UP;
    let undecided = "SELECT count(*) FROM orders
        WHERE state IN ('pending_payment', 'paid', 'confirming', 'attention')
        OR (state = 'confirmed' AND cancel_requested_at IS NOT NULL)";
    while shop.number(UNDER_WAY).await > 0 {
        assert!(Instant::now() < give_up, "never settled: {}", under_way(shop).await);
        if shop.number(undecided).await == 0 {
            for order in shop.sim.orders() {
                if order.status() == Status::Unpaid {
                    let _ = shop.sim.pay(order.id);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// For whoever reads a failure.
async fn under_way(shop: &Shop) -> String {
    let sql = "SELECT o.id || ' ' || o.state || ' ' || coalesce(o.attention, '') || ' ' ||
            coalesce(o.cancel_requested_reason, '') || ' ' || coalesce(p.id || ' ' || p.state, '')
        FROM orders o LEFT JOIN purchase_orders p ON p.order_id = o.id
        WHERE o.state IN ('pending_payment', 'paid', 'confirming', 'attention')
            OR p.state IN ('pending', 'placing', 'unknown', 'placed')
        UNION ALL SELECT 'refund ' || id || ' ' || state FROM refunds WHERE state <> 'succeeded'
        UNION ALL SELECT key || ' ' || state || ' ' || coalesce(last_error, '') FROM jobs
            WHERE state = 'dead'";
    let rows: Vec<(String,)> = shop.fleet.tables.rows(sql, &[]).await;
    rows.into_iter().map(|(row,)| row).collect::<Vec<_>>().join("\n")
}

/// Money: what was captured is either for what is kept or came back, and each refund was made once.
async fn money_agrees(shop: &Shop, refunder: &Refunder) {
    let kept = "SELECT coalesce(sum((l.quantity - l.cancelled) * l.unit_price), 0)
        FROM order_lines l JOIN orders o ON o.id = l.order_id
        WHERE o.state IN ('confirmed', 'shipped', 'completed')";
    let kept = shop.number(kept).await;
    let captured = shop.number("SELECT coalesce(sum(amount), 0) FROM payments").await;
    let back = shop.number("SELECT coalesce(sum(amount), 0) FROM refunds").await;
    assert_eq!(captured, kept + back);
    assert!(kept > 0 && back > 0, "{kept} {back}");
    assert!(refunder.made().values().all(|times| *times == 1), "{:?}", refunder.made());
    assert_eq!(refunder.paid_back(), back);
}

/// Goods: each unit that is paid upstream is one of our holds.
async fn goods_agree(shop: &Shop) {
    for offer in [SCARCE_ITEM, MIXED_ITEM].iter().chain(&PLENTY_ITEMS) {
        let ours = shop.number(&books::bought(offer)).await;
        assert_eq!(shop.sim.units_bought(&item(offer)), ours, "{offer}");
        assert_eq!(shop.sim.units_ordered(&item(offer)), ours, "{offer}");
    }
    assert_eq!(shop.number("SELECT count(*) FROM holds WHERE state = 'active'").await, 0);
}

/// It was not too quiet a minute: each of these happened.
async fn was_mixed(shop: &Shop) {
    let happened: Vec<(String, i64)> =
        shop.fleet.tables.rows("SELECT event, count(*) FROM events GROUP BY event", &[]).await;
    for event in [
        "order_expired",
        "order_cancelled",
        "order_confirmed",
        "held_again",
        "purchase_unknown",
        "purchase_paid",
        "refund_succeeded",
    ] {
        assert!(happened.iter().any(|(name, _)| name == event), "no {event}: {happened:?}");
    }
}

/// What each caller was told is what is written, and nothing else is.
async fn told_agrees(shop: &Shop, told: &[Told]) {
    let mut orders: Vec<String> = told.iter().flat_map(|t| t.orders.clone()).collect();
    orders.sort();
    let stored: Vec<(String,)> =
        shop.fleet.tables.rows("SELECT id FROM orders ORDER BY id", &[]).await;
    let stored: Vec<String> = stored.into_iter().map(|(id,)| id).collect();
    assert_eq!(stored, orders, "each that was answered is there, and no other");
    let payments: u64 = told.iter().map(|t| t.payments).sum();
    let recorded = shop.number("SELECT count(*) FROM payments").await;
    assert_eq!(u64::try_from(recorded), Ok(payments));
    assert!(told.iter().any(|t| t.sold_out > 0), "the scarce were never sold out");
}

/// What befalls the replicas meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// One sleeps longer than any lease, and goes on; then the other is killed, and started anew.
    SleepAndDeath,
}

/// Longer than any lease: a purchase's lasts 19 s.
const SLEEP: Duration = Duration::from_secs(22);

async fn befall<'s>(
    trouble: Trouble,
    shop: &'s Shop,
    front: &Front,
    daemons: &mut Vec<Daemon<'s>>,
) {
    if trouble == Trouble::None {
        return;
    }
    sleep(Duration::from_secs(10)).await;
    stop(&daemons[1]);
    sleep(SLEEP).await;
    go_on(&daemons[1]);
    sleep(Duration::from_secs(8)).await;
    daemons.remove(0).kill().await;
    let anew = shop.fleet.homes[0].serve().await;
    front.set(0, &anew);
    daemons.insert(0, anew);
}

/// Plays the minute, waits until all is settled, and judges.
async fn play(trouble: Trouble) {
    let refunder = Refunder::start().await;
    let shop = traffic::open(&refunder).await;
    let mut daemons = shop.fleet.serve().await;
    traffic::stock(&shop, &daemons[0]).await;
    shop.sim.change(traffic::misbehave).expect("settings");
    refunder.loses_every.store(4, Ordering::SeqCst);
    let (front, end) = (Front::of(&daemons), Instant::now() + TRAFFIC);
    let callers = together((0..CALLERS).map(|seed| traffic::caller(front.clone(), seed, end)));
    let (told, ()) = tokio::join!(callers, befall(trouble, &shop, &front, &mut daemons));
    shop.sim.change(traffic::calm).expect("settings");
    refunder.loses_every.store(0, Ordering::SeqCst);
    settle(&shop).await;
    for daemon in daemons {
        daemon.stop().await;
    }
    assert_eq!(shop.fleet.deadlocks().await, 0);
    shop.check().await;
    money_agrees(&shop, &refunder).await;
    goods_agree(&shop).await;
    told_agrees(&shop, &told).await;
    was_mixed(&shop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_everything_at_two_replicas_ends_with_books_that_agree() {
    play(Trouble::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_in_which_one_replica_sleeps_and_the_other_dies_ends_with_books_that_agree() {
    play(Trouble::SleepAndDeath).await;
}
