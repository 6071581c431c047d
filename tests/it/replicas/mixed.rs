//! Everything that a shop does, by 64 callers at two replicas for a minute, with a supplier that loses,
//! throttles and delays its answers, other buyers, and refunds whose answers get lost. Then calm, until
//! nothing is under way; and the ledger, the sums, the money and the supplier's own book agree.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{
    Api as Call, Buyers, Chance, Fault, Repeated, Settings, Status,
};
use tokio::time::Instant;

use super::front::Front;
use super::shop::{Shop, setup};
use crate::blackbox::api::{Api, warehouse};
use crate::blackbox::daemon::together;
use crate::faults::refunder::Refunder;
use crate::faults::world::{at_supplier, basket, item};

const CALLERS: u64 = 64;
const TRAFFIC: Duration = Duration::from_secs(60);
/// What is not settled in this time after the traffic is not settled at all.
const GIVE_UP: Duration = Duration::from_secs(240);

/// SKU and its items: a few that many want and many that few want, ours and the supplier's, and
/// some of both.
const HOT: &str = "HOT";
const PLENTY: [&str; 3] = ["W1", "W2", "W3"];
const SCARCE_ITEM: &str = "700000000001";
const MIXED_ITEM: &str = "700000000002";
const PLENTY_ITEMS: [&str; 2] = ["700000000003", "700000000004"];
const MIXED: &str = "MIXED";

/// Settles within a minute or two what production settles in hours; purchases are read back each 5 s.
fn keys(refunder: &Refunder) -> String {
    format!(
        "{}[holds]\nttl_normal = \"5s\"\nttl_hot = \"3s\"\nsweep_interval = \"2s\"\n
        [confirm]\nretry_deadline = \"20s\"\nattention_deadline = \"20s\"\n
        [jobs]\nlease = \"10s\"\n
        [supplier]\nsync_interval = \"10s\"\n",
        refunder.keys()
    )
}

/// Some of everything. What lands late lands while its purchase is still waited for: what lands
/// after that is found by the look-up after 10 min, which is not waited for here.
fn misbehave(s: &mut Settings) {
    let chance = |chance, fault| Chance { chance, fault };
    let lost = |effect| Fault::NeverAnswer { effect };
    let cut = |effect| Fault::Cut { effect };
    s.gateway.hang = Span::secs(5);
    s.conduct_mut(Call::Product).chances =
        vec![chance(0.05, Fault::throttled()), chance(0.05, cut(false)), chance(0.05, lost(false))];
    s.conduct_mut(Call::Preview).chances = vec![chance(0.05, cut(false))];
    s.conduct_mut(Call::Create).chances = vec![
        chance(0.05, Fault::Late { after: Span::secs(4) }),
        chance(0.05, lost(true)),
        chance(0.05, lost(false)),
        chance(0.05, cut(true)),
        chance(0.05, cut(false)),
        chance(0.03, Fault::throttled()),
        chance(0.02, Fault::Http { status: 500, effect: true }),
    ];
    s.conduct_mut(Call::List).chances =
        vec![chance(0.1, cut(false)), chance(0.05, Fault::Garbage { effect: false })];
    s.conduct_mut(Call::View).chances = vec![chance(0.05, cut(false))];
    s.conduct_mut(Call::Cancel).chances = vec![chance(0.1, cut(true)), chance(0.1, cut(false))];
    s.trade.repeated_reference = Repeated::SecondOrder;
    s.trade.close_not_before = Span::secs(2);
    let buyers =
        |offer: &str| Buyers { offer_id: offer.into(), spec_id: None, per_second: 0.2, units: 1 };
    s.buyers = vec![buyers(SCARCE_ITEM), buyers(MIXED_ITEM)];
}

fn calm(s: &mut Settings) {
    for api in Call::ALL {
        s.conduct_mut(api).chances.clear();
    }
    s.buyers.clear();
}

async fn open(refunder: &Refunder) -> Shop {
    let [plenty, more] = PLENTY_ITEMS;
    let offers = [(SCARCE_ITEM, 30), (MIXED_ITEM, 40), (plenty, 100_000), (more, 100_000)];
    Shop::of(2, setup().with(&keys(refunder)).selling(&offers)).await
}

async fn stock(shop: &Shop, api: &Api) {
    api.sku(HOT, &json!({"title": HOT, "class": "hot", "sources": [warehouse()]})).await;
    api.set_stock(HOT, 60).await;
    for sku in PLENTY {
        api.stocked(sku, 100_000).await;
    }
    let sources = json!([warehouse(), at_supplier(MIXED_ITEM, None)]);
    api.sku(MIXED, &json!({"title": MIXED, "sources": sources})).await;
    api.set_stock(MIXED, 20).await;
    let [plenty, more] = PLENTY_ITEMS;
    shop.supply(api, &[SCARCE_ITEM, plenty, more]).await;
}

/// What a caller was told: orders that it has, payments that were taken.
#[derive(Default)]
struct Told {
    orders: Vec<String>,
    payments: u64,
    sold_out: u64,
}

/// One of a few kinds of baskets; most are ours alone.
fn lines(dice: &mut StdRng) -> Vec<(&'static str, i64)> {
    let few = dice.random_range(1..=3);
    let plenty = *PLENTY.choose(dice).expect("one");
    match dice.random_range(0..100) {
        0..25 => vec![(HOT, 1)],
        25..30 => vec![(HOT, 1), (plenty, few)],
        30..85 => vec![(plenty, few)],
        85..89 => vec![(SCARCE_ITEM, 1)],
        89..92 => vec![(MIXED, few)],
        92..94 => vec![(MIXED, 1), (PLENTY_ITEMS[0], few)],
        94..97 => vec![(*PLENTY_ITEMS.choose(dice).expect("one"), few)],
        _ => vec![(plenty, 1), (PLENTY_ITEMS[1], 1)],
    }
}

/// Places, and pays, pays late, cancels, or forgets; until the end.
async fn caller(front: Front, seed: u64, end: Instant) -> Told {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut told = Told::default();
    let mut n = 0;
    while Instant::now() < end {
        n += 1;
        tokio::time::sleep(Duration::from_millis(dice.random_range(200..900))).await;
        let (name, lines) = (format!("o-{seed}-{n}"), lines(&mut dice));
        let units = lines.iter().map(|(_, units)| units).sum();
        let mut order = basket(&name, &lines);
        if dice.random_ratio(1, 4) {
            order["short_policy"] = "cancel_lines".into();
        }
        let first = dice.random_range(0..2);
        let placed = front.place(first, &order).await;
        if placed.status == 409 {
            let code = placed.code();
            assert!(matches!(&*code, "insufficient_stock" | "stale_feed"), "{}", placed.text);
            told.sold_out += 1;
            continue;
        }
        assert!(matches!(placed.status, 200 | 201), "{} {}", placed.status, placed.text);
        let id = placed.id();
        let then = dice.random_range(0..100);
        if (50..65).contains(&then) {
            // About when it expires, or after it.
            tokio::time::sleep(Duration::from_millis(dice.random_range(2_500..6_500))).await;
        }
        if then < 65 {
            let paid = front.pay(first + 1, &id, &name, units).await;
            assert!(matches!(paid.status, 200 | 201), "{} {}", paid.status, paid.text);
            told.payments += 1;
        }
        if (40..50).contains(&then) || (65..80).contains(&then) {
            let cancelled = front.cancel(first, &id).await;
            assert!(matches!(cancelled.status, 200 | 202 | 409), "{}", cancelled.text);
        }
        told.orders.push(id);
    }
    told
}

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
        let sql = format!(
            "SELECT coalesce(sum(h.surplus + CASE WHEN h.state = 'committed'
            OR (h.state = 'settled' AND p.state <> 'cancelled') THEN h.quantity ELSE 0 END), 0)
            FROM holds h LEFT JOIN purchase_orders p ON p.id = h.purchase_id
            WHERE h.level_id LIKE 's1688:{offer}:%'"
        );
        let ours = shop.number(&sql).await;
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
    eprintln!("{happened:?} {:?}", shop.sim.counts());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_everything_at_two_replicas_ends_with_books_that_agree() {
    let refunder = Refunder::start().await;
    let shop = open(&refunder).await;
    let daemons = shop.fleet.serve().await;
    stock(&shop, &daemons[0]).await;
    shop.sim.change(misbehave).expect("settings");
    refunder.loses_every.store(4, std::sync::atomic::Ordering::SeqCst);
    let (front, end) = (Front::of(&daemons), Instant::now() + TRAFFIC);
    let told = together((0..CALLERS).map(|seed| caller(front.clone(), seed, end))).await;
    shop.sim.change(calm).expect("settings");
    refunder.loses_every.store(0, std::sync::atomic::Ordering::SeqCst);
    settle(&shop).await;
    for daemon in daemons {
        daemon.stop().await;
    }
    assert_eq!(shop.fleet.deadlocks().await, 0);
    shop.check().await;
    money_agrees(&shop, &refunder).await;
    goods_agree(&shop).await;
    was_mixed(&shop).await;
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
