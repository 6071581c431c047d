//! What ops start by hand beside commands: a sync, a dead job, an alert that was seen.

use async_trait::async_trait;

use crate::clock::{Clock, Timestamp};
use crate::domain::job::{Job, JobRequest};
use crate::domain::names::SourceId;
use crate::engine::KeptAnswer;
use crate::http::operations::{Operations, Refused};
use crate::storage::groups::{self, Keep};
use crate::storage::{self, Db, Tx, alerts, jobs};

/// Writes through the store, each in one transaction.
pub struct ByHand {
    pub db: Db,
    pub clock: Clock,
}

fn refused(error: storage::Error) -> Refused {
    match error {
        storage::Error::Unavailable(why) | storage::Error::CommitUnknown(why) => {
            Refused::StorageUnavailable(why)
        }
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

    async fn retry_job(&self, id: i64) -> Result<(), Refused> {
        let clock = self.clock.clone();
        let retried = self.db.transact(move |tx| {
            Box::pin(async move {
                let now = tx.now(&clock).await?;
                let ready = jobs::retry(tx, id, now).await?;
                Ok::<bool, storage::Error>(ready || jobs::read(tx, id).await?.is_some())
            })
        });
        found(retried.await.map_err(refused)?, "job")
    }

    async fn acknowledge_alert(&self, id: i64) -> Result<(), Refused> {
        let clock = self.clock.clone();
        let seen = self.db.transact(move |tx| {
            Box::pin(async move {
                let now = tx.now(&clock).await?;
                let first = alerts::acknowledge(tx, id, now).await?;
                Ok::<bool, storage::Error>(first || alerts::read(tx, id).await?.is_some())
            })
        });
        found(seen.await.map_err(refused)?, "alert")
    }
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

fn found(there: bool, what: &'static str) -> Result<(), Refused> {
    if there { Ok(()) } else { Err(Refused::NotFound(what)) }
}
