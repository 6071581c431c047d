//! `sync`: reads a supplier's whole feed, and `accept_feed`: reads it and believes it.
//!
//! The whole feed is read before anything of it is believed, in chunks; then it is judged
//! (`domain::feed`), and handed on in commands of at most 500 levels. What must hold: a feed that was
//! read and looks wrong is suspect: it changes nothing, alerts once, and waits for the next sync or
//! for a person. One that could not be had says nothing about itself: its figures grow old, which is
//! `feed_stale`'s matter, and the next sync is the next slot's.

use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::command::Command;
use crate::domain::feed::{self, Seen, Suspicion};
use crate::domain::names::{LevelId, SourceId};
use crate::domain::policy::Terms;
use crate::domain::stock::{Level, Listing};
use crate::domain::supply::{Figure, Item, Reading};
use crate::jobs::run::{Answer, Run, Stop};
use crate::jobs::{store, watermark};
use crate::suppliers::Supplier;

/// Items asked for in one call of the adapter, which may make several requests of it.
const CHUNK: usize = 100;
/// Levels in one command.
const LEVELS: usize = 500;
/// Levels in a page.
const PAGE: i64 = 1000;

/// What a sync ended in, as shown for the supplier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Good,
    Accepted,
    Suspect,
    /// It could not be had.
    Failed,
}

impl Ended {
    const fn as_str(self) -> &'static str {
        match self {
            Ended::Good => "ok",
            Ended::Accepted => "accepted",
            Ended::Suspect => "suspect",
            Ended::Failed => "failed",
        }
    }

    const fn is_bad(self) -> bool {
        matches!(self, Ended::Suspect | Ended::Failed)
    }

    /// Whether the feed is suspect from now on; `None`: as it was before.
    const fn suspect(self) -> Option<bool> {
        match self {
            Ended::Good | Ended::Accepted => Some(false),
            Ended::Suspect => Some(true),
            Ended::Failed => None,
        }
    }
}

pub async fn run(run: &Run<'_>, source: &SourceId, accept: bool) -> Result<Answer, Stop> {
    let Ok((supplier, terms)) = run.supplier(source) else {
        return Ok(Answer::Done); // it was configured away
    };
    let levels = levels_of(run, source).await?;
    let read = read_all(run, supplier, terms, &levels).await?;
    let (ended, detail) = match &read {
        Ok(readings) => judge(run, source, &levels, readings, accept),
        Err((ended, why)) => (*ended, why.clone()),
    };
    if let (Ended::Good | Ended::Accepted, Ok(readings)) = (ended, read) {
        believe(run, source, readings).await?;
    }
    conclude(run, source, ended, detail).await?;
    Ok(Answer::Done)
}

async fn levels_of(run: &Run<'_>, source: &SourceId) -> Result<Vec<(Item, Level)>, Stop> {
    let mut levels = Vec::new();
    let mut after: Option<LevelId> = None;
    loop {
        let page = store::levels_of(&run.deps.db, source, after.clone(), PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(levels);
        };
        after = Some(last.id.clone());
        levels.extend(page.into_iter().filter_map(|l| Some((l.item.clone()?, l))));
    }
}

type Readings = Vec<(LevelId, Reading)>;

/// Reads every item, or says how that ended and why. Answers that do not fit the questions were had
/// and look wrong.
async fn read_all(
    run: &Run<'_>,
    supplier: &dyn Supplier,
    terms: &Terms,
    levels: &[(Item, Level)],
) -> Result<Result<Readings, (Ended, String)>, Stop> {
    let mut readings = Vec::with_capacity(levels.len());
    for chunk in levels.chunks(CHUNK) {
        run.cover(terms.request_timeout).await?;
        let items: Vec<Item> = chunk.iter().map(|(item, _)| item.clone()).collect();
        let answers = match supplier.feed(&items).await {
            Ok(answers) => answers,
            Err(fault) => return Ok(Err((Ended::Failed, fault.to_string()))),
        };
        let matches = answers.len() == chunk.len()
            && answers.iter().zip(&items).all(|(answer, item)| answer.item == *item);
        if !matches {
            let torn = format!("{} answers do not fit {} items", answers.len(), items.len());
            return Ok(Err((Ended::Suspect, torn)));
        }
        let ids = chunk.iter().map(|(_, level)| level.id.clone());
        readings.extend(ids.zip(answers));
    }
    Ok(Ok(readings))
}

/// Whether the readings are to be believed, and in words what they were.
fn judge(
    run: &Run<'_>,
    source: &SourceId,
    levels: &[(Item, Level)],
    readings: &Readings,
    accept: bool,
) -> (Ended, String) {
    let seen = Seen::count(readings.iter().map(|(_, reading)| &reading.figure));
    let listed = |level: &Level| level.listing == Listing::Listed;
    let before = levels.iter().filter(|(_, level)| listed(level)).count() as u64;
    let gone = levels
        .iter()
        .zip(readings)
        .filter(|((_, level), (_, reading))| listed(level) && reading.figure == Figure::Missing)
        .count() as u64;
    let percent = run.deps.suspect_drop.get(source).map_or(100, |p| p.0);
    let counts =
        format!("{} listed, {} missing, {} unknown", seen.listed, seen.missing, seen.unknown);
    match feed::judge(before, gone, seen, percent) {
        Ok(()) => (Ended::Good, counts),
        Err(Suspicion::Shrunk { .. }) if accept => (Ended::Accepted, counts),
        Err(suspicion) => (Ended::Suspect, format!("{suspicion}; {counts}")),
    }
}

/// Hands the readings on. Work that they leave over is done at the next sync.
async fn believe(run: &Run<'_>, source: &SourceId, readings: Readings) -> Result<(), Stop> {
    for chunk in readings.chunks(LEVELS) {
        run.submit(Command::Readings {
            supplier: source.clone(),
            readings: chunk.to_vec(),
            feed: true,
        })
        .await?;
    }
    Ok(())
}

/// Records the end, counts it, and opens or closes the supplier's alerts. What goes on as it was is
/// not logged at every sync.
async fn conclude(
    run: &Run<'_>,
    source: &SourceId,
    ended: Ended,
    detail: String,
) -> Result<(), Stop> {
    let suspect = ended.suspect();
    let (db, outcome) = (&run.deps.db, ended.as_str());
    let changed = store::synced(db, source, outcome, &detail, suspect, run.now()).await?;
    if ended.is_bad() && changed {
        tracing::warn!(supplier.id = %source, outcome, detail, "feed not believed");
    } else {
        tracing::debug!(supplier.id = %source, outcome, detail, "synced");
    }
    metrics::counter!("stockhold_syncs_total", "supplier" => source.to_string(), "outcome" => ended.as_str())
        .increment(1);
    let (kind, subject) = (AlertKind::FeedSuspect, source.to_string());
    let suspect = suspect.map(|suspect| match suspect {
        true => AlertChange::Open { kind, subject, detail },
        false => AlertChange::Close { kind, subject },
    });
    if let Some(change) = suspect {
        run.submit(Command::Alerts(vec![change])).await?;
    }
    watermark::freshness(run, source).await
}
