//! `GET /v1/orders`, `GET /v1/orders/{id}`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::order_id;
use crate::domain::names::OrderId;
use crate::domain::order::State as OrderState;
use crate::http::Shared;
use crate::http::extract::{Page, Param, Query};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::order::OrderView;
use crate::storage::reads::orders::{self, Filter};

const LIST: &str = "orders";

/// One order.
#[utoipa::path(get, path = "/v1/orders/{id}", tag = "orders",
    params(("id" = String, Path)),
    responses((status = 200, body = OrderView), Problems))]
pub async fn get_order(
    State(app): State<Shared>,
    Param(id): Param<String>,
) -> Result<Response, Problem> {
    let order =
        orders::find(&app.db, &order_id(&id)?).await?.ok_or_else(|| Problem::not_found("order"))?;
    Ok(Json(OrderView::new(&order, app.clock.now())).into_response())
}

/// Orders, newest first.
#[utoipa::path(get, path = "/v1/orders", tag = "orders",
    params(
        ("state" = Option<String>, Query), ("sku" = Option<String>, Query),
        ("channel" = Option<String>, Query), ("external_id" = Option<String>, Query),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "default 50"),
        ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<OrderView>), Problems))]
pub async fn list_orders(State(app): State<Shared>, query: Query) -> Result<Response, Problem> {
    let filter = Filter {
        state: query.choice("state", OrderState::ALL, OrderState::as_str),
        sku: query.sku("sku"),
        channel: query.text("channel"),
        external_id: query.text("external_id"),
    };
    let page = query.page(LIST);
    query.finish()?;
    let before = page.parts::<1>()?.map(|[id]| OrderId::from(id));
    let rows = orders::list(&app.db, &filter, before.as_ref(), page.limit).await?;
    let now = app.clock.now();
    let list = List::page(
        rows.iter().collect(),
        page.limit,
        |order| Page::cursor(LIST, &[order.id.as_str()]),
        |order| OrderView::new(order, now),
    );
    Ok(Json(list).into_response())
}
