//! What becomes of a job: done, again, put back, failed, dead, handed back.

use std::time::Duration;

use stockhold::clock::Span;
use stockhold::domain::alert::AlertKind;
use stockhold::domain::job::Job;
use stockhold::jobs::{Answer, Stop};

use super::{Running, START, Scripted, World, refund, until};
use crate::conformance::{TestDb, on_both};

on_both!(
    a_job_runs_when_it_is_due_and_is_gone_when_it_is_done,
    a_job_that_has_more_to_do_comes_again_then,
    a_job_that_waits_for_a_lock_has_not_failed,
    a_job_that_gains_work_while_it_runs_is_put_back,
    a_panic_is_a_failed_attempt_and_nothing_more,
    a_job_that_keeps_failing_is_parked_with_an_alert_and_stops_no_other,
    what_cannot_be_helped_is_parked_at_once,
    what_is_due_at_every_slot_is_never_parked_for_failing,
    at_the_stop_nothing_new_is_claimed_and_what_runs_finishes,
    what_runs_beyond_the_grace_is_handed_back_uncounted,
    a_supplier_that_hangs_delays_neither_deadlines_nor_refunds,
    an_item_that_many_orders_wait_for_does_not_stand_behind_their_purchases,
);

async fn a_job_runs_when_it_is_due_and_is_gone_when_it_is_done(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    world.owe(refund("now"), START).await;
    world.owe(refund("later"), START + Span::minutes(5)).await;
    let running = Running::start(world.runner("a", &handler));
    world.until(&refund("now"), None).await;
    assert_eq!(handler.ran(), ["refund:now"]);
    assert!(world.job(&refund("later")).await.is_some());

    world.clock.advance(Span::minutes(5));
    world.until(&refund("later"), None).await;
    running.stop().await;
    assert_eq!(handler.ran(), ["refund:now", "refund:later"]);
}

async fn a_job_that_has_more_to_do_comes_again_then(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    let again = START + Span::minutes(10);
    handler.answers(&refund("r"), vec![Ok(Answer::At(again))]);
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    until("it ran", || handler.ended().len() == 1).await;
    let info = world.until(&refund("r"), Some("ready")).await.expect("there");
    assert_eq!((info.run_at, info.attempts), (again, 0));

    world.clock.advance(Span::minutes(10));
    world.until(&refund("r"), None).await;
    running.stop().await;
    assert_eq!(handler.ran().len(), 2);
}

async fn a_job_that_waits_for_a_lock_has_not_failed(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    let until_then = START + Span::minutes(12);
    handler.answers(&refund("r"), vec![Err(Stop::Until(until_then))]);
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    until("it ran", || handler.ended().len() == 1).await;
    let info = world.until(&refund("r"), Some("ready")).await.expect("there");
    running.stop().await;
    assert_eq!((info.run_at, info.attempts), (until_then, 0));
    assert_eq!(info.last_error, None);
}

async fn a_job_that_gains_work_while_it_runs_is_put_back(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    until("it runs", || handler.ran().len() == 1).await;
    world.owe(refund("r"), START).await;
    handler.gate.add_permits(1);
    until("it runs again", || handler.ran().len() == 2).await;
    handler.gate.add_permits(1);
    world.until(&refund("r"), None).await;
    running.stop().await;
    assert_eq!(handler.ran().len(), 2);
}

async fn a_panic_is_a_failed_attempt_and_nothing_more(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    handler.panics(&refund("r"), 1);
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    until("it ran", || handler.ended().len() == 1).await;
    let info = world.until(&refund("r"), Some("ready")).await.expect("there");
    assert_eq!(info.last_error.as_deref(), Some("panicked: boom"));
    assert_eq!(info.attempts, 1);
    // A first failure waits between 1 and 2 seconds.
    let wait = info.run_at.since(START);
    assert!(wait >= Span::secs(1) && wait <= Span::secs(2), "{wait:?}");

    world.clock.advance(Span::secs(2));
    world.until(&refund("r"), None).await;
    running.stop().await;
    assert_eq!(handler.ran().len(), 2);
}

async fn a_job_that_keeps_failing_is_parked_with_an_alert_and_stops_no_other(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    let down = || Err(Stop::Retry("provider down".into()));
    handler.answers(&refund("r"), vec![down(), down(), down(), down()]);
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    for attempt in 1..3 {
        until("an attempt", || handler.ended().len() == attempt).await;
        world.until(&refund("r"), Some("ready")).await;
        world.clock.advance(Span::minutes(1));
    }
    let dead = world.until(&refund("r"), Some("dead")).await.expect("there");
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (3, Some("provider down")));
    assert_eq!(world.alerts.opened(AlertKind::JobDead), ["refund:r"]);

    world.owe(refund("other"), START).await;
    world.until(&refund("other"), None).await;
    running.stop().await;
}

async fn what_cannot_be_helped_is_parked_at_once(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    handler.answers(&refund("r"), vec![Err(Stop::Fail("not configured".into()))]);
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    let dead = world.until(&refund("r"), Some("dead")).await.expect("there");
    running.stop().await;
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (1, Some("not configured")));
}

async fn what_is_due_at_every_slot_is_never_parked_for_failing(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    let down = || Err(Stop::Retry("disk full".into()));
    handler.answers(&Job::Sweep, vec![down(), down(), down(), down()]);
    world.owe(Job::Sweep, START).await;
    let running = Running::start(world.runner("a", &handler));
    for attempt in 1..=4 {
        until("an attempt", || handler.ended().len() == attempt).await;
        world.until(&Job::Sweep, Some("ready")).await;
        world.clock.advance(Span::minutes(1));
    }
    world.until(&Job::Sweep, None).await;
    running.stop().await;
    assert_eq!(world.alerts.opened(AlertKind::JobDead), Vec::<String>::new());
}

async fn at_the_stop_nothing_new_is_claimed_and_what_runs_finishes(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    world.owe(refund("first"), START).await;
    let running = Running::start(world.runner("a", &handler));
    until("it runs", || handler.ran().len() == 1).await;
    let stopped = tokio::spawn(running.stop());
    world.owe(refund("second"), START).await;
    handler.gate.add_permits(2);
    stopped.await.expect("stopped");
    assert_eq!(handler.ran(), ["refund:first"]);
    assert!(world.job(&refund("first")).await.is_none());
    let second = world.job(&refund("second")).await.expect("there");
    assert_eq!((second.state.as_str(), second.attempts), ("ready", 0));
}

async fn what_runs_beyond_the_grace_is_handed_back_uncounted(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    world.owe(refund("r"), START).await;
    let runner = world.runner("a", &handler).with_grace(Duration::ZERO);
    let running = Running::start(runner);
    until("it runs", || handler.ran().len() == 1).await;
    running.stop().await;
    assert_eq!(handler.ended(), ["refund:r"]);
    let back = world.job(&refund("r")).await.expect("there");
    assert_eq!((back.state.as_str(), back.attempts), ("ready", 0));

    // The next process has it at once.
    handler.gate.add_permits(1);
    let next = Running::start(world.runner("b", &handler));
    world.until(&refund("r"), None).await;
    next.stop().await;
}

async fn a_supplier_that_hangs_delays_neither_deadlines_nor_refunds(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    for n in 0..20 {
        let level = format!("s1:{n}:").into();
        world.owe(Job::Confirm { level }, START).await;
    }
    let running = Running::start(world.runner("a", &handler));
    // At most four for one supplier; the others are not even claimed.
    until("four run", || handler.ran().len() == 4).await;
    world.owe(Job::Deadline { second: 1 }, START).await;
    world.owe(refund("r"), START).await;
    until("both run", || handler.ran().len() == 6).await;
    let ran = handler.ran();
    assert!(
        ran.contains(&"expire:1".to_owned()) && ran.contains(&"refund:r".to_owned()),
        "{ran:?}"
    );
    let confirming = world.jobs().await;
    let confirming = confirming.iter().filter(|j| j.kind == "confirm" && j.state == "running");
    assert_eq!(confirming.count(), 4);
    handler.gate.add_permits(100);
    running.stop().await;
}

async fn an_item_that_many_orders_wait_for_does_not_stand_behind_their_purchases(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    for n in 0..20 {
        let purchase = format!("o{n}-s1-1").as_str().into();
        world.owe(Job::Purchase { purchase }, START).await;
    }
    let running = Running::start(world.runner("a", &handler));
    until("four run", || handler.ran().len() == 4).await;
    world.owe(Job::Confirm { level: "s1:61:".into() }, START).await;
    until("it is asked about", || handler.ran().len() == 5).await;
    assert_eq!(handler.ran().last().map(String::as_str), Some("confirm:s1:61:"));
    handler.gate.add_permits(100);
    running.stop().await;
}
