//! `POST /v1/orders/{id}/cancel`, `POST /v1/orders/{id}/lines/{line_id}/cancel`.

use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;

use super::{act_on_order, order_answer, order_id};
use crate::domain::command::Command;
use crate::domain::order::CancelReason;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Param, Report};
use crate::http::idempotency::{Call, Keep, Turn};
use crate::http::problem::{Problem, Problems};
use crate::http::view::line_no;
use crate::http::view::order::OrderView;
use crate::settings::Role;

/// Reasons that a caller may give.
const REASONS: &[CancelReason] = &[CancelReason::Customer, CancelReason::Ops];

#[derive(ToSchema)]
pub struct CancelOrder {
    /// `customer`; ops also `ops`.
    #[schema(example = "customer")]
    pub reason: String,
}

#[derive(ToSchema)]
pub struct CancelLine {
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub quantity: i64,
}

/// Cancel what is not shipped. `202` with `cancel_requested_at` while a purchase is in flight.
#[utoipa::path(post, path = "/v1/orders/{id}/cancel", tag = "orders",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = CancelOrder,
    responses((status = 200, body = OrderView), (status = 202, body = OrderView), Problems))]
pub async fn cancel_order(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let order = order_id(&id)?;
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    let reason = read_reason(body.text())?;
    if reason == CancelReason::Ops && turn.caller.role != Role::Ops {
        return Err(Problem::forbidden("Only ops may cancel for the reason `ops`."));
    }
    let render = order_answer(turn.now);
    turn.act(Command::Cancel { order, reason }, render).await
}

fn read_reason(text: &str) -> Result<CancelReason, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let reason = body.required("reason").and_then(|v| v.choice(REASONS, CancelReason::as_str));
    body.finish();
    report.finish(reason)
}

/// Cancel units of a line. `409` while a purchase is in flight.
#[utoipa::path(post, path = "/v1/orders/{id}/lines/{line_id}/cancel", tag = "orders",
    params(("id" = String, Path), ("line_id" = String, Path),
        ("Idempotency-Key" = String, Header, description = "1 to 255 characters")),
    request_body = CancelLine,
    responses((status = 200, body = OrderView), Problems))]
pub async fn cancel_line(
    State(app): State<Shared>,
    Param((id, line_id)): Param<(String, String)>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    act_on_order(&app, &id, call, &body, Keep::ForEver, |order, text| {
        let line = line_no(&order, &line_id).ok_or_else(|| Problem::not_found("line"))?;
        let quantity = read_quantity(text)?;
        Ok(Command::CancelLine { order, line, quantity })
    })
    .await
}

fn read_quantity(text: &str) -> Result<i64, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let quantity = body.required("quantity").and_then(|v| v.quantity());
    body.finish();
    report.finish(quantity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_may_give_two_reasons_and_must_give_one() {
        assert_eq!(read_reason(r#"{"reason":"customer"}"#), Ok(CancelReason::Customer));
        assert_eq!(read_reason(r#"{"reason":"ops"}"#), Ok(CancelReason::Ops));
        for text in ["", "{}", r#"{"reason":"supplier_short"}"#, r#"{"reason":null}"#] {
            let problem = read_reason(text).expect_err(text);
            assert_eq!(problem.body()["errors"][0]["field"], "reason");
        }
    }

    #[test]
    fn a_line_s_quantity_is_one_of_a_line() {
        assert_eq!(read_quantity(r#"{"quantity":2}"#), Ok(2));
        for text in ["{}", r#"{"quantity":0}"#, r#"{"quantity":1.0}"#, r#"{"quantity":-1}"#] {
            let problem = read_quantity(text).expect_err(text);
            assert_eq!(problem.body()["errors"][0]["field"], "quantity");
        }
    }
}
