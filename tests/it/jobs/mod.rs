//! The job runner and the schedules on a real database, with handlers made for the test.

mod engine;
mod fences;
mod runner;
mod schedules;
mod shop;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stockhold::clock::{Clock, Span, Timestamp};
use stockhold::coordination::{Coordination, Options};
use stockhold::domain::alert::{AlertChange, AlertKind};
use stockhold::domain::command::Command;
use stockhold::domain::job::{Job, JobRequest};
use stockhold::domain::outcome::Outcome;
use stockhold::domain::policy::{Policy, Terms};
use stockhold::engine::{Committed, Envelope, Error, Reply};
use stockhold::jobs::{Answer, Core, Deps, Handler, Run, Runner, Stop};
use stockhold::refunds::Manual;
use stockhold::storage::jobs::JobInfo;
use stockhold::storage::{self, Db};
use tokio::sync::{Notify, Semaphore, broadcast};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::conformance::TestDb;

pub const START: Timestamp = Timestamp::from_secs(1_800_000_000);
pub const LEASE: Span = Span::secs(30);

/// An engine that takes alerts and nothing else.
#[derive(Default)]
pub struct Alerts(Mutex<Vec<AlertChange>>);

impl Alerts {
    /// Subjects of the alerts of a kind that were opened, in order.
    pub fn opened(&self, kind: AlertKind) -> Vec<String> {
        let changes = self.0.lock().expect("not poisoned");
        let opened = changes.iter().filter_map(|change| match change {
            AlertChange::Open { kind: k, subject, .. } if *k == kind => Some(subject.clone()),
            _ => None,
        });
        opened.collect()
    }
}

#[async_trait]
impl Core for Alerts {
    async fn submit(&self, envelope: Envelope) -> Result<Reply, Error> {
        let Command::Alerts(changes) = envelope.command else {
            panic!("only alerts are expected: {:?}", envelope.command);
        };
        self.0.lock().expect("not poisoned").extend(changes);
        Ok(Reply::Outcome(Outcome::Done))
    }
    fn commits(&self) -> broadcast::Receiver<Committed> {
        broadcast::channel(1).1
    }
}

/// A handler that notes what it ran, waits at a gate, and then answers as told.
pub struct Scripted {
    pub ran: Mutex<Vec<String>>,
    pub ended: Mutex<Vec<String>>,
    /// Handlers take one permit each before they answer.
    pub gate: Semaphore,
    answers: Mutex<BTreeMap<String, Vec<Result<Answer, Stop>>>>,
    panics: Mutex<BTreeMap<String, usize>>,
}

impl Scripted {
    /// Lets everything through, and answers `Done`.
    pub fn open() -> Arc<Scripted> {
        Scripted::with_gate(1_000_000)
    }

    /// Lets nothing through yet.
    pub fn shut() -> Arc<Scripted> {
        Scripted::with_gate(0)
    }

    fn with_gate(permits: usize) -> Arc<Scripted> {
        Arc::new(Scripted {
            ran: Mutex::default(),
            ended: Mutex::default(),
            gate: Semaphore::new(permits),
            answers: Mutex::default(),
            panics: Mutex::default(),
        })
    }

    /// Answers these for the job, one after the other; then `Done`.
    pub fn answers(&self, job: &Job, answers: Vec<Result<Answer, Stop>>) {
        let mut all = self.answers.lock().expect("not poisoned");
        all.insert(job.key(), answers.into_iter().rev().collect());
    }

    /// Panics so many times for the job first.
    pub fn panics(&self, job: &Job, times: usize) {
        self.panics.lock().expect("not poisoned").insert(job.key(), times);
    }

    pub fn ran(&self) -> Vec<String> {
        self.ran.lock().expect("not poisoned").clone()
    }

    pub fn ended(&self) -> Vec<String> {
        self.ended.lock().expect("not poisoned").clone()
    }
}

/// Notes the end of a handler, however it ends.
struct Ending<'a>(&'a Scripted, String);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended.lock().expect("not poisoned").push(self.1.clone());
    }
}

#[async_trait]
impl Handler for Scripted {
    async fn run(&self, run: &Run<'_>) -> Result<Answer, Stop> {
        let key = run.job.key();
        self.ran.lock().expect("not poisoned").push(key.clone());
        let _ending = Ending(self, key.clone());
        self.gate.acquire().await.expect("never closed").forget();
        let panics = {
            let mut panics = self.panics.lock().expect("not poisoned");
            let left = panics.entry(key.clone()).or_default();
            std::mem::replace(left, left.saturating_sub(1)) > 0
        };
        assert!(!panics, "boom");
        let mut answers = self.answers.lock().expect("not poisoned");
        answers.get_mut(&key).and_then(Vec::pop).unwrap_or(Ok(Answer::Done))
    }
}

/// A database, a clock and an engine that several runners may share.
pub struct World {
    pub test: TestDb,
    pub clock: Clock,
    pub alerts: Arc<Alerts>,
}

impl World {
    pub fn on(test: TestDb) -> World {
        World { test, clock: Clock::manual(START), alerts: Arc::new(Alerts::default()) }
    }

    pub fn db(&self) -> &Db {
        &self.test.db
    }

    pub fn deps(&self) -> Deps {
        Deps {
            db: self.db().clone(),
            engine: Arc::<Alerts>::clone(&self.alerts),
            clock: self.clock.clone(),
            coordination: Coordination::memory(&self.clock, &Options::default()),
            policy: Arc::new(policy()),
            suppliers: Arc::default(),
            suspect_drop: Arc::default(),
            refunds: Arc::new(Manual),
            channels: Arc::from(Vec::new()),
            lease: LEASE,
            max_attempts: 3,
            sweep_interval: Span::minutes(1),
        }
    }

    pub fn runner(&self, name: &str, handler: &Arc<Scripted>) -> Runner {
        let handler: Arc<dyn Handler> = Arc::<Scripted>::clone(handler);
        Runner::new(self.deps(), handler, name.to_owned(), Arc::new(Notify::new()))
    }

    pub async fn owe(&self, job: Job, run_at: Timestamp) {
        let request = JobRequest { job, run_at };
        let now = self.clock.now();
        let owed = self.db().transact(move |tx| {
            Box::pin(async move { storage::jobs::owe(tx, vec![request], now).await })
        });
        owed.await.expect("owed");
    }

    /// Every job, newest first.
    pub async fn jobs(&self) -> Vec<JobInfo> {
        let read = self.db().read(|tx| {
            Box::pin(async move { storage::jobs::list(tx, None, None, None, 100).await })
        });
        read.await.expect("listed")
    }

    /// The one job with this key, if it is there.
    pub async fn job(&self, job: &Job) -> Option<JobInfo> {
        let key = job.key();
        self.jobs().await.into_iter().find(|info| info.key == key)
    }

    /// Waits until a job is in a state (`None`: gone).
    pub async fn until(&self, job: &Job, state: Option<&str>) -> Option<JobInfo> {
        for _ in 0..1_000 {
            let info = self.job(job).await;
            if info.as_ref().map(|i| i.state.as_str()) == state {
                return info;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} is not {state:?}: {:?}", job.key(), self.job(job).await);
    }
}

/// Waits until something is so.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not so after ten seconds");
}

/// A runner at work.
pub struct Running {
    stopping: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub fn start(runner: Runner) -> Running {
        let stopping = CancellationToken::new();
        let task = tokio::spawn(runner.run(stopping.clone()));
        Running { stopping, task }
    }

    /// Stops it and waits for its end.
    pub async fn stop(self) {
        self.stopping.cancel();
        self.task.await.expect("the runner ends well");
    }
}

pub fn refund(name: &str) -> Job {
    Job::Refund { refund: name.into() }
}

fn policy() -> Policy {
    let suppliers = [("s1".into(), Terms::default())].into();
    Policy { refunds_by_provider: true, suppliers, ..Policy::default() }
}
