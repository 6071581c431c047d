//! A lease as its holder sees it: until when it lasts, and whether it was lost.
//!
//! What must hold: it is noted by our own clock, from before it was asked for, so never as longer
//! than it is; once a renewal was refused, nothing revives it and the handler is stopped.

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::Deps;
use super::run::{Lease, Stop};
use super::store;
use crate::clock::{Clock, Span, Timestamp};
use crate::engine::Fence;
use crate::storage::Db;

/// The lease of one running job.
pub(super) struct Held {
    db: Db,
    clock: Clock,
    fence: Fence,
    length: Span,
    until: AtomicI64,
    /// One renewal at a time: a shorter one must not overtake a longer one.
    renewing: Mutex<()>,
    /// Cancelled when somebody else has the job.
    pub lost: CancellationToken,
}

impl Held {
    /// Claimed for the usual length by a request sent at `asked_at`.
    pub fn new(deps: &Deps, fence: Fence, asked_at: Timestamp) -> Held {
        Held {
            db: deps.db.clone(),
            clock: deps.clock.clone(),
            fence,
            length: deps.lease,
            until: AtomicI64::new((asked_at + deps.lease).as_micros()),
            renewing: Mutex::new(()),
            lost: CancellationToken::new(),
        }
    }

    fn until(&self) -> Timestamp {
        Timestamp(self.until.load(Ordering::SeqCst))
    }

    /// Renews the lease for its usual length; one that lasts longer keeps its end.
    pub async fn beat(&self) {
        if let Err(error) = self.renew(self.length).await {
            tracing::debug!(job.id = self.fence.job, error = %error, "lease not renewed");
        }
    }

    async fn renew(&self, span: Span) -> Result<(), Stop> {
        let _alone = self.renewing.lock().await;
        let now = self.clock.now();
        let span = span.max(self.until().since(now));
        if store::heartbeat(&self.db, &self.clock, self.fence, span).await? {
            self.until.fetch_max((now + span).as_micros(), Ordering::SeqCst);
            return Ok(());
        }
        self.lost.cancel();
        Err(Stop::Retry("the lease was taken over".into()))
    }
}

#[async_trait]
impl Lease for Held {
    fn fence(&self) -> Fence {
        self.fence
    }

    async fn cover(&self, span: Span) -> Result<(), Stop> {
        if self.until().since(self.clock.now()) > span {
            return Ok(());
        }
        self.renew(span.max(self.length)).await
    }
}
