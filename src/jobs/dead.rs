//! Keeps `job_dead` true: open for each job that is parked, closed once it is not.
//!
//! A job that dies in our hands is told at once (`work`). This makes good what was not: a payload
//! that could not be read, a crash between the two writes; and it closes what ops have retried.

use super::run::Stop;
use super::{Deps, store};
use crate::domain::alert::{AlertChange, AlertKind};

/// What must change for the open alerts to be those of the dead jobs.
///
/// # Errors
/// When they cannot be read.
pub(super) async fn judge(deps: &Deps) -> Result<Vec<AlertChange>, Stop> {
    let kind = AlertKind::JobDead;
    let dead = store::dead(&deps.db).await?;
    let open = store::open_subjects(&deps.db, kind).await?;
    metrics::gauge!("stockhold_jobs_dead").set(dead.len() as f64);
    let closed = open.iter().filter(|key| !dead.contains_key(*key));
    let closed = closed.map(|key| AlertChange::Close { kind, subject: key.clone() });
    let opened = dead.iter().filter(|(key, _)| !open.contains(*key));
    let opened = opened.map(|(key, detail)| AlertChange::Open {
        kind,
        subject: key.clone(),
        detail: detail.clone(),
    });
    Ok(closed.chain(opened).collect())
}
