//! What `/readyz` says beside whether the store answers reads: whether it takes writes, whether
//! coordination is shared as it should be, and the schedules, by the watchdog's open alerts.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::coordination::Coordination;
use crate::domain::alert::AlertKind;
use crate::http::health::{Check, Condition, Probe};
use crate::ids::Ids;
use crate::lifecycle::Lifecycle;
use crate::storage::{self, Db, alerts, groups};

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Alerts looked through.
const MOST: i64 = 500;

/// What was found at the last look.
#[derive(Default)]
struct Seen {
    takes_no_writes: bool,
    missed: Vec<String>,
}

/// The probe, and a supervised task that keeps it up to date.
pub fn probe(
    db: Db,
    coordination: Coordination,
    clock: Clock,
    ids: Ids,
    life: &Lifecycle,
) -> Probe {
    let (seen, latest) = watch::channel(Seen::default());
    let stopping = life.stopping();
    life.supervise("readiness", async move {
        loop {
            let now = clock.now();
            let rehearsed = groups::rehearse(&db, ids.next(now), now).await;
            if let Err(error) = &rehearsed {
                tracing::warn!(error = %error, "the store takes no writes");
            }
            let missed = missed_schedules(&db).await;
            seen.send_modify(|seen| {
                seen.takes_no_writes = rehearsed.is_err();
                seen.missed = missed.unwrap_or_else(|_| std::mem::take(&mut seen.missed));
            });
            tokio::select! {
                () = stopping.cancelled() => return Ok::<(), Infallible>(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
    std::sync::Arc::new(move || {
        let seen = latest.borrow();
        let writes = if seen.takes_no_writes {
            Check::failed("writes", Condition::Unavailable, "the store takes no writes")
        } else {
            Check::ready("writes")
        };
        let schedules = if seen.missed.is_empty() {
            Check::ready("schedules")
        } else {
            let reason = format!("not run in time: {}", seen.missed.join(", "));
            Check::failed("schedules", Condition::Degraded, reason)
        };
        let coordination = match coordination.condition() {
            None => Check::ready("coordination"),
            Some(reason) => Check::failed("coordination", Condition::Degraded, reason),
        };
        vec![writes, coordination, schedules]
    })
}

async fn missed_schedules(db: &Db) -> Result<Vec<String>, storage::Error> {
    let open = db.read(|tx| Box::pin(async move { alerts::list(tx, true, None, MOST).await }));
    let open: Vec<alerts::Alert> = open.await?;
    let missed = open.into_iter().filter(|a| a.kind == AlertKind::ScheduleMissed);
    Ok(missed.map(|a| a.subject).collect())
}
