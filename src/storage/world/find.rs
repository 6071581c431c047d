//! Names to ids, and whose orders a group might touch: unlocked reads, whose answers are only used
//! to know what to lock. What they say is judged again under the locks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::domain::command::Needs;
use crate::domain::names::{LevelId, OrderId, PurchaseId, SkuKey};
use crate::domain::world::World;
use crate::storage::db::Tx;
use crate::storage::error::Result;
use crate::storage::rows::stock::{LevelRow, SkuRow, SourceRow};
use crate::storage::sql::{Arg, args, list, texts};
use crate::storage::table::{Cells, FromCells, Joined, Table, columns_of, row};

/// What counts on a supplier's level: the predicate of the index `holds_level`.
pub(super) const COUNTS: &str = "h.kind = 'supplier' AND (h.state IN ('active', 'committed')
    OR h.undone_at IS NOT NULL OR h.lost > 0 OR h.surplus > 0)";
/// The predicate of the index `holds_open`.
pub(super) const OPEN: &str = "h.state IN ('active', 'committed')";

/// So many of a level's orders are loaded to be judged, settled or counted.
pub(super) const MOST: usize = 500;
/// So many overdue orders of a level are loaded to be ended.
pub(super) const MOST_OVERDUE: usize = 50;
/// Overdue orders are looked through by so many …
const OVERDUE_PAGE: usize = 1_000;
/// … and so many times at most.
const OVERDUE_PAGES: usize = 10;

texts! {
    NAMES = "SELECT 'external' AS what, o.channel AS a, o.external_id AS b, o.id FROM PAIRS($1) AS p
            JOIN orders o ON o.channel = p.a AND o.external_id = p.b
        UNION ALL SELECT 'placement', idempotency_key, '', id FROM orders
            WHERE idempotency_key IN (LIST($2))
        UNION ALL SELECT 'payment', channel, payment_id, order_id FROM payments
            WHERE payment_id IN (LIST($3))
        UNION ALL SELECT 'refund', id, '', order_id FROM refunds WHERE id IN (LIST($4))
        UNION ALL SELECT 'purchase', id, '', order_id FROM purchase_orders WHERE id IN (LIST($5))
        UNION ALL SELECT 'supplier order', supplier, supplier_order_id, id FROM purchase_orders
            WHERE supplier_order_id IN (LIST($6))";
    /// SKUs by the names asked for, aliases followed, each with its sources.
    SKUS = format!("SELECT {sku}, alias, {source}
        FROM (SELECT {sku}, NULL AS alias FROM skus WHERE key IN (LIST($1))
            UNION ALL SELECT {sku}, a.alias FROM sku_aliases a JOIN skus s ON s.key = a.sku
                WHERE a.alias IN (LIST($1))) AS asked
        JOIN sku_sources x ON x.sku = asked.key ORDER BY x.sku, x.position",
        sku = SkuRow::LIST,
        source = SourceRow::LIST
    );
    /// The same by their own keys alone, and with their levels. `CROSS JOIN`: in this order.
    SHELVES = format!("SELECT {}, {}, {}
        FROM skus s CROSS JOIN sku_sources x CROSS JOIN levels l
        WHERE s.key IN (LIST($1)) AND x.sku = s.key AND l.id = x.level_id",
        columns_of::<SkuRow>("s"),
        columns_of::<SourceRow>("x"),
        columns_of::<LevelRow>("l")
    );

    /// A page of overdue orders with all the levels that they hold. From the orders' deadlines on,
    /// whatever the planner thinks: a hot level may have many more holds than orders are overdue.
    OVERDUE = format!("SELECT o.id, o.deadline_at, h.level_id FROM (
            SELECT id, deadline_at FROM orders
            WHERE deadline_at <= $1 AND state = 'pending_payment' AND (deadline_at, id) > ($2, $3)
            ORDER BY deadline_at, id LIMIT {OVERDUE_PAGE}) AS o
        LEFT JOIN holds h ON h.order_id = o.id AND h.state = 'active'
        ORDER BY o.deadline_at, o.id");
    SETTLING = ranked(
        &format!("SELECT h.level_id, h.order_id, min(coalesce(h.counted_at, h.undone_at)) AS rank_by
         FROM holds h WHERE h.level_id IN (LIST($1)) AND {COUNTS}
           AND ((h.state = 'committed' AND h.counted_at IS NOT NULL) OR h.undone_at IS NOT NULL)
         GROUP BY h.level_id, h.order_id"),
        "rank_by, order_id",
    );
    JUDGED = ranked(
        &format!("SELECT h.level_id, o.id AS order_id, o.paid_at AS rank_by
         FROM holds h JOIN orders o ON o.id = h.order_id
         WHERE h.level_id IN (LIST($1)) AND {COUNTS} AND h.state = 'active'
           AND h.confirmation IN ('waiting', 'unknown') AND o.state IN ('confirming', 'attention')
         GROUP BY h.level_id, o.id, o.paid_at"),
        "rank_by, order_id",
    );
    UNBOUGHT = ranked(
        &format!("SELECT h.level_id, o.id AS order_id, o.paid_at AS rank_by
         FROM holds h JOIN orders o ON o.id = h.order_id
         LEFT JOIN purchase_orders p ON p.id = h.purchase_id
         WHERE h.level_id IN (LIST($1)) AND {COUNTS} AND h.state = 'active'
           AND h.confirmation = 'confirmed' AND (p.id IS NULL OR p.state = 'pending')
         GROUP BY h.level_id, o.id, o.paid_at"),
        "rank_by, order_id",
    );
    WAITING = "SELECT p.id FROM purchase_orders p
         WHERE p.state = 'pending' AND (p.supplier IN (LIST($1)) OR EXISTS (SELECT 1 FROM holds h
            WHERE h.order_id = p.order_id AND h.purchase_id = p.id AND h.sku IN (LIST($2))))
         ORDER BY p.created_at, p.id LIMIT $3";
    /// Of warehouses: through all that is open.
    COUNTED = ranked(
        &format!("SELECT h.level_id, o.id AS order_id, o.created_at AS rank_by
         FROM holds h JOIN orders o ON o.id = h.order_id
         WHERE h.level_id IN (LIST($1)) AND {OPEN}
         GROUP BY h.level_id, o.id, o.created_at"),
        "rank_by DESC, order_id DESC",
    );
}

/// The first `$2` orders of each level.
fn ranked(orders: &str, order_by: &str) -> String {
    format!(
        "SELECT DISTINCT order_id FROM (SELECT order_id,
            row_number() OVER (PARTITION BY level_id ORDER BY {order_by}) AS place
         FROM ({orders}) AS found) AS ranked WHERE place <= $2"
    )
}

/// Fills the world's maps of names; answers the orders that the group owns by them.
pub(super) async fn names(
    tx: &mut Tx,
    needs: &Needs,
    world: &mut World,
) -> Result<BTreeSet<OrderId>> {
    let mut owned = needs.orders.clone();
    if needs.external.is_empty()
        && needs.placement_keys.is_empty()
        && needs.payment_ids.is_empty()
        && needs.refunds.is_empty()
        && needs.purchases.is_empty()
    {
        return Ok(owned);
    }
    let args = vec![
        needs.external.iter().cloned().collect::<Vec<_>>().into(),
        list(&needs.placement_keys),
        list(&needs.payment_ids),
        list(&needs.refunds),
        list(&needs.purchases),
        list(&needs.supplier_orders),
    ];
    let rows: Vec<(String, String, String, String)> = tx.all(&NAMES, args).await?;
    for (what, a, b, id) in rows {
        if what == "supplier order" {
            world.supplier_orders.insert((a.into(), b), id.into());
            continue;
        }
        let id = OrderId::from(id);
        match what.as_str() {
            "payment" => {
                world.payments.insert((a, b), id);
                continue; // only told: the payment of an order that is not asked for is not ours
            }
            "external" => world.external.insert((a, b), id.clone()),
            "placement" => world.placement_keys.insert(a, id.clone()),
            "refund" => world.refunds.insert(a.into(), id.clone()),
            _ => world.purchases.insert(a.into(), id.clone()),
        };
        owned.insert(id);
    }
    Ok(owned)
}

/// Other people's orders that the group may have to end, settle or judge.
pub(super) async fn strangers(
    tx: &mut Tx,
    needs: &Needs,
    now: Timestamp,
) -> Result<BTreeSet<OrderId>> {
    let mut found = BTreeSet::new();
    let most = |n: usize| Arg::Int(i64::try_from(n).ok());
    for (sql, levels) in [
        (&*SETTLING, &needs.settling),
        (&*JUDGED, &needs.judged),
        (&*COUNTED, &needs.counted),
        (&*UNBOUGHT, &needs.unbought),
    ] {
        if !levels.is_empty() {
            let rows: Vec<(String,)> = tx.all(sql, vec![list(levels), most(MOST)]).await?;
            found.extend(rows.into_iter().map(|(id,)| OrderId::from(id)));
        }
    }
    found.extend(overdue(tx, &needs.overdue, now).await?);
    Ok(found)
}

row! {
    "orders" OverdueRow {
        id: OrderId,
        deadline_at: Timestamp,
        level_id: Option<LevelId>,
    }
}

/// The oldest overdue orders of each level.
async fn overdue(
    tx: &mut Tx,
    levels: &BTreeSet<LevelId>,
    now: Timestamp,
) -> Result<BTreeSet<OrderId>> {
    let mut found: BTreeMap<LevelId, BTreeSet<OrderId>> =
        levels.iter().map(|level| (level.clone(), BTreeSet::new())).collect();
    let mut after = (Timestamp(i64::MIN), OrderId::from(""));
    for _ in 0..OVERDUE_PAGES {
        if found.values().all(|orders| orders.len() >= MOST_OVERDUE) {
            break;
        }
        let args = args![now, after.0, after.1.as_str()];
        let page: Vec<OverdueRow> = tx.all(&OVERDUE, args).await?;
        let full = page.iter().map(|row| &row.id).collect::<BTreeSet<_>>().len() >= OVERDUE_PAGE;
        if let Some(last) = page.last() {
            after = (last.deadline_at, last.id.clone());
        }
        for row in page {
            let orders = row.level_id.and_then(|level| found.get_mut(&level));
            if let Some(orders) = orders.filter(|orders| orders.len() < MOST_OVERDUE) {
                orders.insert(row.id);
            }
        }
        if !full {
            break;
        }
    }
    Ok(found.into_values().flatten().collect())
}

/// The purchases that may be waiting for the buying of these SKUs or suppliers to go on. (One that
/// is made meanwhile looks for itself.)
pub(super) async fn waiting(
    tx: &mut Tx,
    needs: &Needs,
    world: &World,
) -> Result<BTreeSet<PurchaseId>> {
    if needs.resumed_skus.is_empty() && needs.resumed_suppliers.is_empty() {
        return Ok(BTreeSet::new());
    }
    let skus = needs.resumed_skus.iter().filter_map(|asked| world.sku(asked));
    let args = vec![
        list(&needs.resumed_suppliers),
        list(skus.map(|sku| &sku.key)),
        Arg::Int(i64::try_from(MOST).ok()),
    ];
    let rows: Vec<(String,)> = tx.all(&WAITING, args).await?;
    Ok(rows.into_iter().map(|(id,)| id.into()).collect())
}

/// A source of a SKU, and the alias that the SKU was asked for by.
struct Named {
    alias: Option<SkuKey>,
    source: SourceRow,
}

impl<'r, R> FromCells<'r, R> for Named
where
    R: sqlx::Row,
    SourceRow: FromCells<'r, R>,
    usize: sqlx::ColumnIndex<R>,
    Option<i64>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    fn from_cells(cells: &mut Cells<'r, R>) -> std::result::Result<Named, sqlx::Error> {
        Ok(Named { alias: cells.next()?, source: SourceRow::from_cells(cells)? })
    }
}

/// Reads the SKUs asked for with their sources and levels, without locks.
pub(super) async fn shelves(
    tx: &mut Tx,
    asked: &BTreeSet<SkuKey>,
    world: &mut World,
) -> Result<()> {
    let mut rows: Vec<Joined<SkuRow, Joined<SourceRow, LevelRow>>> =
        tx.all(&SHELVES, vec![list(asked)]).await?;
    rows.sort_by_key(|Joined(_, Joined(source, _))| source.position);
    for Joined(sku, Joined(source, level)) in rows {
        world.levels.insert(level.id.clone(), Arc::new(level.into()));
        let sku = world.skus.entry(sku.key.clone()).or_insert_with(|| Arc::new(sku.into()));
        Arc::make_mut(sku).sources.push(source.into());
    }
    Ok(())
}

/// Reads the SKUs asked for (aliases followed) with their sources; answers their levels.
pub(super) async fn skus(
    tx: &mut Tx,
    asked: &BTreeSet<SkuKey>,
    world: &mut World,
) -> Result<BTreeSet<LevelId>> {
    if asked.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rows: Vec<Joined<SkuRow, Named>> = tx.all(&SKUS, vec![list(asked)]).await?;
    let mut levels = BTreeSet::new();
    for Joined(sku, Named { alias, source }) in rows {
        if let Some(alias) = alias {
            world.aliases.insert(alias, sku.key.clone());
        }
        levels.insert(source.level_id.clone());
        let sku = world.skus.entry(sku.key.clone()).or_insert_with(|| Arc::new(sku.into()));
        // Once for each name that it was asked for by.
        if sku.sources.iter().all(|known| known.source != source.source) {
            Arc::make_mut(sku).sources.push(source.into());
        }
    }
    Ok(levels)
}
