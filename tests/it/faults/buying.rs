//! Creates that are lost, late or refused: one order at the supplier, whatever was answered.

use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault, Repeated, Shortage};

use super::books;
use super::world::{Setup, World, item, shoe};

const A: &str = "700000000001";
const B: &str = "700000000002";

/// What was called, by name, of creating and looking up.
fn placing_calls(w: &World) -> Vec<Api> {
    let calls = w.sim.last_calls().into_iter().map(|call| call.api);
    let mut calls: Vec<Api> = calls.filter(|api| matches!(api, Api::Create | Api::List)).collect();
    calls.dedup_by(|a, b| a == b && *a == Api::List);
    calls
}

/// The references of all creates.
fn references(w: &World) -> Vec<String> {
    let calls = w.sim.last_calls().into_iter().filter(|call| call.api == Api::Create);
    calls.map(|call| call.about["outOrderId"].clone()).collect()
}

/// C103: made, then a 500.
#[tokio::test]
async fn a_create_that_was_made_and_answered_with_500_is_found() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::Http { status: 500, effect: true }]);
    w.until_state(&id, "confirmed").await;
    assert_eq!(placing_calls(&w), [Api::Create, Api::List]);
    let purchase = w.purchase(&id).await;
    assert_eq!((&purchase["state"], &purchase["attempts"]), (&"placed".into(), &1.into()));
    assert_eq!(purchase["supplier_orders"][0]["id"], w.upstream(&id, 1).to_string());
    assert_eq!(w.refunded(&id).await, (0, 0));
    books::check(&w).await;
}

/// C103: three attempts, each under the same reference, each but the first after a look-up.
#[tokio::test]
async fn three_attempts_have_one_reference_and_a_look_up_before_each_repeat() {
    for repeated in [Repeated::SameOrder, Repeated::SecondOrder] {
        let w = Setup::new().simulated(|s| s.trade.repeated_reference = repeated);
        let w = w.start().await.with_shoe().await;
        let id = w.buy("SHOE", 1).await;
        w.script(Api::Create, &[Fault::TIMED_OUT, Fault::Cut { effect: false }]);
        w.until_state(&id, "confirmed").await;
        let (create, list) = (Api::Create, Api::List);
        assert_eq!(placing_calls(&w), [create, list, create, list, create]);
        assert!(references(&w).iter().all(|r| *r == World::reference(&id, 1)));
        assert_eq!(w.purchase(&id).await["attempts"], 3);
        assert_eq!(w.sim.orders().len(), 1);
        books::check(&w).await;
    }
}

/// C104: the answer comes after our time-out.
#[tokio::test]
async fn an_answer_after_our_time_out_is_looked_up_and_not_asked_for_again() {
    let w = Setup::new().with("[supplier]\nrequest_timeout = \"1s\"").start().await;
    let w = w.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::Slow { by: Span::secs(4) }]);
    w.until("it is unknown", async |w| {
        let order = w.order(&id).await;
        let events = order["timeline"].as_array().expect("a list").clone();
        events.iter().any(|e| e["event"] == "purchase_unknown")
    })
    .await;
    w.until_state(&id, "confirmed").await;
    assert_eq!((w.sim.calls(Api::Create), w.sim.orders().len()), (1, 1));
    books::check(&w).await;
}

/// C105: 503, and the order appears 90 s later, before the second look-up could say *not there*.
#[tokio::test]
async fn a_503_is_waited_out_and_nothing_is_given_back_meanwhile() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::Late { after: Span::secs(90) }]);
    w.until_purchase(&id, "unknown").await;
    let lost_at = w.now();
    w.until("it is placed", async |w| {
        assert_eq!(w.refunded(&id).await, (0, 0));
        let state = w.purchase(&id).await["state"].clone();
        assert!(state == "unknown" || state == "placed", "{state}");
        state == "placed"
    })
    .await;
    assert!(w.now().since(lost_at) >= Span::secs(90));
    assert_eq!((w.sim.calls(Api::Create), w.sim.orders().len()), (1, 1));
    books::check(&w).await;
}

/// A refusal after a lost attempt may be our own first attempt's doing: it is believed after the
/// look-ups alone. Here it is: the last unit went into the lost order.
#[tokio::test]
async fn a_refusal_after_a_lost_attempt_is_believed_only_when_nothing_is_found() {
    let counts = "[supplier]\nstock_counts_at = \"order\"\nstock_counts_verified = true";
    let w = Setup::new().with(counts).selling(&[(A, 1)]).simulated(|s| {
        s.trade.stock_counts_at = stockhold::suppliers::simulator::CountsAt::Order;
        s.trade.repeated_reference = Repeated::SecondOrder;
    });
    let w = w.start().await.with_skus(&[A]).await;
    let id = w.buy(A, 1).await;
    w.script(Api::Create, &[Fault::Late { after: Span::secs(200) }]);
    w.until_purchase(&id, "unknown").await;
    let lost_at = w.now();
    // Not there at both look-ups; it lands while the next attempt's previews fail.
    w.always(Api::Preview, Some(Fault::Http { status: 502, effect: false }));
    w.until("it has landed", async |w| w.now().since(lost_at) > Span::secs(200)).await;
    assert!(w.purchase(&id).await["attempts"].as_i64() > Some(1));
    w.always(Api::Preview, None);
    w.until_state(&id, "confirmed").await;
    assert_eq!(w.refunded(&id).await, (0, 0));
    assert_eq!((w.sim.calls(Api::Create), w.sim.orders().len()), (1, 1));
    books::check(&w).await;
}

/// Nobody bought it: refused after a lost attempt, not found, and then it is short.
#[tokio::test]
async fn a_refusal_after_a_lost_attempt_that_was_not_made_ends_short() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::TIMED_OUT, Fault::out_of_stock()]);
    w.until("it was doubted", async |w| {
        let purchase = w.purchase(&id).await;
        purchase["attempts"] == 2 && purchase["state"] == "unknown"
    })
    .await;
    assert_eq!(w.refunded(&id).await, (0, 0));
    w.until_state(&id, "cancelled").await;
    assert_eq!(w.order(&id).await["cancel_reason"], "supplier_short");
    assert_eq!(w.refunded(&id).await, (1, 1000));
    w.pass(Span::minutes(70)).await;
    books::check(&w).await;
}

/// All that a create can say of a shortage, with a line that is there and one that is not.
#[tokio::test]
async fn each_form_of_a_partial_shortage_ends_as_the_order_says() {
    for shortage in [Shortage::Code, Shortage::Lines, Shortage::LeaveOut] {
        let w = Setup::new().selling(&[(A, 5), (B, 5)]);
        let w = w.simulated(|s| s.trade.shortage = shortage).start().await;
        let w = w.with_skus(&[A, B]).await;
        let mut basket = w.paid_basket(&[(A, 1), (B, 1)]);
        basket["short_policy"] = "cancel_lines".into();
        let id = w.post_order(basket).await;
        // B is sold out between the preview and the create: both see the truth, the figures lag.
        w.sim
            .change(|s| {
                s.conduct_mut(Api::Product).lag = Span::minutes(30);
                s.conduct_mut(Api::Preview).lag = Span::minutes(30);
            })
            .expect("settings");
        w.sim.set_stock(&item(B), 0).expect("an item");
        w.until("B's line is cancelled", async |w| {
            w.order(&id).await["lines"][1]["cancelled_quantity"] == 1
        })
        .await;
        w.until_state(&id, "confirmed").await;
        assert_eq!(w.order(&id).await["lines"][0]["cancelled_quantity"], 0, "{shortage:?}");
        assert_eq!(w.refunded(&id).await, (1, 1000), "{shortage:?}");
        assert_eq!((w.sim.units_ordered(&item(A)), w.sim.units_ordered(&item(B))), (1, 0));
        books::check(&w).await;
    }
}

/// A platform that does not know the filter lists everything: other orders are not ours.
#[tokio::test]
async fn a_list_that_ignores_the_reference_is_read_to_its_end() {
    for shown in [false, true] {
        let w = Setup::new().simulated(|s| {
            s.trade.list_ignores_reference = true;
            if shown {
                s.trade.reference_shown_in =
                    stockhold::suppliers::simulator::ReferenceIn::ExtAttributes;
            }
        });
        let w = w.start().await.with_shoe().await;
        let first = w.buy("SHOE", 1).await;
        w.until_state(&first, "confirmed").await;
        let second = w.buy("SHOE", 1).await;
        w.script(Api::Create, &[Fault::LOST]);
        w.until_state(&second, "confirmed").await;
        let third = w.buy("SHOE", 1).await;
        w.script(Api::Create, &[Fault::TIMED_OUT]);
        w.until_state(&third, "confirmed").await;
        for id in [&first, &second, &third] {
            let _one = w.upstream(id, 1);
        }
        assert_eq!(w.sim.units_ordered(&shoe()), 3);
        books::check(&w).await;
    }
}

/// The token ends: it is refreshed once, kept, and used after a restart.
#[tokio::test]
async fn a_refreshed_token_is_kept_over_a_restart() {
    let mut w = Setup::new().start().await.with_shoe().await;
    w.sim.expire_tokens();
    let id = w.buy("SHOE", 1).await;
    w.until_state(&id, "confirmed").await;
    assert_eq!(w.sim.calls(Api::Token), 1);
    w.until("it is kept", async |w| {
        w.number("SELECT count(*) FROM suppliers WHERE tokens IS NOT NULL").await == 1
    })
    .await;
    w.crash().await;
    let id = w.buy("SHOE", 1).await;
    w.until_state(&id, "confirmed").await;
    assert_eq!(w.sim.calls(Api::Token), 1, "the refreshed token was kept");
    books::check(&w).await;
}

/// The stop switches: of selling, new orders are refused; of buying, what is confirmed waits.
#[tokio::test]
async fn paused_selling_refuses_and_paused_buying_waits() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    let switch = |what: &str| serde_json::json!({ "what": what, "reason": "flood" });
    let (status, body) = w.post("/v1/suppliers/s1688/pause", switch("selling")).await;
    assert_eq!(status, 200, "{body}");
    let (status, refusal) = w.post("/v1/orders", w.paid_basket(&[("SHOE", 1)])).await;
    assert_eq!((status, &refusal["code"]), (409, &"sku_paused".into()));
    w.post("/v1/suppliers/s1688/resume", switch("selling")).await;
    w.post("/v1/suppliers/s1688/pause", switch("buying")).await;
    // Longer than an answer is waited for.
    w.stride(Span::minutes(5));
    w.pass(Span::minutes(150)).await;
    assert_eq!(w.purchase(&id).await["state"], "pending");
    assert_eq!((w.sim.calls(Api::Create), w.state(&id).await), (0, "confirming".into()));
    w.stride(Span::ZERO);
    let resumed_at = w.now();
    w.post("/v1/suppliers/s1688/resume", switch("buying")).await;
    w.until_state(&id, "confirmed").await;
    assert!(w.now().since(resumed_at) < Span::secs(10), "it is woken, not waited for");
    for kind in ["purchase_unknown", "order_attention"] {
        assert_eq!(w.alerts(kind).await, []);
    }
    let (status, _) = w.post("/v1/skus/SHOE/pause", switch("both")).await;
    assert_eq!(status, 200);
    let (status, refusal) = w.post("/v1/orders", w.paid_basket(&[("SHOE", 1)])).await;
    assert_eq!((status, &refusal["code"]), (409, &"sku_paused".into()));
    books::check(&w).await;
}
