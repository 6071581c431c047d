//! What must hold whatever happened, read from the daemon's tables and the simulator's books.

use std::collections::BTreeMap;

use super::world::World;

/// Statements that name every offender, and what each would be.
const NONE_OF: &[(&str, &str)] = &[
    (
        "a level is not the sum of its ledger",
        "SELECT l.id FROM levels l LEFT JOIN (SELECT level_id, sum(by_quantity) q, sum(by_held) h,
            sum(by_committed) c FROM ledger GROUP BY level_id) s ON s.level_id = l.id
        WHERE (l.quantity, l.held, l.committed) <>
            (coalesce(s.q, 0), coalesce(s.h, 0), coalesce(s.c, 0))",
    ),
    (
        "a level's counters are not the sums of its holds",
        "SELECT l.id FROM levels l LEFT JOIN (SELECT level_id,
            sum(CASE WHEN state = 'active' THEN quantity ELSE 0 END) a,
            sum(CASE WHEN state = 'committed' THEN quantity ELSE 0 END) c
            FROM holds GROUP BY level_id) s ON s.level_id = l.id
        WHERE (l.held, l.committed) <> (coalesce(s.a, 0), coalesce(s.c, 0))",
    ),
    (
        "an ended order holds stock",
        "SELECT h.order_id FROM holds h JOIN orders o ON o.id = h.order_id
        WHERE h.state = 'active' AND o.state IN ('cancelled', 'expired', 'completed')",
    ),
    (
        "an order that ended unshipped kept money, or one gave back more than it had",
        "SELECT o.id FROM orders o
            LEFT JOIN (SELECT order_id, sum(amount) n FROM payments GROUP BY order_id) p
                ON p.order_id = o.id
            LEFT JOIN (SELECT order_id, sum(amount) n FROM refunds GROUP BY order_id) r
                ON r.order_id = o.id
        WHERE coalesce(r.n, 0) > coalesce(p.n, 0)
            OR (o.state IN ('cancelled', 'expired') AND coalesce(r.n, 0) <> coalesce(p.n, 0))",
    ),
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

/// What must hold in one snapshot of the tables.
pub async fn check_tables(world: &World) {
    for (what, sql) in NONE_OF {
        let offenders: Vec<String> =
            sqlx::query_scalar(*sql).fetch_all(&world.db).await.expect("a snapshot");
        assert!(offenders.is_empty(), "{what}: {offenders:?}\n{}", world.log());
    }
}

/// What must hold at the supplier: never more bought than it had, and of no reference two orders
/// that stand.
pub fn check_supplier(world: &World) {
    for entry in world.sim.book() {
        assert!(entry.bought <= entry.had_for_us, "{entry:?}");
    }
    let mut standing: BTreeMap<String, u32> = BTreeMap::new();
    for order in world.sim.orders().into_iter().filter(|o| o.closed.is_none()) {
        *standing.entry(order.reference.expect("a reference")).or_default() += 1;
    }
    standing.retain(|_, orders| *orders > 1);
    assert!(standing.is_empty(), "{standing:?}");
}

/// Both, once nothing is under way.
pub async fn check(world: &World) {
    world.idle().await;
    check_tables(world).await;
    check_supplier(world);
    let dead = world.number("SELECT count(*) FROM jobs WHERE state = 'dead'").await;
    assert_eq!(dead, 0, "{}", world.log());
}
