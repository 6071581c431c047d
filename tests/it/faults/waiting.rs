//! Deadlines of what waits: for an answer, for an address, for a payment, for a parcel.

use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault};

use super::books;
use super::world::{Setup, World};

const SILENCE: Fault = Fault::Http { status: 502, effect: false };

/// No answer for 2 h: attention; for 24 h more: cancelled, as surely nothing was bought.
#[tokio::test]
async fn an_order_without_any_answer_needs_attention_and_then_ends() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.always(Api::Product, Some(SILENCE));
    w.stride(Span::minutes(5)); // the feed alone is tried again every minute
    w.until_state(&id, "confirming").await;
    w.pass(Span::minutes(115)).await;
    assert_eq!((w.state(&id).await, w.refunded(&id).await), ("confirming".into(), (0, 0)));
    w.until_state(&id, "attention").await;
    assert_eq!(w.alerts("order_attention").await, [(id.clone(), true)]);
    let asked = w.sim.calls(Api::Product);
    w.stride(Span::minutes(10));
    w.pass(Span::hours(23)).await;
    assert!(w.sim.calls(Api::Product) > asked + 100, "it is still asked every 10 min");
    assert_eq!((w.state(&id).await, w.refunded(&id).await), ("attention".into(), (0, 0)));
    w.until_state(&id, "cancelled").await;
    assert_eq!(w.order(&id).await["cancel_reason"], "supplier_unavailable");
    assert_eq!(w.refunded(&id).await, (1, 1000));
    w.idle().await;
    assert_eq!(w.alerts("order_attention").await, [(id.clone(), false)]);
    books::check(&w).await;
}

/// In attention a definite answer still ends it.
#[tokio::test]
async fn an_answer_in_attention_ends_it() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.always(Api::Product, Some(SILENCE));
    w.stride(Span::minutes(5));
    w.until_state(&id, "attention").await;
    w.always(Api::Product, None);
    w.until_state(&id, "confirmed").await;
    assert_eq!(w.alerts("order_attention").await, [(id.clone(), false)]);
    books::check(&w).await;
}

/// What may be bought is never given up by time: it is told every day.
#[tokio::test]
async fn a_purchase_of_unknown_fate_is_never_refunded_by_time() {
    let w = Setup::new().with("[confirm]\nattention_deadline = \"4h\"").start().await;
    let w = w.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::LOST]);
    w.always(Api::List, Some(SILENCE));
    w.stride(Span::minutes(5));
    w.until_state(&id, "attention").await;
    w.pass(Span::hours(9)).await;
    let purchase = w.purchase(&id).await;
    assert_eq!((&purchase["state"], &purchase["attempts"]), (&"unknown".into(), &1.into()));
    assert_eq!((w.state(&id).await, w.refunded(&id).await), ("attention".into(), (0, 0)));
    assert_eq!(w.alerts("purchase_unknown").await, [(World::reference(&id, 1), true)]);
    assert_eq!(w.alerts("order_attention").await, [(id.clone(), true)]);
    w.always(Api::List, None);
    w.until_state(&id, "confirmed").await;
    w.idle().await;
    assert_eq!(w.alerts("purchase_unknown").await, [(World::reference(&id, 1), false)]);
    assert_eq!(w.alerts("order_attention").await, [(id.clone(), false)]);
    assert_eq!(w.sim.orders().len(), 1);
    books::check(&w).await;
}

/// One supplier order fills one purchase: what another has is not taken for it.
#[tokio::test]
async fn a_purchase_is_not_resolved_with_the_order_of_another() {
    let w = Setup::new().start().await.with_shoe().await;
    let bought = w.buy("SHOE", 1).await;
    w.until_purchase(&bought, "placed").await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::TIMED_OUT]);
    w.always(Api::List, Some(SILENCE));
    w.until_purchase(&id, "unknown").await;
    let of_another = w.upstream(&bought, 1).to_string();
    let body = json!({ "outcome": "placed", "supplier_order_id": of_another });
    let path = format!("/v1/purchase-orders/{}/resolve", World::reference(&id, 1));
    let (status, answer) = w.post(&path, body).await;
    assert_eq!((status, &answer["code"]), (409, &"order_state_conflict".into()), "{answer}");
    assert_eq!(answer["state"], "unknown");
    w.always(Api::List, None);
    w.until_state(&id, "confirmed").await;
    assert_eq!(w.sim.orders().len(), 2);
    books::check(&w).await;
}

/// Ops say what became of it.
#[tokio::test]
async fn ops_resolve_a_purchase_of_unknown_fate() {
    for made in [false, true] {
        let w = Setup::new().start().await.with_shoe().await;
        let id = w.buy("SHOE", 1).await;
        w.script(Api::Create, &[if made { Fault::LOST } else { Fault::TIMED_OUT }]);
        w.always(Api::List, Some(SILENCE));
        w.until_purchase(&id, "unknown").await;
        let body = if made {
            json!({ "outcome": "placed", "supplier_order_id": w.upstream(&id, 1).to_string() })
        } else {
            json!({ "outcome": "not_placed" })
        };
        let path = format!("/v1/purchase-orders/{}/resolve", World::reference(&id, 1));
        let (status, answer) = w.post(&path, body).await;
        assert_eq!(status, 200, "{answer}");
        w.until_state(&id, "confirmed").await;
        // By now its fate is known, and nothing is left to say about it.
        let again = json!({ "outcome": "not_placed" });
        let (status, answer) = w.post(&path, again).await;
        assert_eq!((status, &answer["code"]), (409, &"order_state_conflict".into()), "{answer}");
        assert_eq!(answer["state"], "placed");
        w.always(Api::List, None);
        w.pass(Span::minutes(70)).await;
        assert_eq!(w.sim.orders().len(), 1);
        books::check(&w).await;
    }
}

/// Nowhere to deliver to at the time of confirming.
#[tokio::test]
async fn an_order_without_an_address_is_cancelled_when_it_would_be_confirmed() {
    let w = Setup::new().start().await.with_shoe().await;
    let mut basket = w.paid_basket(&[("SHOE", 1)]);
    let address = basket.as_object_mut().expect("an object").remove("ship_to").expect("there");
    let id = w.post_order(basket).await;
    let mut basket = w.paid_basket(&[("SHOE", 1)]);
    basket.as_object_mut().expect("an object").remove("ship_to");
    let told = w.post_order(basket).await;
    let path = format!("/v1/orders/{told}/ship_to");
    let (status, body) = w.call("PUT", &path, Some(address)).await;
    assert_eq!(status, 200, "{body}");
    w.until_state(&id, "cancelled").await;
    assert_eq!(w.order(&id).await["cancel_reason"], "address_missing");
    assert_eq!(w.refunded(&id).await, (1, 1000));
    w.until_state(&told, "confirmed").await;
    books::check(&w).await;
}

/// Sold and not shipped: told, again every day, and never let go.
#[tokio::test]
async fn what_is_sold_and_does_not_leave_is_told() {
    let w = Setup::new().with("[orders]\nship_deadline = \"6h\"").start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.until_state(&id, "confirmed").await;
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    w.pass(Span::hours(5)).await;
    assert_eq!(w.alerts("order_attention").await, []);
    w.pass(Span::hours(2)).await;
    assert_eq!(w.alerts("order_attention").await, [(id.clone(), true)]);
    assert_eq!((w.state(&id).await, w.refunded(&id).await), ("confirmed".into(), (0, 0)));
    w.sim.ship(w.upstream(&id, 1)).expect("shipped");
    w.until_state(&id, "shipped").await;
    w.idle().await;
    assert_eq!(w.alerts("order_attention").await, [(id.clone(), false)]);
    books::check(&w).await;
}

/// Placed and not paid on the supplier's site.
#[tokio::test]
async fn an_unpaid_purchase_is_told_until_it_is_paid() {
    let w = Setup::new().with("[supplier]\nunpaid_deadline = \"2h\"").start().await;
    let w = w.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.until_state(&id, "confirmed").await;
    w.pass(Span::minutes(110)).await;
    assert_eq!(w.alerts("purchase_unpaid").await, []);
    w.pass(Span::minutes(20)).await;
    assert_eq!(w.alerts("purchase_unpaid").await, [(World::reference(&id, 1), true)]);
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    w.until_purchase(&id, "paid").await;
    w.idle().await;
    assert_eq!(w.alerts("purchase_unpaid").await, [(World::reference(&id, 1), false)]);
    books::check(&w).await;
}
