//! `/v1`: one file for each endpoint or small family. A handler reads the request into a command,
//! lets the engine decide, and shows the outcome; it decides nothing itself.

use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::clock::Timestamp;
use crate::domain::command::Command;
use crate::domain::names::{OrderId, SkuKey};
use crate::domain::outcome::{Outcome, Touch};
use crate::engine::KeptAnswer;
use crate::http::Shared;
use crate::http::extract::{Body, sku_key};
use crate::http::idempotency::{Call, Keep, Turn, answer, unexpected};
use crate::http::problem::Problem;
use crate::http::view::order::OrderView;

pub mod alerts;
pub mod availability;
pub mod cancel;
pub mod holds;
pub mod jobs;
pub mod ledger;
pub mod orders;
pub mod pause;
pub mod payments;
pub mod place;
pub mod progress;
pub mod purchases;
pub mod refunds;
pub mod shipments;
pub mod skus;
pub mod stock;
pub mod suppliers;

/// Every route of the version. Two POST paths must not share one `routes!`: that panics at start.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(place::place_order, orders::list_orders))
        .routes(routes!(orders::get_order))
        .routes(routes!(payments::record_payment))
        .routes(routes!(cancel::cancel_order))
        .routes(routes!(cancel::cancel_line))
        .routes(routes!(progress::put_ship_to))
        .routes(routes!(progress::decide_order))
        .routes(routes!(progress::complete_order))
        .routes(routes!(shipments::ship_order))
        .routes(routes!(refunds::refund_order))
        .routes(routes!(refunds::list_refunds))
        .routes(routes!(refunds::retry_refund))
        .routes(routes!(refunds::resolve_refund))
        .routes(routes!(skus::list_skus))
        .routes(routes!(skus::get_sku, skus::put_sku))
        .routes(routes!(skus::add_alias))
        .routes(routes!(availability::get_availability))
        .routes(routes!(availability::query_availability))
        .routes(routes!(stock::change_stock))
        .routes(routes!(pause::pause_sku))
        .routes(routes!(pause::resume_sku))
        .routes(routes!(pause::pause_supplier))
        .routes(routes!(pause::resume_supplier))
        .routes(routes!(holds::list_holds))
        .routes(routes!(ledger::list_ledger))
        .routes(routes!(suppliers::list_suppliers))
        .routes(routes!(suppliers::get_supplier))
        .routes(routes!(suppliers::sync_supplier))
        .routes(routes!(purchases::list_purchases))
        .routes(routes!(purchases::retry_purchase))
        .routes(routes!(purchases::resolve_purchase))
        .routes(routes!(alerts::list_alerts))
        .routes(routes!(alerts::acknowledge_alert))
        .routes(routes!(jobs::list_jobs))
        .routes(routes!(jobs::retry_job))
}

/// An id of ours in a path. One that cannot be one names nothing.
fn order_id(text: &str) -> Result<OrderId, Problem> {
    plain_id(text, "order").map(OrderId::from)
}

/// An opaque id: short and printable, whatever it names.
fn plain_id<'a>(text: &'a str, what: &str) -> Result<&'a str, Problem> {
    let sane = (1..=200).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if sane { Ok(text) } else { Err(Problem::not_found(what)) }
}

/// A number that is shown as an id.
fn number_id(text: &str, what: &str) -> Result<i64, Problem> {
    text.parse::<i64>()
        .ok()
        .filter(|n| *n > 0 && n.to_string() == text)
        .ok_or_else(|| Problem::not_found(what))
}

/// The SKU of a path, normalised.
fn path_sku(text: &str) -> Result<SkuKey, Problem> {
    sku_key(text).map_err(|message| Problem::invalid_field("sku", message))
}

/// Runs the command about an order that `read` makes of the body, and shows the order.
async fn act_on_order(
    app: &Shared,
    id: &str,
    call: Call,
    body: &Body,
    keep: Keep,
    read: impl FnOnce(OrderId, &str) -> Result<Command, Problem>,
) -> Result<Response, Problem> {
    let order = order_id(id)?;
    let turn = Turn::begin(app, call, body, keep)?;
    let command = read(order, body.text())?;
    let render = order_answer(turn.now);
    turn.act(command, render).await
}

/// Shows an order's outcome, as of the request's time.
fn order_answer(now: Timestamp) -> impl Fn(&Outcome) -> KeptAnswer + Clone + Send + Sync {
    move |outcome| match outcome {
        Outcome::Order { order, touch } => answer(status(*touch), &OrderView::new(order, now)),
        _ => unexpected(),
    }
}

fn status(touch: Touch) -> StatusCode {
    match touch {
        Touch::Created | Touch::Replayed => StatusCode::CREATED,
        Touch::Existing | Touch::Changed => StatusCode::OK,
        Touch::CancelPending => StatusCode::ACCEPTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_an_id_names_nothing() {
        assert!(order_id("0190f3a1").is_ok());
        for text in ["", "a b", "a\0b", "é", &"x".repeat(201)] {
            assert_eq!(order_id(text).map_err(|p| p.code), Err("not_found"), "{text:?}");
        }
        assert_eq!(number_id("17", "job"), Ok(17));
        for text in ["", "0", "-1", "017", "+1", "1.0", "x", "99999999999999999999"] {
            assert_eq!(number_id(text, "job").map_err(|p| p.code), Err("not_found"), "{text}");
        }
    }

    #[test]
    fn a_touch_has_its_status() {
        let of = |touch| status(touch).as_u16();
        assert_eq!(of(Touch::Created), 201);
        assert_eq!(of(Touch::Replayed), 201);
        assert_eq!(of(Touch::Existing), 200);
        assert_eq!(of(Touch::Changed), 200);
        assert_eq!(of(Touch::CancelPending), 202);
    }
}
