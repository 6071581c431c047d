//! What jobs walk through, a page at a time and without locks: orders past a deadline, a supplier's
//! levels, SKUs with their levels. What they find is judged again under locks.

use super::db::Tx;
use super::error::Result;
use super::reads::skus::{levels_of_skus, with_sources};
use super::rows::stock::{LevelRow, SkuRow};
use super::sql::{args, list, texts};
use super::table::Table;
use crate::clock::Timestamp;
use crate::domain::names::{LevelId, OrderId, SkuKey, SourceId};
use crate::domain::sku::Sku;
use crate::domain::stock::Level;
use crate::domain::watermark::Caution;

texts! {
    OVERDUE = format!(
        "SELECT at, order_id FROM (SELECT * FROM ({}) AS o UNION SELECT * FROM ({}) AS p
            UNION SELECT * FROM ({}) AS r) AS due
         ORDER BY at, order_id LIMIT $4",
        overdue("orders", "id"),
        overdue("purchase_orders", "order_id"),
        overdue("refunds", "order_id"),
    );
    LEVELS_OF = format!(
        "SELECT {} FROM levels WHERE source = $1 AND id > $2 ORDER BY id LIMIT $3",
        LevelRow::LIST
    );
    AGED_LEVELS = format!(
        "SELECT {} FROM levels WHERE source = $1 AND id > $2 AND as_of < $4 ORDER BY id LIMIT $3",
        LevelRow::LIST
    );
    COUNT_LEVELS = "SELECT count(*) FROM levels WHERE source = $1";
    LARGEST = "SELECT (SELECT max(low) FROM skus WHERE low IS NOT NULL),
        (SELECT max(buffer) FROM sku_sources WHERE buffer IS NOT NULL)";
    /// The last id of a page of levels.
    PAGE = "SELECT id FROM (SELECT id FROM levels WHERE id > $1 ORDER BY id LIMIT $2) AS page
         ORDER BY id DESC LIMIT 1";
    /// Levels of which there is not enough for any SKU, and their SKUs, unless their levels have enough
    /// together; only what is sure to be there is counted. `CROSS JOIN`: in this order.
    SCARCE = "SELECT DISTINCT s.key FROM levels l CROSS JOIN sku_sources x CROSS JOIN skus s
         WHERE l.id > $1 AND l.id <= $2 AND x.level_id = l.id AND s.key = x.sku
           AND (l.quantity - l.held - l.committed < $5 OR l.listing <> 'listed'
                OR l.blocked_at IS NOT NULL OR l.closed_from IS NOT NULL)
           AND coalesce(s.low, $3) > (
            SELECT CAST(coalesce(sum(units), 0) AS BIGINT) FROM (
                SELECT o.quantity - o.held - o.committed
                    - coalesce(y.buffer, CASE y.kind WHEN 'supplier' THEN $4 ELSE 0 END) AS units
                FROM sku_sources y JOIN levels o ON o.id = y.level_id
                WHERE y.sku = s.key AND o.listing = 'listed' AND o.blocked_at IS NULL
                  AND o.closed_from IS NULL) AS sure
            WHERE units > 0)";
    SKUS_OF_LEVELS = format!(
        "SELECT {} FROM skus WHERE key IN
            (SELECT sku FROM sku_sources WHERE level_id IN (LIST($1))) ORDER BY key",
        SkuRow::LIST
    );
}

/// A table's part of a page of overdue orders: until `$1`, after (`$2`, `$3`), at most `$4`.
fn overdue(table: &str, order: &str) -> String {
    format!(
        "SELECT deadline_at AS at, {order} AS order_id FROM {table}
         WHERE deadline_at <= $1 AND deadline_at >= $2 AND (deadline_at > $2 OR {order} > $3)
         ORDER BY deadline_at, {order} LIMIT $4"
    )
}

/// Orders of which something (themselves, a purchase, a refund) has a deadline at or before `until`,
/// by (deadline, id); one with several deadlines is there for each.
///
/// # Errors
/// The database's.
pub async fn overdue_orders(
    tx: &mut Tx,
    until: Timestamp,
    after: Option<(Timestamp, OrderId)>,
    limit: i64,
) -> Result<Vec<(Timestamp, OrderId)>> {
    let (at, id) = after.unwrap_or((Timestamp(i64::MIN), OrderId::from("")));
    let rows: Vec<(i64, String)> = tx.all(&OVERDUE, args![until, at, id.as_str(), limit]).await?;
    Ok(rows.into_iter().map(|(at, id)| (Timestamp(at), id.into())).collect())
}

/// A source's levels after an id, by id.
///
/// # Errors
/// The database's.
pub async fn levels_of(
    tx: &mut Tx,
    source: &SourceId,
    after: Option<&LevelId>,
    limit: i64,
) -> Result<Vec<Level>> {
    let after = after.map_or("", LevelId::as_str);
    let rows: Vec<LevelRow> = tx.all(&LEVELS_OF, args![source.as_str(), after, limit]).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// A source's levels whose figure is of before a time, after an id, by id.
///
/// # Errors
/// The database's.
pub async fn aged_levels(
    tx: &mut Tx,
    source: &SourceId,
    before: Timestamp,
    after: Option<&LevelId>,
    limit: i64,
) -> Result<Vec<Level>> {
    let after = after.map_or("", LevelId::as_str);
    let args = args![source.as_str(), after, limit, before];
    let rows: Vec<LevelRow> = tx.all(&AGED_LEVELS, args).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// How many levels a source has.
///
/// # Errors
/// The database's.
pub async fn count_levels(tx: &mut Tx, source: &SourceId) -> Result<u64> {
    let count: Option<(i64,)> = tx.first(&COUNT_LEVELS, args![source.as_str()]).await?;
    Ok(count.map_or(0, |(count,)| count.max(0).unsigned_abs()))
}

/// The SKUs of a page of levels after an id that may be low; and the last id of the page, `None` where
/// there are no more. Of a large catalogue only what is scarce is read.
///
/// # Errors
/// The database's.
pub async fn scarce(
    tx: &mut Tx,
    caution: Caution,
    after: Option<&LevelId>,
    limit: i64,
) -> Result<(Vec<SkuKey>, Option<LevelId>)> {
    let after = after.map_or("", LevelId::as_str);
    let last: Option<(String,)> = tx.first(&PAGE, args![after, limit]).await?;
    let Some((last,)) = last else { return Ok((Vec::new(), None)) };
    let Caution { low, buffer } = caution;
    let own: Option<(Option<i64>, Option<i64>)> = tx.first(&LARGEST, Vec::new()).await?;
    let (own_low, own_buffer) = own.unwrap_or_default();
    let largest = |all: i64, own: Option<i64>| own.map_or(all, |own| own.max(all));
    let enough = largest(low, own_low).saturating_add(largest(buffer, own_buffer));
    let args = args![after, last.as_str(), low, buffer, enough];
    let keys: Vec<(String,)> = tx.all(&SCARCE, args).await?;
    Ok((keys.into_iter().map(|(key,)| key.into()).collect(), Some(last.into())))
}

/// The SKUs that have one of these levels, by key, each with all its levels.
///
/// # Errors
/// The database's.
pub async fn skus_of_levels(tx: &mut Tx, levels: &[LevelId]) -> Result<Vec<(Sku, Vec<Level>)>> {
    let rows: Vec<SkuRow> = tx.all(&SKUS_OF_LEVELS, vec![list(levels)]).await?;
    let skus = with_sources(tx, rows).await?;
    let levels = levels_of_skus(tx, skus.iter()).await?;
    let own = |sku: Sku| {
        let levels = sku.sources.iter().filter_map(|s| levels.get(&s.level).cloned()).collect();
        (sku, levels)
    };
    Ok(skus.into_iter().map(own).collect())
}
