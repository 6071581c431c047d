//! `GET /v1/alerts`, `POST /v1/alerts/{id}/acknowledge`.

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
use crate::http::view::work::AlertView;
use crate::storage::reads::work;

const LIST: &str = "alerts";

/// Alerts, newest first.
#[utoipa::path(get, path = "/v1/alerts", tag = "operations",
    params(("state" = Option<String>, Query, description = "`open` or `closed`"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "default 50"),
        ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<AlertView>), Problems))]
pub async fn list_alerts(
    State(app): State<Shared>,
    query: Query,
) -> Result<Json<List<AlertView>>, Problem> {
    let open = query.choice("state", &[true, false], |open| if open { "open" } else { "closed" });
    let page = query.page(LIST);
    query.finish()?;
    let before = match page.parts::<1>()? {
        Some([id]) => Some(Page::number(id)?),
        None => None,
    };
    let rows = work::alerts(&app.db, open, before, page.limit).await?;
    Ok(Json(List::page(
        rows,
        page.limit,
        |alert| Page::cursor(LIST, &[&alert.id.to_string()]),
        AlertView::new,
    )))
}

/// Say that an alert was seen. It stays open until what it says is no longer true.
#[utoipa::path(post, path = "/v1/alerts/{id}/acknowledge", tag = "operations",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 200, body = AlertView), Problems))]
pub async fn acknowledge_alert(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let id = number_id(&id, "alert")?;
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    read_nothing(body.text())?;
    Ok(answered(app.operations.acknowledge_alert(id, turn.answering(AlertView::new)).await?))
}
