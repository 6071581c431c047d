//! What happens regularly: each schedule's slots, and the job that each slot owes.
//!
//! tokio-cron-scheduler triggers, once a second; nothing rests on its doing so exactly. A slot is a
//! multiple of the interval since the epoch, in whole seconds; a tick owes a slot's job only if
//! storage has seen no such slot, so replicas, overlaps and double ticks make one job, and slots that
//! were missed collapse into the newest. With a manual clock it is asked every few milliseconds.
//! The watchdog alerts `schedule_missed` when a schedule has not run in twice its interval, of which
//! only the time counts in which the watchdog itself ran: while the machine slept, nothing could.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_cron_scheduler::{JobScheduler, JobSchedulerError};
use tokio_util::sync::CancellationToken;

use super::run::Stop;
use super::{Deps, store};
use crate::clock::{Span, Timestamp};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::command::Command;
use crate::domain::job::{Job, JobRequest};
use crate::engine::Envelope;

/// Shorter intervals than this are kept by nobody.
const SHORTEST: Span = Span::secs(1);
/// Missing is not judged below this: a busy machine is not a dead one.
const PATIENCE: Span = Span::secs(30);
const WATERMARK_EVERY: Span = Span::minutes(1);
const PRUNE_EVERY: Span = Span::hours(1);
/// Every second, in croner's six fields.
const EVERY_SECOND: &str = "* * * * * *";
/// Should the trigger fall silent, this is enough for every interval but the shortest.
const WITHOUT_TRIGGER: Duration = Duration::from_secs(5);
const POLL_MANUAL: Duration = Duration::from_millis(20);

/// Work that is due at every slot. Its name is its job's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub every: Span,
    pub job: Job,
}

impl Schedule {
    fn new(every: Span, job: Job) -> Schedule {
        let every = every.max(SHORTEST);
        Schedule { every, job }
    }

    pub fn name(&self) -> String {
        self.job.key()
    }

    /// The newest slot at `now`: a multiple of the interval since the epoch, cut to whole seconds.
    pub fn slot(&self, now: Timestamp) -> Timestamp {
        let every = self.every.as_micros();
        let exact = now.as_micros().div_euclid(every).saturating_mul(every);
        Timestamp::from_secs(exact.div_euclid(1_000_000))
    }
}

/// Whether a job is one that a schedule owes at every slot.
pub fn is_regular(job: &Job) -> bool {
    matches!(job, Job::Sync { .. } | Job::Sweep | Job::Watermark | Job::Prune)
}

/// The program's schedules.
pub fn schedules(deps: &Deps) -> Vec<Schedule> {
    let syncs = deps.policy.suppliers.iter().map(|(supplier, terms)| {
        let supplier = supplier.clone();
        Schedule::new(terms.sync_interval, Job::Sync { supplier })
    });
    syncs
        .chain([
            Schedule::new(deps.sweep_interval, Job::Sweep),
            Schedule::new(WATERMARK_EVERY, Job::Watermark),
            Schedule::new(PRUNE_EVERY, Job::Prune),
        ])
        .collect()
}

/// Ticks until told to stop. Each supplier is synced once right away: figures age while we are down.
///
/// # Errors
/// When the trigger cannot be set up.
pub async fn run(deps: Deps, stopping: CancellationToken) -> Result<(), JobSchedulerError> {
    let ticked = Arc::new(Notify::new());
    let mut trigger = trigger(Arc::clone(&ticked)).await?;
    let mut ticker = Ticker::new(deps);
    while !ticker.sync_all().await && !stopping.is_cancelled() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let wait = if ticker.deps.clock.is_manual() { POLL_MANUAL } else { WITHOUT_TRIGGER };
    while !stopping.is_cancelled() {
        ticker.tick().await;
        tokio::select! {
            () = stopping.cancelled() => {}
            () = ticked.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    trigger.shutdown().await
}

async fn trigger(ticked: Arc<Notify>) -> Result<JobScheduler, JobSchedulerError> {
    let scheduler = JobScheduler::new().await?;
    let job = tokio_cron_scheduler::Job::new(EVERY_SECOND, move |_, _| ticked.notify_one())?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    Ok(scheduler)
}

/// The schedules with what this process knows of them.
pub struct Ticker {
    deps: Deps,
    schedules: Vec<Schedule>,
    /// The newest slot ticked here, by name: spares the database what it knows.
    ticked: BTreeMap<String, Timestamp>,
    /// Since when this has ticked on time: the start, or the last jump of the clock.
    awake_since: Timestamp,
    seen_at: Timestamp,
    watched_at: Timestamp,
}

impl Ticker {
    pub fn new(deps: Deps) -> Ticker {
        let now = deps.clock.now();
        Ticker {
            schedules: schedules(&deps),
            deps,
            ticked: BTreeMap::new(),
            awake_since: now,
            seen_at: now,
            watched_at: now,
        }
    }

    /// Owes a sync of every supplier now; whether it could.
    async fn sync_all(&self) -> bool {
        let now = self.deps.clock.now();
        let syncs = self.deps.suppliers.keys().map(|supplier| JobRequest {
            job: Job::Sync { supplier: supplier.clone() },
            run_at: now,
        });
        let owed = store::owe(&self.deps.db, syncs.collect(), now).await;
        if let Err(error) = &owed {
            tracing::warn!(error = %error, "the first sync could not be owed");
        }
        owed.is_ok()
    }

    /// Owes the job of every slot that is new, and watches over those that were.
    pub async fn tick(&mut self) {
        let now = self.deps.clock.now();
        self.notice_jump(now);
        for schedule in &self.schedules {
            let (name, slot) = (schedule.name(), schedule.slot(now));
            if self.ticked.get(&name).is_some_and(|last| *last >= slot) {
                continue;
            }
            match store::tick(&self.deps.db, &name, slot, schedule.job.clone(), now).await {
                Ok(_) => drop(self.ticked.insert(name, slot)),
                Err(error) => {
                    tracing::warn!(schedule.name = name, error = %error, "tick not taken");
                }
            }
        }
        if now.since(self.watched_at) >= PATIENCE {
            self.watched_at = now;
            if let Err(error) = self.watch(now).await {
                tracing::warn!(error = %error, "schedules not watched");
            }
        }
    }

    /// A tick that comes much too late, or before the last one: the machine slept, or its clock was
    /// set. What did not run meanwhile is not to blame.
    fn notice_jump(&mut self, now: Timestamp) {
        let gap = now.since(std::mem::replace(&mut self.seen_at, now));
        if gap < Span::ZERO || gap >= PATIENCE {
            self.awake_since = now;
            self.watched_at = self.watched_at.min(now);
        }
    }

    /// Alerts what has not run in twice its interval while we were awake, and closes what has.
    async fn watch(&self, now: Timestamp) -> Result<(), Stop> {
        let ran: BTreeMap<String, Timestamp> = store::schedules(&self.deps.db)
            .await?
            .into_iter()
            .filter_map(|row| Some((row.name, row.last_finished_at?)))
            .collect();
        let awake = now.since(self.awake_since);
        let mut changes = Vec::new();
        for schedule in &self.schedules {
            let name = schedule.name();
            let last = ran.get(&name).copied();
            let age = now.since(last.unwrap_or(self.awake_since));
            metrics::gauge!("stockhold_schedule_age_seconds", "schedule" => name.clone())
                .set(age.as_secs() as f64);
            changes.extend(judge(name, schedule.every, last.map(|at| now.since(at)), awake));
        }
        let command = Command::Alerts(changes);
        let reply = self.deps.engine.submit(Envelope::from(command)).await;
        reply.map(drop).map_err(|e| Stop::Retry(e.to_string()))
    }
}

/// `last`: how long ago it ran, if ever; `awake`: for how long we have been ticking on time. Neither
/// open nor closed is what has not run, and had no time to.
fn judge(name: String, every: Span, last: Option<Span>, awake: Span) -> Option<AlertChange> {
    let (kind, subject) = (AlertKind::ScheduleMissed, name);
    let limit = every.times(2, 1).max(PATIENCE);
    if last.is_some_and(|ago| ago <= limit) {
        return Some(AlertChange::Close { kind, subject });
    }
    let silent = last.map_or(awake, |ago| ago.min(awake));
    (silent > limit).then(|| AlertChange::Open {
        kind,
        subject,
        detail: format!("due every {} s, not run for {} s", every.as_secs(), silent.as_secs()),
    })
}
