//! Purchase orders: their list, and what ops say of one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa::ToSchema;

use super::plain_id;
use super::progress::read_nothing;
use crate::clock::Timestamp;
use crate::domain::command::{Command, PurchaseResolution};
use crate::domain::names::{OrderId, PurchaseId};
use crate::domain::outcome::Outcome;
use crate::domain::purchase::{Purchase, PurchaseState};
use crate::engine::KeptAnswer;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Page, Param, Query, Report};
use crate::http::idempotency::{Call, Keep, Turn, answer, unexpected};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::purchase::PurchaseView;
use crate::storage::reads::purchases::{self, Filter};

const LIST: &str = "purchase-orders";

#[derive(ToSchema)]
pub struct ResolvePurchase {
    /// `placed` (with the supplier's order id) or `not_placed`.
    #[schema(example = "placed")]
    pub outcome: String,
    /// Exact digits, as text.
    #[schema(min_length = 1, max_length = 64)]
    pub supplier_order_id: Option<String>,
}

/// Purchase orders, newest first.
#[utoipa::path(get, path = "/v1/purchase-orders", tag = "suppliers",
    params(("state" = Option<String>, Query), ("order_id" = Option<String>, Query),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "default 50"),
        ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<PurchaseView>), Problems))]
pub async fn list_purchases(
    State(app): State<Shared>,
    query: Query,
) -> Result<Json<List<PurchaseView>>, Problem> {
    let filter = Filter {
        state: query.choice("state", PurchaseState::ALL, PurchaseState::as_str),
        order: query.text("order_id").map(OrderId::from),
    };
    let page = query.page(LIST);
    query.finish()?;
    let before = match page.parts::<2>()? {
        Some([at, id]) => Some((Timestamp(Page::number(at)?), PurchaseId::from(id))),
        None => None,
    };
    let rows = purchases::list(&app.db, &filter, before.as_ref(), page.limit).await?;
    Ok(Json(List::page(
        rows,
        page.limit,
        |(_, purchase)| {
            let at = purchase.created_at.0.to_string();
            Page::cursor(LIST, &[&at, purchase.id.as_str()])
        },
        |(order, purchase)| PurchaseView::new(&order, &purchase),
    )))
}

/// Do the next thing about a purchase now.
#[utoipa::path(post, path = "/v1/purchase-orders/{id}/retry", tag = "suppliers",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 200, body = PurchaseView), Problems))]
pub async fn retry_purchase(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let purchase = PurchaseId::from(plain_id(&id, "purchase order")?);
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    read_nothing(body.text())?;
    let render = purchase_answer(purchase.clone());
    turn.act(Command::RetryPurchase { purchase }, render).await
}

/// Say what became of a purchase whose outcome is not known.
#[utoipa::path(post, path = "/v1/purchase-orders/{id}/resolve", tag = "suppliers",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = ResolvePurchase, responses((status = 200, body = PurchaseView), Problems))]
pub async fn resolve_purchase(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let purchase = PurchaseId::from(plain_id(&id, "purchase order")?);
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    let resolution = read(body.text())?;
    let render = purchase_answer(purchase.clone());
    let command = Command::ResolvePurchase { purchase, resolution };
    turn.act(command, render).await
}

fn read(text: &str) -> Result<PurchaseResolution, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let placed = body.required("outcome").and_then(|v| {
        v.choice(&[true, false], |placed| if placed { "placed" } else { "not_placed" })
    });
    let resolution = placed.and_then(|placed| match placed {
        true => body
            .required("supplier_order_id")
            .and_then(|v| v.text(1..=64))
            .map(|supplier_order_id| PurchaseResolution::Placed { supplier_order_id }),
        false => Some(PurchaseResolution::NotPlaced),
    });
    body.finish();
    report.finish(resolution)
}

/// Shows the purchase that an outcome carries.
fn purchase_answer(id: PurchaseId) -> impl Fn(&Outcome) -> KeptAnswer + Clone + Send + Sync {
    move |outcome| match outcome {
        Outcome::Purchase(purchase) => shown(&order_of(&id), purchase),
        Outcome::Order { order, .. } => match order.purchase(&id) {
            Some(purchase) => shown(&order.id, purchase),
            None => unexpected(),
        },
        _ => unexpected(),
    }
}

fn shown(order: &OrderId, purchase: &Purchase) -> KeptAnswer {
    answer(StatusCode::OK, &PurchaseView::new(order, purchase))
}

/// A purchase's id starts with its order's, which has no hyphen.
fn order_of(id: &PurchaseId) -> OrderId {
    let order = id.as_str().split_once('-').map_or(id.as_str(), |(order, _)| order);
    OrderId::from(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolution_says_placed_and_where_or_not() {
        assert_eq!(
            read(r#"{"outcome":"placed","supplier_order_id":"1234567890123456789"}"#),
            Ok(PurchaseResolution::Placed { supplier_order_id: "1234567890123456789".into() })
        );
        assert_eq!(read(r#"{"outcome":"not_placed"}"#), Ok(PurchaseResolution::NotPlaced));
        for (text, field) in [
            ("{}", "outcome"),
            (r#"{"outcome":"lost"}"#, "outcome"),
            (r#"{"outcome":"placed"}"#, "supplier_order_id"),
            (r#"{"outcome":"placed","supplier_order_id":123}"#, "supplier_order_id"),
            (r#"{"outcome":"not_placed","supplier_order_id":"1"}"#, "supplier_order_id"),
        ] {
            let problem = read(text).expect_err(text);
            assert_eq!(problem.body()["errors"][0]["field"], field, "{text}");
        }
    }

    #[test]
    fn a_purchase_s_order_is_in_its_id() {
        let order = OrderId::from("0190f3a1");
        let id = PurchaseId::of(&order, &"s-16-88".into(), 2);
        assert_eq!(order_of(&id), order);
    }
}
