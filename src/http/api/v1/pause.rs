//! The stop switch: selling and buying, of a SKU or of a supplier.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::path_sku;
use super::skus::sku_answer;
use super::suppliers::configured;
use crate::domain::command::Command;
use crate::domain::names::SourceId;
use crate::domain::outcome::Outcome;
use crate::domain::sku::What;
use crate::engine::KeptAnswer;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Param, Report};
use crate::http::idempotency::{Call, Keep, Turn, answer, unexpected};
use crate::http::problem::{Problem, Problems};
use crate::http::view::sku::{PausedView, SkuView};

#[derive(ToSchema)]
pub struct StopSwitch {
    /// `selling` (new orders), `buying` (purchases) or `both`.
    #[schema(example = "selling")]
    pub what: String,
    #[schema(min_length = 1, max_length = 255)]
    pub reason: String,
}

/// A supplier's stop switch after it was set.
#[derive(Debug, Serialize, ToSchema)]
pub struct SupplierPausedView {
    pub id: String,
    pub paused: PausedView,
}

fn read(text: &str) -> Result<(What, String), Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let what = body.required("what").and_then(|v| v.choice(What::ALL, What::as_str));
    let reason = body.required("reason").and_then(|v| v.text(1..=255));
    body.finish();
    report.finish(what.zip(reason))
}

/// Sets a switch as the body says, and shows whose it is. Who set it and why is in the ledger.
async fn set(
    app: &Shared,
    call: Call,
    body: &Body,
    command: impl FnOnce(What, String, String) -> Command,
    render: impl Fn(&Outcome) -> KeptAnswer + Clone + Send + Sync + 'static,
) -> Result<Response, Problem> {
    let turn = Turn::begin(app, call, body, Keep::Day)?;
    let (what, reason) = read(body.text())?;
    let by = turn.caller.name.to_string();
    turn.act(command(what, reason, by), render).await
}

fn supplier_answer(id: SourceId) -> impl Fn(&Outcome) -> KeptAnswer + Clone + Send + Sync {
    move |outcome| match outcome {
        Outcome::Supplier(paused) => answer(
            StatusCode::OK,
            &SupplierPausedView { id: id.to_string(), paused: PausedView::new(paused) },
        ),
        _ => unexpected(),
    }
}

/// Stop selling or buying a SKU.
#[utoipa::path(post, path = "/v1/skus/{sku}/pause", tag = "stock",
    params(("sku" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = StopSwitch, responses((status = 200, body = SkuView), Problems))]
pub async fn pause_sku(
    State(app): State<Shared>,
    Param(sku): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let sku = path_sku(&sku)?;
    let command = |what, reason, by| Command::PauseSku { sku, what, reason, by };
    set(&app, call, &body, command, sku_answer).await
}

/// Sell or buy a SKU again.
#[utoipa::path(post, path = "/v1/skus/{sku}/resume", tag = "stock",
    params(("sku" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = StopSwitch, responses((status = 200, body = SkuView), Problems))]
pub async fn resume_sku(
    State(app): State<Shared>,
    Param(sku): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let sku = path_sku(&sku)?;
    let command = |what, reason, by| Command::ResumeSku { sku, what, reason, by };
    set(&app, call, &body, command, sku_answer).await
}

/// Stop selling from or buying at a supplier.
#[utoipa::path(post, path = "/v1/suppliers/{id}/pause", tag = "suppliers",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = StopSwitch, responses((status = 200, body = SupplierPausedView), Problems))]
pub async fn pause_supplier(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let (supplier, _) = configured(&app, &id)?;
    let render = supplier_answer(supplier.clone());
    let command = |what, reason, by| Command::PauseSupplier { supplier, what, reason, by };
    set(&app, call, &body, command, render).await
}

/// Sell from or buy at a supplier again.
#[utoipa::path(post, path = "/v1/suppliers/{id}/resume", tag = "suppliers",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = StopSwitch, responses((status = 200, body = SupplierPausedView), Problems))]
pub async fn resume_supplier(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let (supplier, _) = configured(&app, &id)?;
    let render = supplier_answer(supplier.clone());
    let command = |what, reason, by| Command::ResumeSupplier { supplier, what, reason, by };
    set(&app, call, &body, command, render).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_says_what_and_why() {
        assert_eq!(
            read(r#"{"what":"both","reason":"flood"}"#),
            Ok((What::Both, "flood".to_owned()))
        );
        let problem = read(r#"{"what":"all"}"#).expect_err("refused");
        assert_eq!(problem.body()["errors"][0]["field"], "what");
        assert_eq!(problem.body()["errors"][1]["field"], "reason");
    }
}
