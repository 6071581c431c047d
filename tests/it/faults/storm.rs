//! Everything at once: up to 150 orders over 12 items, a supplier and a refund provider that lose a part
//! of their answers, other buyers, sellers who close, customers who cancel, and four kills. Then
//! calm, until nothing is under way; and the books of both sides agree.
//!
//! `STORM_SEED` takes another course than the usual ones: for whoever hunts.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{
    Api, By, Chance, CountsAt, Fault, Repeated, Settings, Shortage, Status,
};

use super::books;
use super::refunder::Refunder;
use super::world::{Setup, World, item};

fn offers() -> Vec<String> {
    (0..12).map(|n| format!("7000000009{n:02}")).collect()
}

/// Some of everything, of every call.
fn misbehave(s: &mut Settings) {
    let chance = |chance, fault| Chance { chance, fault };
    let lost = |effect| Fault::Cut { effect };
    s.conduct_mut(Api::Product).chances = vec![
        chance(0.05, Fault::throttled()),
        chance(0.1, lost(false)),
        chance(0.03, Fault::unknown_error()),
    ];
    s.conduct_mut(Api::Preview).chances = vec![chance(0.1, lost(false))];
    let late = |secs| Fault::Late { after: Span::secs(secs) };
    s.conduct_mut(Api::Create).chances = vec![
        chance(0.03, late(30)),
        chance(0.02, late(400)),
        chance(0.02, late(2000)),
        chance(0.01, Fault::LOST),
        chance(0.1, lost(true)),
        chance(0.1, lost(false)),
        chance(0.03, Fault::Http { status: 500, effect: true }),
        chance(0.02, Fault::out_of_stock()),
    ];
    s.conduct_mut(Api::List).chances =
        vec![chance(0.1, lost(false)), chance(0.05, Fault::Garbage { effect: false })];
    s.conduct_mut(Api::View).chances = vec![chance(0.1, lost(false))];
    s.conduct_mut(Api::Cancel).chances = vec![chance(0.15, lost(true)), chance(0.1, lost(false))];
    s.trade.repeated_reference = Repeated::SecondOrder;
    s.trade.shortage = Shortage::LeaveOut;
    // Later than the first late look-up: what is paid by then cannot be cancelled.
    s.trade.auto_pay_after = Some(Span::minutes(70));
    s.trade.ship_after = Some(Span::hours(1));
    s.trade.receive_after = Some(Span::hours(1));
}

fn calm(s: &mut Settings) {
    for api in Api::ALL {
        s.conduct_mut(api).chances.clear();
    }
}

/// One order of one to three lines; one in five is never paid, one in four may lose lines.
async fn place(w: &World, dice: &mut StdRng, offers: &[String]) -> Option<String> {
    let lines = dice.random_range(1..=3);
    let chosen: Vec<&String> = offers.choose_multiple(dice, lines).collect();
    let lines: Vec<(&str, i64)> =
        chosen.into_iter().map(|offer| (offer.as_str(), dice.random_range(1..=3))).collect();
    let mut basket = if dice.random_ratio(1, 5) { w.basket(&lines) } else { w.paid_basket(&lines) };
    if dice.random_ratio(1, 4) {
        basket["short_policy"] = "cancel_lines".into();
    }
    let (status, body) = w.post("/v1/orders", basket).await;
    assert!(status == 201 || status == 409, "{body}");
    (status == 201).then(|| body["id"].as_str().expect("an id").to_owned())
}

/// What others do meanwhile: buy, close, cancel.
async fn meddle(w: &World, dice: &mut StdRng, offers: &[String], orders: &[String]) {
    if dice.random_ratio(1, 3) {
        let offer = offers.choose(dice).expect("one");
        w.sim.other_buyer_takes(&item(offer), dice.random_range(1..=4)).expect("an item");
    }
    if dice.random_ratio(1, 8) {
        let orders = w.sim.orders();
        let open = orders.iter().filter(|o| matches!(o.status(), Status::Unpaid | Status::Paid));
        let open: Vec<_> = open.collect();
        if let Some(order) = open.choose(dice) {
            let by = if dice.random_ratio(1, 2) { By::Seller } else { By::System };
            w.sim.close(order.id, by, "x").expect("closed");
        }
    }
    if dice.random_ratio(1, 4)
        && let Some(id) = orders.choose(dice)
    {
        let path = format!("/v1/orders/{id}/cancel");
        let (status, body) = w.post(&path, json!({ "reason": "customer" })).await;
        assert!(matches!(status, 200 | 202 | 409), "{body}");
    }
}

/// Ops look into what needs them: half is cancelled, half goes on. What is sold from the shelf
/// leaves.
async fn work_off(w: &World, dice: &mut StdRng) {
    let page = w.get("/v1/orders?state=attention&limit=500").await;
    for order in page["items"].as_array().expect("a list") {
        let path = format!("/v1/orders/{}/decide", order["id"].as_str().expect("an id"));
        let action = if dice.random_ratio(1, 2) { "cancel" } else { "retry" };
        let (status, body) = w.post(&path, json!({ "action": action })).await;
        assert!(matches!(status, 200 | 202 | 409), "{body}");
    }
    let sql = "SELECT h.order_id, h.line, CAST(sum(h.quantity) AS BIGINT) FROM holds h
        JOIN orders o ON o.id = h.order_id WHERE o.state = 'confirmed'
        AND o.cancel_requested_at IS NULL AND h.kind = 'warehouse' AND h.state = 'committed'
        GROUP BY h.order_id, h.line";
    let sold: Vec<(String, i64, i64)> = w.home.rows(sql).await;
    for (order, line, quantity) in sold {
        let body = json!({ "lines": [{ "line_id": format!("{order}.{line}"), "quantity": quantity }],
            "carrier": "SF", "tracking_number": "SF1" });
        let key = format!("{order}-{line}-{}", w.now());
        let path = format!("/v1/orders/{order}/shipments");
        let (status, body) = w.post_keyed(&path, &key, body).await;
        assert!(matches!(status, 200 | 409), "{body}");
    }
}

const UNDER_WAY: &str = "SELECT count(*) FROM orders WHERE state NOT IN
    ('cancelled', 'expired', 'shipped', 'completed')";

#[tokio::test]
async fn everything_at_once_ends_with_books_that_agree() {
    storm(seed(20_261_130), CountsAt::Payment, 150).await;
}

#[tokio::test]
async fn everything_at_once_where_stock_counts_at_order_ends_with_books_that_agree() {
    storm(seed(1_688), CountsAt::Order, 60).await;
}

fn seed(usual: u64) -> u64 {
    std::env::var("STORM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Twelve items; four of them are on our own shelf too, and the last has two SKUs.
async fn shop(refunder: &Refunder, seed: u64, counts_at: CountsAt) -> World {
    let offers = offers();
    let selling: Vec<(&str, i64)> = offers.iter().map(|id| (id.as_str(), 40)).collect();
    let mut keys = format!("{}[supplier]\nrequest_timeout = \"2s\"\n", refunder.keys());
    if counts_at == CountsAt::Order {
        keys += "stock_counts_at = \"order\"\nstock_counts_verified = true\n";
    }
    let setup = Setup::new().with(&keys).selling(&selling).simulated(|s| {
        s.seed = seed;
        s.trade.stock_counts_at = counts_at;
    });
    let w = setup.start().await;
    for (n, offer) in offers.iter().enumerate() {
        if n < 4 { w.mixed_sku(offer, offer, 6).await } else { w.sku(offer, offer, None).await }
    }
    w.sku("TWIN", &offers[11], None).await;
    w.sync().await;
    w.sim.change(misbehave).expect("settings");
    w
}

async fn storm(seed: u64, counts_at: CountsAt, number: usize) {
    let refunder = Refunder::start().await;
    let mut w = shop(&refunder, seed, counts_at).await;
    refunder.loses_every.store(3, std::sync::atomic::Ordering::SeqCst);
    let mut dice = StdRng::seed_from_u64(seed);
    let items = offers();
    let skus: Vec<String> = items.iter().cloned().chain(["TWIN".to_owned()]).collect();
    let mut orders = Vec::new();
    for n in 1..=number {
        orders.extend(place(&w, &mut dice, &skus).await);
        meddle(&w, &mut dice, &items, &orders).await;
        if n % 3 == 0 {
            w.pass(Span::secs(dice.random_range(1..=50))).await;
        }
        if n % (number / 5) == 0 && n < number {
            let before = w.sim.calls(Api::Create);
            w.until("a create is sent", async |w| {
                w.sim.calls(Api::Create) > before || w.number(UNDER_WAY).await == 0
            })
            .await;
            w.crash().await;
            books::check_tables(&w.home).await;
        }
    }
    w.sim.change(calm).expect("settings");
    refunder.loses_every.store(0, std::sync::atomic::Ordering::SeqCst);
    w.stride(Span::minutes(20));
    for _ in 0..30 {
        w.pass(Span::minutes(60)).await;
        work_off(&w, &mut dice).await;
        if w.number(UNDER_WAY).await == 0 {
            break;
        }
    }
    // The last look-up of a lost create comes after a day.
    w.stride(Span::minutes(30));
    w.pass(Span::hours(25)).await;
    agree(&w, &refunder, &items).await;
}

async fn agree(w: &World, refunder: &Refunder, items: &[String]) {
    books::check(w).await;
    assert_eq!(w.number(UNDER_WAY).await, 0, "{}", w.log());
    assert_eq!(w.number("SELECT count(*) FROM holds WHERE state = 'active'").await, 0);
    let kept = w
        .number(
            "SELECT coalesce(sum((l.quantity - l.cancelled) * l.unit_price), 0) FROM order_lines l
            JOIN orders o ON o.id = l.order_id WHERE o.state IN ('shipped', 'completed')",
        )
        .await;
    let captured = w.number("SELECT coalesce(sum(amount), 0) FROM payments").await;
    let back = w.number("SELECT coalesce(sum(amount), 0) FROM refunds").await;
    assert_eq!(back, captured - kept);
    assert!(kept > 0 && captured > kept);
    assert_eq!(w.number("SELECT count(*) FROM refunds WHERE state <> 'succeeded'").await, 0);
    assert!(refunder.made().values().all(|times| *times == 1), "{:?}", refunder.made());
    assert_eq!(refunder.paid_back(), back);
    // What is bought and not closed at the supplier is what our holds say, item by item; a surplus
    // order that was paid before it was found is an open alert.
    for offer in items {
        let ours = w.number(&books::bought(offer)).await;
        assert_eq!(w.sim.units_bought(&item(offer)), ours, "{offer}");
    }
    check_duplicates(w).await;
}

/// Every surplus order that has not ended is told; what is still told has not ended, or was paid, which
/// only a person can undo.
async fn check_duplicates(w: &World) {
    let alerts = w.alerts("upstream_duplicate").await;
    let told: BTreeSet<String> =
        alerts.into_iter().filter(|(_, open)| *open).map(|(subject, _)| subject).collect();
    let trails: Vec<(String, String)> = w.home.rows("SELECT id, trail FROM purchase_orders").await;
    let (mut standing, mut paid) = (BTreeSet::new(), BTreeSet::new());
    for (id, trail) in trails {
        let trail: Value = serde_json::from_str(&trail).expect("JSON");
        for surplus in trail["surplus"].as_array().expect("a list") {
            let order = surplus["supplier_order_id"].as_str().expect("an id");
            let subject = format!("{id}/{order}");
            if surplus["ended_at"].is_null() {
                standing.insert(subject.clone());
            }
            if surplus["paid"] == true {
                paid.insert(subject);
            }
        }
    }
    assert!(standing.is_subset(&told), "{standing:?} {told:?}");
    let may_be_told: BTreeSet<String> = standing.union(&paid).cloned().collect();
    assert!(told.is_subset(&may_be_told), "{told:?} {may_be_told:?}");
    let counted = w.number("SELECT count(*) FROM holds WHERE surplus > 0").await;
    assert_eq!(counted > 0, !standing.is_empty());
}
