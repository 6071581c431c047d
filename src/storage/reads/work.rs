//! Alerts and jobs, for people.

use std::sync::LazyLock;

use super::filter::Texts;
use crate::storage::alerts::{self, Alert};
use crate::storage::jobs::{self, JobInfo};
use crate::storage::sql::args;
use crate::storage::{Db, Result};

/// Which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    pub state: Option<&'static str>,
    pub kind: Option<String>,
}

static ALERTS: LazyLock<Texts> = LazyLock::new(|| {
    Texts::new(
        &format!("SELECT {} FROM alerts", alerts::COLUMNS),
        &["id < ?", "closed_at IS NULL", "closed_at IS NOT NULL"],
        "ORDER BY id DESC",
    )
});

static JOBS: LazyLock<Texts> = LazyLock::new(|| {
    Texts::new(
        &format!("SELECT {} FROM jobs", jobs::INFO),
        &["id < ?", "state = ?", "kind = ?"],
        "ORDER BY id DESC",
    )
});

/// One alert.
///
/// # Errors
/// The database's.
pub async fn alert(db: &Db, id: i64) -> Result<Option<Alert>> {
    db.read(move |tx| Box::pin(async move { alerts::read(tx, id).await })).await
}

/// Alerts below an id, open or closed ones where asked, newest first; one more than `limit`.
///
/// # Errors
/// The database's.
pub async fn alerts(
    db: &Db,
    open: Option<bool>,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Alert>> {
    let given = vec![
        before.map(|id| args![id]),
        (open == Some(true)).then(Vec::new),
        (open == Some(false)).then(Vec::new),
    ];
    let Some((sql, args)) = ALERTS.pick(given, limit) else {
        return Ok(Vec::new());
    };
    db.read(move |tx| Box::pin(async move { tx.all(sql, args).await })).await
}

/// One job.
///
/// # Errors
/// The database's.
pub async fn job(db: &Db, id: i64) -> Result<Option<JobInfo>> {
    db.read(move |tx| Box::pin(async move { jobs::read(tx, id).await })).await
}

/// Jobs below an id, newest first; one more than `limit`.
///
/// # Errors
/// The database's.
pub async fn jobs(
    db: &Db,
    filter: &JobFilter,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<JobInfo>> {
    let given = vec![
        before.map(|id| args![id]),
        filter.state.map(|state| args![state]),
        filter.kind.as_deref().map(|kind| args![kind]),
    ];
    let Some((sql, args)) = JOBS.pick(given, limit) else {
        return Ok(Vec::new());
    };
    db.read(move |tx| Box::pin(async move { tx.all(sql, args).await })).await
}
