//! `kill -9` at each point of an order's life. Everything owed is still done, and once.

use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault};

use super::books;
use super::refunder::Refunder;
use super::world::{Setup, World, shoe};

async fn shop() -> World {
    Setup::new().start().await.with_shoe().await
}

/// Bought once, and nothing is given back.
async fn ends_bought_once(w: &World, id: &str) {
    w.until_state(id, "confirmed").await;
    let order = w.upstream(id, 1);
    w.sim.pay(order).expect("paid");
    w.until_purchase(id, "paid").await;
    assert_eq!((w.sim.orders().len(), w.sim.units_bought(&shoe())), (1, 1));
    assert_eq!(w.refunded(id).await, (0, 0));
    w.pass(Span::minutes(70)).await;
    assert_eq!(w.sim.orders().len(), 1);
    books::check(w).await;
}

/// Cancelled, given back once, and nothing stands at the supplier.
async fn ends_cancelled_once(w: &World, id: &str) {
    w.until_state(id, "cancelled").await;
    assert_eq!(w.refunded(id).await, (1, 1000));
    w.pass(Span::minutes(70)).await;
    assert_eq!(w.refunded(id).await, (1, 1000));
    assert!(w.sim.orders().iter().all(|o| o.closed.is_some()));
    assert_eq!(w.number("SELECT sum(held) + sum(committed) FROM levels").await, 0);
    books::check(w).await;
}

/// (1)
#[tokio::test]
async fn right_after_201_the_order_is_there_and_expires() {
    let mut w = shop().await;
    let basket = w.basket(&[("SHOE", 3)]);
    let id = w.post_order(basket.clone()).await;
    w.crash().await;
    let (status, same) = w.post("/v1/orders", basket).await;
    assert_eq!((status, same["id"].as_str()), (200, Some(id.as_str())));
    assert_eq!(same["lines"][0]["allocations"][0]["hold_state"], "active");
    let shown = w.get("/v1/skus/SHOE/availability").await;
    assert_eq!(shown["sources"][0]["held"], 3);
    w.pass(Span::minutes(31)).await;
    assert_eq!(w.state(&id).await, "expired");
    assert_eq!(w.number("SELECT sum(held) FROM levels").await, 0);
    books::check(&w).await;
}

/// (2)
#[tokio::test]
async fn right_after_the_payment_it_is_paid_and_bought() {
    let mut w = shop().await;
    let id = w.post_order(w.basket(&[("SHOE", 1)])).await;
    let payment = json!({ "id": "pay-1", "amount": "10.00", "currency": "USD" });
    let path = format!("/v1/orders/{id}/payments");
    let (status, order) = w.post(&path, payment.clone()).await;
    assert_eq!((status, &order["state"]), (200, &"paid".into()));
    w.crash().await;
    assert_eq!(w.state(&id).await, "paid");
    let (status, order) = w.post(&path, payment).await;
    assert_eq!((status, &order["paid"]), (200, &"10.00".into()));
    ends_bought_once(&w, &id).await;
}

/// Buys one shoe, and kills the daemon while a call of `api` hangs.
async fn killed_in(api: Api, fault: Fault) -> (World, String) {
    let mut w = shop().await;
    let id = w.buy("SHOE", 1).await;
    let before = w.sim.calls(api);
    w.script(api, &[fault]);
    w.until_called(api, before).await;
    w.crash().await;
    (w, id)
}

/// (3)
#[tokio::test]
async fn while_the_stock_question_is_in_flight() {
    let (w, id) = killed_in(Api::Product, Fault::TIMED_OUT).await;
    ends_bought_once(&w, &id).await;
}

/// (4)
#[tokio::test]
async fn in_the_preview() {
    let (w, id) = killed_in(Api::Preview, Fault::TIMED_OUT).await;
    ends_bought_once(&w, &id).await;
}

/// (5)
#[tokio::test]
async fn after_a_create_that_was_made_and_never_answered() {
    let (w, id) = killed_in(Api::Create, Fault::LOST).await;
    assert_eq!(w.sim.orders().len(), 1);
    ends_bought_once(&w, &id).await;
    assert_eq!(w.sim.calls(Api::Create), 1);
}

/// (6)
#[tokio::test]
async fn after_a_create_that_was_not_made_and_never_answered() {
    let (w, id) = killed_in(Api::Create, Fault::TIMED_OUT).await;
    ends_bought_once(&w, &id).await;
    assert_eq!(w.sim.calls(Api::Create), 2);
}

/// (6), and it lands when the daemon is up again.
#[tokio::test]
async fn after_a_create_that_lands_while_the_daemon_starts() {
    let (w, id) = killed_in(Api::Create, Fault::Late { after: Span::secs(60) }).await;
    ends_bought_once(&w, &id).await;
    assert_eq!(w.sim.calls(Api::Create), 1);
}

/// (7)
#[tokio::test]
async fn between_placed_and_paid() {
    let mut w = shop().await;
    let id = w.buy("SHOE", 1).await;
    w.until_state(&id, "confirmed").await;
    let before = w.sim.calls(Api::View);
    w.script(Api::View, &[Fault::TIMED_OUT]);
    w.until_called(Api::View, before).await;
    w.kill().await;
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    w.sim.ship(w.upstream(&id, 1)).expect("shipped");
    w.restart().await;
    w.until_state(&id, "shipped").await;
    assert_eq!((w.sim.orders().len(), w.refunded(&id).await), (1, (0, 0)));
    books::check(&w).await;
}

/// (8), the cancel made and not made.
#[tokio::test]
async fn during_the_cancel_upstream() {
    for fault in [Fault::LOST, Fault::TIMED_OUT] {
        let mut w = shop().await;
        let id = w.buy("SHOE", 1).await;
        w.until_state(&id, "confirmed").await;
        w.pass(Span::secs(30)).await;
        w.script(Api::Cancel, &[fault]);
        let path = format!("/v1/orders/{id}/cancel");
        let (status, _) = w.post(&path, json!({ "reason": "customer" })).await;
        assert_eq!(status, 202);
        w.until_called(Api::Cancel, 0).await;
        w.crash().await;
        ends_cancelled_once(&w, &id).await;
    }
}

/// (9)
#[tokio::test]
async fn while_a_refund_was_made_and_its_answer_is_lost() {
    let refunder = Refunder::start().await;
    let mut w = Setup::new().with(&refunder.keys()).start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.sim.set_stock(&shoe(), 0).expect("a shoe");
    refunder.loses.store(true, std::sync::atomic::Ordering::SeqCst);
    w.until("it was made", async |_| !refunder.made().is_empty()).await;
    w.crash().await;
    refunder.loses.store(false, std::sync::atomic::Ordering::SeqCst);
    w.until("it is known", async |w| w.order(&id).await["refunds"][0]["state"] == "succeeded")
        .await;
    assert_eq!(refunder.made().into_values().collect::<Vec<_>>(), [1]);
    assert_eq!(refunder.paid_back(), 1000);
    ends_cancelled_once(&w, &id).await;
    assert_eq!(refunder.made().into_values().collect::<Vec<_>>(), [1]);
}

/// (10)
#[tokio::test]
async fn in_the_middle_of_a_sync() {
    let mut w = shop().await;
    w.sim.set_stock(&shoe(), 7).expect("a shoe");
    w.idle().await;
    let before = w.sim.calls(Api::Product);
    w.script(Api::Product, &[Fault::TIMED_OUT]);
    w.advance_to(w.now() + Span::secs(1)).await;
    let (status, _) = w.post("/v1/suppliers/s1688/sync", json!({})).await;
    assert_eq!(status, 202);
    w.until_called(Api::Product, before).await;
    let (status, answer) = w.post("/v1/suppliers/s1688/sync", json!({})).await;
    assert_eq!((status, &answer["code"]), (409, &"already_running".into()));
    w.crash().await;
    w.pass(Span::minutes(1)).await;
    let shown = w.get("/v1/skus/SHOE/availability").await;
    assert_eq!(
        (&shown["available"], &shown["sources"][0]["freshness"]),
        (&7.into(), &"fresh".into())
    );
    books::check(&w).await;
}

/// Twice in a row, at the worst place: in the look-up of a create of unknown fate.
#[tokio::test]
async fn again_and_again_while_a_lost_create_is_looked_up() {
    let (mut w, id) = killed_in(Api::Create, Fault::LOST).await;
    for _ in 0..3 {
        let before = w.sim.calls(Api::List);
        w.script(Api::List, &[Fault::TIMED_OUT]);
        w.until_called(Api::List, before).await;
        assert_eq!(w.refunded(&id).await, (0, 0));
        w.crash().await;
    }
    ends_bought_once(&w, &id).await;
    assert_eq!(w.sim.calls(Api::Create), 1);
}
