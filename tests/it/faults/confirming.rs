//! The delayed confirmation: only a definite answer about stock is *short*; who is short is
//! cancelled and refunded in one commit; who came first is served first.

use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault};

use super::books;
use super::world::{Setup, World, item, shoe};

const A: &str = "700000000001";

/// Samples one statement that counts offenders, as fast as it can, until dropped.
struct Watch(tokio::task::JoinHandle<()>);

impl Watch {
    fn over(world: &World, sql: &'static str) -> Watch {
        let tables = std::sync::Arc::clone(&world.home.tables);
        Watch(tokio::spawn(async move {
            loop {
                assert_eq!(tables.number(sql).await, 0, "{sql}");
                tokio::task::yield_now().await;
            }
        }))
    }

    /// It has seen none.
    async fn end(self) {
        self.0.abort();
        let ended = self.0.await.expect_err("it goes on until it is stopped");
        assert!(ended.is_cancelled(), "{ended}");
    }
}

/// C044: cancelled without a refund, a refund without its job, or money back for a live order.
const HALF_DONE: &str = "SELECT count(*) FROM orders o WHERE
    (o.state = 'cancelled') <> EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = o.id)
    OR EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = o.id AND r.state = 'pending'
        AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.key = 'refund:' || r.id))
    OR (o.state = 'cancelled' AND EXISTS
        (SELECT 1 FROM holds h WHERE h.order_id = o.id AND h.state = 'active'))";

/// C044.
#[tokio::test]
async fn short_is_cancelled_and_its_refund_owed_in_one_commit() {
    // Nobody listens there: refunds stay pending, each with its job.
    let refunds = "[refunds]\nprovider = \"webhook\"\nurl = \"http://127.0.0.1:9/refunds\"\n\
        secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"";
    let mut w = Setup::new().with(refunds).start().await.with_shoe().await;
    let mut orders = Vec::new();
    for _ in 0..6 {
        orders.push(w.buy("SHOE", 1).await);
    }
    w.sim.set_stock(&shoe(), 0).expect("a shoe");
    let watch = Watch::over(&w, HALF_DONE);
    let cancelled = "SELECT count(*) FROM orders WHERE state = 'cancelled'";
    w.until("the first is cancelled", async |w| w.number(cancelled).await > 0).await;
    w.crash().await;
    for id in &orders {
        w.until_state(id, "cancelled").await;
        assert_eq!(w.order(id).await["cancel_reason"], "supplier_short");
        assert_eq!(w.refunded(id).await, (1, 1000));
    }
    watch.end().await;
    books::check_tables(&w.home).await;
    assert_eq!(w.number("SELECT sum(held) + sum(committed) FROM levels").await, 0);
    assert!(w.sim.orders().is_empty());
}

/// A lost create whose order was found has taken what it took: nobody waits an hour for it.
#[tokio::test]
async fn a_lost_create_that_was_found_keeps_nobody_waiting() {
    let w = Setup::new().selling(&[(A, 5)]).start().await.with_skus(&[A]).await;
    w.script(Api::Create, &[Fault::NeverAnswer { effect: true }]);
    let first = w.buy(A, 3).await;
    w.until_purchase(&first, "placed").await;
    w.sim.pay(w.upstream(&first, 1)).expect("paid");
    w.until_purchase(&first, "paid").await;
    assert_eq!(w.number("SELECT max(lost) FROM holds").await, 0);
    // It is in the supplier's figure, and the hour is far from over.
    w.pass(Span::minutes(15)).await;
    let second = w.buy(A, 2).await;
    let placed_at = w.now();
    w.sim.set_stock(&item(A), 1).expect("an item");
    w.until_state(&second, "cancelled").await;
    assert_eq!(w.order(&second).await["cancel_reason"], "supplier_short");
    assert!(w.now().since(placed_at) < Span::minutes(15), "asked after 5 minutes, and short");
    books::check(&w).await;
}

/// C010, judged together: the older order gets the goods.
#[tokio::test]
async fn of_two_orders_for_the_last_five_the_older_gets_them() {
    let w = Setup::new().selling(&[(A, 10)]).start().await.with_skus(&[A]).await;
    let (first, second) = (w.buy(A, 5).await, w.buy(A, 5).await);
    w.sim.set_stock(&item(A), 5).expect("an item");
    w.until_state(&first, "confirmed").await;
    w.until_state(&second, "cancelled").await;
    assert_eq!(w.order(&second).await["cancel_reason"], "supplier_short");
    assert_eq!((w.refunded(&first).await, w.refunded(&second).await), ((0, 0), (1, 5000)));
    books::check(&w).await;
}

/// C010, the younger asked about while the older's purchase stands unpaid: it is short only once
/// the supplier's figure surely has that purchase in it.
#[tokio::test]
async fn an_order_behind_an_unpaid_purchase_is_short_only_after_that_was_polled() {
    let w = Setup::new().selling(&[(A, 10)]).start().await.with_skus(&[A]).await;
    let first = w.buy(A, 5).await;
    w.until_state(&first, "confirmed").await;
    w.sim.set_stock(&item(A), 5).expect("an item");
    let second = w.buy(A, 5).await;
    w.until("it was asked", async |w| {
        w.order(&second).await["lines"][0]["allocations"][0]["confirmation"] == "unknown"
    })
    .await;
    assert_eq!(w.refunded(&second).await, (0, 0), "our own purchase is not a want of stock");
    w.sim.pay(w.upstream(&first, 1)).expect("paid");
    w.until_state(&second, "cancelled").await;
    assert_eq!(w.order(&second).await["cancel_reason"], "supplier_short");
    assert_eq!(w.purchase(&first).await["state"], "paid", "it was polled");
    assert_eq!(w.sim.units_bought(&item(A)), 5);
    books::check(&w).await;
}

/// C106: nothing but the known code is a want of stock.
#[tokio::test]
async fn what_is_no_answer_about_stock_is_unknown_and_asked_again() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    let faults = [
        Fault::unknown_error(),
        Fault::Http { status: 502, effect: false },
        Fault::Cut { effect: false },
        Fault::Torn { effect: true },
        Fault::Garbage { effect: true },
        Fault::throttled(),
        Fault::out_of_stock(), // of a question for figures it is no figure
        Fault::TIMED_OUT,
    ];
    for fault in faults {
        w.always(Api::Product, Some(fault.clone()));
        let before = w.sim.calls(Api::Product);
        w.until("it was asked again", async |w| w.sim.calls(Api::Product) > before + 1).await;
        w.idle().await;
        let order = w.order(&id).await;
        assert_eq!(order["state"], "confirming", "{fault:?}");
        assert_eq!(order["lines"][0]["allocations"][0]["confirmation"], "unknown", "{fault:?}");
        assert_eq!(order["refunds"], serde_json::json!([]), "{fault:?}");
    }
    w.always(Api::Product, None);
    w.until_state(&id, "confirmed").await;
    books::check(&w).await;
}

/// C106: the known code, at the preview and at the create.
#[tokio::test]
async fn the_known_code_is_short_wherever_it_is_said() {
    for api in [Api::Preview, Api::Create] {
        let w = Setup::new().start().await.with_shoe().await;
        let id = w.buy("SHOE", 2).await;
        w.script(api, &[Fault::out_of_stock()]);
        w.until_state(&id, "cancelled").await;
        let order = w.order(&id).await;
        assert_eq!(order["cancel_reason"], "supplier_short");
        assert_eq!(order["purchase_orders"][0]["state"], "failed");
        assert_eq!(order["purchase_orders"][0]["lines"][0]["result"], "500_004");
        assert_eq!(w.refunded(&id).await, (1, 2000));
        // Closed for as many and more until a newer figure is read.
        let basket = w.paid_basket(&[("SHOE", 2)]);
        let (status, refusal) = w.post("/v1/orders", basket).await;
        assert_eq!((status, &refusal["code"]), (409, &"insufficient_stock".into()));
        assert_eq!(refusal["shortages"][0]["available"], 1);
        w.pass(Span::minutes(11)).await;
        w.buy("SHOE", 2).await;
        books::check(&w).await;
    }
}

/// Throttled at every step, it is late and not short.
#[tokio::test]
async fn a_throttled_order_is_late_and_never_short() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Product, &[Fault::throttled(), Fault::throttled()]);
    w.script(Api::Preview, &[Fault::throttled(), Fault::throttled()]);
    w.script(Api::Create, &[Fault::throttled()]);
    w.until_state(&id, "confirmed").await;
    assert_eq!(w.refunded(&id).await, (0, 0));
    assert_eq!(w.sim.orders_of(&World::reference(&id, 1)).len(), 1);
    books::check(&w).await;
}

/// An item that is gone from the shelf is refused, for new orders and for those that wait.
#[tokio::test]
async fn an_item_that_is_not_listed_is_not_sold() {
    let w = Setup::new()
        .selling(&[(A, 10), ("700000000002", 5), ("700000000003", 5), ("700000000004", 5)])
        .start()
        .await;
    let w = w.with_skus(&[A, "700000000002", "700000000003", "700000000004"]).await;
    let id = w.buy(A, 1).await;
    w.sim.set_offer_status(A, "expired").expect("an offer");
    w.until_state(&id, "cancelled").await;
    assert_eq!(w.order(&id).await["cancel_reason"], "supplier_refused");
    assert_eq!(w.refunded(&id).await, (1, 1000));
    w.sync().await;
    let shown = w.get(&format!("/v1/skus/{A}/availability")).await;
    assert_eq!(shown["sources"][0]["freshness"], "not_listed");
    assert_eq!((&shown["available"], &shown["orderable"]), (&0.into(), &false.into()));
    let (status, refusal) = w.post("/v1/orders", w.paid_basket(&[(A, 1)])).await;
    assert_eq!((status, &refusal["code"]), (409, &"insufficient_stock".into()));
    assert_eq!(refusal["payment_recorded"], false);
    w.sim.set_offer_status(A, "published").expect("an offer");
    w.sync().await;
    w.buy(A, 1).await;
    books::check(&w).await;
}
