//! `GET /v1/ledger`: how every figure came to be.

use axum::Json;
use axum::extract::State;

use crate::http::Shared;
use crate::http::extract::{Page, Query};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::stock::LedgerView;
use crate::storage::reads::stock::{self, LedgerFilter, Position};

const LIST: &str = "ledger";

/// The ledger, oldest first.
#[utoipa::path(get, path = "/v1/ledger", tag = "stock",
    params(("sku" = Option<String>, Query, description = "entries of its stock levels"),
        ("order_id" = Option<String>, Query),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "default 50"),
        ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<LedgerView>), Problems))]
pub async fn list_ledger(
    State(app): State<Shared>,
    query: Query,
) -> Result<Json<List<LedgerView>>, Problem> {
    let filter =
        LedgerFilter { sku: query.sku("sku"), order: query.text("order_id").map(Into::into) };
    let page = query.page(LIST);
    query.finish()?;
    let after = match page.parts::<2>()? {
        Some([writer, seq]) => {
            Some(Position { writer: Page::number(writer)?, seq: Page::number(seq)? })
        }
        None => None,
    };
    let rows = stock::ledger(&app.db, &filter, after, page.limit).await?;
    Ok(Json(List::page(
        rows,
        page.limit,
        |entry| {
            let (writer, seq) = (entry.writer.to_string(), entry.seq.to_string());
            Page::cursor(LIST, &[&writer, &seq])
        },
        LedgerView::new,
    )))
}
