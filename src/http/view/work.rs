//! Alerts and jobs.

use serde::Serialize;
use utoipa::ToSchema;

use super::time;
use crate::storage::alerts::Alert;
use crate::storage::jobs::JobInfo;

#[derive(Debug, Serialize, ToSchema)]
pub struct AlertView {
    pub id: String,
    /// See the contract's list of kinds.
    pub kind: &'static str,
    /// What it is about: a SKU, a supplier, an order …
    pub subject: String,
    pub detail: String,
    /// `open` or `closed`.
    pub state: &'static str,
    pub opened_at: String,
    pub closed_at: Option<String>,
    pub acknowledged_at: Option<String>,
}

impl AlertView {
    pub fn new(alert: Alert) -> AlertView {
        AlertView {
            id: alert.id.to_string(),
            kind: alert.kind.as_str(),
            subject: alert.subject,
            detail: alert.detail,
            state: if alert.closed_at.is_none() { "open" } else { "closed" },
            opened_at: time(alert.opened_at),
            closed_at: alert.closed_at.map(time),
            acknowledged_at: alert.acknowledged_at.map(time),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct JobView {
    pub id: String,
    pub kind: String,
    /// Unique among live jobs.
    pub key: String,
    /// `ready`, `running` or `dead`.
    pub state: String,
    pub run_at: String,
    /// Starts since it last made progress.
    pub attempts: i64,
    /// Workers that died under it since its last report; the fifth makes it dead.
    pub lapses: i64,
    pub worker: Option<String>,
    pub lease_until: Option<String>,
    pub last_error: Option<String>,
    pub created_at: String,
}

impl JobView {
    pub fn new(job: JobInfo) -> JobView {
        JobView {
            id: job.id.to_string(),
            kind: job.kind,
            key: job.key,
            state: job.state,
            run_at: time(job.run_at),
            attempts: job.attempts,
            lapses: job.lapses,
            worker: job.worker,
            lease_until: job.lease_until.map(time),
            last_error: job.last_error,
            created_at: time(job.created_at),
        }
    }
}
