//! Schedules: one job a slot, whoever ticks; missed slots collapse; silence is told.

use stockhold::clock::Span;
use stockhold::domain::alert::AlertKind;
use stockhold::domain::job::Job;
use stockhold::jobs::schedule::{Schedule, Ticker};

use super::{Running, START, Scripted, World};
use crate::conformance::{TestDb, on_both};

on_both!(
    two_processes_that_tick_make_one_job_a_slot,
    slots_that_were_missed_collapse_into_one,
    a_schedule_that_does_not_run_is_told_after_twice_its_interval,
    a_schedule_that_runs_is_not_told,
    a_jump_of_the_clock_is_not_told,
);

async fn keys(world: &World) -> Vec<String> {
    let mut keys: Vec<String> = world.jobs().await.into_iter().map(|j| j.key).collect();
    keys.sort();
    keys
}

async fn wakes(world: &World, job: &Job) -> i64 {
    world.job(job).await.expect("there").wakes
}

async fn two_processes_that_tick_make_one_job_a_slot(test: TestDb) {
    let world = World::on(test);
    let (mut a, mut b) = (Ticker::new(world.deps()), Ticker::new(world.deps()));
    for _ in 0..3 {
        a.tick().await;
        b.tick().await;
    }
    assert_eq!(keys(&world).await, ["prune", "sweep", "sync:s1", "watermark"]);
    assert_eq!(wakes(&world, &Job::Sweep).await, 0);

    // The next minute: each process ticks, one of them wins.
    world.clock.advance(Span::minutes(1));
    b.tick().await;
    a.tick().await;
    assert_eq!(wakes(&world, &Job::Sweep).await, 1);
    // Not due yet: the supplier's ten minutes.
    let sync = Job::Sync { supplier: "s1".into() };
    assert_eq!(wakes(&world, &sync).await, 0);
}

async fn slots_that_were_missed_collapse_into_one(test: TestDb) {
    let world = World::on(test);
    let handler = Scripted::open();
    let mut ticker = Ticker::new(world.deps());
    ticker.tick().await;
    let running = Running::start(world.runner("a", &handler));
    world.until(&Job::Sweep, None).await;
    running.stop().await;

    // Down for an hour: sixty slots of the sweep.
    world.clock.advance(Span::hours(1));
    let mut restarted = Ticker::new(world.deps());
    restarted.tick().await;
    restarted.tick().await;
    assert_eq!(wakes(&world, &Job::Sweep).await, 0);
}

#[tokio::test]
async fn a_slot_is_a_multiple_of_the_interval_cut_to_whole_seconds() {
    let slot = |every: Span, micros: i64| {
        let schedule = Schedule { every, job: Job::Sweep };
        schedule.slot(START + Span::micros(micros)).since(START)
    };
    // 1,800,000,000 is a multiple of 60 and of 2.
    assert_eq!(slot(Span::minutes(1), 59_999_999), Span::ZERO);
    assert_eq!(slot(Span::minutes(1), 60_000_000), Span::minutes(1));
    assert_eq!(slot(Span::secs(2), 3_900_000), Span::secs(2));
    // 2.5 s: slots at 2.5, 5, 7.5 … are named 2, 5, 7 …
    assert_eq!(slot(Span::millis(2_500), 2_499_999), Span::ZERO);
    assert_eq!(slot(Span::millis(2_500), 2_500_000), Span::secs(2));
    assert_eq!(slot(Span::millis(2_500), 5_000_000), Span::secs(5));
    assert_eq!(slot(Span::secs(7), 0), Span::secs(-(1_800_000_000 % 7)));
}

async fn a_schedule_that_does_not_run_is_told_after_twice_its_interval(test: TestDb) {
    let world = World::on(test);
    let mut ticker = Ticker::new(world.deps());
    ticker.tick().await;
    pass(&world, &mut ticker, Span::minutes(2)).await;
    assert_eq!(world.alerts.opened(AlertKind::ScheduleMissed), Vec::<String>::new());
    pass(&world, &mut ticker, Span::secs(30)).await;
    let missed = world.alerts.opened(AlertKind::ScheduleMissed);
    assert_eq!(missed, ["sweep", "watermark"]);
}

/// Ticks every ten seconds for so long.
async fn pass(world: &World, ticker: &mut Ticker, long: Span) {
    for _ in 0..long.as_secs() / 10 {
        world.clock.advance(Span::secs(10));
        ticker.tick().await;
    }
}

/// A machine that sleeps, or whose clock is set, misses nothing; one that is awake again does.
async fn a_jump_of_the_clock_is_not_told(test: TestDb) {
    let world = World::on(test);
    let mut ticker = Ticker::new(world.deps());
    ticker.tick().await;
    pass(&world, &mut ticker, Span::minutes(1)).await;
    for jump in [Span::hours(5), Span::hours(-2), Span::hours(5)] {
        world.clock.advance(jump);
        ticker.tick().await;
        pass(&world, &mut ticker, Span::minutes(2)).await;
        assert_eq!(world.alerts.opened(AlertKind::ScheduleMissed), Vec::<String>::new());
    }
    pass(&world, &mut ticker, Span::secs(30)).await;
    let missed = world.alerts.opened(AlertKind::ScheduleMissed);
    assert_eq!(missed, ["sweep", "watermark"]);
}

async fn a_schedule_that_runs_is_not_told(test: TestDb) {
    let world = World::on(test);
    let handler = Scripted::open();
    let running = Running::start(world.runner("a", &handler));
    let mut ticker = Ticker::new(world.deps());
    for _ in 0..6 {
        ticker.tick().await;
        for job in [Job::Sweep, Job::Watermark] {
            world.until(&job, None).await;
        }
        world.clock.advance(Span::minutes(1));
    }
    running.stop().await;
    assert_eq!(world.alerts.opened(AlertKind::ScheduleMissed), Vec::<String>::new());
}
