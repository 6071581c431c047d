//! What ops start by hand beside commands: a sync, a dead job, an alert that was seen.

use async_trait::async_trait;

use crate::clock::{Clock, Timestamp};
use crate::domain::job::{Job, JobRequest};
use crate::domain::names::SourceId;
use crate::engine::KeptAnswer;
use crate::http::operations::{Answered, Answering, Operations, Refused};
use crate::storage::alerts::Alert;
use crate::storage::groups::{self, Keep};
use crate::storage::jobs::JobInfo;
use crate::storage::{self, Db, Tx, alerts, jobs};

/// Writes through the store, each in one transaction.
pub struct ByHand {
    pub db: Db,
    pub clock: Clock,
}

fn refused(error: storage::Error) -> Refused {
    match error {
        storage::Error::Unavailable(why)
        | storage::Error::CommitUnknown(why)
        | storage::Error::Retry(why) => Refused::StorageUnavailable(why),
        other => Refused::Internal(other.to_string()),
    }
}

/// The error of a transaction that may also refuse.
struct Stopped(Refused);

impl From<storage::Error> for Stopped {
    fn from(error: storage::Error) -> Stopped {
        Stopped(refused(error))
    }
}

#[async_trait]
impl Operations for ByHand {
    async fn sync(
        &self,
        supplier: &SourceId,
        accept_suspect: bool,
        keep: Option<Keep>,
    ) -> Result<Option<KeptAnswer>, Refused> {
        let clock = self.clock.clone();
        let sync = Job::Sync { supplier: supplier.clone() };
        let accept = Job::AcceptFeed { supplier: supplier.clone() };
        let job = if accept_suspect { accept.clone() } else { sync.clone() };
        let name = supplier.to_string();
        let owed = self.db.transact(move |tx| {
            Box::pin(async move {
                let now = tx.now(&clock).await?;
                if let Some(kept) = answered_before(tx, keep.as_ref(), now).await? {
                    return Ok(Some(kept));
                }
                if jobs::is_running(tx, &[sync.key(), accept.key()]).await? {
                    let detail = format!("a sync of {name} is under way");
                    return Err(Stopped(Refused::AlreadyRunning(detail)));
                }
                jobs::owe(tx, vec![JobRequest { job, run_at: now }], now).await?;
                groups::keep(tx, keep.into_iter().collect(), now).await?;
                Ok(None)
            })
        });
        owed.await.map_err(|Stopped(why)| why)
    }

    async fn retry_job(&self, id: i64, answering: Answering<JobInfo>) -> Result<Answered, Refused> {
        let clock = self.clock.clone();
        let retried = self.db.transact(move |tx| {
            Box::pin(async move {
                let now = tx.now(&clock).await?;
                if let Some(first) = answered_before(tx, answering.keep.as_ref(), now).await? {
                    return Ok(Answered::Before(first));
                }
                jobs::retry(tx, id, now).await?;
                let job = jobs::read(tx, id).await?;
                answer(tx, job.ok_or(Stopped(Refused::NotFound("job")))?, answering, now).await
            })
        });
        retried.await.map_err(|Stopped(why)| why)
    }

    async fn acknowledge_alert(
        &self,
        id: i64,
        answering: Answering<Alert>,
    ) -> Result<Answered, Refused> {
        let clock = self.clock.clone();
        let seen = self.db.transact(move |tx| {
            Box::pin(async move {
                let now = tx.now(&clock).await?;
                if let Some(first) = answered_before(tx, answering.keep.as_ref(), now).await? {
                    return Ok(Answered::Before(first));
                }
                alerts::acknowledge(tx, id, now).await?;
                let alert = alerts::read(tx, id).await?;
                answer(tx, alert.ok_or(Stopped(Refused::NotFound("alert")))?, answering, now).await
            })
        });
        seen.await.map_err(|Stopped(why)| why)
    }

    async fn keep(&self, answer: Keep) -> Result<Option<KeptAnswer>, Refused> {
        let clock = self.clock.clone();
        let kept = self.db.transact(move |tx| {
            Box::pin(async move {
                let now = tx.now(&clock).await?;
                let first = answered_before(tx, Some(&answer), now).await?;
                if first.is_none() {
                    groups::keep(tx, vec![answer], now).await?;
                }
                Ok(first)
            })
        });
        kept.await.map_err(|Stopped(why)| why)
    }
}

/// Renders an answer and keeps it under its key.
async fn answer<T>(
    tx: &mut Tx,
    what: T,
    answering: Answering<T>,
    now: Timestamp,
) -> Result<Answered, Stopped> {
    let answer = (answering.render)(what);
    if let Some(mut keep) = answering.keep {
        keep.kept.status = answer.status;
        keep.kept.body.clone_from(&answer.body);
        groups::keep(tx, vec![keep], now).await?;
    }
    Ok(Answered::Now(answer))
}

/// The first answer under the same key.
async fn answered_before(
    tx: &mut Tx,
    keep: Option<&Keep>,
    now: Timestamp,
) -> Result<Option<KeptAnswer>, Stopped> {
    let Some(keep) = keep else { return Ok(None) };
    match groups::kept(tx, &[keep.scope.clone()].into(), now).await?.remove(&keep.scope) {
        None => Ok(None),
        Some(kept) if kept.body_hash == keep.kept.body_hash => {
            Ok(Some(KeptAnswer { status: kept.status, body: kept.body }))
        }
        Some(_) => Err(Stopped(Refused::KeyReused)),
    }
}
