//! Creates that land when nobody waits for them any more: found by the late look-ups, cancelled,
//! and told.

use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, By, Fault, Repeated};

use super::books;
use super::world::{Setup, World};

/// Two orders under one reference, where the platform makes two.
fn twice() -> Setup {
    Setup::new().simulated(|s| s.trade.repeated_reference = Repeated::SecondOrder)
}

/// The orders under a first reference: how many there are, how many of them stand.
fn made(w: &World, id: &str) -> (usize, usize) {
    let orders = w.sim.orders_of(&World::reference(id, 1));
    (orders.len(), orders.iter().filter(|o| o.closed.is_none()).count())
}

/// Cancelled and refunded, then the create lands: it is cancelled, and nothing is refunded twice.
#[tokio::test]
async fn a_create_that_lands_after_the_refund_is_cancelled() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::Late { after: Span::minutes(5) }]);
    w.until_purchase(&id, "unknown").await;
    let (status, _) = w.post(&format!("/v1/orders/{id}/cancel"), cancel()).await;
    assert_eq!(status, 202);
    w.until_state(&id, "cancelled").await;
    assert_eq!((w.refunded(&id).await, made(&w, &id)), ((1, 1000), (0, 0)));
    w.until("it has landed and is gone", async |w| made(w, &id) == (1, 0)).await;
    assert_eq!(w.sim.orders()[0].closed.as_ref().expect("closed").by, By::Buyer);
    w.idle().await;
    let duplicates = w.alerts("upstream_duplicate").await;
    assert_eq!(
        duplicates,
        [(format!("{}/{}", World::reference(&id, 1), w.upstream(&id, 1)), false)]
    );
    assert_eq!(w.refunded(&id).await, (1, 1000));
    books::check(&w).await;
}

fn cancel() -> serde_json::Value {
    serde_json::json!({ "reason": "customer" })
}

/// The first attempt lands after the second was placed, before the look-up of 10 min or of 1 h.
#[tokio::test]
async fn a_first_attempt_that_lands_after_the_second_is_cancelled() {
    for after in [Span::minutes(5), Span::minutes(40), Span::hours(5)] {
        let w = twice().start().await.with_shoe().await;
        let id = w.buy("SHOE", 1).await;
        w.script(Api::Create, &[Fault::Late { after }]);
        w.until_state(&id, "confirmed").await;
        assert_eq!(made(&w, &id), (1, 1));
        let kept = w.upstream(&id, 1);
        w.sim.pay(kept).expect("paid");
        w.stride(Span::minutes(10));
        w.until("the surplus is cancelled", async |w| made(w, &id) == (2, 1)).await;
        w.idle().await;
        assert!(w.sim.order(kept).expect("an order").closed.is_none(), "the recorded one stands");
        let alerts = w.alerts("upstream_duplicate").await;
        assert!(matches!(alerts.as_slice(), [(_, false)]), "{alerts:?}");
        let roles = w.purchase(&id).await["supplier_orders"].clone();
        assert_eq!(
            (&roles[0]["role"], &roles[1]["role"]),
            (&"recorded".into(), &"surplus_ended".into())
        );
        assert_eq!((w.state(&id).await, w.refunded(&id).await), ("confirmed".into(), (0, 0)));
        books::check(&w).await;
    }
}

/// Where the platform keeps a reference to one order, the late one is the same one.
#[tokio::test]
async fn a_late_first_attempt_of_a_platform_that_keeps_references_is_no_second_order() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::Late { after: Span::minutes(5) }]);
    w.until_state(&id, "confirmed").await;
    w.pass(Span::minutes(70)).await;
    assert_eq!(made(&w, &id), (1, 1));
    assert_eq!(w.alerts("upstream_duplicate").await, []);
    books::check(&w).await;
}

/// Both were made and both answers lost: one is recorded, the other cancelled at once.
#[tokio::test]
async fn of_two_orders_found_together_one_is_kept() {
    let w = twice().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    // The first lands between its look-ups and the second attempt, whose answer is lost as well.
    w.script(Api::Create, &[Fault::Late { after: Span::secs(170) }, Fault::LOST]);
    w.until_purchase(&id, "unknown").await;
    let lost_at = w.now();
    w.always(Api::Preview, Some(Fault::Http { status: 502, effect: false }));
    w.until("it was not found", async |w| w.purchase(&id).await["attempts"] != 1).await;
    w.until("it has landed", async |w| w.now().since(lost_at) > Span::secs(170)).await;
    w.always(Api::Preview, None);
    w.until_state(&id, "confirmed").await;
    w.until("one stands", async |w| made(w, &id) == (2, 1)).await;
    let recorded = w.purchase(&id).await["supplier_orders"][0]["id"].clone();
    let orders = w.sim.orders_of(&World::reference(&id, 1));
    let standing = orders.iter().find(|o| o.closed.is_none()).expect("one");
    assert_eq!(recorded, standing.id.to_string());
    w.idle().await;
    assert!(matches!(w.alerts("upstream_duplicate").await.as_slice(), [(_, false)]));
    books::check(&w).await;
}

/// A surplus order that somebody paid is for a person: it is told, and stays told.
#[tokio::test]
async fn a_surplus_order_that_is_paid_stays_in_the_alerts() {
    let w = twice().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Create, &[Fault::Late { after: Span::minutes(5) }]);
    w.until_state(&id, "confirmed").await;
    let kept = w.upstream(&id, 1);
    w.until("the surplus is there", async |w| {
        for order in w.sim.orders().iter().filter(|o| o.id != kept && o.paid_at.is_none()) {
            w.sim.pay(order.id).expect("paid");
        }
        w.sim.orders().len() == 2
    })
    .await;
    w.pass(Span::minutes(70)).await;
    let alerts = w.alerts("upstream_duplicate").await;
    assert!(matches!(alerts.as_slice(), [(_, true)]), "{alerts:?}");
    assert_eq!((w.state(&id).await, w.sim.calls(Api::Cancel)), ("confirmed".into(), 0));
    books::check_tables(&w.home).await;
}
