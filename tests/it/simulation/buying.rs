//! Purchases that go wrong: refused, lost, late, closed, cancelled, paid meanwhile. Each case is one
//! interleaving, by hand.

use stockhold::clock::Span;
use stockhold::domain::alert::AlertKind;
use stockhold::domain::command::{Action, Command, PurchaseResolution};
use stockhold::domain::order::{CancelReason, Confirmation, HoldState, ShortPolicy, State};
use stockhold::domain::outcome::{Outcome, PurchaseStep, Refusal};
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::supply::{Created, Fault, LeftOut, UpstreamState};

use super::bench::{Bench, created, out_of_stock, refused};
use super::shop::silence;
use super::stage::{capture, item, placement};

/// A bench with C on sale at the supplier.
fn bench() -> Bench {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    b
}

/// A paid order of C, confirmed and about to be bought.
fn confirmed(units: i64) -> Bench {
    let mut b = bench();
    b.paid("o1", &[("C", units, 100)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b
}

fn cancel(b: &mut Bench, order: &str) {
    b.run(Command::Cancel { order: order.into(), reason: CancelReason::Customer });
}

fn decide(b: &mut Bench, order: &str, action: Action) {
    b.run(Command::Decide { order: order.into(), action });
}

fn is_open(b: &Bench, kind: AlertKind, subject: &str) -> bool {
    b.store.alerts.contains_key(&(kind, subject.to_owned()))
}

#[test]
fn a_refusal_at_the_preview_ends_that_purchase_and_reopens_the_other_confirmed_shares() {
    let mut b = bench();
    for order in ["o1", "o2", "o3"] {
        b.paid(order, &[("C", 2, 100)]);
    }
    b.confirm_due(&["o1", "o2", "o3"]);
    b.judge("east:x:", 20);
    b.buy("o3-east-1", "e3");
    b.claim("o1-east-1");
    b.answer("o1-east-1", 1, Err(out_of_stock()));
    // The refused order falls short, the unsent one is asked about again, the placed one stays.
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::SupplierShort));
    assert_eq!(b.refunded("o1"), 200);
    assert_eq!(b.holds("o2"), [(2, HoldState::Active, Some(Confirmation::Waiting))]);
    assert_eq!(b.purchase("o2-east-1").state, PurchaseState::Cancelled);
    assert_eq!(b.order("o3").state, State::Confirmed);
    // Closed for 2 and more, for new orders too, until a figure as of after the refusal.
    let answer = b.place(placement("o4", &[("C", 2, 100)]));
    assert!(matches!(answer, Err(Refusal::InsufficientStock(_))), "{answer:?}");
    assert!(b.place(placement("o5", &[("C", 1, 100)])).is_ok());
    b.judge("east:x:", 20);
    assert_eq!(b.holds("o2"), [(2, HoldState::Active, Some(Confirmation::Unknown))]);
    b.wait(Span::secs(61));
    b.judge("east:x:", 20);
    assert_eq!(b.purchase("o2-east-2").state, PurchaseState::Pending);
    b.buy("o2-east-2", "e2");
    assert_eq!(b.order("o2").state, State::Confirmed);
}

#[test]
fn c104_c105_while_a_create_is_unknown_nothing_is_bought_again_and_nothing_is_refunded() {
    let mut b = confirmed(2);
    b.lose("o1-east-1");
    assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Unknown);
    cancel(&mut b, "o1");
    b.wait(Span::hours(2));
    b.due("o1");
    assert_eq!(b.order("o1").state, State::Attention);
    b.wait(Span::hours(24));
    b.due("o1");
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Attention, 0));
    assert!(matches!(b.claim("o1-east-1"), PurchaseStep::LookUp { .. }));
    // The message arrives at last: it was made. It is cancelled upstream, and only then refunded.
    let found = b.upstream("o1-east-1", "e1", UpstreamState::AwaitingPayment);
    b.look_up("o1-east-1", vec![found]);
    assert_eq!(b.refunded("o1"), 0);
    let step = b.claim("o1-east-1");
    assert_eq!(step, PurchaseStep::Cancel { supplier_order_id: "e1".into() });
    b.cancelled_upstream("o1-east-1", "e1", Ok(()));
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Cancelled, 200));
    assert_eq!(b.figures("east:x:"), (20, 0, 0));
}

#[test]
fn surely_not_there_are_two_clean_look_ups_the_second_late_enough() {
    let mut b = confirmed(2);
    let claimed_at = b.now;
    b.lose("o1-east-1");
    // The claim lasts 30 s, and 2 min must pass after it.
    b.wait(Span::secs(10));
    b.look_up("o1-east-1", vec![]);
    b.now = claimed_at + Span::secs(149);
    b.look_up("o1-east-1", vec![]);
    assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Unknown);
    b.now = claimed_at + Span::secs(150);
    b.look_up("o1-east-1", vec![]);
    assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Pending);
    let step = b.claim("o1-east-1");
    assert!(matches!(step, PurchaseStep::Place { attempt: 2, .. }), "{step:?}");
}

#[test]
fn one_look_up_handed_in_twice_is_not_two() {
    let mut b = confirmed(2);
    b.lose("o1-east-1");
    b.wait(Span::minutes(10));
    b.look_up("o1-east-1", vec![]);
    b.look_up("o1-east-1", vec![]);
    assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Unknown);
}

#[test]
fn the_loss_of_an_attempt_is_noted_once() {
    let mut b = confirmed(2);
    b.lose("o1-east-1");
    b.answer("o1-east-1", 1, Err(silence()));
    assert_eq!(b.purchase("o1-east-1").trail.lost.len(), 1);
    // Its worker was taken for dead first, and its time-out is handed in after.
    let mut b = confirmed(2);
    b.claim("o1-east-1");
    b.wait(Span::secs(31));
    assert!(matches!(b.claim("o1-east-1"), PurchaseStep::LookUp { .. }));
    b.answer("o1-east-1", 1, Err(silence()));
    assert_eq!(b.purchase("o1-east-1").trail.lost.len(), 1);
}

#[test]
fn each_lost_create_may_have_taken_the_units_until_its_look_up_after_an_hour() {
    let mut b = confirmed(2);
    let lost = |b: &Bench| b.order("o1").holds[0].lost;
    b.lose("o1-east-1");
    let first = b.now;
    for _ in 0..2 {
        b.wait(Span::minutes(2));
        b.look_up("o1-east-1", vec![]);
    }
    assert_eq!(lost(&b), 2);
    b.lose("o1-east-1");
    let second = b.now;
    assert_eq!(lost(&b), 4);
    // Of a figure of 0, 4 may come back; a third order of 4 is not short, one of 5 is.
    b.paid("o2", &[("C", 4, 100)]);
    b.wait(Span::secs(1));
    b.paid("o3", &[("C", 5, 100)]);
    b.confirm_due(&["o2", "o3"]);
    b.judge("east:x:", 0);
    assert_eq!(b.holds("o2"), [(4, HoldState::Active, Some(Confirmation::Unknown))]);
    assert_eq!(b.order("o3").cancel_reason, Some(CancelReason::SupplierShort));
    let mut late = |lost_at, step, left| {
        let (late, answer) = (Some((lost_at, step)), Ok(vec![]));
        b.run(Command::LookedUp { purchase: "o1-east-1".into(), late, answer });
        assert_eq!(b.order("o1").holds[0].lost, left);
    };
    late(first, 0, 4); // after 10 min: not yet
    late(first, 1, 2);
    late(first, 1, 2);
    late(first, 2, 2);
    late(second, 1, 0);
}

#[test]
fn a_refusal_after_a_lost_attempt_is_believed_only_after_the_look_ups() {
    let mut b = confirmed(2);
    b.lose("o1-east-1");
    for _ in 0..2 {
        b.wait(Span::minutes(2));
        b.look_up("o1-east-1", vec![]);
    }
    b.claim("o1-east-1");
    b.answer("o1-east-1", 2, Err(out_of_stock()));
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirming, 0));
    // Our own first attempt had taken the stock.
    let found = b.upstream("o1-east-1", "e1", UpstreamState::Paid);
    b.look_up("o1-east-1", vec![found]);
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirmed, 0));
    assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Paid);
}

#[test]
fn a_cancel_refused_because_it_was_paid_needs_a_person_and_refunds_nothing() {
    let paid_meanwhile = || {
        let mut b = bench();
        b.bought("o1", 2, "e1");
        cancel(&mut b, "o1");
        b.cancelled_upstream("o1-east-1", "e1", Err(refused()));
        b.poll("o1-east-1", UpstreamState::Paid);
        assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Attention, 0));
        assert!(is_open(&b, AlertKind::CancelRefusedUpstream, "o1"));
        b.wait(Span::hours(24));
        b.due("o1");
        assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Attention, 0));
        b
    };
    let mut b = paid_meanwhile();
    decide(&mut b, "o1", Action::Retry);
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirmed, 0));
    b.poll("o1-east-1", UpstreamState::Shipped);
    assert_eq!(b.order("o1").state, State::Shipped);

    let mut b = paid_meanwhile();
    decide(&mut b, "o1", Action::Cancel);
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Cancelled, 200));
    // The goods come all the same: nothing is owed for them.
    b.poll("o1-east-1", UpstreamState::Shipped);
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Cancelled, 200));
}

#[test]
fn a_cancel_that_is_refused_for_another_reason_is_not_asked_again_at_once() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    cancel(&mut b, "o1");
    b.cancelled_upstream("o1-east-1", "e1", Err(refused()));
    let step = b.claim("o1-east-1");
    assert_eq!(step, PurchaseStep::Poll { supplier_order_id: "e1".into() });
    // Still unpaid: half the sync interval of 10 min goes by first.
    let again = b.poll("o1-east-1", UpstreamState::AwaitingPayment);
    assert_eq!(again, Outcome::Again(Some(b.now + Span::minutes(5))));
}

#[test]
fn closed_unpaid_once_it_is_bought_once_more_and_twice_it_is_given_up() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    b.poll("o1-east-1", UpstreamState::ClosedUnpaid);
    let reversed = (2, HoldState::Reversed, Some(Confirmation::Confirmed));
    assert_eq!(b.holds("o1"), [reversed, (2, HoldState::Active, Some(Confirmation::Waiting))]);
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirming, 0));
    b.wait(Span::minutes(3));
    b.judge("east:x:", 20);
    b.buy("o1-east-2", "e2");
    assert_eq!(b.order("o1").state, State::Confirmed);
    b.poll("o1-east-2", UpstreamState::ClosedUnpaid);
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::SupplierClosed));
    assert_eq!(b.refunded("o1"), 200);
    assert_eq!(b.figures("east:x:"), (20, 0, 0));
}

#[test]
fn an_item_whose_purchase_the_seller_closed_is_not_orderable_until_resumed() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    b.poll("o1-east-1", UpstreamState::Paid);
    b.poll("o1-east-1", UpstreamState::ClosedBySeller);
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::SupplierClosed));
    assert_eq!(b.refunded("o1"), 200);
    assert!(is_open(&b, AlertKind::SupplierClosed, "east:x:"));
    b.feed("east:x:", 20);
    assert!(b.place(placement("o2", &[("C", 1, 100)])).is_err());
    let (sku, what) = ("C".into(), stockhold::domain::sku::What::Selling);
    b.run(Command::ResumeSku { sku, what, reason: "seen to".into(), by: "ops".into() });
    assert!(b.place(placement("o2", &[("C", 1, 100)])).is_ok());
    assert!(!is_open(&b, AlertKind::SupplierClosed, "east:x:"));
}

#[test]
fn a_create_that_lands_after_the_cancel_is_cancelled_as_surplus_and_told() {
    let mut b = confirmed(2);
    b.lose("o1-east-1");
    let lost_at = b.now;
    cancel(&mut b, "o1");
    for _ in 0..2 {
        b.wait(Span::minutes(2));
        b.look_up("o1-east-1", vec![]);
    }
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Cancelled, 200));
    b.now = lost_at + Span::minutes(10);
    let late = |b: &mut Bench, step| {
        let answer = Ok(vec![b.upstream("o1-east-1", "e9", UpstreamState::AwaitingPayment)]);
        let late = Some((lost_at, step));
        b.run(Command::LookedUp { purchase: "o1-east-1".into(), late, answer })
    };
    late(&mut b, 0);
    late(&mut b, 0);
    assert!(is_open(&b, AlertKind::UpstreamDuplicate, "o1-east-1/e9"));
    assert_eq!(b.order("o1").holds[0].surplus, 2);
    let step = b.claim("o1-east-1");
    assert_eq!(step, PurchaseStep::Cancel { supplier_order_id: "e9".into() });
    b.cancelled_upstream("o1-east-1", "e9", Ok(()));
    assert!(!is_open(&b, AlertKind::UpstreamDuplicate, "o1-east-1/e9"));
    assert_eq!(b.order("o1").holds[0].surplus, 0);
    assert_eq!((b.claim("o1-east-1"), b.refunded("o1")), (PurchaseStep::Done, 200));
    assert_eq!(b.figures("east:x:"), (20, 0, 0));
}

#[test]
fn a_paid_surplus_counts_only_until_it_is_surely_in_the_figure() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    let twice = ["e1", "e9"].map(|id| b.upstream("o1-east-1", id, UpstreamState::AwaitingPayment));
    let (late, answer) = (Some((b.now, 0)), Ok(twice.to_vec()));
    b.run(Command::LookedUp { purchase: "o1-east-1".into(), late, answer });
    b.cancelled_upstream("o1-east-1", "e9", Err(refused()));
    assert_eq!(b.order("o1").holds[0].surplus, 2);
    b.wait(Span::minutes(3));
    b.feed("east:x:", 16);
    assert_eq!(b.order("o1").holds[0].surplus, 0);
    assert!(is_open(&b, AlertKind::UpstreamDuplicate, "o1-east-1/e9"));
}

#[test]
fn a_surplus_that_cannot_be_cancelled_does_not_keep_the_purchase_from_being_read() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    let twice = ["e1", "e9"].map(|id| b.upstream("o1-east-1", id, UpstreamState::AwaitingPayment));
    let (late, answer) = (Some((b.now, 0)), Ok(twice.to_vec()));
    b.run(Command::LookedUp { purchase: "o1-east-1".into(), late, answer });
    for _ in 0..2 {
        let step = b.claim("o1-east-1");
        assert_eq!(step, PurchaseStep::Cancel { supplier_order_id: "e9".into() });
        b.cancelled_upstream("o1-east-1", "e9", Err(silence()));
        let step = b.claim("o1-east-1");
        assert_eq!(step, PurchaseStep::Poll { supplier_order_id: "e1".into() });
        b.poll("o1-east-1", UpstreamState::AwaitingPayment);
    }
}

#[test]
fn the_other_supplier_keeps_its_place_while_a_cancel_waits_and_ops_may_go_on() {
    let mut b = bench();
    b.feed("west:z:", 20);
    b.paid("o1", &[("C", 2, 100), ("E", 1, 50)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b.judge("west:z:", 20);
    b.buy("o1-east-1", "e1");
    b.buy("o1-west-1", "w1");
    cancel(&mut b, "o1");
    // West's order is cancelled; East's was paid meanwhile.
    b.cancelled_upstream("o1-west-1", "w1", Ok(()));
    b.poll("o1-east-1", UpstreamState::Paid);
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Attention, 0));
    decide(&mut b, "o1", Action::Retry);
    assert_eq!(b.order("o1").state, State::Confirming);
    b.wait(Span::minutes(3));
    b.judge("west:z:", 20);
    b.buy("o1-west-2", "w2");
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirmed, 0));
}

#[test]
fn a_cancel_that_goes_through_after_ops_let_the_order_go_on_buys_once_more() {
    let mut b = bench();
    b.feed("west:z:", 20);
    b.paid("o1", &[("C", 2, 100), ("E", 1, 50)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b.judge("west:z:", 20);
    b.buy("o1-east-1", "e1");
    b.lose("o1-west-1");
    cancel(&mut b, "o1");
    b.wait(Span::hours(2));
    b.due("o1");
    decide(&mut b, "o1", Action::Retry);
    b.cancelled_upstream("o1-east-1", "e1", Ok(()));
    assert_eq!(b.order("o1").state, State::Confirming);
    let last = b.holds("o1").pop();
    assert_eq!(last, Some((2, HoldState::Active, Some(Confirmation::Waiting))));
}

#[test]
fn a_shipped_purchase_that_is_closed_is_told_once_and_revives_nothing() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    b.poll("o1-east-1", UpstreamState::Shipped);
    b.wait(Span::days(14));
    b.due("o1");
    assert_eq!(b.order("o1").state, State::Completed);
    assert_eq!(b.poll("o1-east-1", UpstreamState::ClosedBySeller), Outcome::Again(None));
    let told = b.order("o1").events.len();
    b.poll("o1-east-1", UpstreamState::ClosedBySeller);
    assert_eq!(b.order("o1").state, State::Completed);
    assert_eq!(b.order("o1").events.len(), told);
    assert!(is_open(&b, AlertKind::OrderAttention, "o1"));
    assert_eq!(b.claim("o1-east-1"), PurchaseStep::Done);
}

#[test]
fn a_shipped_purchase_that_nobody_calls_received_is_read_for_a_month() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    b.poll("o1-east-1", UpstreamState::Shipped);
    let shipped_at = b.now;
    b.now = shipped_at + Span::days(30) - Span::millis(1);
    b.due("o1"); // the order is completed after 14 days
    let again = b.poll("o1-east-1", UpstreamState::Shipped);
    assert_eq!(again, Outcome::Again(Some(b.now + Span::minutes(5))));
    b.wait(Span::millis(1));
    b.due("o1");
    assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Shipped);
    assert_eq!(b.purchase("o1-east-1").deadline_at, None);
    assert_eq!(b.claim("o1-east-1"), PurchaseStep::Done);
    assert!(b.store.opened.is_empty());
    // Ops may have it read again.
    b.run(Command::RetryPurchase { purchase: "o1-east-1".into() });
    let step = b.claim("o1-east-1");
    assert_eq!(step, PurchaseStep::Poll { supplier_order_id: "e1".into() });
    assert_eq!(b.poll("o1-east-1", UpstreamState::Received), Outcome::Again(None));
    assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Received);
}

#[test]
fn answers_out_of_order_do_not_undo_what_is_known() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    b.poll("o1-east-1", UpstreamState::Received);
    for late in [UpstreamState::Shipped, UpstreamState::Paid, UpstreamState::AwaitingPayment] {
        b.poll("o1-east-1", late);
        assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Received);
    }
    assert_eq!(b.order("o1").lines[0].shipped, 2);
}

/// An order of C and of D's other item (both from East), about to be bought in one purchase.
fn two_items(short_policy: ShortPolicy) -> Bench {
    let mut b = bench();
    b.feed("east:y:", 20);
    let mut p = placement("o1", &[("C", 1, 100), ("D", 2, 30)]);
    p.short_policy = short_policy;
    p.payment = Some(capture("p1", 160));
    assert!(b.place(p).is_ok());
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b.judge("east:y:", 20);
    b
}

fn without_y(fault: Fault) -> Created {
    Created { left_out: vec![LeftOut { item: item("y"), fault }], ..created("e1") }
}

#[test]
fn what_was_left_out_is_decided_for_itself_and_never_bought_unasked() {
    let mut b = two_items(ShortPolicy::CancelLines);
    b.claim("o1-east-1");
    b.answer("o1-east-1", 1, Ok(without_y(out_of_stock())));
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirmed, 60));
    assert_eq!(b.order("o1").purchases.len(), 1);

    // For no known reason: asked about again, and not bought before that.
    let mut b = two_items(ShortPolicy::CancelLines);
    b.claim("o1-east-1");
    b.answer("o1-east-1", 1, Ok(without_y(silence())));
    assert_eq!(b.order("o1").purchases.len(), 1);
    let last = b.holds("o1").pop();
    assert_eq!(last, Some((2, HoldState::Active, Some(Confirmation::Unknown))));
    b.judge("east:y:", 20);
    b.buy("o1-east-2", "e2");
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirmed, 0));
}

#[test]
fn lines_of_one_item_that_were_left_out_close_it_for_all_that_was_asked() {
    let mut b = bench();
    b.feed("east:y:", 20);
    // B and C are one item at East: 1 and 2 of it, beside y.
    let mut p = placement("o1", &[("B", 1, 100), ("C", 2, 100), ("D", 2, 30)]);
    p.short_policy = ShortPolicy::CancelLines;
    p.payment = Some(capture("p1", 360));
    assert!(b.place(p).is_ok());
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b.judge("east:y:", 20);
    b.claim("o1-east-1");
    let left_out = vec![LeftOut { item: item("x"), fault: out_of_stock() }];
    b.answer("o1-east-1", 1, Ok(Created { left_out, ..created("e1") }));
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirmed, 300));
    // 3 were refused: 2 may be there.
    assert_eq!(b.store.levels["east:x:"].closed.map(|c| c.from_quantity), Some(3));
    assert!(b.place(placement("o2", &[("C", 3, 100)])).is_err());
    assert!(b.place(placement("o3", &[("C", 2, 100)])).is_ok());
}

#[test]
fn a_refused_basket_is_asked_about_again_under_the_same_deadline() {
    let mut b = two_items(ShortPolicy::CancelOrder);
    let deadline = b.order("o1").deadline_at;
    b.wait(Span::minutes(1));
    b.claim("o1-east-1");
    b.answer("o1-east-1", 1, Err(out_of_stock()));
    let unknown = Some(Confirmation::Unknown);
    assert_eq!(b.holds("o1"), [(1, HoldState::Active, unknown), (2, HoldState::Active, unknown)]);
    assert_eq!((b.order("o1").state, b.order("o1").deadline_at), (State::Confirming, deadline));
    assert!(b.store.jobs.contains_key("confirm:east:y:"));
    // y is short, and says so: 1 < 2.
    b.judge("east:y:", 1);
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::SupplierShort));
}

#[test]
fn a_line_that_is_bought_and_in_the_feed_is_not_dropped_with_the_rest() {
    let mut b = bench();
    b.feed("west:z:", 20);
    // D: 2 from East (packs of 2), 1 from West.
    let mut p = placement("o1", &[("D", 3, 100)]);
    p.short_policy = ShortPolicy::CancelLines;
    p.payment = Some(capture("p1", 300));
    b.feed("east:y:", 2);
    assert!(b.place(p).is_ok());
    b.confirm_due(&["o1"]);
    b.judge("east:y:", 2);
    b.judge("west:z:", 20);
    b.buy("o1-east-1", "e1");
    b.poll("o1-east-1", UpstreamState::Paid);
    b.wait(Span::minutes(3));
    b.feed("east:y:", 0);
    assert_eq!(b.holds("o1")[0].1, HoldState::Settled);
    b.claim("o1-west-1");
    b.answer("o1-west-1", 1, Err(out_of_stock()));
    assert_eq!((b.order("o1").lines[0].cancelled, b.refunded("o1")), (1, 100));
    b.poll("o1-east-1", UpstreamState::Shipped);
    assert_eq!((b.order("o1").state, b.order("o1").lines[0].shipped), (State::Shipped, 2));
}

#[test]
fn ops_may_say_what_became_of_an_unknown_purchase() {
    let mut b = confirmed(2);
    b.lose("o1-east-1");
    let resolution = PurchaseResolution::Placed { supplier_order_id: "e1".into() };
    b.run(Command::ResolvePurchase { purchase: "o1-east-1".into(), resolution });
    assert_eq!(b.order("o1").state, State::Confirmed);

    let mut b = confirmed(2);
    b.lose("o1-east-1");
    let (purchase, resolution) = ("o1-east-1".into(), PurchaseResolution::NotPlaced);
    b.run(Command::ResolvePurchase { purchase, resolution });
    assert!(matches!(b.claim("o1-east-1"), PurchaseStep::Place { attempt: 2, .. }));
}
