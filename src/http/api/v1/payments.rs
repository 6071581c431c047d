//! `POST /v1/orders/{id}/payments`: money that was captured, or is about to be.

use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;

use super::{order_answer, order_id};
use crate::domain::command::{Capture, Command};
use crate::domain::money::Currency;
use crate::domain::names::OrderId;
use crate::http::extract::{Body, Object, Param, Report};
use crate::http::idempotency::{Call, Keep, Turn};
use crate::http::problem::{Problem, Problems};
use crate::http::view::order::OrderView;
use crate::http::{App, Shared};
use crate::storage::reads::orders;

/// A captured payment, once per id; or `{"id", "status": "in_progress"}`.
#[derive(ToSchema)]
pub struct RecordPayment {
    /// Unique within the order's channel.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// Above 0; required unless `status` is given.
    #[schema(example = "23.99")]
    pub amount: Option<String>,
    /// The order's; another is refused. Absent: the order's.
    pub currency: Option<String>,
    /// RFC 3339; information only.
    pub paid_at: Option<String>,
    /// `in_progress`: adds a grace to the deadline, once per order.
    pub status: Option<String>,
}

/// Record a payment. `200` with the order, also when it came late or is refunded at once.
#[utoipa::path(post, path = "/v1/orders/{id}/payments", tag = "orders",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = RecordPayment,
    responses((status = 200, body = OrderView), Problems))]
pub async fn record_payment(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let order = order_id(&id)?;
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    let own = match names_currency(&body)? {
        true => None,
        false => Some(order_currency(&app, &order).await?),
    };
    let command = read(body.text(), order, own)?;
    let render = order_answer(turn.now);
    turn.act(command, render).await
}

/// Whether the body says by itself how to read its amount, or has none.
fn names_currency(body: &Body) -> Result<bool, Problem> {
    let report = Report::default();
    let object = Object::of_body(body.text(), &report)?;
    Ok(object.nullable("currency").is_some() || object.nullable("status").is_some())
}

/// The currency that an order's amounts are in.
pub async fn order_currency(app: &App, order: &OrderId) -> Result<Currency, Problem> {
    let code =
        orders::currency(&app.db, order).await?.ok_or_else(|| Problem::not_found("order"))?;
    Currency::parse(&code).map_err(|e| {
        tracing::error!(order.id = %order, error = %e, "an order has no currency");
        Problem::internal()
    })
}

fn read(text: &str, order: OrderId, own: Option<Currency>) -> Result<Command, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let id = body.required("id").and_then(|v| v.external_text());
    if let Some(status) = body.nullable("status") {
        let known = status.choice(&["in_progress"], |word| word);
        body.finish();
        let command =
            id.zip(known).map(|(payment_id, _)| Command::PaymentInProgress { order, payment_id });
        return report.finish(command);
    }
    let given = body.nullable("currency").map(|v| v.currency());
    let currency = given.unwrap_or(own);
    let amount = body.required("amount").and_then(|v| v.amount_above_zero(currency));
    let paid_at = body.nullable("paid_at").and_then(|v| v.time());
    body.finish();
    let payment = id.zip(amount).map(|(id, amount)| Capture {
        id,
        amount,
        currency: currency.map(|c| c.code().to_owned()),
        paid_at,
    });
    report.finish(payment.map(|payment| Command::Pay { order, payment }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    fn usd() -> Option<Currency> {
        Currency::parse("USD").ok()
    }

    fn fields(text: &str) -> Vec<String> {
        let problem = read(text, "o".into(), usd()).expect_err("refused");
        assert_eq!(problem.code, "validation_failed");
        let errors = problem.body()["errors"].clone();
        errors
            .as_array()
            .expect("a list")
            .iter()
            .map(|e| e["field"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn a_capture_is_read_in_its_own_currency_or_the_order_s() {
        let text = r#"{"id":"pay-1","amount":"2399","currency":"JPY","paid_at":"2026-11-30T08:20:15.5+08:00"}"#;
        let payment = Capture {
            id: "pay-1".into(),
            amount: 2399,
            currency: Some("JPY".into()),
            paid_at: Some(Timestamp(1_795_998_015_500_000)),
        };
        let order = OrderId::from("o");
        assert_eq!(
            read(text, order.clone(), None),
            Ok(Command::Pay { order: order.clone(), payment })
        );
        let payment = Capture {
            id: "pay-1".into(),
            amount: 2399,
            currency: Some("USD".into()),
            paid_at: None,
        };
        assert_eq!(
            read(r#"{"id":"pay-1","amount":"23.99"}"#, order.clone(), usd()),
            Ok(Command::Pay { order, payment })
        );
    }

    #[test]
    fn in_progress_needs_the_payment_s_id_and_nothing_else() {
        assert_eq!(
            read(r#"{"id":"pay-1","status":"in_progress"}"#, "o".into(), None),
            Ok(Command::PaymentInProgress { order: "o".into(), payment_id: "pay-1".into() })
        );
        assert_eq!(fields(r#"{"id":"p","status":"in_progress","amount":"1.00"}"#), ["amount"]);
        assert_eq!(fields(r#"{"id":"p","status":"captured"}"#), ["status"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(fields("{}"), ["id", "amount"]);
        assert_eq!(fields(r#"{"id":"p","amount":"0.00"}"#), ["amount"]);
        assert_eq!(fields(r#"{"id":"p","amount":"-1.00"}"#), ["amount"]);
        assert_eq!(fields(r#"{"id":"p","amount":"1.001"}"#), ["amount"]);
        assert_eq!(fields(r#"{"id":"p","amount":1}"#), ["amount"]);
        assert_eq!(fields(r#"{"id":"p","amount":"1.00","currency":"usd"}"#), ["currency"]);
        assert_eq!(fields(r#"{"id":"","amount":"1.00","paid_at":"noon"}"#), ["id", "paid_at"]);
    }
}
