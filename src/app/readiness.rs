//! What `/readyz` says of everything but the store: coordination (in this process, so always
//! there) and the schedules, by the watchdog's open alerts.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::watch;

use crate::domain::alert::AlertKind;
use crate::http::health::{Check, Condition, Probe};
use crate::lifecycle::Lifecycle;
use crate::storage::{self, Db, alerts};

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Alerts looked through.
const MOST: i64 = 500;

/// The probe, and a supervised task that keeps it up to date.
pub fn probe(db: Db, life: &Lifecycle) -> Probe {
    let (missed, seen) = watch::channel(Vec::new());
    let stopping = life.stopping();
    life.supervise("readiness", async move {
        loop {
            if let Ok(names) = missed_schedules(&db).await {
                missed.send_replace(names);
            }
            tokio::select! {
                () = stopping.cancelled() => return Ok::<(), Infallible>(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
    std::sync::Arc::new(move || {
        let missed = seen.borrow();
        let schedules = if missed.is_empty() {
            Check::ready("schedules")
        } else {
            let reason = format!("not run in time: {}", missed.join(", "));
            Check::failed("schedules", Condition::Degraded, reason)
        };
        vec![Check::ready("coordination"), schedules]
    })
}

async fn missed_schedules(db: &Db) -> Result<Vec<String>, storage::Error> {
    let open = db.read(|tx| Box::pin(async move { alerts::list(tx, true, None, MOST).await }));
    let open: Vec<alerts::Alert> = open.await?;
    let missed = open.into_iter().filter(|a| a.kind == AlertKind::ScheduleMissed);
    Ok(missed.map(|a| a.subject).collect())
}
