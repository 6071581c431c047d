//! A lease as its holder sees it: until when it lasts, and whether it was lost.
//!
//! What must hold: the time noted here is never later than the database's; once a renewal was
//! refused, nothing revives the lease and the handler is stopped.

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

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
    /// Cancelled when somebody else has the job.
    pub lost: CancellationToken,
}

impl Held {
    pub fn new(db: Db, clock: Clock, fence: Fence, length: Span, until: Timestamp) -> Held {
        Held {
            db,
            clock,
            fence,
            length,
            until: AtomicI64::new(until.as_micros()),
            lost: CancellationToken::new(),
        }
    }

    fn until(&self) -> Timestamp {
        Timestamp(self.until.load(Ordering::SeqCst))
    }

    /// Renews the lease for its usual length; one that lasts longer is left as it is.
    pub async fn beat(&self) {
        if let Err(error) = self.renew(self.length).await {
            tracing::debug!(job.id = self.fence.job, error = %error, "lease not renewed");
        }
    }

    async fn renew(&self, span: Span) -> Result<(), Stop> {
        let now = self.clock.now();
        let until = (now + span).max(self.until());
        if store::heartbeat(&self.db, self.fence, until, now).await? {
            self.until.fetch_max(until.as_micros(), Ordering::SeqCst);
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
