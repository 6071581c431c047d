//! Orders, one or a list.

use std::sync::LazyLock;

use super::filter::Texts;
use crate::domain::names::{OrderId, SkuKey};
use crate::domain::order::{Order, State};
use crate::storage::sql::{args, texts};
use crate::storage::world::orders_by_id;
use crate::storage::{Db, Error, Result};

/// Which orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<State>,
    /// With a line of this SKU (an alias names its SKU).
    pub sku: Option<SkuKey>,
    pub channel: Option<String>,
    pub external_id: Option<String>,
}

static LIST: LazyLock<Texts> = LazyLock::new(|| {
    Texts::new(
        "SELECT o.id FROM orders o",
        &[
            "o.id < ?",
            "o.state = ?",
            "EXISTS (SELECT 1 FROM order_lines l WHERE l.order_id = o.id
                AND l.sku IN (?, (SELECT a.sku FROM sku_aliases a WHERE a.alias = ?)))",
            "o.channel = ?",
            "o.external_id = ?",
        ],
        "ORDER BY o.id DESC",
    )
});

texts! {
    CURRENCY = "SELECT currency FROM orders WHERE id = $1";
}

/// One order with everything that belongs to it.
///
/// # Errors
/// The database's.
pub async fn find(db: &Db, id: &OrderId) -> Result<Option<Order>> {
    let ids = [id.clone()];
    db.read(move |tx| {
        Box::pin(async move { Ok::<_, Error>(orders_by_id(tx, &ids).await?.into_iter().next()) })
    })
    .await
}

/// The currency that an order's amounts are in.
///
/// # Errors
/// The database's.
pub async fn currency(db: &Db, id: &OrderId) -> Result<Option<String>> {
    let args = args![id.as_str()];
    db.read(move |tx| {
        Box::pin(async move {
            let row: Option<(String,)> = tx.first(&CURRENCY, args).await?;
            Ok::<_, Error>(row.map(|(currency,)| currency))
        })
    })
    .await
}

/// Orders older than `before`, newest first; one more than `limit`.
///
/// # Errors
/// The database's.
pub async fn list(
    db: &Db,
    filter: &Filter,
    before: Option<&OrderId>,
    limit: i64,
) -> Result<Vec<Order>> {
    let sku = |sku: &SkuKey| args![sku.as_str(), sku.as_str()];
    let given = vec![
        before.map(|id| args![id.as_str()]),
        filter.state.map(|state| args![state.as_str()]),
        filter.sku.as_ref().map(sku),
        filter.channel.as_deref().map(|text| args![text]),
        filter.external_id.as_deref().map(|text| args![text]),
    ];
    let Some((sql, args)) = LIST.pick(given, limit) else {
        return Ok(Vec::new());
    };
    db.read(move |tx| {
        Box::pin(async move {
            let rows: Vec<(String,)> = tx.all(sql, args).await?;
            let ids: Vec<OrderId> = rows.into_iter().map(|(id,)| id.into()).collect();
            orders_by_id(tx, &ids).await
        })
    })
    .await
}
