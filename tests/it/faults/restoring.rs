//! A backup is restored: what the lost life of the store bought and gave back, the restored one,
//! which knows nothing of it, finds instead of doing it again.

use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault};

use super::books;
use super::refunder::Refunder;
use super::world::{Setup, World, item};
use crate::blackbox::tables::Backup;

const A: &str = "700000000001";
const B: &str = "700000000002";

/// One order was bought after the backup, another fell short and was given back.
#[tokio::test]
async fn what_was_done_after_the_backup_is_found_and_not_done_again() {
    let refunder = Refunder::start().await;
    let setup = Setup::new().selling(&[(A, 9), (B, 9)]).with(&refunder.keys());
    let mut w = setup.start().await.with_skus(&[A, B]).await;
    let (bought, short) = (w.buy(A, 2).await, w.buy(B, 3).await);
    w.sim.set_stock(&item(B), 1).expect("an item");
    w.kill().await;
    let backup = w.home.tables.backup().await;

    w.restart().await;
    w.until_purchase(&bought, "placed").await;
    w.until_state(&short, "cancelled").await;
    w.until("money is back", async |_| refunder.made().len() == 1).await;
    w.idle().await;
    let upstream = w.upstream(&bought, 1);
    w.kill().await;

    w.home.tables.restore(&backup).await;
    let said = w.home.run(&["restore-mark"]).await.ok();
    assert!(said.starts_with("restored at "), "{said}");
    let creates = w.sim.calls(Api::Create);
    let waiting = "SELECT count(*) FROM orders WHERE state = 'paid'";
    assert_eq!(w.number(waiting).await, 2, "the backup's");
    w.restart().await;
    w.until_purchase(&bought, "placed").await;
    w.until_state(&short, "cancelled").await;
    w.until("it is known", async |w| w.order(&short).await["refunds"][0]["state"] == "succeeded")
        .await;
    w.pass(Span::minutes(70)).await;
    assert_eq!(w.sim.calls(Api::Create), creates, "nothing is bought again");
    assert_eq!(w.upstream(&bought, 1), upstream, "it is the one that was found");
    assert_eq!(refunder.made().into_values().collect::<Vec<_>>(), [1]);
    let refund = &w.order(&short).await["refunds"][0];
    assert_eq!(refund["amount"], "30.00");

    // Orders of the new life need no look-up, and what was never done is done.
    let later = w.buy(A, 1).await;
    let looked = w.sim.calls(Api::List);
    w.until_purchase(&later, "placed").await;
    assert_eq!(w.sim.calls(Api::List), looked);
    books::check(&w).await;
}

/// The one order, which the lost life has bought, is cancelled as soon as the backup is restored: what was
/// bought is found first, and cancelled too.
async fn the_cancel_waits(mut w: World, backup: &Backup, id: &str) {
    w.home.tables.restore(backup).await;
    w.home.run(&["restore-mark"]).await.ok();
    w.script(Api::List, &[Fault::Http { status: 503, effect: false }]);
    w.restart().await;
    let (status, body) = w
        .post(&format!("/v1/orders/{id}/cancel"), serde_json::json!({ "reason": "customer" }))
        .await;
    assert_eq!((status, body["state"].as_str()), (202, Some("confirming")), "{body}");
    w.until_state(id, "cancelled").await;
    assert_eq!(w.sim.orders().len(), 1);
    assert!(w.sim.orders().iter().all(|o| o.closed.is_some()), "{:?}", w.sim.orders());
    assert_eq!(w.refunded(id).await, (1, 2000));
    books::check(&w).await;
}

/// What waits in the backup to be sent may have been sent: a cancel does not win over it at once.
#[tokio::test]
async fn a_cancel_after_a_restore_waits_until_it_is_known_whether_it_was_bought() {
    let mut w = Setup::new().selling(&[(A, 9)]).start().await.with_skus(&[A]).await;
    let pause = serde_json::json!({ "what": "buying", "reason": "backup" });
    assert_eq!(w.post("/v1/suppliers/s1688/pause", pause.clone()).await.0, 200);
    let id = w.buy(A, 2).await;
    w.until_purchase(&id, "pending").await;
    w.idle().await;
    w.kill().await;
    let backup = w.home.tables.backup().await;
    w.restart().await;
    assert_eq!(w.post("/v1/suppliers/s1688/resume", pause).await.0, 200);
    w.until_purchase(&id, "placed").await;
    w.kill().await;

    the_cancel_waits(w, &backup, &id).await;
}

/// What was only paid in the backup has no purchase yet, and may have one at the supplier all the same.
#[tokio::test]
async fn a_cancel_of_what_was_only_paid_in_the_backup_waits_for_the_look_ups_too() {
    let mut w = Setup::new().selling(&[(A, 9)]).start().await.with_skus(&[A]).await;
    let id = w.buy(A, 2).await;
    w.kill().await;
    let backup = w.home.tables.backup().await;
    w.restart().await;
    w.until_purchase(&id, "placed").await;
    w.kill().await;

    // The item's live stock cannot be asked for, so that the order is not confirmed before the cancel.
    w.always(Api::Product, Some(Fault::Http { status: 503, effect: false }));
    the_cancel_waits(w, &backup, &id).await;
}

/// The item's last units went into the very purchase that the backup knows nothing of.
#[tokio::test]
async fn what_looks_short_after_a_restore_because_it_was_bought_is_found() {
    let mut w = Setup::new().selling(&[(A, 2)]).start().await.with_skus(&[A]).await;
    let id = w.buy(A, 2).await;
    w.kill().await;
    let backup = w.home.tables.backup().await;
    w.restart().await;
    w.until_purchase(&id, "placed").await;
    let upstream = w.upstream(&id, 1);
    w.sim.set_stock(&item(A), 0).expect("an item");
    w.kill().await;

    w.home.tables.restore(&backup).await;
    w.home.run(&["restore-mark"]).await.ok();
    let creates = w.sim.calls(Api::Create);
    w.restart().await;
    w.until_purchase(&id, "placed").await;
    w.until_state(&id, "confirmed").await;
    assert_eq!(w.upstream(&id, 1), upstream);
    assert_eq!(w.sim.calls(Api::Create), creates);
    assert_eq!(w.refunded(&id).await, (0, 0));
    books::check(&w).await;
}
