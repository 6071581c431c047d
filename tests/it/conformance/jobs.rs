//! Durable jobs and schedules: one live job a key, claimed by one, fenced, never dropped.

use std::collections::BTreeSet;

use stockhold::clock::Timestamp;
use stockhold::domain::job::{Job, JobRequest};
use stockhold::domain::names::SourceId;
use stockhold::storage::jobs::{self, Claimed, Finish};
use stockhold::storage::schedules;

use super::{TestDb, at, on_both};

on_both!(
    one_key_is_one_job_at_its_earliest_time,
    the_longest_due_are_claimed_first_and_each_once,
    eight_claimers_share_a_queue_without_overlap,
    a_lost_lease_is_taken_over_and_its_holder_fenced,
    a_job_asked_for_while_it_runs_is_put_back,
    a_failure_keeps_its_count_and_a_success_does_not,
    a_lapse_is_counted_until_the_job_reports,
    a_dead_job_stays_dead_until_retried,
    a_payload_that_cannot_be_read_stops_no_other,
    a_drain_hands_back_what_it_has,
    a_fence_holds_until_the_commit,
    a_slot_is_ticked_once,
);

fn deadline(second: i64) -> Job {
    Job::Deadline { second }
}

/// Every kind that these tests owe.
const KINDS: &[&str] = &[
    "deadline",
    "confirm",
    "purchase",
    "recheck",
    "refund",
    "alert",
    "sync",
    "sweep",
    "watermark",
    "prune",
    "nonsense",
];

async fn owe(test: &TestDb, requests: Vec<(Job, Timestamp)>, now: Timestamp) -> Option<Timestamp> {
    let requests = requests.into_iter().map(|(job, run_at)| JobRequest { job, run_at }).collect();
    test.transact(move |tx| Box::pin(async move { jobs::owe(tx, requests, now).await }))
        .await
        .unwrap()
}

async fn claim(test: &TestDb, now: Timestamp, limit: i64, lease_secs: i64) -> Vec<Claimed> {
    let until = Timestamp(now.0 + lease_secs * 1_000_000);
    test.transact(move |tx| {
        Box::pin(async move {
            jobs::lapse(tx, now).await?;
            jobs::claim(tx, now, KINDS, limit, "worker-1", until).await
        })
    })
    .await
    .unwrap()
}

async fn finish(test: &TestDb, claimed: &Claimed, how: Finish) -> bool {
    let (id, token, wakes) = (claimed.id, claimed.token, claimed.wakes);
    test.transact(move |tx| Box::pin(async move { jobs::finish(tx, id, token, wakes, how).await }))
        .await
        .unwrap()
}

async fn next(test: &TestDb) -> Option<Timestamp> {
    test.transact(|tx| Box::pin(async move { jobs::next_run_at(tx).await })).await.unwrap()
}

fn names(claimed: &[Claimed]) -> Vec<String> {
    claimed.iter().map(|c| c.job.key()).collect()
}

async fn one_key_is_one_job_at_its_earliest_time(test: TestDb) {
    let asked = vec![(deadline(30), at(30)), (Job::Sweep, at(50)), (deadline(30), at(25))];
    assert_eq!(owe(&test, asked, at(1)).await, Some(at(25)));
    assert_eq!(owe(&test, vec![(Job::Sweep, at(60))], at(2)).await, Some(at(60)));
    assert_eq!(owe(&test, vec![(Job::Sweep, at(40))], at(3)).await, Some(at(40)));
    assert_eq!(owe(&test, Vec::new(), at(3)).await, None);
    let rows = "SELECT run_at FROM jobs ORDER BY run_at";
    assert_eq!(test.numbers(rows, Vec::new()).await, vec![at(25).0, at(40).0]);
    assert_eq!(next(&test).await, Some(at(25)));
    let wakes = "SELECT wakes FROM jobs ORDER BY run_at";
    assert_eq!(test.numbers(wakes, Vec::new()).await, vec![0, 2]);
}

async fn the_longest_due_are_claimed_first_and_each_once(test: TestDb) {
    for second in [5, 3, 9, 4] {
        owe(&test, vec![(deadline(second), at(second))], at(0)).await;
    }
    assert_eq!(claim(&test, at(2), 10, 30).await, Vec::new());
    let first = claim(&test, at(5), 2, 30).await;
    assert_eq!(
        names(&first).into_iter().collect::<BTreeSet<_>>(),
        BTreeSet::from(["expire:3".to_owned(), "expire:4".to_owned()])
    );
    assert!(first.iter().all(|c| (c.token, c.attempts, c.lease_until) == (1, 1, at(35))));
    assert_eq!(names(&claim(&test, at(5), 2, 30).await), vec!["expire:5"]);
    assert_eq!(claim(&test, at(5), 2, 30).await, Vec::new());
    assert_eq!(next(&test).await, Some(at(9)));
    for claimed in &first {
        assert!(finish(&test, claimed, Finish::Done).await);
        assert!(!finish(&test, claimed, Finish::Done).await, "only once");
    }
    let left = "SELECT count(*) FROM jobs";
    assert_eq!(test.numbers(left, Vec::new()).await, vec![2]);
}

async fn eight_claimers_share_a_queue_without_overlap(test: TestDb) {
    let asked = (1..=200).map(|s| (deadline(s), at(s))).collect();
    owe(&test, asked, at(0)).await;
    let claimers: Vec<_> = (0..8)
        .map(|n| {
            let db = test.db.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let worker = format!("worker-{n}");
                    let claimed = db
                        .transact::<_, stockhold::storage::Error, _>(move |tx| {
                            Box::pin(async move {
                                jobs::claim(tx, at(500), KINDS, 7, &worker, at(600)).await
                            })
                        })
                        .await
                        .unwrap();
                    if claimed.is_empty() {
                        return mine;
                    }
                    assert!(claimed.len() <= 7);
                    mine.extend(claimed.into_iter().map(|c| c.id));
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for claimer in claimers {
        all.extend(claimer.await.unwrap());
    }
    assert_eq!(all.len(), 200);
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 200);
    let once = "SELECT count(*) FROM jobs WHERE attempts = 1 AND lease_token = 1";
    assert_eq!(test.numbers(once, Vec::new()).await, vec![200]);
}

async fn a_lost_lease_is_taken_over_and_its_holder_fenced(test: TestDb) {
    owe(&test, vec![(Job::Sweep, at(1))], at(0)).await;
    let first = claim(&test, at(1), 1, 30).await.remove(0);
    assert_eq!(next(&test).await, Some(at(31)));
    let beat = |token: i64, until: i64| {
        let id = first.id;
        test.transact(move |tx| {
            Box::pin(async move { jobs::heartbeat(tx, id, token, at(until)).await })
        })
    };
    assert!(beat(1, 60).await.unwrap());
    assert_eq!(claim(&test, at(59), 1, 30).await, Vec::new());
    let second = claim(&test, at(60), 1, 30).await.remove(0);
    assert_eq!((second.id, second.token), (first.id, 2));
    assert_eq!((second.attempts, second.lapses), (1, 1));
    assert!(!beat(1, 99).await.unwrap());
    for late in [
        Finish::Done,
        Finish::At(at(70)),
        Finish::Failed { error: "x".into(), at: at(70) },
        Finish::Dead { error: "x".into() },
    ] {
        assert!(!finish(&test, &first, late).await);
    }
    assert!(beat(2, 99).await.unwrap());
    assert!(finish(&test, &second, Finish::Done).await);
    assert_eq!(next(&test).await, None);
}

async fn a_job_asked_for_while_it_runs_is_put_back(test: TestDb) {
    owe(&test, vec![(Job::Sweep, at(1)), (Job::Prune, at(1))], at(0)).await;
    let claimed = claim(&test, at(1), 2, 30).await;
    owe(&test, vec![(Job::Sweep, at(90)), (Job::Prune, at(80))], at(2)).await;
    owe(&test, vec![(Job::Sweep, at(70))], at(2)).await;
    owe(&test, vec![(Job::Sweep, at(75))], at(2)).await;
    let (sweep, prune) = match claimed[0].job {
        Job::Sweep => (&claimed[0], &claimed[1]),
        _ => (&claimed[1], &claimed[0]),
    };
    assert!(finish(&test, sweep, Finish::Done).await);
    assert_eq!(next(&test).await, Some(at(31)), "prune's lease");
    // At the earlier of what it wants itself and what it was asked for.
    assert!(finish(&test, prune, Finish::At(at(85))).await);
    let due = "SELECT run_at FROM jobs WHERE state = 'ready' ORDER BY run_at";
    assert_eq!(test.numbers(due, Vec::new()).await, vec![at(70).0, at(80).0]);
    let again = claim(&test, at(80), 2, 30).await;
    for claimed in &again {
        assert_eq!((claimed.token, claimed.attempts), (2, 1));
        assert!(finish(&test, claimed, Finish::Done).await);
    }
    assert_eq!(next(&test).await, None);
}

async fn a_failure_keeps_its_count_and_a_success_does_not(test: TestDb) {
    owe(&test, vec![(Job::Sweep, at(1))], at(0)).await;
    for attempt in 1..=3 {
        let claimed = claim(&test, at(attempt * 10), 1, 5).await.remove(0);
        assert_eq!(claimed.attempts, attempt);
        let failed = Finish::Failed { error: "no answer".into(), at: at(attempt * 10 + 10) };
        assert!(finish(&test, &claimed, failed).await);
    }
    let claimed = claim(&test, at(40), 1, 5).await.remove(0);
    let id = claimed.id;
    let read = |test: &TestDb| {
        let db = test.db.clone();
        async move {
            db.read::<_, stockhold::storage::Error, _>(move |tx| {
                Box::pin(async move { jobs::read(tx, id).await })
            })
            .await
            .unwrap()
            .unwrap()
        }
    };
    assert_eq!(read(&test).await.last_error.as_deref(), Some("no answer"));
    assert!(finish(&test, &claimed, Finish::At(at(50))).await);
    let job = read(&test).await;
    assert_eq!((job.attempts, job.last_error, job.state.as_str()), (0, None, "ready"));
}

async fn a_lapse_is_counted_until_the_job_reports(test: TestDb) {
    owe(&test, vec![(Job::Sweep, at(1))], at(0)).await;
    let mut now = 1;
    let mut claimed = async |deaths: i64| {
        for _ in 0..deaths {
            claim(&test, at(now), 1, 5).await.remove(0);
            now += 5;
        }
        now += 1;
        claim(&test, at(now), 1, 5).await.remove(0)
    };
    let counts = |claimed: &Claimed| (claimed.attempts, claimed.lapses);
    let failed = |at| Finish::Failed { error: "x".into(), at };
    for (end, deaths, counted) in [
        (failed(at(0)), 2, (1, 2)),
        (failed(at(0)), 1, (2, 1)),
        (Finish::Later(at(0)), 1, (3, 1)),
        (Finish::At(at(0)), 1, (3, 2)), // not begun is no report
        (Finish::Done, 3, (1, 3)),
    ] {
        let job = claimed(deaths).await;
        assert_eq!(counts(&job), counted);
        assert!(finish(&test, &job, end).await);
    }
    assert_eq!(next(&test).await, None);
    // A report that could not be had of a lost lease is none.
    owe(&test, vec![(Job::Sweep, at(90))], at(90)).await;
    let lost = claim(&test, at(90), 1, 5).await.remove(0);
    let lapsed = |now| test.transact(move |tx| Box::pin(async move { jobs::lapse(tx, now).await }));
    assert_eq!(lapsed(at(94)).await.unwrap(), Vec::<String>::new());
    assert_eq!(lapsed(at(95)).await.unwrap(), ["sweep"]);
    assert_eq!(lapsed(at(95)).await.unwrap(), Vec::<String>::new());
    assert!(!finish(&test, &lost, Finish::Done).await);
    assert_eq!(next(&test).await, Some(at(90)));
}

async fn a_dead_job_stays_dead_until_retried(test: TestDb) {
    owe(&test, vec![(Job::Sweep, at(1))], at(0)).await;
    let claimed = claim(&test, at(1), 1, 5).await.remove(0);
    let dead = Finish::Dead { error: "always fails".into() };
    assert!(finish(&test, &claimed, dead).await);
    owe(&test, vec![(Job::Sweep, at(1))], at(2)).await;
    assert_eq!(claim(&test, at(100), 1, 5).await, Vec::new());
    assert_eq!(next(&test).await, None);
    let wakes = "SELECT wakes FROM jobs";
    assert_eq!(test.numbers(wakes, Vec::new()).await, vec![1]);
    let counts = test.transact(|tx| Box::pin(async move { jobs::count(tx).await })).await.unwrap();
    assert_eq!(counts, vec![("dead".to_owned(), "sweep".to_owned(), 1)]);
    let listed = test
        .transact(|tx| {
            Box::pin(async move { jobs::list(tx, Some("dead".into()), None, None, 10).await })
        })
        .await
        .unwrap();
    assert_eq!(listed[0].last_error.as_deref(), Some("always fails"));
    let retry = |id: i64| {
        test.transact(move |tx| Box::pin(async move { jobs::retry(tx, id, at(100)).await }))
    };
    assert!(retry(claimed.id).await.unwrap());
    assert!(!retry(claimed.id).await.unwrap(), "it is not dead any more");
    assert!(!retry(claimed.id + 1).await.unwrap());
    assert_eq!(claim(&test, at(100), 1, 5).await[0].attempts, 1);
}

async fn a_payload_that_cannot_be_read_stops_no_other(test: TestDb) {
    owe(&test, vec![(deadline(1), at(1)), (Job::Sweep, at(2))], at(0)).await;
    test.run("UPDATE jobs SET payload = '{\"kind\":\"of the future\"}' WHERE key = 'expire:1'")
        .await
        .unwrap();
    assert_eq!(names(&claim(&test, at(5), 5, 30).await), vec!["sweep"]);
    let dead = test
        .transact(|tx| {
            Box::pin(async move { jobs::list(tx, Some("dead".into()), None, None, 10).await })
        })
        .await
        .unwrap();
    assert_eq!(dead.len(), 1);
    let error = dead[0].last_error.as_deref().unwrap();
    assert!(error.starts_with("the payload of expire:1 cannot be read"), "{error}");
}

async fn a_drain_hands_back_what_it_has(test: TestDb) {
    owe(&test, vec![(Job::Sweep, at(1)), (Job::Prune, at(2))], at(0)).await;
    let claimed = claim(&test, at(5), 5, 30).await;
    let release = |worker: &'static str| {
        test.transact(move |tx| Box::pin(async move { jobs::release(tx, worker).await }))
    };
    assert_eq!(release("another").await.unwrap(), 0);
    assert_eq!(release("worker-1").await.unwrap(), 2);
    assert!(!finish(&test, &claimed[0], Finish::Done).await, "handed back");
    let again = claim(&test, at(5), 5, 30).await;
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|c| c.attempts == 1 && c.token > 1));
}

async fn a_fence_holds_until_the_commit(test: TestDb) {
    owe(&test, vec![(Job::Sweep, at(1)), (Job::Prune, at(1))], at(0)).await;
    let claimed = claim(&test, at(1), 5, 30).await;
    let (a, b) = (claimed[0].id, claimed[1].id);
    let wrong = vec![(a, 0), (a, 2), (b, 1), (b + 1, 1)];
    let valid =
        test.transact(move |tx| Box::pin(async move { jobs::fences(tx, &wrong).await })).await;
    assert_eq!(valid, Ok(BTreeSet::from([(b, 1)])));
    let asked = vec![(a, 1)];
    let db = test.db.clone();
    let (checked, wait) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let fencing = tokio::spawn(async move {
        db.transact::<_, stockhold::storage::Error, _>(move |tx| {
            Box::pin(async move {
                let valid = jobs::fences(tx, &asked).await?;
                checked.send(valid).unwrap();
                gone.await.unwrap();
                Ok(())
            })
        })
        .await
    });
    assert_eq!(wait.await.unwrap(), BTreeSet::from([(a, 1)]));
    if test.db.is_sqlite() {
        go.send(()).unwrap(); // one writer: whoever claims comes after the commit
        fencing.await.unwrap().unwrap();
        assert_eq!(claim(&test, at(99), 5, 30).await.len(), 2);
    } else {
        // The lease is over, but what it protects is being committed.
        let taken = claim(&test, at(99), 5, 30).await;
        assert_eq!(taken.iter().map(|c| c.id).collect::<Vec<_>>(), vec![b]);
        go.send(()).unwrap();
        fencing.await.unwrap().unwrap();
        let taken = claim(&test, at(99), 5, 30).await;
        assert_eq!(taken.iter().map(|c| c.id).collect::<Vec<_>>(), vec![a]);
    }
}

async fn a_slot_is_ticked_once(test: TestDb) {
    let tick = |slot: i64, now: i64| {
        test.transact(move |tx| {
            Box::pin(async move {
                let job = Job::Sync { supplier: SourceId::from("s1688") };
                schedules::tick(tx, "sync:s1688", at(slot), job, at(now)).await
            })
        })
    };
    assert!(tick(600, 601).await.unwrap());
    assert!(!tick(600, 602).await.unwrap());
    let ticks = futures::future::join_all((0..8).map(|_| tick(1200, 1201))).await;
    let made = ticks.into_iter().filter(|t| *t == Ok(true)).count();
    assert_eq!(made, 1);
    assert!(!tick(600, 1202).await.unwrap(), "a clock that goes back");
    test.transact(|tx| {
        Box::pin(async move { schedules::finished(tx, "sync:s1688", "ok", at(1300)).await })
    })
    .await
    .unwrap();
    let listed =
        test.transact(|tx| Box::pin(async move { schedules::list(tx).await })).await.unwrap();
    let expected = schedules::Schedule {
        name: "sync:s1688".into(),
        last_slot: at(1200),
        last_started_at: Some(at(1201)),
        last_finished_at: Some(at(1300)),
        last_outcome: Some("ok".into()),
    };
    assert_eq!(listed, vec![expected]);
    let jobs = "SELECT wakes FROM jobs";
    assert_eq!(test.numbers(jobs, Vec::new()).await, vec![1]);
}
