//! Work that is owed: durable jobs, keyed so that owing the same thing twice makes one.

use serde::{Deserialize, Serialize};

use super::names::{LevelId, PurchaseId, RefundId, SourceId};
use crate::clock::Timestamp;

/// A kind of job with what it is about; stored as JSON beside its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Job {
    /// Everything whose deadline is within the second that ends then.
    Deadline { second: i64 },
    /// Ask the supplier about one item and decide the orders that wait on it.
    Confirm { level: LevelId },
    /// Do the next thing about a purchase: place, look up, poll, cancel.
    Purchase { purchase: PurchaseId },
    /// Look a reference with a lost create up again (index into `policy::LATE_LOOKUPS`).
    Recheck { purchase: PurchaseId, lost_at: Timestamp, step: usize },
    /// Ask the provider to make a refund, or what became of it.
    Refund { refund: RefundId },
    /// Tell the channels of an alert's opening, reminder or closing: owes a [`Job::Tell`] to each.
    Alert { alert: i64, event: String },
    /// Tell one channel.
    Tell { alert: i64, event: String, channel: String },
    /// Read a supplier's whole feed.
    Sync { supplier: SourceId },
    /// Read it and believe it, however much it shrank: ops have looked at it.
    AcceptFeed { supplier: SourceId },
    /// The second line of defence: everything past its deadline.
    Sweep,
    /// Judge every SKU's watermark and every supplier's freshness.
    Watermark,
    /// Delete what is kept for a limited time.
    Prune,
}

impl Job {
    /// Unique among live jobs: a second request for the same work finds the first.
    pub fn key(&self) -> String {
        match self {
            Job::Deadline { second } => format!("expire:{second}"),
            Job::Confirm { level } => format!("confirm:{level}"),
            Job::Purchase { purchase } => format!("purchase:{purchase}"),
            Job::Recheck { purchase, lost_at, step } => {
                format!("recheck:{purchase}:{}:{step}", lost_at.0)
            }
            Job::Refund { refund } => format!("refund:{refund}"),
            Job::Alert { alert, event } => format!("alert:{alert}:{event}"),
            Job::Tell { alert, event, channel } => format!("tell:{alert}:{event}:{channel}"),
            Job::Sync { supplier } => format!("sync:{supplier}"),
            Job::AcceptFeed { supplier } => format!("accept_feed:{supplier}"),
            Job::Sweep => "sweep".into(),
            Job::Watermark => "watermark".into(),
            Job::Prune => "prune".into(),
        }
    }

    pub const fn kind(&self) -> &'static str {
        match self {
            Job::Deadline { .. } => "deadline",
            Job::Confirm { .. } => "confirm",
            Job::Purchase { .. } => "purchase",
            Job::Recheck { .. } => "recheck",
            Job::Refund { .. } => "refund",
            Job::Alert { .. } => "alert",
            Job::Tell { .. } => "tell",
            Job::Sync { .. } => "sync",
            Job::AcceptFeed { .. } => "accept_feed",
            Job::Sweep => "sweep",
            Job::Watermark => "watermark",
            Job::Prune => "prune",
        }
    }
}

/// A job owed from `run_at` on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobRequest {
    pub job: Job,
    pub run_at: Timestamp,
}
