//! Two replicas whose machines' clocks are three minutes apart: both go by the database's. What they
//! do early, late or twice would be off by far more than is allowed here.

use std::cell::Cell;

use serde_json::Value;
use stockhold::suppliers::simulator::{Api as Call, Fault};

use super::fleet::Fleet;
use super::shop::{Shop, pair, setup};
use crate::blackbox::api::{Api, text};
use crate::blackbox::daemon::{SECOND, eventually};
use crate::faults::world::{basket, paid_basket};

const ITEMS: [&str; 2] = ["700000000001", "700000000002"];
/// Seconds that each replica's own clock is off.
const OFF: [&str; 2] = ["90", "-90"];
const TTL: i64 = 6 * SECOND;
/// Far more than a busy machine needs, far less than the clocks differ.
const LATE: i64 = 15 * SECOND;
/// The database counts in one clock and tells it in whole microseconds.
const NEAR: i64 = SECOND;

async fn shop(keys: &str) -> Shop {
    let offers: Vec<(&str, i64)> = ITEMS.iter().map(|id| (*id, 20)).collect();
    let setup = setup().with(keys).selling(&offers);
    Shop::each(2, setup, |n, home| home.with_variable("STOCKHOLD_TEST_CLOCK_OFF", OFF[n])).await
}

/// The database's clock, microseconds.
async fn clock(fleet: &Fleet) -> i64 {
    fleet.tables.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").await
}

/// Both have noticed how wrong they are.
fn are_off(fleet: &Fleet) {
    for home in &fleet.homes {
        assert!(home.log().contains("differs from the database's"), "{}", home.log());
    }
}

fn micros(time: &Value) -> i64 {
    let time = stockhold::clock::Timestamp::parse_rfc3339(&text(time)).expect("a time");
    time.as_micros()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_taken_by_either_expire_after_their_ttl_and_once() {
    let shop = shop("[holds]\nttl_normal = \"6s\"\nsweep_interval = \"1s\"\n").await;
    let (fast, slow) = pair(&shop.fleet).await;
    are_off(&shop.fleet);
    fast.stocked("W1", 1_000).await;
    let mut placed = 0;
    for round in 0..10 {
        for (name, api) in [("fast", &fast as &Api), ("slow", &slow)] {
            let before = clock(&shop.fleet).await;
            let answer = api.place(&basket(&format!("{name}-{round}"), &[("W1", 1)])).await;
            let after = clock(&shop.fleet).await;
            assert_eq!(answer.status, 201, "{}", answer.text);
            let times =
                format!("SELECT created_at, expires_at FROM orders WHERE id = '{}'", answer.id());
            let times: Vec<(i64, i64)> = shop.fleet.tables.rows(&times, &[]).await;
            let [(created, expires)] = times[..] else { panic!("{times:?}") };
            assert_eq!(expires - created, TTL, "{name}");
            assert!(before - NEAR <= created && created <= after + NEAR, "{name}: {created}");
            let shown = micros(&answer.body["expires_at"]);
            assert!((shown - expires).abs() < SECOND / 100, "{name}: {shown} {expires}");
            placed += 1;
        }
    }
    shop.until_orders("expired", placed).await;
    let ends: Vec<(String, i64, i64, i64)> = shop
        .fleet
        .tables
        .rows(
            "SELECT o.external_id, o.expires_at, min(e.at), count(*) FROM orders o
            JOIN events e ON e.order_id = o.id AND e.event = 'order_expired'
            GROUP BY o.external_id, o.expires_at",
            &[],
        )
        .await;
    assert_eq!(i64::try_from(ends.len()), Ok(placed));
    for (name, expires, expired, times) in ends {
        assert_eq!(times, 1, "{name}");
        assert!((expires..expires + LATE).contains(&expired), "{name}: {expired} for {expires}");
    }
    let given_back = "SELECT count(*) FROM ledger WHERE by_held = -1";
    assert_eq!(shop.number(given_back).await, placed);
    for api in [&fast as &Api, &slow] {
        assert_eq!(api.figures("W1").await, (1_000, 0, 0, 1_000));
    }
    shop.check().await;
    for daemon in [fast, slow] {
        daemon.stop().await;
    }
}

/// The freshness of an item as a replica shows it.
async fn freshness(api: &Api, item: &str) -> String {
    let shown = api.get(&format!("/v1/skus/{item}/availability")).await.ok();
    text(&shown["sources"][0]["freshness"])
}

/// A figure is 6 s old when it is read (`declared_lag`) and stale 8.4 s after it was true
/// (6 s + 1.2 × 2 s); a clock that is 90 s off would have it stale always or never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_are_as_old_as_they_are_and_orders_of_either_are_bought() {
    const LAG: i64 = 6 * SECOND;
    let shop = shop("").await;
    let (fast, slow) = pair(&shop.fleet).await;
    are_off(&shop.fleet);
    shop.supply(&fast, &ITEMS).await;
    let newest = "SELECT max(as_of) FROM levels WHERE kind = 'supplier'";
    let mut seen = shop.number(newest).await;
    for _ in 0..5 {
        eventually("another sync", async || shop.number(newest).await > seen).await;
        seen = shop.number(newest).await;
        let age = clock(&shop.fleet).await - seen;
        assert!((LAG - NEAR..LAG + LATE).contains(&age), "{age}");
    }
    let mut orders = Vec::new();
    for (name, api) in [("fast", &fast as &Api), ("slow", &slow)] {
        for item in ITEMS {
            // A sync that comes late on a busy machine makes it stale for a moment, as it should.
            eventually("fresh", async || freshness(api, item).await == "fresh").await;
            let order = paid_basket(&format!("{name}-{item}"), &[(item, 1)]);
            eventually("it is placed", async || api.place(&order).await.status != 409).await;
            let again = api.place(&order).await;
            assert_eq!(again.status, 200, "{}", again.text);
            orders.push(again.id());
        }
    }
    shop.until_orders("confirmed", 4).await;
    for order in &orders {
        shop.upstream(order);
    }
    shop.pay_upstream().await;
    assert!(ITEMS.iter().all(|id| shop.sim.units_bought(&crate::faults::world::item(id)) == 2));
    // No more readings: each says stale, neither before it is nor never.
    shop.always(Call::Product, Some(Fault::Cut { effect: false }));
    for api in [&fast as &Api, &slow] {
        let as_of = format!("SELECT as_of FROM levels WHERE id LIKE 's1688:{}:%'", ITEMS[0]);
        let age = Cell::new(0);
        // Of a figure that was not replaced meanwhile: a reading may be under way still.
        eventually("stale", async || {
            let figure = shop.number(&as_of).await;
            let stale = freshness(api, ITEMS[0]).await == "stale";
            age.set(clock(&shop.fleet).await - figure);
            stale && shop.number(&as_of).await == figure
        })
        .await;
        let age = age.get();
        let shown = api.get(&format!("/v1/skus/{}/availability", ITEMS[0])).await.ok();
        let limit = shown["sources"][0]["stale_after_seconds"].as_i64().expect("seconds");
        assert!(age >= limit * SECOND - NEAR, "{age} is not yet {limit} s");
        assert!(age < limit * SECOND + 4 * LATE, "{age} is long past {limit} s");
    }
    shop.check().await;
    for daemon in [fast, slow] {
        daemon.stop().await;
    }
}
