//! `alert` and `tell`: an alert's opening, reminder or closing, to each channel.
//!
//! `alert` owes one `tell` to each channel, so that a channel that fails is tried again alone. What
//! must hold: a channel is told at least once; a telling keeps its id (`alert-{id}-{event}`), by
//! which the receiver knows a repeat.

use crate::alerts::{Data, Event, Notice};
use crate::clock::Span;
use crate::domain::job::{Job, JobRequest};
use crate::jobs::run::{Answer, Run, Stop};
use crate::jobs::store;

/// Owes the event to every channel.
pub async fn spread(run: &Run<'_>, alert: i64, event: &str) -> Result<Answer, Stop> {
    let now = run.now();
    let owed = run.deps.channels.iter().map(|channel| JobRequest {
        job: Job::Tell { alert, event: event.to_owned(), channel: channel.name().to_owned() },
        run_at: now,
    });
    store::owe(&run.deps.db, owed.collect(), now).await?;
    Ok(Answer::Done)
}

/// Tells one channel.
pub async fn tell(run: &Run<'_>, alert: i64, event: &str, channel: &str) -> Result<Answer, Stop> {
    let Some(channel) = run.deps.channels.iter().find(|c| c.name() == channel) else {
        // It was configured away.
        return Ok(Answer::Done);
    };
    let Some(row) = store::alert(&run.deps.db, alert).await? else {
        // Closed so long ago that it was deleted.
        return Ok(Answer::Done);
    };
    let kind = event.split(':').next().and_then(Event::parse);
    let kind = kind.ok_or_else(|| Stop::Fail(format!("an alert cannot be {event}")))?;
    let notice = Notice {
        id: format!("alert-{alert}-{event}"),
        event: kind,
        at: match kind {
            Event::Opened => row.opened_at,
            Event::Reminder => row.last_told_at,
            Event::Closed => row.closed_at.unwrap_or(row.last_told_at),
        },
        data: Data {
            id: alert.to_string(),
            kind: row.kind.to_string(),
            subject: row.subject,
            detail: row.detail,
            opened_at: row.opened_at.rfc3339(),
            closed_at: row.closed_at.map(|at| at.rfc3339()),
        },
    };
    run.cover(Span::from_std(channel.timeout())).await?;
    match channel.deliver(&notice).await {
        Ok(()) => {
            metrics::counter!("stockhold_alert_delivered_total", "channel" => channel.name().to_owned())
                .increment(1);
            Ok(Answer::Done)
        }
        Err(error) => {
            metrics::counter!("stockhold_alert_delivery_failed_total", "channel" => channel.name().to_owned())
                .increment(1);
            Err(Stop::Retry(format!("{}: {error}", channel.name())))
        }
    }
}
