//! C041, C042, C047 and what else a deadline does: payment and expiry race, and the clock on the
//! wall has no say.

use serde_json::{Value, json};

use super::api::{Answer, order, text};
use super::daemon::{Daemon, HOUR, Home, MINUTE, NOON, SECOND, eventually, together};

/// Orders that race their expiry in each run.
const RACES: usize = 30;

/// Waits until the schedule of this name has run for a slot at or after `at`.
async fn swept(home: &Home, at: i64) {
    eventually("the sweep ran", async || {
        let done = "SELECT coalesce(max(last_finished_at), 0) FROM schedules WHERE name = 'sweep'";
        home.number(done).await >= at
    })
    .await;
}

/// Places `RACES` orders, each for the only unit of its SKU.
async fn all_held(daemon: &Daemon<'_>, run: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..RACES {
        let sku = format!("{run}-{n}");
        daemon.stocked(&sku, 1).await;
        ids.push(daemon.placed(&sku, &sku, 1).await);
    }
    ids
}

/// Pays every order while its deadline, and a rival for its unit, are at it.
async fn all_race(daemon: &Daemon<'_>, run: &str, ids: &[String]) -> Vec<(Answer, Answer)> {
    together(ids.iter().enumerate().map(|(n, id)| {
        let (api, id) = ((**daemon).clone(), id.clone());
        let sku = format!("{run}-{n}");
        async move {
            let rival = order(&format!("rival-{sku}"), &[(&sku, 1)]);
            let payment = format!("pay-{sku}");
            tokio::join!(api.pay(&id, &payment, "10.00"), api.place(&rival))
        }
    }))
    .await
}

/// One of exactly two ends: paid with its unit, or ended and every cent on its way back.
async fn check_race(daemon: &Daemon<'_>, id: &str, rival: &Answer) -> bool {
    let order = daemon.order(id).await;
    let unit = order["lines"][0]["allocations"].as_array().expect("allocations");
    let holds = |state: &str| unit.iter().filter(|a| a["hold_state"] == state).count();
    let refunds: Vec<Value> = order["refunds"].as_array().expect("refunds").clone();
    match text(&order["state"]).as_str() {
        "confirmed" => {
            assert_eq!((holds("committed"), holds("active")), (1, 0), "{order}");
            assert_eq!(refunds, Vec::<Value>::new(), "{order}");
            rival.clone().refused(409, "insufficient_stock");
            true
        }
        "cancelled" => {
            assert_eq!(order["cancel_reason"], "payment_after_expiry");
            assert_eq!((holds("committed"), holds("active")), (0, 0), "{order}");
            assert_eq!(refunds.len(), 1, "{order}");
            assert_eq!(refunds[0]["amount"], "10.00");
            assert_eq!(rival.status, 201, "its unit went to somebody: {}", rival.text);
            false
        }
        other => panic!("{other} is neither of the two ends: {order}"),
    }
}

#[tokio::test]
async fn c041_payment_races_expiry() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    let mut now = NOON;
    for (run, after) in [("early", -1_000), ("exact", 0), ("late", 1_000), ("later", 5 * MINUTE)] {
        let ids = all_held(&daemon, run).await;
        let deadline = now + 30 * MINUTE;
        // The clock moves while the requests are under way: the deadline's job races them.
        home.set_clock(deadline + after);
        let answers = all_race(&daemon, run, &ids).await;
        daemon.time(deadline + after).await;
        let mut paid = 0;
        for (id, (payment, rival)) in ids.iter().zip(&answers) {
            payment.clone().ok();
            paid += usize::from(check_race(&daemon, id, rival).await);
        }
        if after < 0 {
            assert_eq!(paid, RACES, "nothing expires before its time");
        }
        home.check_books().await;
        now = deadline + after;
    }
    // An hour on, nothing has changed its mind.
    daemon.time(now + HOUR).await;
    swept(&home, now + HOUR - MINUTE).await;
    let states: Vec<(String, i64)> = home
        .rows(
            "SELECT state, count(*) FROM orders WHERE external_id NOT LIKE 'rival-%'
             GROUP BY state ORDER BY state",
        )
        .await;
    let ends: i64 = states.iter().map(|(_, n)| n).sum();
    assert_eq!(ends, 4 * RACES as i64);
    assert!(states.iter().all(|(s, _)| s == "confirmed" || s == "cancelled"), "{states:?}");
    home.check_books().await;
}

#[tokio::test]
async fn c042_the_zone_of_the_machine_has_no_say() {
    for zone in ["Australia/Brisbane", "Asia/Shanghai", "America/St_Johns", "UTC"] {
        let home =
            Home::new("[holds]\nttl_normal = \"60m\"").with_clock().with_variable("TZ", zone);
        let daemon = home.serve().await;
        daemon.stocked("W1", 1).await;
        let id = daemon.placed("o1", "W1", 1).await;
        let order = daemon.order(&id).await;
        assert_eq!(order["created_at"], "2026-11-30T12:00:00.000Z", "{zone}");
        assert_eq!(order["expires_at"], "2026-11-30T13:00:00.000Z", "{zone}");
        assert_eq!(order["expires_in_seconds"], 3600, "{zone}");
        assert_eq!(home.number("SELECT created_at FROM orders").await, NOON, "{zone}");
        for minutes in [1, 59] {
            daemon.time(NOON + minutes * MINUTE).await;
            swept(&home, NOON + minutes * MINUTE).await;
            assert_eq!(daemon.state(&id).await, "pending_payment", "{zone} +{minutes}");
        }
        daemon.time(NOON + 61 * MINUTE).await;
        eventually("it expires", async || daemon.state(&id).await == "expired").await;
        assert_eq!(daemon.figures("W1").await, (1, 0, 0, 1), "{zone}");
        home.check_books().await;
    }
}

/// Every call that would change an order; path below the order, body.
fn mutations(id: &str) -> Vec<(&'static str, Value)> {
    let address = json!({"name": "A", "address": "1 Road"});
    let line = json!([{"line_id": format!("{id}.1"), "quantity": 1}]);
    vec![
        ("/cancel", json!({"reason": "customer"})),
        ("/lines/ID.1/cancel", json!({"quantity": 1})),
        ("/payments", json!({"id": "p-new", "status": "in_progress"})),
        ("/decide", json!({"action": "retry"})),
        ("/decide", json!({"action": "cancel"})),
        ("/shipments", json!({"lines": line, "carrier": "SF", "tracking_number": "1"})),
        ("/complete", json!({})),
        ("/ship_to", address),
    ]
}

/// Makes every call and sees each refused with the order's state; nothing changes.
async fn all_refused(daemon: &Daemon<'_>, id: &str, state: &str) {
    let before = daemon.order(id).await;
    let figures = daemon.figures("W1").await;
    for (path, body) in mutations(id) {
        let full = format!("/v1/orders/{id}{}", path.replace("ID", id));
        let answer = match path {
            "/ship_to" => daemon.put(&full, &body).await,
            _ => daemon.post(&full, &body).await,
        };
        let refusal = answer.refused(409, "order_state_conflict");
        assert_eq!(refusal["state"], state, "{path}");
    }
    assert_eq!(daemon.order(id).await, before);
    assert_eq!(daemon.figures("W1").await, figures);
}

#[tokio::test]
async fn c047_an_ended_order_takes_nothing_more() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 5).await;
    let expired = daemon.placed("o1", "W1", 2).await;
    let cancelled = daemon.placed("o2", "W1", 1).await;
    daemon.cancel(&cancelled).await.ok();
    all_refused(&daemon, &cancelled, "cancelled").await;
    daemon.time(NOON + 31 * MINUTE).await;
    eventually("it expires", async || daemon.state(&expired).await == "expired").await;
    all_refused(&daemon, &expired, "expired").await;
    assert_eq!(daemon.figures("W1").await, (5, 0, 0, 5));
    // Money that comes in all the same is recorded and, for the cancelled one, given back.
    let late = daemon.pay(&cancelled, "p-late", "10.00").await.ok();
    assert_eq!(
        (&late["state"], &late["paid"], &late["refunded"]),
        (&json!("cancelled"), &json!("10.00"), &json!("10.00"))
    );
    assert_eq!(daemon.figures("W1").await, (5, 0, 0, 5));
    home.check_books().await;
}

#[tokio::test]
async fn late_money_takes_new_stock_or_goes_back() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 3).await;
    let mut ids = Vec::new();
    for n in 1..=3 {
        ids.push(daemon.placed(&format!("o{n}"), "W1", 1).await);
    }
    daemon.time(NOON + 40 * MINUTE).await;
    eventually("they expire", async || daemon.figures("W1").await == (3, 0, 0, 3)).await;
    // Stock is there: held anew and sold, and with it the excess goes back.
    let held = daemon.pay(&ids[0], "p1", "12.00").await.ok();
    assert_eq!(held["state"], "confirmed");
    assert_eq!((&held["paid"], &held["refunded"]), (&json!("12.00"), &json!("2.00")));
    // In part: recorded, and goes back at once.
    let part = daemon.pay(&ids[1], "p2", "4.00").await.ok();
    assert_eq!((&part["state"], &part["refunded"]), (&json!("expired"), &json!("4.00")));
    // No stock any more: cancelled and refunded.
    daemon.set_stock("W1", 1).await;
    let gone = daemon.pay(&ids[2], "p3", "10.00").await.ok();
    assert_eq!(gone["state"], "cancelled");
    assert_eq!(gone["cancel_reason"], "payment_after_expiry");
    assert_eq!(gone["refunded"], "10.00");
    // The same payment told again changes nothing.
    let again = daemon.pay(&ids[2], "p3", "10.00").await.ok();
    assert_eq!(again["refunds"].as_array().map(Vec::len), Some(1));
    home.check_books().await;
}

/// An order of which a line was cut before it expired is paid late with what it came to.
#[tokio::test]
async fn late_money_for_what_was_left_of_an_order_is_enough() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 5).await;
    let id = daemon.placed("o1", "W1", 3).await;
    let path = format!("/v1/orders/{id}/lines/{id}.1/cancel");
    daemon.post(&path, &json!({"quantity": 1})).await.ok();
    daemon.time(NOON + 40 * MINUTE).await;
    eventually("it expires", async || daemon.state(&id).await == "expired").await;
    let late = daemon.pay(&id, "p1", "20.00").await.ok();
    assert_eq!(late["state"], "confirmed", "20.00 is what the two units left cost: {late}");
    assert_eq!(late["refunded"], "0.00");
    assert_eq!(daemon.figures("W1").await, (5, 0, 2, 3));
    home.check_books().await;
}

#[tokio::test]
async fn a_payment_under_way_earns_one_grace() {
    let home = Home::new("[holds]\npayment_grace = \"90s\"").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 1).await;
    let id = daemon.placed("o1", "W1", 1).await;
    let path = format!("/v1/orders/{id}/payments");
    let under_way = json!({"id": "p1", "status": "in_progress"});
    let first = daemon.post(&path, &under_way).await.ok();
    assert_eq!(first["expires_at"], "2026-11-30T12:31:30.000Z");
    let other = json!({"id": "p2", "status": "in_progress"});
    for body in [&under_way, &other] {
        let again = daemon.post(&path, body).await.ok();
        assert_eq!(again["expires_at"], "2026-11-30T12:31:30.000Z", "once per order");
    }
    daemon.time(NOON + 31 * MINUTE).await;
    swept(&home, NOON + 31 * MINUTE).await;
    assert_eq!(daemon.state(&id).await, "pending_payment");
    daemon.time(NOON + 31 * MINUTE + 30 * SECOND).await;
    eventually("the grace is over", async || daemon.state(&id).await == "expired").await;
    home.check_books().await;
}

/// A daemon that was down over the deadline expires what is due when it is back.
#[tokio::test]
async fn deadlines_that_passed_while_it_was_down_are_kept() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 100).await;
    for n in 0..100 {
        daemon.placed(&format!("o{n}"), "W1", 1).await;
    }
    daemon.kill().await;
    // The first line of defence is gone; the scan is enough.
    home.tamper("DELETE FROM jobs").await;
    home.set_clock(NOON + 2 * HOUR);
    let daemon = home.serve().await;
    eventually("all expire", async || daemon.figures("W1").await == (100, 0, 0, 100)).await;
    let released = "SELECT count(*) FROM ledger WHERE event = 'released'";
    assert_eq!(home.number(released).await, 100, "each once");
    let told = "SELECT count(*) FROM events WHERE event = 'order_expired'";
    assert_eq!(home.number(told).await, 100);
    home.check_books().await;
}

/// The shortest class among an order's lines is its deadline; hotter goods come back sooner.
#[tokio::test]
async fn the_hottest_line_sets_the_deadline() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    for (sku, class) in [("N", "normal"), ("H", "hot"), ("F", "flash")] {
        let source = json!([{"source": "main", "kind": "warehouse"}]);
        daemon.sku(sku, &json!({"title": sku, "class": class, "sources": source})).await;
        daemon.set_stock(sku, 9).await;
    }
    for (id, lines, seconds) in [
        ("o1", vec![("N", 1)], 1800),
        ("o2", vec![("N", 1), ("H", 1)], 720),
        ("o3", vec![("H", 1), ("F", 1), ("N", 1)], 300),
    ] {
        let placed = daemon.place(&order(id, &lines)).await;
        assert_eq!(placed.body["expires_in_seconds"], seconds, "{}", placed.text);
    }
    daemon.time(NOON + 5 * MINUTE).await;
    eventually("the flash order expires", async || {
        daemon.figures("F").await == (9, 0, 0, 9) && daemon.figures("N").await == (9, 2, 0, 7)
    })
    .await;
    // Whoever comes before the sweep finds overdue stock free all the same.
    assert_eq!(daemon.figures("H").await, (9, 1, 0, 8));
    home.check_books().await;
}
