//! Which orders a supplier's figure is enough for, with numbers worked out by hand.

use stockhold::clock::Span;
use stockhold::domain::command::Command;
use stockhold::domain::decide::Verdict::{Enough, Short, Unknown, Waiting};
use stockhold::domain::decide::{Claim, Standing, judge};
use stockhold::domain::order::{CancelReason, Confirmation, HoldState, State};
use stockhold::domain::outcome::Outcome;
use stockhold::domain::supply::{Fault, Figure, UpstreamState};

use super::bench::Bench;
use super::shop::silence;

fn needs(units: &[i64]) -> Vec<Claim> {
    units.iter().map(|need| Claim { need: *need, partial: 0, completes: true }).collect()
}

#[test]
fn live_5_confirms_two_of_three_orders_of_2_and_the_third_is_short() {
    // 5 − 0 ≥ 2; 5 − 2 ≥ 2; then 1 is left and 4 are confirmed and will be sent: 5 − 4 < 2.
    let five = Standing { live: 5, ..Standing::default() };
    assert_eq!(judge(five, &needs(&[2, 2, 2])), [Enough, Enough, Short]);
}

#[test]
fn a_younger_order_waits_for_confirmed_shares_of_orders_that_are_not_fully_decided() {
    // The first two still wait for other items: their 4 may come free, so the third waits.
    let five = Standing { live: 5, ..Standing::default() };
    let open = Claim { need: 2, partial: 0, completes: false };
    let last = Claim { completes: true, ..open };
    assert_eq!(judge(five, &[open, open, last]), [Enough, Enough, Waiting]);
}

#[test]
fn units_that_may_come_back_keep_an_order_from_being_short() {
    // 1 is there and 2 may come back: 3 ≥ 2, yet only 1 is sure.
    let one = Standing { live: 1, r: 2, ..Standing::default() };
    assert_eq!(judge(one, &needs(&[2])), [Unknown]);
    assert_eq!(judge(Standing { r: 0, ..one }, &needs(&[2])), [Short]);
}

#[test]
fn bought_units_that_the_figure_may_or_may_not_contain_leave_it_open() {
    // 5 with 4 placed: 1 left if they are not in it, 5 if they are.
    let five = Standing { live: 5, u: 4, ..Standing::default() };
    assert_eq!(judge(five, &needs(&[2])), [Unknown]);
    assert_eq!(judge(five, &needs(&[1])), [Enough]);
    assert_eq!(judge(five, &needs(&[6])), [Short]);
    // Confirmed and about to be sent, they surely leave: 5 − 4 < 2.
    assert_eq!(judge(Standing { p: 4, ..five }, &needs(&[2])), [Short]);
}

#[test]
fn what_older_undecided_orders_need_is_kept_for_them() {
    // 5 with 2 placed: 4 is open (3 sure, 5 possible) and keeps 4; 3 − 4 < 1, so the next waits.
    let five = Standing { live: 5, u: 2, ..Standing::default() };
    assert_eq!(judge(five, &needs(&[4, 1])), [Unknown, Waiting]);
    assert_eq!(judge(five, &needs(&[3, 1])), [Enough, Unknown]);
}

#[test]
fn a_closed_item_confirms_only_less_than_what_was_refused() {
    // Closed for 3 and more: 3 stays open and keeps 3; 5 − 3 = 2 is enough for 2.
    let five = Standing { live: 5, closed_from: Some(3), ..Standing::default() };
    assert_eq!(judge(five, &needs(&[3, 2])), [Unknown, Enough]);
    assert_eq!(judge(five, &needs(&[6])), [Short]);
}

#[test]
fn the_confirmed_shares_of_a_short_order_are_not_given_to_the_next_at_once() {
    // 3 are there; the first has 2 confirmed and needs 4 more: short. Until its cancelling is
    // carried out its 2 stay counted: 3 − 2 < 2, so the next waits for them.
    let three = Standing { live: 3, u: 2, partial: 2, ..Standing::default() };
    let first = Claim { need: 4, partial: 2, completes: true };
    let next = Claim { need: 2, partial: 0, completes: true };
    assert_eq!(judge(three, &[first, next]), [Short, Waiting]);
}

/// Three orders of 2 of C, judged together by one figure.
fn three_of_two(units: i64) -> Bench {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    for order in ["o1", "o2", "o3"] {
        b.paid(order, &[("C", 2, 100)]);
        b.wait(Span::secs(1));
    }
    b.confirm_due(&["o1", "o2", "o3"]);
    b.judge("east:x:", units);
    b
}

#[test]
fn by_command_live_5_buys_for_two_and_gives_the_third_its_money_back() {
    let b = three_of_two(5);
    for order in ["o1", "o2"] {
        assert_eq!(b.holds(order), [(2, HoldState::Active, Some(Confirmation::Confirmed))]);
        assert_eq!(b.order(order).purchases.len(), 1);
        assert_eq!(b.refunded(order), 0);
    }
    let third = b.order("o3");
    assert_eq!(third.state, State::Cancelled);
    assert_eq!(third.cancel_reason, Some(CancelReason::SupplierShort));
    assert_eq!(b.refunded("o3"), 200);
    assert_eq!(b.figures("east:x:"), (5, 4, 0));
}

#[test]
fn orders_are_served_in_the_order_in_which_they_were_paid() {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    // o2 is placed first and paid last.
    assert!(b.place(super::stage::placement("o2", &[("C", 2, 100)])).is_ok());
    b.wait(Span::secs(1));
    b.paid("o1", &[("C", 2, 100)]);
    b.wait(Span::secs(1));
    assert!(b.pay("o2", super::stage::capture("p2", 200)).is_ok());
    b.confirm_due(&["o1", "o2"]);
    b.judge("east:x:", 3);
    assert_eq!(b.order("o1").purchases.len(), 1);
    assert_eq!(b.order("o2").state, State::Cancelled);
}

#[test]
fn before_short_is_decided_unpaid_purchases_are_read_back_once() {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    b.bought("o1", 2, "e1");
    b.paid("o2", &[("C", 2, 100)]);
    b.confirm_due(&["o2"]);
    let token = b.lock("east:x:");
    let level = || "east:x:".into();
    // 1 there, 2 placed and unpaid: 1 < 2 is short, but e1 is read first.
    let answer = Ok(b.reading("east:x:", 1));
    let judge =
        |polled| Command::JudgeItem { level: level(), token, answer: answer.clone(), polled };
    let first = b.run(judge(false));
    assert_eq!(first, Outcome::PollFirst(vec![("o1-east-1".into(), "e1".into())]));
    assert_eq!(b.holds("o2"), [(2, HoldState::Active, Some(Confirmation::Waiting))]);
    b.run(judge(true));
    assert_eq!(b.order("o2").state, State::Cancelled);
    // The lock is given back with the decision: the same token is worth nothing any more.
    assert!(b.try_run(judge(true)).is_err());
}

/// East counts at order: o1's 2 are placed, unpaid, and in the figure already; o2 waits for 2.
fn counted_at_order() -> Bench {
    let mut b = Bench::new();
    b.policy = super::stage::policy(true);
    b.feed("east:x:", 3);
    b.bought("o1", 2, "e1");
    b.paid("o2", &[("C", 1, 100)]);
    b.wait(Span::minutes(3));
    b.feed("east:x:", 1);
    assert_eq!(b.holds("o1")[0].1, HoldState::Settled);
    b.confirm_due(&["o2"]);
    b
}

#[test]
fn what_is_in_the_figure_and_unpaid_is_read_back_before_short_is_decided() {
    let mut b = counted_at_order();
    let token = b.lock("east:x:");
    let answer = Ok(b.reading("east:x:", 0));
    let judge = |polled| Command::JudgeItem {
        level: "east:x:".into(),
        token,
        answer: answer.clone(),
        polled,
    };
    let first = b.run(judge(false));
    assert_eq!(first, Outcome::PollFirst(vec![("o1-east-1".into(), "e1".into())]));
    // Closed meanwhile: its 2 may come back, and o2 is not short.
    b.poll("o1-east-1", UpstreamState::ClosedUnpaid);
    b.run(judge(true));
    assert_eq!(b.holds("o2"), [(1, HoldState::Active, Some(Confirmation::Unknown))]);
}

#[test]
fn what_is_in_the_figure_and_being_cancelled_may_come_back() {
    let mut b = counted_at_order();
    b.run(Command::Cancel { order: "o1".into(), reason: CancelReason::Customer });
    b.judge("east:x:", 0);
    assert_eq!(b.holds("o2"), [(1, HoldState::Active, Some(Confirmation::Unknown))]);
}

#[test]
fn units_cancelled_upstream_may_come_back_until_a_figure_surely_after() {
    let mut b = Bench::new();
    b.feed("east:x:", 20);
    b.bought("o1", 2, "e1");
    b.paid("o2", &[("C", 2, 100)]);
    b.confirm_due(&["o2"]);
    b.run(Command::Cancel { order: "o1".into(), reason: CancelReason::Customer });
    b.cancelled_upstream("o1-east-1", "e1", Ok(()));
    assert_eq!(b.order("o1").state, State::Cancelled);
    // As of 30 s before it was sent 30 s later: before the cancelling. 0 + 2 may be enough.
    b.wait(Span::secs(30));
    b.judge("east:x:", 0);
    assert_eq!(b.holds("o2"), [(2, HoldState::Active, Some(Confirmation::Unknown))]);
    // 2 min + 1 s later, less 1 min of lag, is more than the margin of 1 min after it: 0 is 0.
    b.wait(Span::secs(91));
    b.judge("east:x:", 0);
    assert_eq!(b.order("o2").state, State::Cancelled);
}

#[test]
fn what_is_no_definite_answer_is_unknown_and_what_is_definite_is_refused() {
    let timed_out = Err(silence());
    let torn = |b: &Bench| {
        let mut reading = b.reading("east:x:", 9);
        reading.figure = Figure::Unknown("torn".into());
        Ok(reading)
    };
    let old = |b: &Bench| {
        let mut reading = b.reading("east:x:", 9);
        reading.sent_at = b.now - Span::secs(61);
        Ok(reading)
    };
    let mut b = Bench::new();
    b.feed("east:x:", 9);
    b.paid("o1", &[("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    for answer in [timed_out, torn(&b), old(&b)] {
        let again = b.judge_by("east:x:", answer, true);
        assert!(matches!(again, Outcome::Again(Some(at)) if at > b.now), "{again:?}");
        assert_eq!(b.holds("o1"), [(2, HoldState::Active, Some(Confirmation::Unknown))]);
        assert_eq!(b.refunded("o1"), 0);
    }
    let offline = Fault::Refused { code: "offline".into(), message: "offline".into() };
    b.judge_by("east:x:", Err(offline), true);
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::SupplierRefused));
    assert_eq!(b.refunded("o1"), 200);
}

#[test]
fn unknown_for_too_long_needs_a_person_and_then_ends_by_itself() {
    let mut b = Bench::new();
    b.feed("east:x:", 9);
    b.paid("o1", &[("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    b.judge_by("east:x:", Err(silence()), true);
    b.wait(Span::hours(2));
    b.due("o1");
    assert_eq!(b.order("o1").state, State::Attention);
    // Still asked, every ten minutes.
    let again = b.judge_by("east:x:", Err(silence()), true);
    assert_eq!(again, Outcome::Again(Some(b.now + Span::minutes(10))));
    b.wait(Span::hours(24));
    b.due("o1");
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::SupplierUnavailable));
    assert_eq!(b.refunded("o1"), 200);
    assert_eq!(b.figures("east:x:"), (9, 0, 0));
}

#[test]
fn a_definite_answer_ends_attention() {
    let mut b = Bench::new();
    b.feed("east:x:", 9);
    b.paid("o1", &[("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    b.judge_by("east:x:", Err(silence()), true);
    b.wait(Span::hours(2));
    b.due("o1");
    b.judge("east:x:", 9);
    b.buy("o1-east-1", "e1");
    assert_eq!(b.order("o1").state, State::Confirmed);
    b.poll("o1-east-1", UpstreamState::Paid);
    assert_eq!(b.figures("east:x:"), (9, 0, 2));
}

#[test]
fn orders_that_others_are_at_work_on_are_not_forgotten() {
    let mut b = Bench::new();
    b.feed("east:x:", 9);
    b.paid("o1", &[("C", 2, 100)]);
    b.confirm_due(&["o1"]);
    b.store.busy = 100;
    let owner = "confirm:east:x:".to_owned();
    let lock = Command::LockItem { level: "east:x:".into(), owner };
    assert_eq!(b.run(lock), Outcome::Again(Some(b.now + Span::secs(1))));
    b.store.busy = 0;
    let token = b.lock("east:x:");
    b.store.busy = 100;
    let answer = Ok(b.reading("east:x:", 9));
    let judge = Command::JudgeItem { level: "east:x:".into(), token, answer, polled: true };
    assert_eq!(b.run(judge), Outcome::Again(Some(b.now + Span::secs(1))));
}
