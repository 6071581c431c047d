//! One claimed job from start to finish: run it, and write down how it ended.
//!
//! What must hold: a handler that panics is a failed attempt and nothing more; a run whose lease was
//! lost, or that was cut short by the stop, writes nothing down but that others may have it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::held::Held;
use super::run::{Answer, Lease, Run, Stop};
use super::runner::Handler;
use super::store::{self, Claimed, Finish};
use super::{Deps, schedule};
use crate::clock::Span;
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::backoff;
use crate::domain::command::Command;
use crate::engine::Envelope;

/// A job under which so many workers died one after the other is run no more.
const MAX_LAPSES: i64 = 5;
/// Waited after a first failure, then doubled.
const FIRST_BACKOFF: Span = Span::secs(2);
const LONGEST_BACKOFF: Span = Span::minutes(10);
/// Waited by what is due at every slot.
const REGULAR_BACKOFF: Span = Span::secs(5);
/// How often writing an end down is tried; after that the lease ends by itself.
const TRIES: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// How a run ended.
enum Ended {
    Ran(Result<Answer, Stop>),
    /// Somebody else has the job.
    Lost,
    /// The program stops and the grace is over.
    Cut,
}

/// Runs a claimed job and finishes it.
pub(super) async fn work(
    deps: Deps,
    handler: Arc<dyn Handler>,
    claimed: Claimed,
    held: Arc<Held>,
    cut: CancellationToken,
) {
    let kind = claimed.job.kind();
    let started = Instant::now();
    let ended = if claimed.lapses >= MAX_LAPSES {
        let died = format!("its worker died {} times in a row", claimed.lapses);
        Ended::Ran(Err(Stop::Fail(died)))
    } else {
        run(&deps, handler.as_ref(), &claimed, &held, &cut).await
    };
    metrics::histogram!("stockhold_job_seconds", "kind" => kind)
        .record(started.elapsed().as_secs_f64());
    let outcome = conclude(&deps, &claimed, held.as_ref(), ended).await;
    metrics::counter!("stockhold_jobs_run_total", "kind" => kind, "outcome" => outcome)
        .increment(1);
}

async fn run(
    deps: &Deps,
    handler: &dyn Handler,
    claimed: &Claimed,
    held: &Held,
    cut: &CancellationToken,
) -> Ended {
    let run = Run { deps, job: &claimed.job, lease: held };
    let guarded = AssertUnwindSafe(handler.run(&run)).catch_unwind();
    tokio::select! {
        biased;
        () = held.lost.cancelled() => Ended::Lost,
        () = cut.cancelled() => Ended::Cut,
        result = guarded => Ended::Ran(result.unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            Err(Stop::Retry(format!("panicked: {text}")))
        })),
    }
}

/// Writes the end down; answers its name for the metrics.
async fn conclude(deps: &Deps, claimed: &Claimed, held: &Held, ended: Ended) -> &'static str {
    let (name, finish) = match ended {
        Ended::Ran(Ok(Answer::Done)) => ("done", Finish::Done),
        Ended::Ran(Ok(Answer::At(at))) => ("again", Finish::At(at)),
        Ended::Ran(Err(Stop::Until(at))) => ("waits", Finish::Later(at)),
        // What is due at every slot is never parked for failing, or no slot would run it again; the
        // watchdog tells of it.
        Ended::Ran(Err(Stop::Retry(error))) if schedule::is_regular(&claimed.job) => {
            let at = deps.clock.now() + REGULAR_BACKOFF;
            (log_failure(claimed, &error, false), Finish::At(at))
        }
        Ended::Ran(Err(Stop::Retry(error))) if claimed.attempts < deps.max_attempts => {
            let failed_before = u32::try_from(claimed.attempts.saturating_sub(1)).unwrap_or(0);
            let key = claimed.job.key();
            let wait = backoff::jittered(failed_before, FIRST_BACKOFF, LONGEST_BACKOFF, &key);
            let at = deps.clock.now() + wait;
            (log_failure(claimed, &error, false), Finish::Failed { error, at })
        }
        Ended::Ran(Err(Stop::Retry(error) | Stop::Fail(error))) => {
            let name = log_failure(claimed, &error, true);
            tell_dead(deps, claimed, &error).await;
            (name, Finish::Dead { error })
        }
        Ended::Cut => ("handed_back", Finish::Later(deps.clock.now())),
        Ended::Lost => {
            tracing::warn!(job.id = claimed.id, job.key = claimed.job.key(), "lease lost");
            return "lost";
        }
    };
    let mut wait = FIRST_WAIT;
    for attempt in 1..=TRIES {
        match store::finish(&deps.db, held.fence(), claimed.wakes, finish.clone()).await {
            Ok(true) => {
                note_schedule(deps, claimed, name).await;
                return name;
            }
            Ok(false) => {
                tracing::warn!(
                    job.id = claimed.id,
                    job.key = claimed.job.key(),
                    "finish refused: the job has another owner"
                );
                return "lost";
            }
            Err(error) if attempt == TRIES => {
                tracing::error!(job.id = claimed.id, job.key = claimed.job.key(),
                    error = %error, "job not finished; its lease will end");
            }
            Err(_) => {
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2);
            }
        }
    }
    "unfinished"
}

/// Notes that a schedule's job ran to an end of its own.
async fn note_schedule(deps: &Deps, claimed: &Claimed, outcome: &'static str) {
    let to_an_end = matches!(outcome, "done" | "again");
    if to_an_end && schedule::is_regular(&claimed.job) {
        let now = deps.clock.now();
        if let Err(error) = store::ran(&deps.db, claimed.job.key(), outcome, now).await {
            tracing::warn!(job.key = claimed.job.key(), error = %error, "run not noted");
        }
    }
}

fn log_failure(claimed: &Claimed, error: &str, dead: bool) -> &'static str {
    let (id, key, attempts) = (claimed.id, claimed.job.key(), claimed.attempts);
    if dead {
        tracing::error!(job.id = id, job.key = key, job.attempts = attempts, error, "job is dead");
        "dead"
    } else {
        tracing::warn!(job.id = id, job.key = key, job.attempts = attempts, error, "job failed");
        "failed"
    }
}

/// Before the job is parked, so that none is parked in silence; opening it twice opens it once.
async fn tell_dead(deps: &Deps, claimed: &Claimed, error: &str) {
    metrics::counter!("stockhold_jobs_dead_total", "kind" => claimed.job.kind()).increment(1);
    let change = AlertChange::Open {
        kind: AlertKind::JobDead,
        subject: claimed.job.key(),
        detail: format!("job {}: {error}", claimed.id),
    };
    let command = Command::Alerts(vec![change]);
    if let Err(error) = deps.engine.submit(Envelope::from(command)).await {
        tracing::error!(job.id = claimed.id, error = %error, "a dead job was not told");
    }
}
