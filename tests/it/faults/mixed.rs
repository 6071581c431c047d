//! Orders of several shares: own shelf and supplier, two SKUs of one item, two lines of which one
//! fails; and supplier orders that end when nobody expects it any more.

use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault};

use super::books;
use super::world::{Setup, World, item, shoe};

const A: &str = "700000000001";
const B: &str = "700000000002";

async fn hold_states(w: &World, id: &str) -> Vec<(String, String)> {
    let sql = "SELECT kind, state FROM holds WHERE order_id = $1 ORDER BY line, part";
    w.home.tables.rows(sql, &[id]).await
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

/// One line from two sources: what the supplier cannot give takes the shelf's share with it.
#[tokio::test]
async fn a_split_line_ends_whole_when_the_supplier_is_short() {
    for policy in ["cancel_order", "cancel_lines"] {
        let w = Setup::new().selling(&[(A, 9)]).start().await;
        w.mixed_sku("MUG", A, 2).await;
        w.sync().await;
        let mut basket = w.paid_basket(&[("MUG", 5)]);
        basket["short_policy"] = policy.into();
        let id = w.post_order(basket).await;
        assert_eq!(
            hold_states(&w, &id).await,
            pairs(&[("warehouse", "committed"), ("supplier", "active")])
        );
        w.sim.set_stock(&item(A), 2).expect("an item");
        w.until_state(&id, "cancelled").await;
        assert_eq!(
            hold_states(&w, &id).await,
            pairs(&[("warehouse", "reversed"), ("supplier", "released")])
        );
        assert_eq!(w.refunded(&id).await, (1, 5000));
        books::check(&w).await;
    }
}

/// A split line leaves from both places, and the order is shipped when both have.
#[tokio::test]
async fn a_split_line_is_shipped_when_both_shares_are() {
    let w = Setup::new().selling(&[(A, 9)]).start().await;
    w.mixed_sku("MUG", A, 2).await;
    w.sync().await;
    let id = w.buy("MUG", 5).await;
    w.until_state(&id, "confirmed").await;
    let body = json!({ "lines": [{ "line_id": w.order(&id).await["lines"][0]["id"], "quantity": 2 }],
        "carrier": "SF", "tracking_number": "SF1" });
    let (status, order) = w.post_keyed(&format!("/v1/orders/{id}/shipments"), "s1", body).await;
    assert_eq!((status, &order["state"]), (200, &"confirmed".into()));
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    w.sim.ship(w.upstream(&id, 1)).expect("shipped");
    w.until_state(&id, "shipped").await;
    assert_eq!(w.order(&id).await["lines"][0]["shipped_quantity"], 5);
    books::check(&w).await;
}

/// Two SKUs of one upstream item: one purchase line for both, found again when its answer is lost.
#[tokio::test]
async fn two_skus_of_one_item_are_one_line_of_the_purchase() {
    let w = Setup::new().selling(&[(A, 5)]).start().await;
    w.sku("RED", A, None).await;
    w.sku("CRIMSON", A, None).await;
    w.sync().await;
    let (status, refusal) =
        w.post("/v1/orders", w.paid_basket(&[("RED", 3), ("CRIMSON", 3)])).await;
    assert_eq!((status, &refusal["code"]), (409, &"insufficient_stock".into()));
    let id = w.post_order(w.paid_basket(&[("RED", 3), ("CRIMSON", 2)])).await;
    w.script(Api::Create, &[Fault::LOST]);
    w.until_state(&id, "confirmed").await;
    assert_eq!((w.sim.units_ordered(&item(A)), w.sim.calls(Api::Create)), (5, 1));
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    w.sim.ship(w.upstream(&id, 1)).expect("shipped");
    w.until_state(&id, "shipped").await;
    books::check(&w).await;
}

/// Both lines are short of one item together: neither is confirmed on the other's goods.
#[tokio::test]
async fn two_skus_of_one_item_are_judged_by_their_sum() {
    let w = Setup::new().selling(&[(A, 5)]).start().await;
    w.sku("RED", A, None).await;
    w.sku("CRIMSON", A, None).await;
    w.sync().await;
    let mut basket = w.paid_basket(&[("RED", 3), ("CRIMSON", 2)]);
    basket["short_policy"] = "cancel_lines".into();
    let id = w.post_order(basket).await;
    w.sim.set_stock(&item(A), 4).expect("an item");
    w.until_state(&id, "cancelled").await;
    assert_eq!((w.refunded(&id).await, w.sim.orders().len()), ((1, 5000), 0));
    books::check(&w).await;
}

/// A purchase of two items that the preview refuses: which one is short is asked, and the other
/// line is bought.
#[tokio::test]
async fn a_refused_purchase_of_two_items_loses_only_the_short_line() {
    let w = Setup::new().selling(&[(A, 5), (B, 5)]).start().await.with_skus(&[A, B]).await;
    let mut basket = w.paid_basket(&[(A, 1), (B, 1)]);
    basket["short_policy"] = "cancel_lines".into();
    let id = w.post_order(basket).await;
    let asked = w.sim.calls(Api::Preview);
    // Sold between the confirmation and the preview.
    w.script(Api::Preview, &[Fault::Http { status: 502, effect: false }]);
    w.until_called(Api::Preview, asked).await;
    w.sim.set_stock(&item(B), 0).expect("an item");
    w.until("B's line is cancelled", async |w| {
        w.order(&id).await["lines"][1]["cancelled_quantity"] == 1
    })
    .await;
    w.until_state(&id, "confirmed").await;
    assert_eq!((w.sim.units_ordered(&item(A)), w.sim.units_ordered(&item(B))), (1, 0));
    assert_eq!(w.refunded(&id).await, (1, 1000));
    books::check(&w).await;
}

/// The seller closes a paid order long after its units were in the feed: they come back once.
#[tokio::test]
async fn a_settled_purchase_that_the_seller_closes_is_refunded_once() {
    let w = Setup::new().selling(&[(A, 5)]).start().await.with_skus(&[A]).await;
    let id = w.buy(A, 2).await;
    w.until_state(&id, "confirmed").await;
    w.sim.pay(w.upstream(&id, 1)).expect("paid");
    w.until_purchase(&id, "paid").await;
    w.pass(Span::minutes(30)).await;
    assert_eq!(hold_states(&w, &id).await, pairs(&[("supplier", "settled")]));
    let available =
        async |w: &World| w.get(&format!("/v1/skus/{A}/availability")).await["available"].clone();
    assert_eq!(available(&w).await, 3);
    w.sim.close_by_seller(w.upstream(&id, 1)).expect("closed");
    w.until_state(&id, "cancelled").await;
    assert_eq!(w.refunded(&id).await, (1, 2000));
    let resume = json!({ "what": "selling", "reason": "test" });
    assert_eq!(w.post(&format!("/v1/skus/{A}/resume"), resume).await.0, 200);
    w.pass(Span::minutes(15)).await;
    assert_eq!(available(&w).await, 5);
    books::check(&w).await;
}

/// A cancel was refused because it is paid; then the seller closes it after all.
#[tokio::test]
async fn a_refused_cancel_ends_when_the_seller_closes_the_order() {
    for decided in [false, true] {
        let w = Setup::new().start().await.with_shoe().await;
        let id = w.buy("SHOE", 1).await;
        w.until_state(&id, "confirmed").await;
        w.sim.pay(w.upstream(&id, 1)).expect("paid");
        let (status, _) =
            w.post(&format!("/v1/orders/{id}/cancel"), json!({ "reason": "customer" })).await;
        assert_eq!(status, 202);
        w.until_state(&id, "attention").await;
        if decided {
            let (status, _) =
                w.post(&format!("/v1/orders/{id}/decide"), json!({ "action": "cancel" })).await;
            assert_eq!(status, 200);
        }
        w.sim.close_by_seller(w.upstream(&id, 1)).expect("closed");
        w.until_purchase(&id, "cancelled").await;
        w.until_state(&id, "cancelled").await;
        let reason = if decided { "ops" } else { "customer" };
        assert_eq!(w.order(&id).await["cancel_reason"], reason);
        assert_eq!(w.refunded(&id).await, (1, 1000));
        w.idle().await;
        assert_eq!(w.alerts("cancel_refused_upstream").await, [(id.clone(), false)]);
        assert_eq!(w.number("SELECT sum(held) + sum(committed) FROM levels").await, 0);
        books::check(&w).await;
    }
}

/// Unpaid, and closed by the platform while the daemon was down for a day.
#[tokio::test]
async fn what_was_closed_while_the_daemon_was_down_is_bought_again() {
    let w = Setup::new().simulated(|s| s.trade.unpaid_close_after = Some(Span::hours(12)));
    let mut w = w.start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.until_state(&id, "confirmed").await;
    w.kill().await;
    w.advance_to(w.now() + Span::hours(24)).await;
    w.restart().await;
    w.until("it is bought again", async |w| {
        let purchase = w.purchase(&id).await;
        purchase["generation"] == 2 && purchase["state"] == "placed"
    })
    .await;
    w.sim.pay(w.upstream(&id, 2)).expect("paid");
    w.until_purchase(&id, "paid").await;
    assert_eq!((w.sim.units_bought(&shoe()), w.refunded(&id).await), (1, (0, 0)));
    books::check(&w).await;
}

/// A cancel of one line is refused while its purchase is in flight, and possible before.
#[tokio::test]
async fn a_line_is_cut_before_buying_and_not_while_it_is_bought() {
    let w = Setup::new().selling(&[(A, 5), (B, 5)]).start().await.with_skus(&[A, B]).await;
    let id = w.post_order(w.paid_basket(&[(A, 2), (B, 1)])).await;
    let line = w.order(&id).await["lines"][0]["id"].as_str().expect("an id").to_owned();
    let cut = format!("/v1/orders/{id}/lines/{line}/cancel");
    let (status, body) = w.post_keyed(&cut, "c1", json!({ "quantity": 1 })).await;
    assert_eq!(status, 200, "{body}");
    w.script(Api::Create, &[Fault::LOST]);
    w.until_called(Api::Create, 0).await;
    let (status, body) = w.post_keyed(&cut, "c2", json!({ "quantity": 1 })).await;
    assert_eq!((status, &body["code"]), (409, &"order_state_conflict".into()));
    w.until_state(&id, "confirmed").await;
    assert_eq!((w.sim.units_ordered(&item(A)), w.sim.units_ordered(&item(B))), (1, 1));
    assert_eq!(w.refunded(&id).await, (1, 1000));
    books::check(&w).await;
}
