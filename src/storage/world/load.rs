//! Loading a group's world. In this order: names by unlocked reads; orders by id (other people's
//! only where nobody has them); levels by id; then everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Before, Loaded, find, items, orders};
use crate::clock::Timestamp;
use crate::domain::command::Needs;
use crate::domain::names::{LevelId, OrderId, SkuKey};
use crate::domain::order::Order;
use crate::domain::stock::Level;
use crate::domain::world::World;
use crate::storage::db::Tx;
use crate::storage::error::Result;
use crate::storage::rows::order::OrderRow;
use crate::storage::rows::stock::{LevelRow, SupplierRow};
use crate::storage::sql::{Sql, args, list, texts};
use crate::storage::table::{Plus, Table};

texts! {
    LOCK_ORDERS = format!(
        "WITH locked AS MATERIALIZED (
            SELECT {0} FROM orders WHERE id IN (LIST($1)) ORDER BY id FOR UPDATE)
         SELECT {0} FROM locked",
        OrderRow::LIST
    );
    LOCK_STRANGERS = format!(
        "WITH locked AS MATERIALIZED (
            SELECT {0} FROM orders WHERE id IN (LIST($1)) ORDER BY id FOR UPDATE SKIP LOCKED)
         SELECT {0} FROM locked",
        OrderRow::LIST
    );
    LOCK_LEVELS = format!(
        "WITH locked AS MATERIALIZED (
            SELECT {0} FROM levels WHERE id IN (LIST($1)) ORDER BY id FOR UPDATE)
         SELECT {0} FROM locked",
        LevelRow::LIST
    );
    CATALOGUE = "SELECT version FROM catalogue";
    LEVELS = format!("SELECT {} FROM levels WHERE id IN (LIST($1))", LevelRow::LIST);
    /// A supplier each; then a row without a name, that says by its time whether any order is overdue
    /// (looked for in order, or all orders are scanned), and what the server's clock shows.
    SUPPLIERS = format!(
        "SELECT {}, CAST(NULL AS BIGINT) AS clock FROM suppliers
         UNION ALL SELECT '', (SELECT deadline_at FROM orders
                WHERE deadline_at <= $1 AND state = 'pending_payment'
                ORDER BY deadline_at, id LIMIT 1), NULL, NULL, NULL, CLOCK()",
        SupplierRow::LIST
    );
}

/// Loads what the group needs, under lock. `now` is `tx.now()` before the locks; decide by what it is
/// after them.
///
/// # Errors
/// The database's; `Poison` when a row cannot be read.
pub async fn load(tx: &mut Tx, needs: &Needs, now: Timestamp) -> Result<Loaded> {
    let mut world = World::default();
    let owned = find::names(tx, needs, &mut world).await?;
    let strangers = find::strangers(tx, needs, now).await?;
    let strangers: BTreeSet<OrderId> = strangers.difference(&owned).cloned().collect();

    let mut orders = lock_orders(tx, &LOCK_ORDERS, &owned).await?;
    orders.append(&mut lock_orders(tx, &LOCK_STRANGERS, &strangers).await?);
    orders::add_holds(tx, &mut orders).await?;

    let mut skus = needs.skus.clone();
    if needs.skus_of_orders {
        let holds = orders.values().flat_map(|o| &o.holds);
        skus.extend(holds.map(|h| h.sku.clone()));
    }
    let mut levels = find::skus(tx, &skus, &mut world).await?;
    let holds = orders.values().flat_map(|o| &o.holds);
    levels.extend(holds.map(|h| h.level.clone()));
    for asked in [
        &needs.levels,
        &needs.settling,
        &needs.judged,
        &needs.counted,
        &needs.overdue,
        &needs.unbought,
        &needs.recount,
    ] {
        levels.extend(asked.iter().cloned());
    }
    world.levels = read_levels(tx, &LOCK_LEVELS, &levels).await?;

    orders::add_rest(tx, &mut orders).await?;
    world.orders = orders.into_iter().map(|(id, order)| (id, Arc::new(order))).collect();
    world.waiting = find::waiting(tx, needs, &world).await?;
    let server_time = suppliers(tx, needs.any_overdue.then_some(now), &mut world).await?;
    items::views(tx, &needs.judged, &mut world).await?;
    items::lists(needs, now, &mut world);

    let before = Before::of(&world);
    items::recount(tx, &needs.recount, now, &mut world).await?;
    Ok(Loaded { world, before, server_time })
}

/// What is sold and what is left of it, read without locks: the SKUs asked for with their levels, and the
/// stop switches; with how often the catalogue had been changed.
///
/// # Errors
/// The database's.
pub async fn catalogue(tx: &mut Tx, asked: &BTreeSet<SkuKey>) -> Result<(i64, World)> {
    let mut world = World::default();
    let version: Option<(i64,)> = tx.first(&CATALOGUE, Vec::new()).await?;
    find::shelves(tx, asked, &mut world).await?;
    let others = asked.iter().filter(|name| !world.skus.contains_key(*name)).cloned().collect();
    let levels = find::skus(tx, &others, &mut world).await?;
    world.levels.append(&mut read_levels(tx, &LEVELS, &levels).await?);
    suppliers(tx, None, &mut world).await?;
    Ok((version.map_or(0, |(version,)| version), world))
}

async fn lock_orders(
    tx: &mut Tx,
    sql: &'static Sql,
    ids: &BTreeSet<OrderId>,
) -> Result<BTreeMap<OrderId, Order>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<OrderRow> = tx.all(sql, vec![list(ids)]).await?;
    Ok(rows.into_iter().map(|row| (row.id.clone(), row.into())).collect())
}

async fn read_levels(
    tx: &mut Tx,
    sql: &'static Sql,
    ids: &BTreeSet<LevelId>,
) -> Result<BTreeMap<LevelId, Arc<Level>>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<LevelRow> = tx.all(sql, vec![list(ids)]).await?;
    Ok(rows.into_iter().map(|row| (row.id.clone(), Arc::new(row.into()))).collect())
}

/// Reads every supplier's stop switch and, where a time is given, whether any unpaid order is overdue
/// by then; answers the server's time.
async fn suppliers(
    tx: &mut Tx,
    overdue_at: Option<Timestamp>,
    world: &mut World,
) -> Result<Option<Timestamp>> {
    let rows: Vec<Plus<SupplierRow, Option<Timestamp>>> =
        tx.all(&SUPPLIERS, args![overdue_at]).await?;
    let mut server_time = None;
    for Plus(row, clock) in rows {
        if row.id.as_str().is_empty() {
            world.any_overdue = row.selling_paused_at.is_some();
            server_time = clock;
        } else {
            let (id, paused) = row.into();
            world.suppliers.insert(id, paused);
        }
    }
    Ok(server_time)
}
