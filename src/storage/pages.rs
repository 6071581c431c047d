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
    /// The last key of a page of SKUs.
    PAGE = "SELECT key FROM (SELECT key FROM skus WHERE key > $1 ORDER BY key LIMIT $2) AS page
         ORDER BY key DESC LIMIT 1";
    /// Only what is sure to be there is counted; see `watermark::Caution`.
    SCARCE = "SELECT s.key FROM skus s
         WHERE s.key > $1 AND s.key <= $2 AND coalesce(s.low, $3) > (
            SELECT CAST(coalesce(sum(units), 0) AS BIGINT) FROM (
                SELECT l.quantity - l.held - l.committed
                    - coalesce(x.buffer, CASE x.kind WHEN 'supplier' THEN $4 ELSE 0 END) AS units
                FROM sku_sources x JOIN levels l ON l.id = x.level_id
                WHERE x.sku = s.key AND l.listing = 'listed' AND l.blocked_at IS NULL
                  AND l.closed_from IS NULL) AS sure
            WHERE units > 0)
         ORDER BY s.key";
    SKUS = format!("SELECT {} FROM skus WHERE key IN (LIST($1)) ORDER BY key", SkuRow::LIST);
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

/// Of a page of SKUs after a key, by key, those that may be low; and the last key of the page, `None`
/// where there are no more. Only keys are read of a catalogue that may be large.
///
/// # Errors
/// The database's.
pub async fn scarce(
    tx: &mut Tx,
    caution: Caution,
    after: Option<&SkuKey>,
    limit: i64,
) -> Result<(Vec<SkuKey>, Option<SkuKey>)> {
    let after = after.map_or("", SkuKey::as_str);
    let last: Option<(String,)> = tx.first(&PAGE, args![after, limit]).await?;
    let Some((last,)) = last else { return Ok((Vec::new(), None)) };
    let args = args![after, last.as_str(), caution.low, caution.buffer];
    let keys: Vec<(String,)> = tx.all(&SCARCE, args).await?;
    Ok((keys.into_iter().map(|(key,)| key.into()).collect(), Some(last.into())))
}

/// These SKUs, by key, each with its levels.
///
/// # Errors
/// The database's.
pub async fn skus(tx: &mut Tx, keys: &[SkuKey]) -> Result<Vec<(Sku, Vec<Level>)>> {
    let rows = tx.all(&SKUS, vec![list(keys)]).await?;
    with_levels(tx, rows).await
}

/// The SKUs that have one of these levels, by key, each with all its levels.
///
/// # Errors
/// The database's.
pub async fn skus_of_levels(tx: &mut Tx, levels: &[LevelId]) -> Result<Vec<(Sku, Vec<Level>)>> {
    let rows = tx.all(&SKUS_OF_LEVELS, vec![list(levels)]).await?;
    with_levels(tx, rows).await
}

async fn with_levels(tx: &mut Tx, rows: Vec<SkuRow>) -> Result<Vec<(Sku, Vec<Level>)>> {
    let skus = with_sources(tx, rows).await?;
    let levels = levels_of_skus(tx, skus.iter()).await?;
    let own = |sku: Sku| {
        let levels = sku.sources.iter().filter_map(|s| levels.get(&s.level).cloned()).collect();
        (sku, levels)
    };
    Ok(skus.into_iter().map(own).collect())
}
