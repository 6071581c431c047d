//! Judges watermarks and freshness (`domain::watermark`) after commits, at start and every minute.
//!
//! [`follow`] hears which levels each commit touched and looks at their SKUs at most once a second;
//! the job `watermark` looks at everything, whatever changed it, and owes the reminders of alerts that
//! stay open. Here is only looked for what seems to change; it is judged in the engine, under locks
//! (`domain::decide::warnings`). A commit that is missed (the channel overran, the process restarted)
//! is made good by the job.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::run::{Answer, Run, Stop};
use super::{Deps, dead, store};
use crate::domain::alert::AlertKind;
use crate::domain::command::Command;
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::sku::Sku;
use crate::domain::stock::Level;
use crate::domain::watermark::{self, Limits, Tally};
use crate::engine::{Committed, Envelope};

/// SKUs or levels in a page.
const PAGE: i64 = 500;
/// SKUs or changes in one command.
const CHANGES: usize = 200;
/// A touched SKU is judged at most this often.
const EVERY: Duration = Duration::from_secs(1);

/// The job: every SKU, every supplier, every dead job, every reminder.
pub async fn run(run: &Run<'_>) -> Result<Answer, Stop> {
    let open = store::open_subjects(&run.deps.db, AlertKind::LowStock).await?;
    let mut changing = Vec::new();
    let mut after = None;
    loop {
        let page = store::skus(&run.deps.db, after.clone(), PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.key.clone());
        changing.extend(look_over(run.deps, &page, &open));
    }
    for chunk in changing.chunks(CHANGES) {
        run.submit(Command::LowStock { skus: chunk.to_vec() }).await?;
    }
    for supplier in run.deps.suppliers.keys() {
        freshness(run, supplier).await?;
    }
    for chunk in dead::judge(run.deps).await?.chunks(CHANGES) {
        run.submit(Command::Alerts(chunk.to_vec())).await?;
    }
    store::remind(&run.deps.db, run.deps.policy.remind_every, run.now()).await?;
    Ok(Answer::Done)
}

/// Walks through a supplier's levels and has its `feed_stale` judged.
///
/// # Errors
/// When the levels cannot be read, or the alert not be changed.
pub async fn freshness(run: &Run<'_>, supplier: &SourceId) -> Result<(), Stop> {
    let mut tally = Tally::default();
    let mut after = None;
    loop {
        let page = store::levels_of(&run.deps.db, supplier, after.clone(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        let now = run.now();
        page.iter().for_each(|level| tally.add(level, &run.deps.policy, now));
    }
    run.submit(Command::FeedStale { supplier: supplier.clone(), tally }).await?;
    Ok(())
}

/// Those whose `low_stock`, by a look without locks, is not as it should be.
fn look_over(deps: &Deps, skus: &[(Sku, Vec<Level>)], open: &BTreeSet<String>) -> Vec<SkuKey> {
    let now = deps.clock.now();
    let changing = skus.iter().filter(|(sku, levels)| {
        let find = |id: &LevelId| levels.iter().find(|l| &l.id == id);
        let left = watermark::left(sku, find, &deps.policy, now);
        let limits = Limits::of(sku.watermark, &deps.policy);
        left.and_then(|left| watermark::judge(&sku.key, left, limits))
            .is_some_and(|change| change.is_open() != open.contains(sku.key.as_str()))
    });
    changing.map(|(sku, _)| sku.key.clone()).collect()
}

/// Judges the SKUs whose levels a commit touched, until told to stop.
pub async fn follow(deps: Deps, mut commits: Receiver<Committed>, stopping: CancellationToken) {
    let mut touched: BTreeSet<LevelId> = BTreeSet::new();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            commit = commits.recv() => match commit {
                Ok(commit) => touched.extend(commit.levels),
                // Made good by the job of the next minute.
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "commits not followed");
                }
                Err(RecvError::Closed) => return stopping.cancelled().await,
            },
            _ = tick.tick(), if !touched.is_empty() => {
                let levels = std::mem::take(&mut touched);
                if let Err(error) = judge_touched(&deps, &levels).await {
                    tracing::debug!(error, "watermarks not judged; the next minute's job will");
                }
            }
        }
    }
}

/// Judges the SKUs of these levels now.
async fn judge_touched(deps: &Deps, levels: &BTreeSet<LevelId>) -> Result<(), String> {
    let levels: Vec<LevelId> = levels.iter().cloned().collect();
    for chunk in levels.chunks(usize::try_from(PAGE).unwrap_or(1)) {
        let skus = store::skus_of_levels(&deps.db, chunk).await.map_err(|e| e.to_string())?;
        let open =
            store::open_subjects(&deps.db, AlertKind::LowStock).await.map_err(|e| e.to_string())?;
        for changing in look_over(deps, &skus, &open).chunks(CHANGES) {
            let command = Command::LowStock { skus: changing.to_vec() };
            let reply = deps.engine.submit(Envelope::from(command)).await;
            reply.map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}
