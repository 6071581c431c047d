//! `GET /v1/holds`.

use axum::Json;
use axum::extract::State;

use crate::domain::order::HoldState;
use crate::http::Shared;
use crate::http::extract::{Page, Query};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::stock::HoldView;
use crate::storage::reads::stock::{self, HoldFilter, HoldKey};

const LIST: &str = "holds";

/// Holds, those of the newest orders first.
#[utoipa::path(get, path = "/v1/holds", tag = "stock",
    params(("sku" = Option<String>, Query), ("state" = Option<String>, Query),
        ("order_id" = Option<String>, Query),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "default 50"),
        ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<HoldView>), Problems))]
pub async fn list_holds(
    State(app): State<Shared>,
    query: Query,
) -> Result<Json<List<HoldView>>, Problem> {
    let filter = HoldFilter {
        sku: query.sku("sku"),
        state: query.choice("state", HoldState::ALL, HoldState::as_str),
        order: query.text("order_id").map(Into::into),
    };
    let page = query.page(LIST);
    query.finish()?;
    let before = match page.parts::<3>()? {
        Some([order, line, part]) => Some(HoldKey {
            order: order.into(),
            line: Page::number(line)?,
            part: Page::number(part)?,
        }),
        None => None,
    };
    let rows = stock::holds(&app.db, &filter, before.as_ref(), page.limit).await?;
    Ok(Json(List::page(
        rows,
        page.limit,
        |(order, hold)| {
            let (line, part) = (hold.line.to_string(), hold.part.to_string());
            Page::cursor(LIST, &[order.as_str(), &line, &part])
        },
        |(order, hold)| HoldView::new(&order, &hold),
    )))
}
