//! What jobs ask of storage, each as one transaction or one read.
//!
//! What must hold: times that several replicas compare are the database's; a lease is noted here by
//! our own clock, from before it was asked for. An error of the store is a failed attempt.

use std::collections::{BTreeMap, BTreeSet};

use super::Deps;
use super::run::Stop;
use crate::clock::{Clock, Span, Timestamp};
use crate::domain::alert::AlertKind;
use crate::domain::job::{Job, JobRequest};
use crate::domain::names::{LevelId, OrderId, SkuKey, SourceId};
use crate::domain::sku::Sku;
use crate::domain::stock::Level;
use crate::domain::watermark::Caution;
use crate::engine::Fence;
use crate::storage::{self, Db, alerts, groups, jobs, pages, reads, schedules, suppliers};

pub use crate::storage::jobs::{Claimed, Finish};

pub type Result<T> = std::result::Result<T, Stop>;

/// Rows deleted in one transaction.
const PRUNED: i64 = 1_000;
/// Alerts or jobs in a page.
const PAGE: i64 = 500;

fn stop(error: storage::Error) -> Stop {
    Stop::Retry(error.to_string())
}

/// Whether a job may be claimed now. Asked of a reader, so that an idle runner disturbs no writer.
pub async fn any_due(db: &Db, clock: &Clock) -> Result<bool> {
    let clock = clock.clone();
    let read = db.read(move |tx| {
        Box::pin(async move {
            let next = jobs::next_run_at(tx).await?;
            let now = tx.now(&clock).await?;
            Ok(next.is_some_and(|at| at <= now))
        })
    });
    read.await.map_err(stop)
}

/// Takes back the jobs whose workers died, and claims due ones, for each lane so many of its kinds; the answer is by lane.
pub async fn claim(
    deps: &Deps,
    worker: &str,
    lanes: Vec<(&'static [&'static str], i64)>,
) -> Result<Vec<Vec<Claimed>>> {
    let (clock, lease, worker) = (deps.clock.clone(), deps.lease, worker.to_owned());
    let claimed = deps.db.transact(move |tx| {
        Box::pin(async move {
            let mut claimed = Vec::new();
            let now = tx.now(&clock).await?;
            let lapsed = jobs::lapse(tx, now).await?;
            for (kinds, limit) in lanes {
                let now = tx.now(&clock).await?;
                claimed.push(jobs::claim(tx, now, kinds, limit, &worker, now + lease).await?);
            }
            Ok((lapsed, claimed))
        })
    });
    let (lapsed, claimed) = claimed.await.map_err(stop)?;
    for kind in lapsed {
        metrics::counter!("stockhold_job_stuck_total", "kind" => kind).increment(1);
    }
    Ok(claimed)
}

/// Makes a lease last `span` from now. `false`: it was lost.
pub async fn heartbeat(db: &Db, clock: &Clock, fence: Fence, span: Span) -> Result<bool> {
    let clock = clock.clone();
    let kept = db.transact(move |tx| {
        Box::pin(async move {
            let until = tx.now(&clock).await? + span;
            jobs::heartbeat(tx, fence.job, fence.token, until).await
        })
    });
    kept.await.map_err(stop)
}

/// Ends a claim. `false`: the lease was lost, nothing changed.
pub async fn finish(db: &Db, fence: Fence, wakes: i64, finish: Finish) -> Result<bool> {
    let ended = db.transact(move |tx| {
        Box::pin(async move { jobs::finish(tx, fence.job, fence.token, wakes, finish).await })
    });
    ended.await.map_err(stop)
}

/// Owes jobs outside of any decision.
pub async fn owe(db: &Db, requests: Vec<JobRequest>, now: Timestamp) -> Result<()> {
    let owed = db
        .transact(move |tx| Box::pin(async move { jobs::owe(tx, requests, now).await.map(drop) }));
    owed.await.map_err(stop)
}

/// Owes a slot's job once.
pub async fn tick(db: &Db, name: &str, slot: Timestamp, job: Job, now: Timestamp) -> Result<bool> {
    let name = name.to_owned();
    let ticked = db.transact(move |tx| {
        Box::pin(async move { schedules::tick(tx, &name, slot, job, now).await })
    });
    ticked.await.map_err(stop)
}

/// Notes that a schedule's job ran.
pub async fn ran(db: &Db, name: String, outcome: &'static str, now: Timestamp) -> Result<()> {
    let noted = db.transact(move |tx| {
        Box::pin(async move { schedules::finished(tx, &name, outcome, now).await })
    });
    noted.await.map_err(stop)
}

pub async fn schedules(db: &Db) -> Result<Vec<schedules::Schedule>> {
    let read = db.read(|tx| Box::pin(async move { schedules::list(tx).await }));
    read.await.map_err(stop)
}

pub async fn alert(db: &Db, id: i64) -> Result<Option<alerts::Alert>> {
    let read = db.read(move |tx| Box::pin(async move { alerts::read(tx, id).await }));
    read.await.map_err(stop)
}

/// Owes the reminders that are due.
pub async fn remind(db: &Db, every: Span, now: Timestamp) -> Result<usize> {
    let owed = db.transact(move |tx| Box::pin(async move { alerts::remind(tx, every, now).await }));
    owed.await.map_err(stop)
}

/// Notes a sync's end; whether it is another than the last one's.
pub async fn synced(
    db: &Db,
    id: &SourceId,
    outcome: &'static str,
    detail: &str,
    suspect: Option<bool>,
    now: Timestamp,
) -> Result<bool> {
    let (id, detail) = (id.clone(), detail.to_owned());
    let noted = db.transact(move |tx| {
        Box::pin(async move { suppliers::synced(tx, &id, outcome, &detail, suspect, now).await })
    });
    noted.await.map_err(stop)
}

/// Deletes what is kept for a limited time, until nothing more is over.
pub async fn prune(db: &Db, now: Timestamp) -> Result<u64> {
    let mut all = 0_u64;
    loop {
        let pruned = db.transact(move |tx| {
            Box::pin(async move {
                let closed = alerts::prune(tx, now, PRUNED).await?;
                Ok(groups::prune(tx, now, PRUNED).await?.saturating_add(closed))
            })
        });
        match pruned.await.map_err(stop)? {
            0 => return Ok(all),
            some => all = all.saturating_add(some),
        }
    }
}

/// The subjects of the alerts of a kind that are open.
pub async fn open_subjects(db: &Db, kind: AlertKind) -> Result<BTreeSet<String>> {
    let read = db.read(move |tx| {
        Box::pin(async move {
            let mut subjects = BTreeSet::new();
            let mut before = None;
            loop {
                let page = alerts::list(tx, true, before, PAGE).await?;
                let Some(last) = page.last() else {
                    return Ok(subjects);
                };
                before = Some(last.id);
                let of_kind = page.into_iter().filter(|alert| alert.kind == kind);
                subjects.extend(of_kind.map(|alert| alert.subject));
            }
        })
    });
    read.await.map_err(stop)
}

/// The dead jobs by key, each with what became of it.
pub async fn dead(db: &Db) -> Result<BTreeMap<String, String>> {
    let read = db.read(move |tx| {
        Box::pin(async move {
            let mut dead = BTreeMap::new();
            let mut before = None;
            loop {
                let page = jobs::list(tx, Some("dead".to_owned()), None, before, PAGE).await?;
                let Some(last) = page.last() else { return Ok(dead) };
                before = Some(last.id);
                dead.extend(page.into_iter().map(|job| {
                    let error = job.last_error.unwrap_or_default();
                    (job.key, format!("job {}: {error}", job.id))
                }));
            }
        })
    });
    read.await.map_err(stop)
}

/// Orders with a deadline at or before `until`, by (deadline, id).
pub async fn overdue_orders(
    db: &Db,
    until: Timestamp,
    after: Option<(Timestamp, OrderId)>,
    limit: i64,
) -> Result<Vec<(Timestamp, OrderId)>> {
    let read = db.read(move |tx| {
        Box::pin(async move { pages::overdue_orders(tx, until, after, limit).await })
    });
    read.await.map_err(stop)
}

/// A source's levels after an id.
pub async fn levels_of(
    db: &Db,
    source: &SourceId,
    after: Option<LevelId>,
    limit: i64,
) -> Result<Vec<Level>> {
    let source = source.clone();
    let read = db.read(move |tx| {
        Box::pin(async move { pages::levels_of(tx, &source, after.as_ref(), limit).await })
    });
    read.await.map_err(stop)
}

/// A source's levels whose figure is of before a time, after an id.
pub async fn aged_levels(
    db: &Db,
    source: &SourceId,
    before: Timestamp,
    after: Option<LevelId>,
    limit: i64,
) -> Result<Vec<Level>> {
    let source = source.clone();
    let read = db.read(move |tx| {
        Box::pin(
            async move { pages::aged_levels(tx, &source, before, after.as_ref(), limit).await },
        )
    });
    read.await.map_err(stop)
}

/// How many levels a source has.
pub async fn count_levels(db: &Db, source: &SourceId) -> Result<u64> {
    let source = source.clone();
    let read = db.read(move |tx| Box::pin(async move { pages::count_levels(tx, &source).await }));
    read.await.map_err(stop)
}

/// The SKUs of a page of levels after an id that may be low, and the last id of the page.
pub async fn scarce(
    db: &Db,
    caution: Caution,
    after: Option<LevelId>,
    limit: i64,
) -> Result<(Vec<SkuKey>, Option<LevelId>)> {
    let read = db.read(move |tx| {
        Box::pin(async move { pages::scarce(tx, caution, after.as_ref(), limit).await })
    });
    read.await.map_err(stop)
}

/// These SKUs, each with its levels.
pub async fn skus(db: &Db, keys: &[SkuKey]) -> Result<Vec<(Sku, Vec<Level>)>> {
    let loaded = reads::skus::load(db, keys).await.map_err(stop)?;
    let skus = loaded.into_values().map(|l| (l.sku, l.levels.into_values().collect()));
    Ok(skus.collect())
}

/// The SKUs that have one of these levels, each with all its levels.
pub async fn skus_of_levels(db: &Db, levels: &[LevelId]) -> Result<Vec<(Sku, Vec<Level>)>> {
    let levels = levels.to_vec();
    let read = db.read(move |tx| Box::pin(async move { pages::skus_of_levels(tx, &levels).await }));
    read.await.map_err(stop)
}
