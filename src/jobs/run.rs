//! One run of one job: what its handler may use, and what it can answer.
//!
//! What must hold: every command of a job carries its lease's fence, so that one that was taken over
//! changes nothing any more; a call outside starts only while the lease surely outlives its time-out.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast::Receiver;

use super::Deps;
use crate::clock::{Span, Timestamp};
use crate::domain::command::Command;
use crate::domain::job::Job;
use crate::domain::names::SourceId;
use crate::domain::outcome::{Outcome, Refusal};
use crate::domain::policy::Terms;
use crate::engine::{Committed, Engine, Envelope, Error, Fence, Reply};
use crate::suppliers::Supplier;

/// How a run ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// There is more to do then; not a failure.
    At(Timestamp),
}

impl From<Option<Timestamp>> for Answer {
    fn from(at: Option<Timestamp>) -> Answer {
        at.map_or(Answer::Done, Answer::At)
    }
}

/// Why a run ended without being done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Not its turn: somebody holds the lock until then. Not a failure.
    #[error("not before {0}")]
    Until(Timestamp),
    /// A failed attempt; again after a backoff.
    #[error("{0}")]
    Retry(String),
    /// Trying again cannot help: a person must see to it.
    #[error("{0}")]
    Fail(String),
}

/// The lease under which a job runs.
#[async_trait]
pub trait Lease: Send + Sync {
    fn fence(&self) -> Fence;

    /// Makes the lease last at least `span` from now.
    ///
    /// # Errors
    /// When it was lost or cannot be renewed; then nothing may be sent.
    async fn cover(&self, span: Span) -> Result<(), Stop>;
}

/// Whoever takes commands: the engine, or a test's script.
#[async_trait]
pub trait Core: Send + Sync {
    /// # Errors
    /// As [`Error`] says; only [`Error::OutcomeUnknown`] leaves open whether anything was changed.
    async fn submit(&self, envelope: Envelope) -> Result<Reply, Error>;

    /// What every commit from now on touched.
    fn commits(&self) -> Receiver<Committed>;
}

#[async_trait]
impl Core for Engine {
    async fn submit(&self, envelope: Envelope) -> Result<Reply, Error> {
        Engine::submit(self, envelope).await
    }

    fn commits(&self) -> Receiver<Committed> {
        self.subscribe()
    }
}

/// A job being run.
pub struct Run<'a> {
    pub deps: &'a Deps,
    pub job: &'a Job,
    pub lease: &'a dyn Lease,
}

/// A command that the store could not take is given this often; the answer that it brings was paid
/// for with a call outside.
const TRIES: u32 = 4;
/// Waited before the second try, then doubled.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Room between the end of a call's time-out and the end of the lease.
const MARGIN: Span = Span::secs(5);

impl Run<'_> {
    pub fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// Submits a command under the job's fence.
    ///
    /// # Errors
    /// [`Stop::Until`] when an item's lock is held by another, otherwise [`Stop::Retry`].
    pub async fn submit(&self, command: Command) -> Result<Outcome, Stop> {
        self.ask(command).await.map_err(|error| match error {
            Error::Refused(Refusal::Locked(until)) => Stop::Until(until),
            other => Stop::Retry(other.to_string()),
        })
    }

    /// Submits a command under the job's fence, leaving the judgement of an error to the caller.
    ///
    /// # Errors
    /// The engine's.
    pub async fn ask(&self, command: Command) -> Result<Outcome, Error> {
        let mut wait = FIRST_WAIT;
        for _ in 1..TRIES {
            match self.once(command.clone()).await {
                Err(Error::StorageUnavailable(cause)) => {
                    tracing::debug!(job.kind = self.job.kind(), cause, "command not taken");
                    tokio::time::sleep(wait).await;
                    wait = wait.saturating_mul(2);
                }
                other => return other,
            }
        }
        self.once(command).await
    }

    async fn once(&self, command: Command) -> Result<Outcome, Error> {
        let envelope = Envelope { command, fence: Some(self.lease.fence()), idempotency: None };
        match self.deps.engine.submit(envelope).await? {
            Reply::Outcome(outcome) => Ok(outcome),
            Reply::Kept(_) => Err(Error::Internal("a job's command has no key".into())),
        }
    }

    /// The supplier and its terms.
    ///
    /// # Errors
    /// [`Stop::Fail`] when it is not configured (any more).
    pub fn supplier(&self, id: &SourceId) -> Result<(&dyn Supplier, &Terms), Stop> {
        let supplier = self.deps.suppliers.get(id);
        let terms = self.deps.policy.suppliers.get(id);
        match (supplier, terms) {
            (Some(supplier), Some(terms)) => Ok((supplier.as_ref(), terms)),
            _ => Err(Stop::Fail(format!("supplier {id} is not configured"))),
        }
    }

    /// To be called before each call outside that takes up to `timeout`.
    ///
    /// # Errors
    /// When the lease cannot cover it.
    pub async fn cover(&self, timeout: Span) -> Result<(), Stop> {
        self.lease.cover(timeout + MARGIN).await
    }
}

/// An outcome that the command cannot have: a fault of ours.
pub fn unexpected(outcome: &Outcome) -> Stop {
    Stop::Retry(format!("unexpected outcome: {outcome:?}"))
}

/// Reads [`Outcome::Again`].
///
/// # Errors
/// For any other outcome.
pub fn again(outcome: Outcome) -> Result<Option<Timestamp>, Stop> {
    match outcome {
        Outcome::Again(at) => Ok(at),
        Outcome::Done => Ok(None),
        Outcome::Early(at) => Ok(Some(at)),
        other => Err(unexpected(&other)),
    }
}
