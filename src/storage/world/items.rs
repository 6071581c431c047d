//! What judging an item, counting a shelf or ending overdue orders sees, read under the levels'
//! locks; and the sums of a level's holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::find::{COUNTS, MOST, MOST_OVERDUE, OPEN};
use crate::clock::Timestamp;
use crate::domain::command::Needs;
use crate::domain::names::{LevelId, OrderId, PurchaseId, SourceId};
use crate::domain::order::{Confirmation, HoldState, Order, State};
use crate::domain::purchase::PurchaseState;
use crate::domain::sku::Kind;
use crate::domain::stock::{Entry, Shift};
use crate::domain::world::{ItemUnits, ItemView, World};
use crate::storage::db::Tx;
use crate::storage::error::Result;
use crate::storage::sql::{list, texts};
use crate::storage::table::row;

row! {
    /// A hold on a judged level, with its order's and its purchase's state.
    "holds" UnitRow {
        level_id: LevelId,
        order_id: OrderId,
        order_state: State,
        order_paid_at: Option<Timestamp>,
        quantity: i64,
        state: HoldState,
        confirmation: Option<Confirmation>,
        purchase_id: Option<PurchaseId>,
        purchase_state: Option<PurchaseState>,
        cancel_requested_at: Option<Timestamp>,
        supplier_order_id: Option<String>,
        counted_at: Option<Timestamp>,
        undone_at: Option<Timestamp>,
        lost: i64,
        surplus: i64,
    }
}

/// The columns of [`UnitRow`], and those that it is ordered by.
const UNIT: &str = "h.level_id, h.order_id, o.state AS order_state, o.paid_at AS order_paid_at,
    h.quantity, h.state, h.confirmation, h.purchase_id, p.state AS purchase_state,
    p.cancel_requested_at, p.supplier_order_id, h.counted_at, h.undone_at, h.lost, h.surplus,
    h.line, h.part";

texts! {
    /// What counts on the levels; and, where the supplier counts at order, what is settled there of
    /// purchases that are placed and not paid: they may still be closed, or cancelled.
    UNITS = format!(
        "SELECT level_id, order_id, order_state, order_paid_at, quantity, state, confirmation,
            purchase_id, purchase_state, cancel_requested_at, supplier_order_id, counted_at,
            undone_at, lost, surplus
         FROM (SELECT {UNIT}
            FROM holds h JOIN orders o ON o.id = h.order_id
            LEFT JOIN purchase_orders p ON p.id = h.purchase_id
            WHERE h.level_id IN (LIST($1)) AND {COUNTS}
         UNION ALL SELECT {UNIT}
            FROM purchase_orders p JOIN orders o ON o.id = p.order_id
            JOIN holds h ON h.order_id = p.order_id AND h.purchase_id = p.id
            WHERE p.state = 'placed' AND p.supplier IN (LIST($2)) AND h.level_id IN (LIST($1))
              AND h.state = 'settled' AND NOT ({COUNTS})) AS units
         ORDER BY level_id, order_id, line, part"
    );
    SUMS = format!("SELECT h.level_id,
            CAST(sum(CASE h.state WHEN 'active' THEN h.quantity ELSE 0 END) AS BIGINT),
            CAST(sum(CASE h.state WHEN 'committed' THEN h.quantity ELSE 0 END) AS BIGINT)
         FROM holds h WHERE h.level_id IN (LIST($1)) AND {OPEN} GROUP BY h.level_id");
}

impl UnitRow {
    fn is_undecided(&self) -> bool {
        matches!(self.order_state, State::Confirming | State::Attention)
            && self.state == HoldState::Active
            && is_open_question(self.confirmation)
    }
}

fn is_open_question(confirmation: Option<Confirmation>) -> bool {
    matches!(confirmation, Some(Confirmation::Waiting | Confirmation::Unknown))
}

impl From<UnitRow> for ItemUnits {
    fn from(r: UnitRow) -> ItemUnits {
        let unpaid = r.purchase_state == Some(PurchaseState::Placed);
        ItemUnits {
            order: r.order_id,
            quantity: r.quantity,
            state: r.state,
            confirmation: r.confirmation,
            purchase: r.purchase_id,
            purchase_state: r.purchase_state,
            cancel_requested: r.cancel_requested_at.is_some(),
            counted_at: r.counted_at,
            undone_at: r.undone_at,
            lost: r.lost,
            surplus: r.surplus,
            unpaid_supplier_order: r.supplier_order_id.filter(|_| unpaid),
        }
    }
}

/// Fills `world.items` for the judged levels. The undecided orders are a prefix of all that there
/// are: behind one that another transaction has at the moment none is told, so that a younger order
/// is never judged as if the older one were not there.
pub(super) async fn views(
    tx: &mut Tx,
    judged: &BTreeSet<LevelId>,
    world: &mut World,
) -> Result<()> {
    if judged.is_empty() {
        return Ok(());
    }
    let suppliers: BTreeSet<SourceId> = judged.iter().map(LevelId::source).collect();
    let rows: Vec<UnitRow> = tx.all(&UNITS, vec![list(judged), list(&suppliers)]).await?;
    let mut undecided: BTreeMap<LevelId, BTreeSet<(Option<Timestamp>, OrderId)>> = BTreeMap::new();
    world.items = judged.iter().map(|level| (level.clone(), ItemView::default())).collect();
    for row in rows {
        if row.is_undecided() {
            undecided
                .entry(row.level_id.clone())
                .or_default()
                .insert((row.order_paid_at, row.order_id.clone()));
        }
        if let Some(view) = world.items.get_mut(&row.level_id) {
            view.units.push(row.into());
        }
    }
    for (level, orders) in undecided {
        if let Some(view) = world.items.get_mut(&level) {
            let all = orders.len();
            view.undecided = orders
                .into_iter()
                .map(|(_, id)| id)
                .take_while(|id| world.orders.contains_key(id))
                .take(MOST)
                .collect();
            view.more = view.undecided.len() < all;
        }
    }
    Ok(())
}

/// Fills `world.counted`, `world.unbought` and `world.overdue` from the orders that could be locked.
pub(super) fn lists(needs: &Needs, now: Timestamp, world: &mut World) {
    for level in &needs.counted {
        let mut open = holders(world, level, |_| true);
        open.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        let ids = open.iter().take(MOST).map(|o| o.id.clone()).collect();
        world.counted.insert(level.clone(), ids);
    }
    for level in &needs.unbought {
        let confirmed = |o: &Order| {
            let mut here = o.holds.iter().filter(|h| &h.level == level && h.is_active());
            here.any(|h| h.confirmation == Some(Confirmation::Confirmed))
        };
        let ids = holders(world, level, confirmed).iter().map(|o| o.id.clone()).collect();
        world.unbought.insert(level.clone(), ids);
    }
    for level in &needs.overdue {
        let mut overdue = holders(world, level, |o| {
            o.state == State::PendingPayment && o.deadline_at.is_some_and(|d| d <= now)
        });
        overdue.sort_by(|a, b| (a.deadline_at, &a.id).cmp(&(b.deadline_at, &b.id)));
        let ids = overdue.iter().take(MOST_OVERDUE).map(|o| o.id.clone()).collect();
        world.overdue.insert(level.clone(), ids);
    }
}

/// Loaded orders with an open hold on the level.
fn holders<'w>(world: &'w World, level: &LevelId, also: impl Fn(&Order) -> bool) -> Vec<&'w Order> {
    let holds = |o: &Order| o.holds.iter().any(|h| h.is_open() && &h.level == level);
    world.orders.values().map(Arc::as_ref).filter(|o| holds(o) && also(o)).collect()
}

/// Corrects counters that differ from the sums of the level's holds, each with its ledger entry.
/// The rows win: where they promise more than a warehouse's count, the count follows.
pub(super) async fn recount(
    tx: &mut Tx,
    levels: &BTreeSet<LevelId>,
    now: Timestamp,
    world: &mut World,
) -> Result<()> {
    if levels.is_empty() {
        return Ok(());
    }
    let rows: Vec<(String, i64, i64)> = tx.all(&SUMS, vec![list(levels)]).await?;
    let sums: BTreeMap<LevelId, (i64, i64)> =
        rows.into_iter().map(|(id, held, committed)| (id.into(), (held, committed))).collect();
    for id in levels {
        let Some(level) = world.levels.get_mut(id).map(Arc::make_mut) else {
            continue;
        };
        let (held, committed) = sums.get(id).copied().unwrap_or_default();
        let quantity = match level.kind {
            Kind::Warehouse => level.quantity.max(held.saturating_add(committed)),
            Kind::Supplier => level.quantity,
        };
        let by = Shift {
            quantity: quantity.saturating_sub(level.quantity),
            held: held.saturating_sub(level.held),
            committed: committed.saturating_sub(level.committed),
        };
        if by == Shift::default() {
            continue;
        }
        let mut note =
            format!("held {} → {held}, committed {} → {committed}", level.held, level.committed);
        if by.quantity != 0 {
            note.push_str(&format!(", quantity {} → {quantity}", level.quantity));
        }
        (level.quantity, level.held, level.committed) = (quantity, held, committed);
        level.version = level.version.saturating_add(1);
        world.ledger.push(Entry {
            at: now,
            level: id.clone(),
            sku: None,
            order: None,
            hold: None,
            event: "recount",
            by,
            note,
        });
    }
    Ok(())
}
