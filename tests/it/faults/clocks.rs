//! A clock that jumps while calls are in flight: a machine that slept.

use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault};

use super::books;
use super::world::{Setup, World, item, shoe};

const A: &str = "700000000001";

/// An answer to a question of two minutes ago decides nothing, be it good or bad.
#[tokio::test]
async fn an_old_answer_decides_nothing() {
    let w = Setup::new().selling(&[(A, 9)]).start().await.with_skus(&[A]).await;
    // What the old answer says, what is true when it comes, and what that must end in.
    for (said, there, state) in [(0, 9, "confirmed"), (9, 0, "cancelled")] {
        w.sim.set_stock(&item(A), 9).expect("an item");
        w.sync().await;
        let id = w.buy(A, 1).await;
        w.sim.set_stock(&item(A), said).expect("an item");
        let before = w.sim.calls(Api::Product);
        w.script(Api::Product, &[Fault::Slow { by: Span::millis(1500) }]);
        w.until_called(Api::Product, before).await;
        w.sim.set_stock(&item(A), there).expect("an item");
        w.advance_to(w.now() + Span::minutes(2)).await;
        w.until_state(&id, state).await;
    }
    books::check(&w).await;
}

/// A create in flight over an hour's sleep: its answer counts, and a lost one is looked up.
#[tokio::test]
async fn a_create_that_was_in_flight_while_the_machine_slept_is_made_once() {
    let slow = Fault::Slow { by: Span::millis(1500) };
    for fault in [slow, Fault::LOST, Fault::TIMED_OUT] {
        let w = Setup::new().start().await.with_shoe().await;
        let id = w.buy("SHOE", 1).await;
        w.script(Api::Create, &[fault]);
        w.until_called(Api::Create, 0).await;
        w.advance_to(w.now() + Span::hours(1)).await;
        w.until_state(&id, "confirmed").await;
        let _one = w.upstream(&id, 1);
        w.pass(Span::minutes(70)).await;
        assert_eq!((w.sim.orders().len(), w.sim.units_ordered(&shoe())), (1, 1));
        assert_eq!(w.refunded(&id).await, (0, 0));
        books::check(&w).await;
    }
}

/// A preview in flight over the sleep: too late for its claim, so nothing is sent under it.
#[tokio::test]
async fn a_preview_that_outlasts_its_claim_sends_nothing() {
    let w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.script(Api::Preview, &[Fault::Slow { by: Span::millis(1500) }]);
    w.until_called(Api::Preview, 0).await;
    w.advance_to(w.now() + Span::minutes(2)).await;
    w.until_state(&id, "confirmed").await;
    assert_eq!(
        (w.purchase(&id).await["attempts"].clone(), w.sim.calls(Api::Create)),
        (2.into(), 1)
    );
    assert_eq!(w.sim.orders_of(&World::reference(&id, 1)).len(), 1);
    books::check(&w).await;
}
