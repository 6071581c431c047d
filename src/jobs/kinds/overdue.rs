//! Ends everything that is past its deadline, for the first two lines of defence: `deadline`, the
//! durable job of one second, and `sweep`, the scan of everything, every minute.
//!
//! What must hold: orders are paged by (deadline, id) until there are no more; one bad order never
//! stops the rest; it is counted and logged, and `release_failing` opens once some have been failing
//! for a while and closes when a sweep finds none that fail.

use futures::StreamExt;

use crate::clock::{Span, Timestamp};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::command::Command;
use crate::domain::names::OrderId;
use crate::domain::outcome::{Outcome, Refusal};
use crate::engine::Error;
use crate::jobs::run::{Answer, Run, Stop};
use crate::jobs::store;

/// Orders in a page.
pub const PAGE: i64 = 500;
/// Commands under way at once: enough to fill a group, few enough to leave others room.
const ABREAST: usize = 32;
/// An order that fails and is overdue for longer is told to ops.
const FAILING_AFTER: Span = Span::minutes(3);
/// So many are named.
const SAMPLES: usize = 10;
/// The one subject of `release_failing`.
const SUBJECT: &str = "deadlines";

/// The first line of defence: what is due in this second. What was due before has a job of its own, or is
/// the sweep's: several jobs that each end all that is overdue would only send the same orders.
pub async fn deadline(run: &Run<'_>, second: i64) -> Result<Answer, Stop> {
    let due = Timestamp::from_secs(second);
    let tally = end_all(run, Some(due - Span::secs(1)), due).await?;
    metrics::counter!("stockhold_deadlines_ended_total", "by" => "deadline").increment(tally.ended);
    match tally.early {
        // The database's clock is behind ours: its word counts.
        Some(at) if at <= due => Ok(Answer::At(at)),
        _ => Ok(Answer::Done),
    }
}

/// The second line of defence: everything.
pub async fn sweep(run: &Run<'_>) -> Result<Answer, Stop> {
    let now = run.now();
    let tally = end_all(run, None, now).await?;
    metrics::counter!("stockhold_deadlines_ended_total", "by" => "scan").increment(tally.ended);
    if tally.ended > 0 {
        tracing::info!(orders = tally.ended, "the sweep ended what its deadline job had not");
    }
    if let Some(change) = tally.judge(now) {
        run.submit(Command::Alerts(vec![change])).await?;
    }
    Ok(Answer::Done)
}

/// What a pass over overdue orders did.
#[derive(Debug, Default)]
struct Tally {
    ended: u64,
    /// The earliest deadline that the database's clock has not reached.
    early: Option<Timestamp>,
    /// Orders that failed, with their deadlines, oldest first.
    failed: Vec<(Timestamp, OrderId)>,
}

impl Tally {
    /// Whether failing orders are to be told; neither, while they have not failed for long.
    fn judge(&self, now: Timestamp) -> Option<AlertChange> {
        let (kind, subject) = (AlertKind::ReleaseFailing, SUBJECT.to_owned());
        let Some((oldest, _)) = self.failed.first() else {
            return Some(AlertChange::Close { kind, subject });
        };
        if now.since(*oldest) <= FAILING_AFTER {
            return None;
        }
        let named = self.failed.iter().take(SAMPLES);
        let named: Vec<&str> = named.map(|(_, order)| order.as_str()).collect();
        Some(AlertChange::Open {
            kind,
            subject,
            detail: format!(
                "{} orders are past their deadline and cannot be ended: {}",
                self.failed.len(),
                named.join(", ")
            ),
        })
    }
}

/// Ends whatever has a deadline at or before `until`, and not before `from`.
async fn end_all(run: &Run<'_>, from: Option<Timestamp>, until: Timestamp) -> Result<Tally, Stop> {
    let mut tally = Tally::default();
    let mut after = from.map(|from| (from, OrderId::from("")));
    loop {
        let page = store::overdue_orders(&run.deps.db, until, after.clone(), PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(tally);
        };
        let mut results = futures::stream::iter(page)
            .map(|(deadline, order)| async move {
                let due = Command::Due { order: order.clone() };
                (deadline, order, run.ask(due).await)
            })
            .buffered(ABREAST);
        while let Some((deadline, order, result)) = results.next().await {
            count(&mut tally, deadline, order, result)?;
        }
        after = Some(last);
    }
}

/// Sorts one order's result.
///
/// # Errors
/// When the store or the engine, and not the order, is at fault: the rest would fail as well.
fn count(
    tally: &mut Tally,
    deadline: Timestamp,
    order: OrderId,
    result: Result<Outcome, Error>,
) -> Result<(), Stop> {
    match result {
        Ok(Outcome::Early(at)) => {
            tally.early = Some(tally.early.map_or(at, |early| early.min(at)));
        }
        Ok(_) => tally.ended += 1,
        // Somebody else's transaction ended it.
        Err(Error::Refused(Refusal::NotFound(_))) => {}
        Err(
            error @ (Error::Refused(Refusal::Fenced(_))
            | Error::StorageUnavailable(_)
            | Error::OutcomeUnknown
            | Error::ShuttingDown
            | Error::Overloaded),
        ) => {
            return Err(Stop::Retry(error.to_string()));
        }
        Err(error @ (Error::Refused(_) | Error::Internal(_))) => {
            metrics::counter!("stockhold_deadlines_failed_total").increment(1);
            tracing::error!(order.id = %order, error = %error, "an overdue order cannot be ended");
            tally.failed.push((deadline, order));
        }
    }
    Ok(())
}
