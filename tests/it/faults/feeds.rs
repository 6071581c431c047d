//! A supplier's feed that is late, torn, shrunken, frozen or gone, and who is told of it.

use std::sync::atomic::Ordering;

use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault, Spec};

use super::books;
use super::refunder::Listener;
use super::world::{SHOE, Setup, World, item, shoe};

const SILENCE: Fault = Fault::Http { status: 502, effect: false };
const A: &str = "700000000001";

/// Ten minutes' interval is a lock of 12; a feed seen to lag 40 is one of 48.
#[tokio::test]
async fn the_lock_and_the_age_limit_follow_the_lag_that_was_seen() {
    let w = Setup::new().start().await.with_shoe().await;
    let shown = w.get("/v1/suppliers/s1688").await;
    let figures = |shown: &serde_json::Value| {
        let of = |key: &str| shown[key].as_i64().expect("seconds");
        (
            of("sync_interval_seconds"),
            of("observed_lag_seconds"),
            of("lock_ttl_seconds"),
            of("stale_after_seconds"),
        )
    };
    assert_eq!(figures(&shown), (600, 60, 720, 780));
    // The figure of now, a minute old on arrival, is replaced in 49 min: it reached 50, of which
    // 10 are the interval's.
    w.always(Api::Product, Some(SILENCE));
    w.pass(Span::minutes(49)).await;
    w.always(Api::Product, None);
    let (status, _) = w.post("/v1/suppliers/s1688/sync", json!({})).await;
    assert_eq!(status, 202);
    w.idle().await;
    assert_eq!(figures(&w.get("/v1/suppliers/s1688").await), (600, 2400, 2880, 3120));
    books::check(&w).await;
}

/// A feed that cannot be read grows old: no new orders, one alert, and both end with it.
#[tokio::test]
async fn a_stale_feed_takes_no_orders_and_is_told_once() {
    let w = Setup::new().start().await.with_shoe().await;
    w.always(Api::Product, Some(SILENCE));
    w.pass(Span::minutes(12)).await;
    w.buy("SHOE", 1).await;
    w.pass(Span::minutes(2)).await;
    let (status, refusal) = w.post("/v1/orders", w.paid_basket(&[("SHOE", 1)])).await;
    assert_eq!((status, &refusal["code"]), (409, &"stale_feed".into()), "{refusal}");
    assert_eq!(refusal["payment_recorded"], false);
    // More than there would be anyway is not the feed's fault.
    let (_, refusal) = w.post("/v1/orders", w.paid_basket(&[("SHOE", 41)])).await;
    assert_eq!(refusal["code"], "insufficient_stock");
    w.pass(Span::hours(1)).await;
    assert_eq!(w.alerts("feed_stale").await, [("s1688".into(), true)]);
    // An outage says nothing about the feed itself.
    assert_eq!(w.alerts("feed_suspect").await, []);
    w.always(Api::Product, None);
    w.sync().await;
    w.buy("SHOE", 1).await;
    assert_eq!(w.alerts("feed_stale").await, [("s1688".into(), false)]);
    assert_eq!(w.alerts("feed_suspect").await, []);
}

/// C101: a sync that was asked for under a key is owed once, also when it has long ended.
#[tokio::test]
async fn a_sync_under_a_key_is_owed_once() {
    let w = Setup::new().start().await.with_shoe().await;
    w.idle().await;
    let path = "/v1/suppliers/s1688/sync";
    let syncs = async |w: &World| w.metric("stockhold_syncs_total").await;
    let before = syncs(&w).await;
    let first = w.post_keyed(path, "k", json!({})).await;
    assert_eq!(first.0, 202, "{}", first.1);
    w.idle().await;
    assert_eq!(syncs(&w).await, before + 1);
    assert_eq!(w.post_keyed(path, "k", json!({})).await, first);
    let (status, other) = w.post_keyed(path, "k", json!({ "accept_suspect": true })).await;
    assert_eq!((status, &other["code"]), (422, &"idempotency_key_reused".into()));
    w.idle().await;
    assert_eq!(syncs(&w).await, before + 1);
    assert_eq!(w.post_keyed(path, "k2", json!({})).await.0, 202);
    w.idle().await;
    assert_eq!(syncs(&w).await, before + 2);
}

/// C077: a feed that shrinks by more than 30 % changes nothing until somebody believes it.
#[tokio::test]
async fn a_shrunken_feed_changes_nothing_until_it_is_accepted() {
    let offers: Vec<String> = (0..10).map(|n| format!("70000000010{n}")).collect();
    let named: Vec<(&str, i64)> = offers.iter().map(|id| (id.as_str(), 9)).collect();
    let names: Vec<&str> = offers.iter().map(String::as_str).collect();
    let w = Setup::new().selling(&named).start().await.with_skus(&names).await;
    let listed = "SELECT count(*) FROM levels WHERE listing = 'listed' AND quantity = 9";
    assert_eq!(w.number(listed).await, 10);
    for name in &names[..4] {
        w.sim.set_offer_status(name, "expired").expect("an offer");
    }
    w.sim.set_stock(&item(names[9]), 5).expect("an item");
    for _ in 0..3 {
        w.sync().await;
        let shown = w.get("/v1/suppliers/s1688").await;
        assert_eq!(shown["last_sync_outcome"], "suspect");
        assert!(shown["suspect_since"].is_string());
        assert_eq!(w.number(listed).await, 10, "unchanged, the good rows too");
    }
    assert_eq!(w.alerts("feed_suspect").await, [("s1688".into(), true)]);
    let (status, _) = w.post("/v1/suppliers/s1688/sync", json!({ "accept_suspect": true })).await;
    assert_eq!(status, 202);
    w.idle().await;
    let shown = w.get("/v1/suppliers/s1688").await;
    assert_eq!(
        (&shown["last_sync_outcome"], &shown["levels"]["not_listed"]),
        (&"accepted".into(), &4.into())
    );
    assert_eq!(w.number(listed).await, 5);
    assert_eq!(w.alerts("feed_suspect").await, [("s1688".into(), false)]);
    w.sync().await;
    assert_eq!(w.get("/v1/suppliers/s1688").await["last_sync_outcome"], "ok");
    books::check(&w).await;
}

/// C074: a figure from before our purchase does not put its units back on sale.
#[tokio::test]
async fn a_figure_from_before_our_purchase_does_not_sell_its_units_again() {
    let w = Setup::new().selling(&[(A, 10)]);
    let w = w.simulated(|s| s.conduct_mut(Api::Product).lag = Span::minutes(7));
    let w = w.with("[supplier]\ndeclared_lag = \"8m\"").start().await.with_skus(&[A]).await;
    let id = w.buy(A, 4).await;
    w.until_state(&id, "confirmed").await;
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    w.until_purchase(&id, "paid").await;
    let available =
        async |w: &World| w.get(&format!("/v1/skus/{A}/availability")).await["available"].clone();
    // Whenever it is read, six are there; or two, while a figure may or may not have the purchase
    // in it (the declared lag is a minute more than the true one); and never ten.
    for _ in 0..20 {
        w.pass(Span::minutes(1)).await;
        w.sync().await;
        let left = available(&w).await;
        assert!(left == 6 || left == 2, "{left}");
    }
    assert_eq!(available(&w).await, 6);
    let holds = w.get("/v1/holds?state=settled").await;
    assert_eq!(holds["items"].as_array().expect("a list").len(), 1);
    books::check(&w).await;
}

/// Moves to the next minute and waits until the watermarks of it were judged.
async fn judged(w: &World) {
    let minute = 60_000_000;
    let next = (w.now().as_micros() / minute + 1) * minute;
    w.advance_to(stockhold::clock::Timestamp(next)).await;
    w.until("the watermarks were judged", async |w| {
        let slot = "SELECT coalesce(max(last_slot), 0) FROM schedules WHERE name = 'watermark'";
        w.number(slot).await >= next
    })
    .await;
    w.idle().await;
}

async fn with_watermark(low: i64, recover: i64) -> World {
    let w = Setup::new().start().await;
    let source = json!({ "source": "s1688", "kind": "supplier", "offer_id": SHOE,
        "spec_id": shoe().spec_id, "min_quantity": 1, "pack_size": 1, "buffer": 0 });
    let body = json!({ "title": "shoe", "class": "normal", "sources": [source],
        "watermark": { "low": low, "recover": recover } });
    let (status, body) = w.call("PUT", "/v1/skus/SHOE", Some(body)).await;
    assert!(status < 300, "{body}");
    w
}

/// C121: a value that swings around the limit is three events, not eight.
#[tokio::test]
async fn a_swinging_figure_is_told_when_it_falls_and_when_it_recovers() {
    let w = with_watermark(6, 8).await;
    for (figure, alerts) in [
        (6, vec![]),
        (5, vec![true]),
        (6, vec![true]),
        (4, vec![true]),
        (6, vec![true]),
        (5, vec![true]),
        (6, vec![true]),
        (8, vec![false]),
        (5, vec![false, true]),
    ] {
        w.sim.set_stock(&shoe(), figure).expect("a shoe");
        w.sync().await;
        judged(&w).await;
        let open: Vec<bool> = w.alerts("low_stock").await.into_iter().map(|(_, o)| o).collect();
        assert_eq!(open, alerts, "at {figure}");
    }
    books::check(&w).await;
}

/// C120: twenty imports of the same low figure tell nothing new.
#[tokio::test]
async fn an_unchanged_low_figure_is_told_once() {
    let listener = Listener::start().await;
    let w = Setup::new().with(&listener.keys()).start().await;
    w.sim.set_stock(&shoe(), 2).expect("a shoe");
    let source = json!({ "source": "s1688", "kind": "supplier", "offer_id": SHOE,
        "spec_id": shoe().spec_id, "min_quantity": 1, "pack_size": 1, "buffer": 0 });
    let body = json!({ "title": "shoe", "class": "normal", "sources": [source],
        "watermark": { "low": 5, "recover": 8 } });
    assert!(w.call("PUT", "/v1/skus/SHOE", Some(body)).await.0 < 300);
    for _ in 0..20 {
        w.sync().await;
        judged(&w).await;
    }
    let told = listener.of("low_stock");
    assert_eq!(told.len(), 1, "{told:?}");
    w.stride(Span::minutes(10));
    w.pass(Span::hours(25)).await;
    judged(&w).await;
    let told = listener.of("low_stock");
    assert_eq!((told.len(), told[1].event.as_str()), (2, "alert.reminder"), "{told:?}");
}

/// C124: three thousand items of one supplier grow stale at once; the channel answers 500 at first.
#[tokio::test]
async fn three_thousand_stale_items_are_one_alert_that_is_told_in_the_end() {
    let listener = Listener::start().await;
    let spec = |n: u64| format!("{n:032x}");
    let mut csv = "sku,title,class,low_watermark,warehouse,warehouse_quantity,supplier,offer_id,\
        spec_id,supplier_cost,supplier_currency,min_quantity,pack_size\n"
        .to_owned();
    for n in 0..3000 {
        csv += &format!("S-{n},S,normal,5,,,s1688,{A},{},1.00,CNY,1,1\n", spec(n));
    }
    let setup = Setup::new().with(&listener.keys()).selling(&[(A, 0)]).catalogue(csv);
    let w = setup.simulated(|s| {
        let specs = (0..3000).map(|n| Spec {
            spec_id: spec(n),
            sku_id: 4_000_000 + n,
            name: n.to_string(),
            price_fen: 100,
            stock: 9,
        });
        s.offers[0].price_fen = 0;
        s.offers[0].specs = specs.collect();
    });
    let w = w.start().await;
    // As new as the catalogue is, what was never read is not low.
    judged(&w).await;
    assert_eq!(w.alerts("low_stock").await, []);
    w.sync().await;
    let fresh = w.get("/v1/suppliers/s1688").await["levels"]["fresh"].clone();
    assert_eq!(fresh, 3000);
    listener.refuses.store(true, Ordering::SeqCst);
    w.always(Api::Product, Some(SILENCE));
    w.stride(Span::minutes(10));
    w.pass(Span::minutes(31)).await;
    w.until("it was told in vain", async |_| listener.of("feed_stale").len() > 2).await;
    let failed = w.metric("stockhold_alert_delivery_failed_total").await;
    assert!(failed > 2, "{failed}");
    listener.refuses.store(false, Ordering::SeqCst);
    w.until("it was told", async |_| listener.of("feed_stale").iter().any(|h| !h.refused)).await;
    w.pass(Span::hours(1)).await;
    let told = listener.of("feed_stale");
    assert!(told.iter().all(|h| h.id == told[0].id && h.event == "alert.opened"), "{told:?}");
    assert_eq!(told.iter().filter(|h| !h.refused).count(), 1);
    assert!(told[0].detail.starts_with("3000 of 3000 items"), "{}", told[0].detail);
    assert_eq!(told[0].detail.matches("s old)").count(), 10);
    assert_eq!(w.alerts("feed_stale").await, [("s1688".into(), true)]);
}
