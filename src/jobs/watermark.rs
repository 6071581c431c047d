//! Judges watermarks and freshness (`domain::watermark`) after commits, at start and every minute.
//!
//! [`follow`] hears which levels each commit touched and looks at their SKUs at most once a second;
//! the job `watermark` looks at everything, whatever changed it, and owes the reminders of alerts that
//! stay open. Here is only looked for what seems to change; it is judged in the engine, under locks
//! (`domain::decide::warnings`). A commit that is missed (the channel overran, the process restarted)
//! is made good by the job.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::run::{Answer, Run, Stop};
use super::{Deps, dead, store};
use crate::domain::alert::AlertKind;
use crate::domain::command::Command;
use crate::domain::lock_ttl;
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::sku::Sku;
use crate::domain::stock::Level;
use crate::domain::watermark::{self, Caution, Tally};
use crate::engine::{Committed, Envelope};

/// SKUs or levels in a page that are read whole.
const PAGE: usize = 500;
/// Levels in a page of which only the scarce are read.
const LOOKED_OVER: i64 = 20_000;
/// SKUs or changes in one command.
const CHANGES: usize = 200;
/// A touched SKU is judged at most this often.
const EVERY: Duration = Duration::from_secs(1);

/// The job: every SKU, every supplier, every dead job, every reminder.
pub async fn run(run: &Run<'_>) -> Result<Answer, Stop> {
    let db = &run.deps.db;
    let caution = Caution::of(&run.deps.policy);
    let open = store::open_subjects(db, AlertKind::LowStock).await?;
    let mut scarce = BTreeSet::new();
    let mut after = None;
    loop {
        let (found, last) = store::scarce(db, caution, after, LOOKED_OVER).await?;
        scarce.extend(found);
        if last.is_none() {
            break;
        }
        after = last;
    }
    // What is both is told already.
    let told = open.iter().map(|subject| SkuKey::from(subject.as_str())).collect();
    let doubtful: Vec<SkuKey> = scarce.symmetric_difference(&told).cloned().collect();
    for page in doubtful.chunks(PAGE) {
        let skus = store::skus(db, page).await?;
        for changing in look_over(run.deps, &skus, &open).chunks(CHANGES) {
            run.submit(Command::LowStock { skus: changing.to_vec() }).await?;
        }
    }
    for supplier in run.deps.suppliers.keys() {
        freshness(run, supplier).await?;
    }
    for chunk in dead::judge(run.deps).await?.chunks(CHANGES) {
        run.submit(Command::Alerts(chunk.to_vec())).await?;
    }
    store::remind(db, run.deps.policy.remind_every, run.now()).await?;
    Ok(Answer::Done)
}

/// Looks at those of a supplier's levels that may be too old, and has its `feed_stale` judged.
///
/// # Errors
/// When the levels cannot be read, or the alert not be changed.
pub async fn freshness(run: &Run<'_>, supplier: &SourceId) -> Result<(), Stop> {
    let (db, policy) = (&run.deps.db, &run.deps.policy);
    let Some(terms) = policy.suppliers.get(supplier) else { return Ok(()) };
    let mut tally = Tally::of(store::count_levels(db, supplier).await?);
    let mut after = None;
    loop {
        let before = run.now() - lock_ttl::stale_after(terms, terms.declared_lag);
        let limit = i64::try_from(PAGE).unwrap_or(1);
        let page = store::aged_levels(db, supplier, before, after.clone(), limit).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        let now = run.now();
        page.iter().for_each(|level| tally.look_at(level, policy, now));
    }
    run.submit(Command::FeedStale { supplier: supplier.clone(), tally }).await?;
    Ok(())
}

/// Those whose `low_stock`, by a look without locks, is not as it should be.
fn look_over(deps: &Deps, skus: &[(Sku, Vec<Level>)], open: &BTreeSet<String>) -> Vec<SkuKey> {
    let now = deps.clock.now();
    let changing = skus.iter().filter(|(sku, levels)| {
        let find = |id: &LevelId| levels.iter().find(|l| &l.id == id);
        watermark::low_stock(sku, find, &deps.policy, now)
            .is_some_and(|change| change.is_open() != open.contains(sku.key.as_str()))
    });
    changing.map(|(sku, _)| sku.key.clone()).collect()
}

/// Judges the SKUs whose levels a commit touched, until told to stop.
pub async fn follow(deps: Deps, mut commits: Receiver<Committed>, stopping: CancellationToken) {
    let mut touched: BTreeMap<LevelId, Option<SkuKey>> = BTreeMap::new();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            commit = commits.recv() => match commit {
                Ok(commit) => touched.extend(commit.levels.into_iter().map(|m| (m.level, m.plenty))),
                // Made good by the job of the next minute.
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "commits not followed");
                }
                Err(RecvError::Closed) => return stopping.cancelled().await,
            },
            _ = tick.tick(), if !touched.is_empty() => {
                if let Err(error) = judge_touched(&deps, std::mem::take(&mut touched)).await {
                    tracing::debug!(error, "watermarks not judged; the next minute's job will");
                }
            }
        }
    }
}

/// Judges the SKUs of these levels now, but for those of which there is plenty and nothing is told.
async fn judge_touched(
    deps: &Deps,
    touched: BTreeMap<LevelId, Option<SkuKey>>,
) -> Result<(), String> {
    let open =
        store::open_subjects(&deps.db, AlertKind::LowStock).await.map_err(|e| e.to_string())?;
    let quiet = |sku: &SkuKey| !open.contains(sku.as_str());
    let doubtful = touched.into_iter().filter(|(_, plenty)| !plenty.as_ref().is_some_and(quiet));
    let levels: Vec<LevelId> = doubtful.map(|(level, _)| level).collect();
    for chunk in levels.chunks(PAGE) {
        let skus = store::skus_of_levels(&deps.db, chunk).await.map_err(|e| e.to_string())?;
        for changing in look_over(deps, &skus, &open).chunks(CHANGES) {
            let command = Command::LowStock { skus: changing.to_vec() };
            let reply = deps.engine.submit(Envelope::from(command)).await;
            reply.map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}
