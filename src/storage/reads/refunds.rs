//! Refunds with the currency of their order.

use std::sync::LazyLock;

use super::filter::Texts;
use crate::clock::Timestamp;
use crate::domain::names::{OrderId, RefundId};
use crate::domain::refund::{Refund, RefundState};
use crate::storage::rows::order::RefundRow;
use crate::storage::sql::{args, list as names, texts};
use crate::storage::table::Table;
use crate::storage::{Db, Error, Result};

/// A refund and what of its order is needed to show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub order: OrderId,
    pub currency: String,
    pub refund: Refund,
}

static LIST: LazyLock<Texts> = LazyLock::new(|| {
    Texts::new(
        &format!("SELECT {} FROM refunds", RefundRow::LIST),
        &["(created_at, id) < (?, ?)", "state = ?"],
        "ORDER BY created_at DESC, id DESC",
    )
});

texts! {
    CURRENCIES = "SELECT id, currency FROM orders WHERE id IN (LIST($1))";
}

/// Refunds made before `before` (time and id), newest first; one more than `limit`.
///
/// # Errors
/// The database's.
pub async fn list(
    db: &Db,
    state: Option<RefundState>,
    before: Option<&(Timestamp, RefundId)>,
    limit: i64,
) -> Result<Vec<Row>> {
    let given = vec![
        before.map(|(at, id)| args![*at, id.as_str()]),
        state.map(|state| args![state.as_str()]),
    ];
    let Some((sql, args)) = LIST.pick(given, limit) else {
        return Ok(Vec::new());
    };
    db.read(move |tx| {
        Box::pin(async move {
            let rows: Vec<RefundRow> = tx.all(sql, args).await?;
            let orders = names(rows.iter().map(|row| &row.order_id));
            let currencies: Vec<(String, String)> = tx.all(&CURRENCIES, vec![orders]).await?;
            let currency = |order: &OrderId| {
                let found = currencies.iter().find(|(id, _)| id == order.as_str());
                found.map(|(_, currency)| currency.clone()).unwrap_or_default()
            };
            let rows = rows.into_iter().map(|row| Row {
                order: row.order_id.clone(),
                currency: currency(&row.order_id),
                refund: row.into(),
            });
            Ok::<_, Error>(rows.collect())
        })
    })
    .await
}
