//! Suppliers: how late and how well each is, and a sync by hand.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::names::SourceId;
use crate::domain::policy::Terms;
use crate::http::extract::{Body, Object, Param, Query, Report};
use crate::http::idempotency::{Call, Keep, Turn, answer, plain, replayed};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::supplier::{SupplierView, Tally};
use crate::http::{App, Shared};
use crate::storage::reads::suppliers;

#[derive(ToSchema)]
pub struct SyncSupplier {
    /// Take a suspect feed by hand.
    pub accept_suspect: Option<bool>,
}

/// A sync is owed.
#[derive(Debug, Serialize, ToSchema)]
pub struct SyncView {
    pub supplier: String,
    pub accept_suspect: bool,
}

/// A supplier of the settings.
pub fn configured<'a>(app: &'a App, id: &str) -> Result<(SourceId, &'a Terms), Problem> {
    app.policy
        .suppliers
        .get_key_value(id)
        .map(|(id, terms)| (id.clone(), terms))
        .ok_or_else(|| Problem::not_found("supplier"))
}

async fn view(app: &App, id: &SourceId, terms: &Terms) -> Result<SupplierView, Problem> {
    let row = suppliers::find(&app.db, id).await?;
    let now = app.clock.now();
    let mut tally = Tally::default();
    suppliers::each_level(&app.db, id, |level| tally.add(&app.policy, level, now)).await?;
    Ok(SupplierView::new(terms, &row, &tally))
}

/// Every configured supplier.
#[utoipa::path(get, path = "/v1/suppliers", tag = "suppliers",
    responses((status = 200, body = List<SupplierView>), Problems))]
pub async fn list_suppliers(
    State(app): State<Shared>,
    query: Query,
) -> Result<Json<List<SupplierView>>, Problem> {
    // All of them are on one page: they are settings, and few.
    query.page("suppliers");
    query.finish()?;
    let mut items = Vec::new();
    for (id, terms) in &app.policy.suppliers {
        items.push(view(&app, id, terms).await?);
    }
    Ok(Json(List { items, next_cursor: None }))
}

/// One supplier.
#[utoipa::path(get, path = "/v1/suppliers/{id}", tag = "suppliers", params(("id" = String, Path)),
    responses((status = 200, body = SupplierView), Problems))]
pub async fn get_supplier(
    State(app): State<Shared>,
    Param(id): Param<String>,
) -> Result<Json<SupplierView>, Problem> {
    let (id, terms) = configured(&app, &id)?;
    Ok(Json(view(&app, &id, terms).await?))
}

/// Read a supplier's whole feed now. `409 already_running` while that is under way.
#[utoipa::path(post, path = "/v1/suppliers/{id}/sync", tag = "suppliers",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = SyncSupplier, responses((status = 202, body = SyncView), Problems))]
pub async fn sync_supplier(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let (id, _) = configured(&app, &id)?;
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    let accept_suspect = read_sync(body.text())?;
    let view = SyncView { supplier: id.to_string(), accept_suspect };
    let owed = answer(StatusCode::ACCEPTED, &view);
    let first = app.operations.sync(&id, accept_suspect, turn.keeping(&owed)).await?;
    Ok(match first {
        Some(first) => replayed(plain(first)),
        None => plain(owed),
    })
}

fn read_sync(text: &str) -> Result<bool, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let accept = body.optional("accept_suspect").map(|v| v.boolean());
    body.finish();
    report.finish(accept.unwrap_or(Some(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_feed_is_taken_only_when_said_so() {
        assert_eq!(read_sync(""), Ok(false));
        assert_eq!(read_sync("{}"), Ok(false));
        assert_eq!(read_sync(r#"{"accept_suspect":true}"#), Ok(true));
        assert!(read_sync(r#"{"accept_suspect":"true"}"#).is_err());
        assert!(read_sync(r#"{"accept":true}"#).is_err());
    }
}
