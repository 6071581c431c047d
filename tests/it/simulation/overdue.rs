//! Deadlines that pass while nobody asks: what they are about is asked first, and judged by what is
//! answered since.

use stockhold::clock::{Span, Timestamp};
use stockhold::domain::alert::AlertKind;
use stockhold::domain::command::Command;
use stockhold::domain::order::{CancelReason, State};
use stockhold::domain::outcome::PurchaseStep;
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::supply::UpstreamState;

use super::bench::Bench;
use super::shop::silence;

fn bench() -> Bench {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    b
}

fn told(b: &Bench, kind: AlertKind) -> bool {
    b.store.opened.iter().any(|(k, _)| *k == kind)
}

/// An order of C, placed upstream; the deadline of its payment is now, and was noticed.
fn unpaid() -> Bench {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    b.wait(Span::minutes(55));
    b.poll("o1-east-1", UpstreamState::AwaitingPayment);
    b.wait(Span::minutes(5)); // an hour after it was placed
    b.store.jobs.clear();
    b.due("o1");
    // The last reading is of five minutes before: it says nothing, and a new one is owed at once.
    assert!(!told(&b, AlertKind::PurchaseUnpaid));
    assert_eq!(b.store.jobs["purchase:o1-east-1"].1, b.now);
    b
}

fn read(b: &mut Bench, sent_at: Timestamp, state: UpstreamState) {
    let answer = Ok(b.upstream("o1-east-1", "e1", state));
    b.run(Command::Polled { purchase: "o1-east-1".into(), sent_at, answer });
}

#[test]
fn unpaid_is_told_by_a_reading_asked_for_after_the_deadline() {
    let mut b = unpaid();
    let deadline = b.now;
    b.wait(Span::secs(3));
    // Asked for just before, answered just after.
    read(&mut b, deadline - Span::millis(1), UpstreamState::AwaitingPayment);
    assert!(!told(&b, AlertKind::PurchaseUnpaid));
    read(&mut b, deadline, UpstreamState::AwaitingPayment);
    assert!(told(&b, AlertKind::PurchaseUnpaid));
    // Told once; a day later it is looked at again.
    b.store.opened.clear();
    b.wait(Span::minutes(5));
    b.poll("o1-east-1", UpstreamState::AwaitingPayment);
    assert!(!told(&b, AlertKind::PurchaseUnpaid));
    assert_eq!(b.purchase("o1-east-1").deadline_at, Some(deadline + Span::hours(24)));
}

#[test]
fn what_was_paid_in_an_outage_is_never_called_unpaid() {
    let mut b = unpaid();
    // The supplier does not answer for two days.
    for _ in 0..2 {
        b.wait(Span::hours(24));
        b.due("o1");
        let (purchase, sent_at) = ("o1-east-1".into(), b.now);
        b.run(Command::Polled { purchase, sent_at, answer: Err(silence()) });
    }
    b.poll("o1-east-1", UpstreamState::Paid);
    b.wait(Span::hours(24));
    b.due("o1");
    assert!(!told(&b, AlertKind::PurchaseUnpaid));
    assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Paid);
}

#[test]
fn a_reading_since_the_deadline_is_enough_when_that_is_noticed_later() {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    b.wait(Span::minutes(61));
    b.poll("o1-east-1", UpstreamState::AwaitingPayment);
    assert!(!told(&b, AlertKind::PurchaseUnpaid));
    b.wait(Span::hours(3));
    b.due("o1");
    assert!(told(&b, AlertKind::PurchaseUnpaid));
}

/// Confirmed and paid upstream; the day by which it should have been shipped is here.
fn to_ship() -> Bench {
    let mut b = bench();
    b.bought("o1", 2, "e1");
    b.poll("o1-east-1", UpstreamState::Paid);
    b.wait(Span::days(7));
    b.due("o1");
    assert_eq!(b.order("o1").deadline_at, Some(b.now + Span::minutes(10)));
    assert!(!told(&b, AlertKind::OrderAttention));
    b
}

#[test]
fn not_shipped_is_told_only_by_what_was_read_since_it_was_due() {
    let mut b = to_ship();
    b.poll("o1-east-1", UpstreamState::Shipped);
    assert_eq!(b.order("o1").state, State::Shipped);
    assert!(!told(&b, AlertKind::OrderAttention));

    let mut b = to_ship();
    b.poll("o1-east-1", UpstreamState::Paid);
    b.wait(Span::minutes(10));
    b.due("o1");
    assert!(told(&b, AlertKind::OrderAttention));
    assert_eq!(b.order("o1").deadline_at, Some(b.now + Span::hours(24)));

    // Nothing can be read: it is not told, and looked at again.
    let mut b = to_ship();
    for _ in 0..5 {
        b.wait(Span::minutes(10));
        b.due("o1");
    }
    assert!(!told(&b, AlertKind::OrderAttention));
}

#[test]
fn our_own_goods_are_late_whatever_the_supplier_says() {
    let mut b = bench();
    b.stock("main", "A", 1);
    b.paid("o1", &[("A", 1, 100), ("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b.buy("o1-east-1", "e1");
    b.wait(Span::days(7));
    b.due("o1");
    assert!(told(&b, AlertKind::OrderAttention));
}

/// An order of C about which the supplier was asked once, and said nothing.
fn unanswered() -> Bench {
    let mut b = bench();
    b.paid("o1", &[("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    b.judge_by("east:x:", Err(silence()), true);
    b.store.jobs.clear();
    b
}

#[test]
fn an_order_is_asked_about_once_more_after_the_daemon_was_away() {
    let mut b = unanswered();
    b.wait(Span::hours(9)); // away since; the deadline was after 2
    b.due("o1");
    assert_eq!(b.order("o1").state, State::Confirming);
    assert_eq!(b.order("o1").deadline_at, Some(b.now + Span::minutes(10)));
    assert_eq!(b.store.jobs["confirm:east:x:"].1, b.now);
    let mut answered = Bench { store: b.store.clone(), policy: b.policy.clone(), now: b.now };
    answered.judge("east:x:", 20);
    answered.buy("o1-east-1", "e1");
    assert_eq!(answered.order("o1").state, State::Confirmed);
    assert!(!told(&answered, AlertKind::OrderAttention));
    // No answer again.
    b.judge_by("east:x:", Err(silence()), true);
    b.wait(Span::minutes(10));
    b.due("o1");
    assert_eq!(b.order("o1").state, State::Attention);
}

#[test]
fn an_order_in_attention_is_not_given_up_before_it_was_asked_about_once_more() {
    let mut b = unanswered();
    b.wait(Span::hours(2));
    b.due("o1");
    assert_eq!(b.order("o1").state, State::Attention);
    b.wait(Span::hours(30)); // away for a day and more
    b.due("o1");
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Attention, 0));
    b.judge_by("east:x:", Err(silence()), true);
    b.wait(Span::minutes(10));
    b.due("o1");
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::SupplierUnavailable));
    assert_eq!(b.refunded("o1"), 200);
}

#[test]
fn a_purchase_is_looked_up_once_more_before_it_is_called_unknown() {
    let mut b = bench();
    b.paid("o1", &[("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    assert!(matches!(b.claim("o1-east-1"), PurchaseStep::Place { .. }));
    b.store.jobs.clear();
    b.wait(Span::hours(3)); // killed, and back
    b.due("o1");
    assert!(!told(&b, AlertKind::PurchaseUnknown));
    assert_eq!(b.store.jobs["purchase:o1-east-1"].1, b.now);
    b.claim("o1-east-1");
    b.wait(Span::minutes(10));
    b.due("o1");
    assert!(told(&b, AlertKind::PurchaseUnknown));
}

#[test]
fn a_provider_is_asked_once_more_before_a_refund_is_called_failing() {
    let mut b = Bench::new();
    b.stock("main", "A", 1);
    b.paid("o1", &[("A", 1, 100)]);
    b.run(Command::Cancel { order: "o1".into(), reason: CancelReason::Customer });
    b.store.jobs.clear();
    b.wait(Span::hours(30));
    b.due("o1");
    assert!(!told(&b, AlertKind::RefundFailing));
    let refund = b.order("o1").refunds[0].id.clone();
    assert_eq!(b.store.jobs[&format!("refund:{refund}")].1, b.now);
    b.wait(Span::minutes(10));
    b.due("o1");
    assert!(told(&b, AlertKind::RefundFailing));
}
