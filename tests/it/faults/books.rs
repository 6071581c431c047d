//! What must hold whatever happened, read from the daemon's tables and the simulator's books.

use std::collections::BTreeMap;

use stockhold::suppliers::simulator::Handle;

use super::process::tail;
use super::world::World;
use crate::blackbox::daemon::Home;

/// Beside what `Home::check_books` reads: statements that name every offender, and what each would
/// be.
const NONE_OF: &[(&str, &str)] = &[
    (
        "an order is refunded twice for one cause",
        "SELECT order_id FROM refunds GROUP BY order_id, cause, payment_id HAVING count(*) > 1",
    ),
    (
        "a live order whose money came back",
        "SELECT o.id FROM orders o JOIN refunds r ON r.order_id = o.id
        WHERE o.state IN ('paid', 'confirming') AND o.short_policy = 'cancel_order'",
    ),
    (
        "a hold of ours is bought twice",
        "SELECT order_id FROM purchase_orders
        WHERE state IN ('placing', 'unknown', 'placed', 'paid', 'shipped', 'received')
        GROUP BY order_id, supplier HAVING count(*) > 1",
    ),
];

/// The statement for how many units of a supplier's offer our holds say that we have bought.
pub fn bought(offer: &str) -> String {
    format!(
        "SELECT coalesce(sum(h.surplus + CASE WHEN h.state = 'committed'
        OR (h.state = 'settled' AND p.state <> 'cancelled') THEN h.quantity ELSE 0 END), 0)
        FROM holds h LEFT JOIN purchase_orders p ON p.id = h.purchase_id
        WHERE h.level_id LIKE 's1688:{offer}:%'"
    )
}

/// What must hold in one snapshot of the tables.
pub async fn check_tables(home: &Home) {
    home.check_books().await;
    for (what, sql) in NONE_OF {
        let offenders: Vec<(String,)> = home.rows(sql).await;
        assert!(offenders.is_empty(), "{what}: {offenders:?}\n{}", tail(home));
    }
}

/// What must hold at the supplier: never more bought than it had, and of no reference two orders
/// that stand.
pub fn check_supplier(sim: &Handle) {
    for entry in sim.book() {
        assert!(entry.bought <= entry.had_for_us, "{entry:?}");
    }
    let mut standing: BTreeMap<String, u32> = BTreeMap::new();
    for order in sim.orders().into_iter().filter(|o| o.closed.is_none()) {
        *standing.entry(order.reference.expect("a reference")).or_default() += 1;
    }
    standing.retain(|_, orders| *orders > 1);
    assert!(standing.is_empty(), "{standing:?}");
}

/// Both, once nothing is under way.
pub async fn check(world: &World) {
    world.idle().await;
    check_tables(&world.home).await;
    check_supplier(&world.sim);
    let dead = world.number("SELECT count(*) FROM jobs WHERE state = 'dead'").await;
    assert_eq!(dead, 0, "{}", world.log());
}
