//! Purchase orders with the order that each belongs to.

use std::sync::LazyLock;

use super::filter::Texts;
use crate::clock::Timestamp;
use crate::domain::names::{OrderId, PurchaseId};
use crate::domain::purchase::{Purchase, PurchaseState};
use crate::storage::rows::order::PurchaseRow;
use crate::storage::sql::args;
use crate::storage::table::Table;
use crate::storage::{Db, Error, Result};

/// Which purchase orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<PurchaseState>,
    pub order: Option<OrderId>,
}

static LIST: LazyLock<Texts> = LazyLock::new(|| {
    Texts::new(
        &format!("SELECT {} FROM purchase_orders", PurchaseRow::LIST),
        &["(created_at, id) < (?, ?)", "state = ?", "order_id = ?"],
        "ORDER BY created_at DESC, id DESC",
    )
});

/// Purchase orders made before `before` (time and id), newest first; one more than `limit`.
///
/// # Errors
/// The database's.
pub async fn list(
    db: &Db,
    filter: &Filter,
    before: Option<&(Timestamp, PurchaseId)>,
    limit: i64,
) -> Result<Vec<(OrderId, Purchase)>> {
    let given = vec![
        before.map(|(at, id)| args![*at, id.as_str()]),
        filter.state.map(|state| args![state.as_str()]),
        filter.order.as_ref().map(|order| args![order.as_str()]),
    ];
    let Some((sql, args)) = LIST.pick(given, limit) else {
        return Ok(Vec::new());
    };
    db.read(move |tx| {
        Box::pin(async move {
            let rows: Vec<PurchaseRow> = tx.all(sql, args).await?;
            let rows = rows.into_iter().map(|row| (row.order_id.clone(), row.into()));
            Ok::<_, Error>(rows.collect())
        })
    })
    .await
}
