//! Leases: kept alive while the work goes on, taken over when the worker dies, fenced when lost.

use stockhold::clock::Span;
use stockhold::domain::alert::AlertKind;
use stockhold::storage;

use super::{LEASE, Running, START, Scripted, World, refund, until};
use crate::conformance::{TestDb, on_both};

on_both!(
    the_finish_of_one_whose_lease_was_taken_over_is_refused,
    a_lost_heartbeat_stops_the_handler,
    work_that_takes_longer_than_the_lease_is_done_once_by_two_runners,
    a_job_whose_worker_died_is_taken_over_when_the_lease_ends,
    a_job_that_keeps_killing_its_worker_is_parked_without_another_try,
    a_clock_that_jumps_does_not_rob_a_runner_of_its_own_job,
);

/// As if another worker had taken the job over.
async fn take_over(world: &World) {
    let taken = "UPDATE jobs SET lease_token = lease_token + 1, worker = 'other'";
    assert_eq!(world.test.run(taken).await.expect("taken"), 1);
}

async fn the_finish_of_one_whose_lease_was_taken_over_is_refused(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    until("it runs", || handler.ran().len() == 1).await;
    take_over(&world).await;
    handler.gate.add_permits(1);
    until("it ended", || handler.ended().len() == 1).await;
    running.stop().await;
    let info = world.job(&refund("r")).await.expect("not deleted");
    assert_eq!((info.state.as_str(), info.worker.as_deref()), ("running", Some("other")));
}

async fn a_lost_heartbeat_stops_the_handler(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    until("it runs", || handler.ran().len() == 1).await;
    take_over(&world).await;
    assert_eq!(handler.ended(), Vec::<String>::new());
    world.clock.advance(LEASE.times(1, 3));
    // The gate is still shut: only its being dropped ends it.
    until("it is stopped", || handler.ended().len() == 1).await;
    running.stop().await;
    let info = world.job(&refund("r")).await.expect("not deleted");
    assert_eq!(info.worker.as_deref(), Some("other"));
}

async fn work_that_takes_longer_than_the_lease_is_done_once_by_two_runners(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    world.owe(refund("r"), START).await;
    let first = Running::start(world.runner("a", &handler));
    until("it runs", || handler.ran().len() == 1).await;
    let second = Running::start(world.runner("b", &handler));
    for _ in 0..8 {
        world.clock.advance(LEASE.times(1, 3));
        let alive = world.clock.now() + LEASE;
        for _ in 0..1_000 {
            if world.job(&refund("r")).await.expect("there").lease_until == Some(alive) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let info = world.job(&refund("r")).await.expect("there");
        assert_eq!(info.lease_until, Some(alive), "the heartbeat renews");
    }
    handler.gate.add_permits(1);
    world.until(&refund("r"), None).await;
    first.stop().await;
    second.stop().await;
    assert_eq!(handler.ran(), ["refund:r"]);
}

/// A worker that claims and dies.
async fn claim_and_die(world: &World) {
    let now = world.clock.now();
    let claimed = world.db().transact(move |tx| {
        Box::pin(async move {
            storage::jobs::lapse(tx, now).await?;
            storage::jobs::claim(tx, now, &["refund"], 10, "dies", now + LEASE).await
        })
    });
    assert_eq!(claimed.await.expect("claimed").len(), 1);
    world.clock.advance(LEASE);
}

async fn a_job_whose_worker_died_is_taken_over_when_the_lease_ends(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    world.owe(refund("r"), START).await;
    claim_and_die(&world).await;
    let running = Running::start(world.runner("a", &handler));
    world.until(&refund("r"), None).await;
    running.stop().await;
    assert_eq!(handler.ran(), ["refund:r"]);
}

async fn a_job_that_keeps_killing_its_worker_is_parked_without_another_try(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::open());
    world.owe(refund("r"), START).await;
    // Deaths are no failures, of which three are enough here.
    for _ in 0..5 {
        claim_and_die(&world).await;
    }
    let running = Running::start(world.runner("a", &handler));
    let dead = world.until(&refund("r"), Some("dead")).await.expect("there");
    running.stop().await;
    assert_eq!(handler.ran(), Vec::<String>::new());
    assert_eq!(dead.last_error.as_deref(), Some("its worker died 5 times in a row"));
    assert_eq!(world.alerts.opened(AlertKind::JobDead), ["refund:r"]);
}

async fn a_clock_that_jumps_does_not_rob_a_runner_of_its_own_job(test: TestDb) {
    let (world, handler) = (World::on(test), Scripted::shut());
    world.owe(refund("r"), START).await;
    let running = Running::start(world.runner("a", &handler));
    until("it runs", || handler.ran().len() == 1).await;
    world.clock.advance(Span::hours(2));
    world.owe(refund("other"), START).await;
    until("the next runs", || handler.ran().len() == 2).await;
    handler.gate.add_permits(2);
    world.until(&refund("r"), None).await;
    world.until(&refund("other"), None).await;
    running.stop().await;
    assert_eq!(handler.ran(), ["refund:r", "refund:other"]);
}
