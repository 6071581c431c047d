//! Names to ids, and whose orders a group might touch: unlocked reads, whose answers are only used
//! to know what to lock. What they say is judged again under the locks.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Timestamp;
use crate::domain::command::Needs;
use crate::domain::names::{LevelId, OrderId, SkuKey};
use crate::domain::sku::Sku;
use crate::domain::world::World;
use crate::storage::db::Tx;
use crate::storage::error::Result;
use crate::storage::rows::stock::{SkuRow, SourceRow};
use crate::storage::sql::{Arg, Sql, args, list, texts};
use crate::storage::table::Table;

/// What counts on a level: the predicate of the index `holds_level`.
pub(super) const COUNTS: &str = "(h.state IN ('active', 'committed') OR h.undone_at IS NOT NULL
    OR h.lost_at IS NOT NULL OR h.surplus > 0)";

/// So many of a level's orders are loaded to be judged, settled or counted.
pub(super) const MOST: usize = 500;
/// So many overdue orders of a level are loaded to be ended.
pub(super) const MOST_OVERDUE: usize = 50;

texts! {
    EXTERNAL = "SELECT o.channel, o.external_id, o.id FROM PAIRS($1) AS p
        JOIN orders o ON o.channel = p.a AND o.external_id = p.b";
    PLACEMENT_KEYS = "SELECT idempotency_key, id FROM orders WHERE idempotency_key IN (LIST($1))";
    PAYMENTS = "SELECT channel, payment_id, order_id FROM payments WHERE payment_id IN (LIST($1))";
    REFUNDS = "SELECT id, order_id FROM refunds WHERE id IN (LIST($1))";
    PURCHASES = "SELECT id, order_id FROM purchase_orders WHERE id IN (LIST($1))";
    ALIASES = "SELECT alias, sku FROM sku_aliases WHERE alias IN (LIST($1))";
    SKUS = format!("SELECT {} FROM skus WHERE key IN (LIST($1))", SkuRow::LIST);
    SOURCES = format!(
        "SELECT {} FROM sku_sources WHERE sku IN (LIST($1)) ORDER BY sku, position",
        SourceRow::LIST
    );

    OVERDUE = ranked(
        "SELECT h.level_id, o.id AS order_id, o.deadline_at AS rank_by
         FROM orders o JOIN holds h ON h.order_id = o.id
         WHERE o.deadline_at <= $3 AND o.state = 'pending_payment' AND h.state = 'active'
           AND h.level_id IN (LIST($1))
         GROUP BY h.level_id, o.id, o.deadline_at",
        "rank_by, order_id",
    );
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
    COUNTED = ranked(
        &format!("SELECT h.level_id, o.id AS order_id, o.created_at AS rank_by
         FROM holds h JOIN orders o ON o.id = h.order_id
         WHERE h.level_id IN (LIST($1)) AND {COUNTS} AND h.state IN ('active', 'committed')
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
    if !needs.external.is_empty() {
        let pairs = needs.external.iter().cloned().collect::<Vec<_>>();
        let rows: Vec<(String, String, String)> = tx.all(&EXTERNAL, args![pairs]).await?;
        for (channel, external_id, id) in rows {
            world.external.insert((channel, external_id), id.into());
        }
    }
    if !needs.payment_ids.is_empty() {
        let ids = vec![list(&needs.payment_ids)];
        let rows: Vec<(String, String, String)> = tx.all(&PAYMENTS, ids).await?;
        for (channel, payment_id, id) in rows {
            world.payments.insert((channel, payment_id), id.into());
        }
    }
    let keys = pairs(tx, &PLACEMENT_KEYS, &needs.placement_keys).await?;
    world.placement_keys = keys.into_iter().map(|(k, id)| (k, id.into())).collect();
    let refunds = pairs(tx, &REFUNDS, &needs.refunds).await?;
    world.refunds = refunds.into_iter().map(|(r, id)| (r.into(), id.into())).collect();
    let purchases = pairs(tx, &PURCHASES, &needs.purchases).await?;
    world.purchases = purchases.into_iter().map(|(p, id)| (p.into(), id.into())).collect();
    owned.extend(world.external.values().cloned());
    owned.extend(world.placement_keys.values().cloned());
    owned.extend(world.refunds.values().cloned());
    owned.extend(world.purchases.values().cloned());
    Ok(owned)
}

async fn pairs<T: AsRef<str>>(
    tx: &mut Tx,
    sql: &'static Sql,
    names: &BTreeSet<T>,
) -> Result<Vec<(String, String)>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    tx.all(sql, vec![list(names)]).await
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
    if !needs.overdue.is_empty() {
        let args = vec![list(&needs.overdue), most(MOST_OVERDUE), now.into()];
        let rows: Vec<(String,)> = tx.all(&OVERDUE, args).await?;
        found.extend(rows.into_iter().map(|(id,)| OrderId::from(id)));
    }
    Ok(found)
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
    world.aliases = pairs(tx, &ALIASES, asked)
        .await?
        .into_iter()
        .map(|(alias, sku)| (alias.into(), sku.into()))
        .collect();
    let keys: BTreeSet<&SkuKey> = asked.iter().chain(world.aliases.values()).collect();
    let rows: Vec<SkuRow> = tx.all(&SKUS, vec![list(&keys)]).await?;
    let sources: Vec<SourceRow> = tx.all(&SOURCES, vec![list(&keys)]).await?;
    let mut skus: BTreeMap<SkuKey, Sku> =
        rows.into_iter().map(|r| (r.key.clone(), r.into())).collect();
    let mut levels = BTreeSet::new();
    for row in sources {
        if let Some(sku) = skus.get_mut(&row.sku) {
            levels.insert(row.level_id.clone());
            sku.sources.push(row.into());
        }
    }
    world.skus = skus;
    Ok(levels)
}
