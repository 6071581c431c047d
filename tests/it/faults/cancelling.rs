//! A customer who cancels while a purchase is in flight: the answer decides, and money goes back
//! once, or waits for a person.

use serde_json::{Value, json};
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, By, Fault};

use super::books;
use super::world::{Setup, World};

async fn cancel(w: &World, id: &str) -> (u16, Value) {
    w.post(&format!("/v1/orders/{id}/cancel"), json!({ "reason": "customer" })).await
}

async fn decide(w: &World, id: &str, action: &str) -> (u16, Value) {
    w.post(&format!("/v1/orders/{id}/decide"), json!({ "action": action })).await
}

/// A paid order whose purchase has just asked for `api`, which hangs.
async fn hanging(api: Api, fault: Fault) -> (World, String) {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(api, &[fault]);
    w.until_called(api, 0).await;
    (w, id)
}

async fn ends_cancelled(w: &World, id: &str) {
    w.until_state(id, "cancelled").await;
    assert_eq!(w.order(id).await["cancel_reason"], "customer");
    assert_eq!(w.refunded(id).await, (1, 1000));
    assert_eq!(w.number("SELECT sum(held) + sum(committed) FROM levels").await, 0);
    books::check(w).await;
}

/// Found: cancelled upstream, which is asked again when it was too soon, and then refunded.
#[tokio::test]
async fn a_cancel_during_a_create_that_was_made_cancels_it_upstream() {
    let (w, id) = hanging(Api::Create, Fault::LOST).await;
    let (status, order) = cancel(&w, &id).await;
    assert_eq!((status, &order["state"]), (202, &"confirming".into()));
    assert!(order["cancel_requested_at"].is_string());
    assert_eq!(order["refunds"], json!([]));
    assert_eq!(cancel(&w, &id).await.0, 202, "asked twice");
    ends_cancelled(&w, &id).await;
    let upstream = w.sim.order(w.upstream(&id, 1)).expect("an order");
    assert_eq!(upstream.closed.expect("closed").by, By::Buyer);
    assert!(w.sim.calls(Api::Cancel) > 1, "the first was too soon");
}

/// Not made: released and refunded after the look-ups.
#[tokio::test]
async fn a_cancel_during_a_create_that_was_not_made_is_carried_out_after_the_look_ups() {
    let (w, id) = hanging(Api::Create, Fault::TIMED_OUT).await;
    assert_eq!(cancel(&w, &id).await.0, 202);
    w.until_purchase(&id, "unknown").await;
    w.idle().await;
    assert_eq!(w.refunded(&id).await, (0, 0));
    ends_cancelled(&w, &id).await;
    assert_eq!((w.sim.orders().len(), w.sim.calls(Api::Create)), (0, 1));
}

/// In the preview nothing was sent: it is carried out as soon as that is known.
#[tokio::test]
async fn a_cancel_during_the_preview_sends_no_create() {
    for fault in [Fault::TIMED_OUT, Fault::Slow { by: Span::millis(700) }] {
        let (w, id) = hanging(Api::Preview, fault).await;
        assert_eq!(cancel(&w, &id).await.0, 202);
        ends_cancelled(&w, &id).await;
        assert!(w.sim.orders().iter().all(|o| o.closed.is_some()));
    }
}

/// Before it is claimed a purchase is just dropped.
#[tokio::test]
async fn a_cancel_before_buying_is_carried_out_at_once() {
    let w = Setup::new().start().await.with_shoe().await;
    let switch = json!({ "what": "buying", "reason": "test" });
    w.post("/v1/suppliers/s1688/pause", switch).await;
    let id = w.buy("SHOE", 1).await;
    w.until_purchase(&id, "pending").await;
    assert_eq!(cancel(&w, &id).await.0, 200);
    ends_cancelled(&w, &id).await;
    assert_eq!(w.sim.calls(Api::Create), 0);
}

/// Placed and unpaid, whatever becomes of the answer to our cancel.
#[tokio::test]
async fn a_placed_order_is_cancelled_upstream_whatever_is_answered() {
    let faults = [
        Fault::Slow { by: Span::ZERO },
        Fault::LOST,
        Fault::TIMED_OUT,
        Fault::Http { status: 502, effect: true },
        Fault::Refuse { code: "ORDER_STATUS_ERROR".into(), message: "x".into(), effect: true },
        Fault::Refuse { code: "SYSTEM_ERROR".into(), message: "x".into(), effect: false },
    ];
    for fault in faults {
        let w = Setup::new().start().await.with_shoe().await;
        let id = w.buy("SHOE", 1).await;
        w.until_state(&id, "confirmed").await;
        w.pass(Span::secs(30)).await;
        w.script(Api::Cancel, &[fault]);
        assert_eq!(cancel(&w, &id).await.0, 202);
        ends_cancelled(&w, &id).await;
        assert!(w.sim.order(w.upstream(&id, 1)).expect("an order").closed.is_some());
    }
}

/// An order whose cancel the supplier refused because it was paid meanwhile.
async fn refused() -> (World, String) {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.until_state(&id, "confirmed").await;
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    assert_eq!(cancel(&w, &id).await.0, 202);
    w.until_state(&id, "attention").await;
    w.pass(Span::hours(2)).await;
    assert_eq!(w.alerts("cancel_refused_upstream").await, [(id.clone(), true)]);
    assert_eq!((w.state(&id).await, w.refunded(&id).await), ("attention".into(), (0, 0)));
    assert_eq!(w.purchase(&id).await["state"], "paid");
    (w, id)
}

#[tokio::test]
async fn a_cancel_refused_because_it_is_paid_waits_for_ops_who_cancel() {
    let (w, id) = refused().await;
    let (status, order) = decide(&w, &id, "cancel").await;
    assert_eq!(
        (status, &order["state"], &order["cancel_reason"]),
        (200, &"cancelled".into(), &"ops".into())
    );
    assert_eq!(w.refunded(&id).await, (1, 1000));
    assert_eq!(decide(&w, &id, "cancel").await.0, 409);
    // The goods come all the same: nothing more is owed, the hold ends in the feed.
    w.sim.ship(w.upstream(&id, 1)).expect("shipped");
    w.until_purchase(&id, "shipped").await;
    w.pass(Span::minutes(30)).await;
    assert_eq!(w.refunded(&id).await, (1, 1000));
    assert_eq!(w.number("SELECT sum(held) + sum(committed) FROM levels").await, 0);
    assert_eq!(w.alerts("cancel_refused_upstream").await, [(id.clone(), false)]);
    books::check(&w).await;
}

#[tokio::test]
async fn a_cancel_refused_because_it_is_paid_waits_for_ops_who_keep_it() {
    let (w, id) = refused().await;
    assert_eq!(decide(&w, &id, "retry").await.0, 200);
    w.until_state(&id, "confirmed").await;
    w.sim.ship(w.upstream(&id, 1)).expect("shipped");
    w.until_state(&id, "shipped").await;
    assert_eq!(w.refunded(&id).await, (0, 0));
    assert_eq!(w.alerts("cancel_refused_upstream").await, [(id.clone(), false)]);
    books::check(&w).await;
}

/// Refused because paid, and shipped while ops sleep: what is shipped is a matter of returns.
#[tokio::test]
async fn a_refused_cancel_that_ships_meanwhile_keeps_its_money() {
    let (w, id) = refused().await;
    w.sim.ship(w.upstream(&id, 1)).expect("shipped");
    w.until_purchase(&id, "shipped").await;
    w.pass(Span::hours(1)).await;
    assert_eq!(w.refunded(&id).await, (0, 0));
    let (_, order) = decide(&w, &id, "cancel").await;
    assert_eq!(w.refunded(&id).await.1, 0, "{order}");
    books::check(&w).await;
}

/// Paid between the cancel's request and its answer.
#[tokio::test]
async fn a_payment_that_overtakes_the_cancel_wins() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.until_state(&id, "confirmed").await;
    w.pass(Span::secs(30)).await;
    w.script(Api::Cancel, &[Fault::TIMED_OUT]);
    assert_eq!(cancel(&w, &id).await.0, 202);
    w.until_called(Api::Cancel, 0).await;
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    w.until_state(&id, "attention").await;
    assert_eq!(w.refunded(&id).await, (0, 0));
    books::check(&w).await;
}
