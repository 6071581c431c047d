//! `/healthz`: the process answers. `/readyz`: it can do its work, and if not, why not.
//!
//! What must hold: readiness takes a connection of the store, with a time-out, so that a dead pool
//! is seen; the worst part decides. `ready` and `degraded` are 200, `unavailable` is 503.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::{App, Shared};

/// The store must answer within this.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// How well a part works, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Ready,
    /// Slower or incomplete, but right.
    Degraded,
    /// No orders can be taken.
    Unavailable,
}

/// One part of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Check {
    /// `storage`, `coordination`, `schedules` …
    pub name: &'static str,
    pub status: Condition,
    /// Null when ready.
    pub reason: Option<String>,
}

/// The checks of everything but the store (coordination, schedules); must not block.
pub type Probe = Arc<dyn Fn() -> Vec<Check> + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Readiness {
    pub status: Condition,
    pub checks: Vec<Check>,
}

impl Check {
    pub fn ready(name: &'static str) -> Check {
        Check { name, status: Condition::Ready, reason: None }
    }

    pub fn failed(name: &'static str, status: Condition, reason: impl Into<String>) -> Check {
        Check { name, status, reason: Some(reason.into()) }
    }
}

impl Readiness {
    fn of(checks: Vec<Check>) -> Readiness {
        Readiness {
            status: checks.iter().map(|check| check.status).max().unwrap_or(Condition::Ready),
            checks,
        }
    }

    fn code(&self) -> StatusCode {
        match self.status {
            Condition::Ready | Condition::Degraded => StatusCode::OK,
            Condition::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "The process answers", body = String)))]
pub async fn healthz() -> &'static str {
    "ok"
}

/// Whether the daemon can do its work.
#[utoipa::path(get, path = "/readyz", tag = "operations", responses(
    (status = 200, description = "`ready` or `degraded`", body = Readiness),
    (status = 503, description = "`unavailable`", body = Readiness)))]
pub async fn readyz(State(app): State<Shared>) -> Response {
    let mut checks = vec![storage(&app).await];
    checks.extend((app.probe)());
    let readiness = Readiness::of(checks);
    (readiness.code(), Json(readiness)).into_response()
}

async fn storage(app: &App) -> Check {
    match tokio::time::timeout(STORAGE_TIMEOUT, crate::storage::reads::ping(&app.db)).await {
        Ok(Ok(())) => Check::ready("storage"),
        Ok(Err(e)) => {
            tracing::warn!(error = %e, "the store does not answer the readiness probe");
            Check::failed("storage", Condition::Unavailable, "the store gives an error")
        }
        Err(_) => {
            Check::failed("storage", Condition::Unavailable, "no connection answered in time")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_part_decides() {
        let with = |statuses: &[Condition]| {
            Readiness::of(
                statuses.iter().map(|status| Check::failed("x", *status, "because")).collect(),
            )
        };
        use Condition::{Degraded, Ready, Unavailable};
        assert_eq!(with(&[]).status, Ready);
        assert_eq!(with(&[Ready, Degraded]).code(), StatusCode::OK);
        assert_eq!(with(&[Ready, Degraded]).status, Degraded);
        assert_eq!(with(&[Unavailable, Ready, Degraded]).status, Unavailable);
        assert_eq!(with(&[Unavailable]).code().as_u16(), 503);
        assert_eq!(
            serde_json::to_value(with(&[Degraded])).expect("JSON"),
            serde_json::json!({"status": "degraded",
                "checks": [{"name": "x", "status": "degraded", "reason": "because"}]})
        );
    }
}
