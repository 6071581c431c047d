//! Buying that is paused and goes on: nothing ages by it, and what waited is bought at once.

use stockhold::clock::Span;
use stockhold::domain::alert::AlertKind;
use stockhold::domain::command::Command;
use stockhold::domain::order::{CancelReason, State};
use stockhold::domain::outcome::PurchaseStep;
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::sku::What;
use stockhold::domain::supply::Fault;

use super::bench::{Bench, created, out_of_stock};
use super::shop::silence;

/// A paid order of C, confirmed and about to be bought, at a time before which buying is paused.
fn paused(pause: Command) -> Bench {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    b.paid("o1", &[("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b.run(pause);
    assert_eq!(b.claim("o1-east-1"), PurchaseStep::Wait(b.now + Span::minutes(1)));
    b
}

fn pause_supplier() -> Command {
    let (supplier, reason) = ("east".into(), "flood".into());
    Command::PauseSupplier { supplier, what: What::Buying, reason, by: "ops".into() }
}

fn resume_supplier(what: What) -> Command {
    Command::ResumeSupplier {
        supplier: "east".into(),
        what,
        reason: "dry".into(),
        by: "ops".into(),
    }
}

fn is_unknown(b: &Bench) -> bool {
    b.store.opened.iter().any(|(kind, _)| *kind == AlertKind::PurchaseUnknown)
}

#[test]
fn a_pause_does_not_age_what_waits_for_it() {
    let mut b = paused(pause_supplier());
    // The deadline of 2 h passes twice, and then the time that attention would have.
    for _ in 0..30 {
        b.wait(Span::hours(1));
        b.due("o1");
        assert_eq!(b.order("o1").state, State::Confirming);
    }
    assert_eq!((is_unknown(&b), b.refunded("o1")), (false, 0));
    b.run(resume_supplier(What::Buying));
    // Not claimed yet, its deadline passes: still nothing was asked.
    b.wait(Span::hours(2));
    b.due("o1");
    assert_eq!((b.order("o1").state, is_unknown(&b)), (State::Confirming, false));
    // Claimed: the whole 2 h from now on, for the purchase and for its order.
    b.wait(Span::minutes(7));
    assert!(matches!(b.claim("o1-east-1"), PurchaseStep::Place { attempt: 1, .. }));
    let whole = Some(b.now + Span::hours(2));
    assert_eq!(b.purchase("o1-east-1").deadline_at, whole);
    assert_eq!(b.order("o1").deadline_at, whole);
    b.answer("o1-east-1", 1, Ok(created("e1")));
    assert_eq!(b.order("o1").state, State::Confirmed);
}

#[test]
fn after_the_pause_no_answer_is_no_answer_again() {
    let mut b = paused(pause_supplier());
    b.wait(Span::hours(5));
    b.run(resume_supplier(What::Both));
    b.lose("o1-east-1");
    b.wait(Span::hours(2));
    b.due("o1");
    assert_eq!((b.order("o1").state, is_unknown(&b)), (State::Attention, true));
}

#[test]
fn what_may_have_been_bought_is_told_also_while_buying_is_paused() {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    b.paid("o1", &[("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b.lose("o1-east-1");
    b.run(pause_supplier());
    b.wait(Span::hours(2));
    b.due("o1");
    assert_eq!((b.order("o1").state, is_unknown(&b)), (State::Attention, true));
}

#[test]
fn resuming_wakes_what_waits_in_the_same_transaction() {
    let pause_sku = || Command::PauseSku {
        sku: "C".into(),
        what: What::Both,
        reason: "x".into(),
        by: "ops".into(),
    };
    let resume_sku = |sku: &str, what| {
        let (sku, reason) = (sku.into(), "go".into());
        Command::ResumeSku { sku, what, reason, by: "ops".into() }
    };
    for (pause, wrong, right) in [
        (pause_supplier(), resume_supplier(What::Selling), resume_supplier(What::Buying)),
        (pause_sku(), resume_sku("C", What::Selling), resume_sku("C", What::Both)),
    ] {
        let mut b = paused(pause);
        let waits_until = b.now + Span::minutes(1);
        b.store.jobs.clear();
        b.run(wrong);
        b.run(resume_sku("A", What::Both));
        assert!(b.store.jobs.is_empty(), "{:?}", b.store.jobs);
        b.wait(Span::secs(20));
        b.run(right);
        let (_, at) = b.store.jobs["purchase:o1-east-1"];
        assert!(at == b.now && at < waits_until);
        assert_eq!(b.store.jobs.len(), 1);
        b.buy("o1-east-1", "e1");
        assert_eq!(b.purchase("o1-east-1").state, PurchaseState::Placed);
    }
}

#[test]
fn the_preview_judges_a_confirmation_that_grew_old_in_a_pause() {
    let mut b = paused(pause_supplier());
    b.wait(Span::hours(40));
    b.run(resume_supplier(What::Buying));
    // Somebody else bought it meanwhile: the preview says so, and nothing was created.
    assert!(matches!(b.claim("o1-east-1"), PurchaseStep::Place { .. }));
    b.answer("o1-east-1", 1, Err(out_of_stock()));
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::SupplierShort));
    assert_eq!(b.refunded("o1"), 200);
}

#[test]
fn an_order_that_waits_for_an_answer_beside_the_pause_needs_a_person_in_time() {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    b.feed("west:z:", 20);
    b.paid("o1", &[("C", 2, 100), ("E", 1, 50)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 20);
    b.judge("west:z:", 20);
    b.run(pause_supplier());
    b.claim("o1-east-1");
    let PurchaseStep::Place { attempt, .. } = b.claim("o1-west-1") else { panic!("not claimed") };
    let answer: Result<_, Fault> = Err(silence());
    let purchase = "o1-west-1".into();
    b.run(Command::Placed { purchase, attempt, sent: false, answer });
    b.wait(Span::hours(2));
    b.due("o1");
    assert_eq!(b.order("o1").state, State::Attention);
    assert!(!b.store.opened.contains(&(AlertKind::PurchaseUnknown, "o1-east-1".into())));
    assert!(b.store.opened.contains(&(AlertKind::PurchaseUnknown, "o1-west-1".into())));
}
