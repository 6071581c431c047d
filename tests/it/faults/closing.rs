//! Supplier orders that are closed by others: unpaid ones are confirmed once more, those closed by
//! the seller are given up.

use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{By, CountsAt};

use super::books;
use super::world::{Setup, World, item, shoe};

const A: &str = "700000000001";

async fn confirmed() -> (World, String) {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 2).await;
    w.until_state(&id, "confirmed").await;
    (w, id)
}

async fn ends_supplier_closed(w: &World, id: &str, refund: i64) {
    w.until_state(id, "cancelled").await;
    let order = w.order(id).await;
    assert_eq!(order["cancel_reason"], "supplier_closed");
    let holds = order["lines"][0]["allocations"].as_array().expect("a list");
    assert!(holds.iter().all(|h| h["hold_state"] == "reversed"), "{holds:?}");
    assert_eq!(w.refunded(id).await, (1, refund));
    assert_eq!(w.number("SELECT sum(held) + sum(committed) FROM levels").await, 0);
}

/// Unpaid or paid, what the seller closes is reversed, refunded, and not sold from there.
#[tokio::test]
async fn what_the_seller_closes_is_refunded_and_blocked_until_resumed() {
    for paid in [false, true] {
        let (w, id) = confirmed().await;
        if paid {
            w.sim.pay(w.upstream(&id, 1)).expect("paid");
            w.until_purchase(&id, "paid").await;
        }
        w.sim.close_by_seller(w.upstream(&id, 1)).expect("closed");
        ends_supplier_closed(&w, &id, 2000).await;
        let alerts = w.alerts("supplier_closed").await;
        assert!(matches!(alerts.as_slice(), [(_, true)]), "{alerts:?}");
        w.sync().await;
        let shown = w.get("/v1/skus/SHOE/availability").await;
        assert_eq!(
            (&shown["available"], &shown["sources"][0]["available"]),
            (&json!(0), &json!(0))
        );
        assert!(shown["sources"][0]["closed_by_seller_at"].is_string(), "{shown}");
        let (status, refusal) = w.post("/v1/orders", w.paid_basket(&[("SHOE", 1)])).await;
        assert_eq!((status, &refusal["code"]), (409, &"insufficient_stock".into()));
        let resume = json!({ "what": "selling", "reason": "spoke with the seller" });
        let (status, body) = w.post("/v1/skus/SHOE/resume", resume).await;
        assert_eq!(status, 200, "{body}");
        w.buy("SHOE", 1).await;
        w.idle().await;
        assert!(matches!(w.alerts("supplier_closed").await.as_slice(), [(_, false)]));
        books::check(&w).await;
    }
}

/// Closed because we did not pay in time: confirmed once more, under the next generation.
#[tokio::test]
async fn closed_unpaid_once_is_bought_again_and_twice_is_given_up() {
    for closer in [By::System, By::Buyer] {
        let (w, id) = confirmed().await;
        w.sim.close(w.upstream(&id, 1), closer, "买家超时未付款").expect("closed");
        w.until("a second generation is placed", async |w| {
            let purchase = w.purchase(&id).await;
            purchase["generation"] == 2 && purchase["state"] == "placed"
        })
        .await;
        assert_eq!(w.state(&id).await, "confirmed");
        let order = w.order(&id).await;
        assert_eq!(order["purchase_orders"][0]["state"], "cancelled");
        let allocations = &order["lines"][0]["allocations"];
        assert_eq!(
            (&allocations[0]["hold_state"], &allocations[1]["hold_state"]),
            (&"reversed".into(), &"committed".into())
        );
        assert_eq!(w.refunded(&id).await, (0, 0));
        assert_eq!(w.alerts("supplier_closed").await, [], "the item stays orderable");
        w.buy("SHOE", 1).await;
        w.sim.close(w.upstream(&id, 2), closer, "买家超时未付款").expect("closed");
        w.until_state(&id, "cancelled").await;
        assert_eq!(w.order(&id).await["cancel_reason"], "supplier_closed");
        assert_eq!(w.refunded(&id).await, (1, 2000));
        assert!(w.sim.orders_of(&World::reference(&id, 3)).is_empty());
        books::check(&w).await;
    }
}

/// The held-again order keeps its place and does not fail for want of `available`.
#[tokio::test]
async fn closed_unpaid_is_held_again_even_when_nothing_is_available() {
    let w = Setup::new().selling(&[(A, 4)]).start().await.with_skus(&[A]).await;
    let first = w.buy(A, 2).await;
    w.until_state(&first, "confirmed").await;
    let second = w.buy(A, 2).await;
    w.sim.close(w.upstream(&first, 1), By::System, "买家超时未付款").expect("closed");
    w.until("the first is bought again", async |w| {
        w.purchase(&first).await["generation"] == 2 && w.state(&first).await == "confirmed"
    })
    .await;
    w.until_state(&second, "confirmed").await;
    w.sim.pay(w.upstream(&first, 2)).expect("paid");
    w.sim.pay(w.upstream(&second, 1)).expect("paid");
    w.until_purchase(&first, "paid").await;
    w.until_purchase(&second, "paid").await;
    assert_eq!(w.sim.units_bought(&item(A)), 4);
    books::check(&w).await;
}

/// Stock that runs out before the payment: the supplier closes it, which is as closed by the seller.
#[tokio::test]
async fn a_want_of_stock_at_payment_is_as_closed_by_the_seller() {
    let (w, id) = confirmed().await;
    w.sim.set_stock(&shoe(), 1).expect("an item");
    let _refused = w.sim.pay(w.upstream(&id, 1));
    ends_supplier_closed(&w, &id, 2000).await;
    assert!(matches!(w.alerts("supplier_closed").await.as_slice(), [(_, true)]));
    books::check(&w).await;
}

/// A supplier that counts stock at order gives it back with the order it closes.
#[tokio::test]
async fn the_units_of_a_closed_order_are_sold_once_more_and_not_twice() {
    let counts = "[supplier]\nstock_counts_at = \"order\"\nstock_counts_verified = true";
    let w = Setup::new().with(counts).selling(&[(A, 2)]);
    let w = w.simulated(|s| s.trade.stock_counts_at = CountsAt::Order).start().await;
    let w = w.with_skus(&[A]).await;
    let first = w.buy(A, 2).await;
    w.until_state(&first, "confirmed").await;
    w.pass(Span::minutes(25)).await; // the feed has the purchase in it: nothing is left
    let (status, _) = w.post("/v1/orders", w.paid_basket(&[(A, 1)])).await;
    assert_eq!(status, 409);
    w.sim.close(w.upstream(&first, 1), By::System, "买家超时未付款").expect("closed");
    w.until("it is bought again", async |w| {
        let purchase = w.purchase(&first).await;
        purchase["generation"] == 2 && purchase["state"] == "placed"
    })
    .await;
    assert_eq!((w.state(&first).await, w.refunded(&first).await), ("confirmed".into(), (0, 0)));
    w.pass(Span::minutes(25)).await;
    let (status, _) = w.post("/v1/orders", w.paid_basket(&[(A, 1)])).await;
    assert_eq!(status, 409);
    books::check(&w).await;
}
