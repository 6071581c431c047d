//! `GET /v1/jobs`, `POST /v1/jobs/{id}/retry`.

use axum::Json;
use axum::extract::State;
use axum::response::Response;

use super::number_id;
use super::progress::read_nothing;
use crate::http::Shared;
use crate::http::extract::{Body, Page, Param, Query};
use crate::http::idempotency::{Call, Keep, Turn, answered};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::work::JobView;
use crate::storage::reads::work::{self, JobFilter};

const LIST: &str = "jobs";
const STATES: &[&str] = &["ready", "running", "dead"];

/// Jobs that are owed, newest first. A finished job is gone.
#[utoipa::path(get, path = "/v1/jobs", tag = "operations",
    params(("state" = Option<String>, Query, description = "`ready`, `running` or `dead`"),
        ("kind" = Option<String>, Query),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "default 50"),
        ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<JobView>), Problems))]
pub async fn list_jobs(
    State(app): State<Shared>,
    query: Query,
) -> Result<Json<List<JobView>>, Problem> {
    let filter =
        JobFilter { state: query.choice("state", STATES, |state| state), kind: query.text("kind") };
    let page = query.page(LIST);
    query.finish()?;
    let before = match page.parts::<1>()? {
        Some([id]) => Some(Page::number(id)?),
        None => None,
    };
    let rows = work::jobs(&app.db, &filter, before, page.limit).await?;
    Ok(Json(List::page(
        rows,
        page.limit,
        |job| Page::cursor(LIST, &[&job.id.to_string()]),
        JobView::new,
    )))
}

/// Start a dead job again.
#[utoipa::path(post, path = "/v1/jobs/{id}/retry", tag = "operations",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 200, body = JobView), Problems))]
pub async fn retry_job(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let id = number_id(&id, "job")?;
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    read_nothing(body.text())?;
    Ok(answered(app.operations.retry_job(id, turn.answering(JobView::new)).await?))
}
