//! Orders with everything that belongs to them, read in six statements however many.

use std::collections::BTreeMap;

use crate::domain::names::OrderId;
use crate::domain::order::Order;
use crate::storage::db::Tx;
use crate::storage::error::Result;
use crate::storage::rows::order::{
    EventRow, HoldRow, LineRow, OrderRow, PaymentRow, PurchaseRow, RefundRow,
};
use crate::storage::sql::{FromBoth, Sql, list, texts};
use crate::storage::table::Table;

texts! {
    ORDERS = format!("SELECT {} FROM orders WHERE id IN (LIST($1)) ORDER BY id", OrderRow::LIST);
    LINES = of_orders::<LineRow>("order_id, no");
    HOLDS = of_orders::<HoldRow>("order_id, line, part");
    PAYMENTS = of_orders::<PaymentRow>("order_id, no");
    REFUNDS = of_orders::<RefundRow>("order_id, no");
    PURCHASES = of_orders::<PurchaseRow>("order_id, no");
    EVENTS = of_orders::<EventRow>("order_id, n");
}

fn of_orders<T: Table>(order: &str) -> String {
    format!("SELECT {} FROM {} WHERE order_id IN (LIST($1)) ORDER BY {order}", T::LIST, T::NAME)
}

/// The orders with these ids, in the ids' own order; those that are not there are left out.
///
/// # Errors
/// The database's; `Poison` when a row cannot be read.
pub async fn orders_by_id(tx: &mut Tx, ids: &[OrderId]) -> Result<Vec<Order>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<OrderRow> = tx.all(&ORDERS, vec![list(ids)]).await?;
    let mut orders: BTreeMap<OrderId, Order> =
        rows.into_iter().map(|r| (r.id.clone(), r.into())).collect();
    add_holds(tx, &mut orders).await?;
    add_rest(tx, &mut orders).await?;
    Ok(ids.iter().filter_map(|id| orders.remove(id)).collect())
}

/// Reads the orders' holds into them.
pub(super) async fn add_holds(tx: &mut Tx, orders: &mut BTreeMap<OrderId, Order>) -> Result<()> {
    add(tx, orders, &HOLDS, |order, row: HoldRow| {
        order.holds.push(row.into());
    })
    .await
}

/// Reads everything else that belongs to the orders into them.
pub(super) async fn add_rest(tx: &mut Tx, orders: &mut BTreeMap<OrderId, Order>) -> Result<()> {
    add(tx, orders, &LINES, |order, row: LineRow| {
        order.lines.push(row.into());
    })
    .await?;
    add(tx, orders, &PAYMENTS, |order, row: PaymentRow| {
        order.payments.push(row.into());
    })
    .await?;
    add(tx, orders, &REFUNDS, |order, row: RefundRow| {
        order.refunds.push(row.into());
    })
    .await?;
    add(tx, orders, &PURCHASES, |order, row: PurchaseRow| {
        order.purchases.push(row.into());
    })
    .await?;
    add(tx, orders, &EVENTS, |order, row: EventRow| {
        order.events.push(row.into());
    })
    .await
}

/// A row that belongs to an order.
trait OfOrder: FromBoth {
    fn order_id(&self) -> &OrderId;
}
macro_rules! of_order {
    ($($row:ty),+) => {$(
        impl OfOrder for $row {
            fn order_id(&self) -> &OrderId {
                &self.order_id
            }
        }
    )+};
}
of_order!(LineRow, HoldRow, PaymentRow, RefundRow, PurchaseRow, EventRow);

async fn add<T: OfOrder>(
    tx: &mut Tx,
    orders: &mut BTreeMap<OrderId, Order>,
    sql: &'static Sql,
    put: impl Fn(&mut Order, T),
) -> Result<()> {
    if orders.is_empty() {
        return Ok(());
    }
    let rows: Vec<T> = tx.all(sql, vec![list(orders.keys())]).await?;
    for row in rows {
        if let Some(order) = orders.get_mut(row.order_id()) {
            put(order, row);
        }
    }
    Ok(())
}
