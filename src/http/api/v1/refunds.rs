//! Refunds: by ops for an order, their list, and what ops say of one.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;

use super::payments::order_currency;
use super::progress::read_nothing;
use super::{order_answer, order_id, plain_id};
use crate::clock::Timestamp;
use crate::domain::command::Command;
use crate::domain::money::Currency;
use crate::domain::names::RefundId;
use crate::domain::order::Order;
use crate::domain::outcome::Outcome;
use crate::domain::refund::RefundState;
use crate::engine::KeptAnswer;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Page, Param, Query, Report};
use crate::http::idempotency::{Call, Keep, Turn, answer, unexpected};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::order::OrderView;
use crate::http::view::refund::RefundView;
use crate::storage::reads::refunds;
use axum::http::StatusCode;

const LIST: &str = "refunds";

#[derive(ToSchema)]
pub struct RefundOrder {
    /// Above 0, in the order's currency.
    #[schema(example = "5.00")]
    pub amount: String,
    #[schema(min_length = 1, max_length = 255)]
    pub reason: String,
}

#[derive(ToSchema)]
pub struct ResolveRefund {
    /// `succeeded` (with a reference) or `not_made` (a new attempt).
    #[schema(example = "succeeded")]
    pub outcome: String,
    #[schema(min_length = 1, max_length = 255)]
    pub reference: Option<String>,
}

/// Refund money of an order by hand, newest payment first.
#[utoipa::path(post, path = "/v1/orders/{id}/refunds", tag = "refunds",
    params(("id" = String, Path),
        ("Idempotency-Key" = String, Header, description = "1 to 255 characters")),
    request_body = RefundOrder,
    responses((status = 200, body = OrderView), Problems))]
pub async fn refund_order(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let order = order_id(&id)?;
    let turn = Turn::begin(&app, call, &body, Keep::ForEver)?;
    let currency = order_currency(&app, &order).await?;
    let (amount, reason) = read_refund(body.text(), currency)?;
    let command = Command::RefundOrder { order, amount, reason };
    let render = order_answer(turn.now);
    turn.act(command, render).await
}

fn read_refund(text: &str, currency: Currency) -> Result<(i64, String), Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let amount = body.required("amount").and_then(|v| v.amount_above_zero(Some(currency)));
    let reason = body.required("reason").and_then(|v| v.text(1..=255));
    body.finish();
    report.finish(amount.zip(reason))
}

/// Refunds, newest first.
#[utoipa::path(get, path = "/v1/refunds", tag = "refunds",
    params(("state" = Option<String>, Query),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "default 50"),
        ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<RefundView>), Problems))]
pub async fn list_refunds(
    State(app): State<Shared>,
    query: Query,
) -> Result<Json<List<RefundView>>, Problem> {
    let state = query.choice("state", RefundState::ALL, RefundState::as_str);
    let page = query.page(LIST);
    query.finish()?;
    let before = match page.parts::<2>()? {
        Some([at, id]) => Some((Timestamp(Page::number(at)?), RefundId::from(id))),
        None => None,
    };
    let rows = refunds::list(&app.db, state, before.as_ref(), page.limit).await?;
    Ok(Json(List::page(
        rows,
        page.limit,
        |row| Page::cursor(LIST, &[&row.refund.created_at.0.to_string(), row.refund.id.as_str()]),
        |row| RefundView::new(&row.order, &row.currency, &row.refund),
    )))
}

/// Ask the provider again.
#[utoipa::path(post, path = "/v1/refunds/{id}/retry", tag = "refunds",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 200, body = RefundView), Problems))]
pub async fn retry_refund(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let refund = RefundId::from(plain_id(&id, "refund")?);
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    read_nothing(body.text())?;
    let render = refund_answer(refund.clone());
    turn.act(Command::RetryRefund { refund }, render).await
}

/// Say what became of a refund.
#[utoipa::path(post, path = "/v1/refunds/{id}/resolve", tag = "refunds",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = ResolveRefund,
    responses((status = 200, body = RefundView), Problems))]
pub async fn resolve_refund(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let refund = RefundId::from(plain_id(&id, "refund")?);
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    let (made, reference) = read_resolution(body.text())?;
    let render = refund_answer(refund.clone());
    let command = Command::ResolveRefund { refund, made, reference };
    turn.act(command, render).await
}

fn read_resolution(text: &str) -> Result<(bool, Option<String>), Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let made = body
        .required("outcome")
        .and_then(|v| v.choice(&[true, false], |made| if made { "succeeded" } else { "not_made" }));
    // Only what was made has a reference.
    let reference = match made {
        Some(true) => body.nullable("reference").and_then(|v| v.text(1..=255)),
        _ => None,
    };
    body.finish();
    report.finish(made.map(|made| (made, reference)))
}

/// Shows one refund of the order that the outcome carries.
fn refund_answer(id: RefundId) -> impl Fn(&Outcome) -> KeptAnswer + Clone + Send + Sync {
    move |outcome| match outcome {
        Outcome::Order { order, .. } | Outcome::RefundStep { order, .. } => shown(order, &id),
        _ => unexpected(),
    }
}

fn shown(order: &Order, id: &RefundId) -> KeptAnswer {
    match order.refunds.iter().find(|refund| &refund.id == id) {
        Some(refund) => {
            answer(StatusCode::OK, &RefundView::new(&order.id, &order.currency, refund))
        }
        None => unexpected(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refund_has_an_amount_and_a_reason() {
        let usd = Currency::parse("USD").expect("a currency");
        assert_eq!(
            read_refund(r#"{"amount":"5.00","reason":"late"}"#, usd),
            Ok((500, "late".to_owned()))
        );
        let problem = read_refund(r#"{"amount":"0","reason":""}"#, usd).expect_err("refused");
        assert_eq!(problem.body()["errors"][0]["field"], "amount");
        assert_eq!(problem.body()["errors"][1]["field"], "reason");
        let jpy = Currency::parse("JPY").expect("a currency");
        assert!(read_refund(r#"{"amount":"5.00","reason":"late"}"#, jpy).is_err());
    }

    #[test]
    fn a_resolution_says_made_or_not() {
        assert_eq!(
            read_resolution(r#"{"outcome":"succeeded","reference":"r-1"}"#),
            Ok((true, Some("r-1".to_owned())))
        );
        assert_eq!(read_resolution(r#"{"outcome":"not_made"}"#), Ok((false, None)));
        for text in ["{}", r#"{"outcome":"maybe"}"#, r#"{"outcome":"not_made","reference":"x"}"#] {
            assert!(read_resolution(text).is_err(), "{text}");
        }
    }
}
