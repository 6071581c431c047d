//! What the tables themselves refuse, whoever writes.

use stockhold::domain::command::Needs;
use stockhold::storage::Error;

use super::fixture::{full, sku, unpaid, upstream, warehouse};
use super::{TestDb, at, on_both};

on_both!(bad_rows_are_refused, good_rows_are_not);

async fn filled(test: &TestDb) {
    test.change(&Needs::default(), at(1000), |world| {
        world.put_sku(sku());
        world.create_level(warehouse());
        world.create_level(upstream());
        world.create_order(full("o1"));
        world.create_order(unpaid("o2", 2, at(1900)));
    })
    .await
    .unwrap();
}

async fn bad_rows_are_refused(test: TestDb) {
    filled(&test).await;
    for bad in [
        "UPDATE orders SET state = 'lost'",
        "UPDATE orders SET deadline_at = NULL WHERE state = 'pending_payment'",
        "UPDATE orders SET deadline_at = NULL WHERE state = 'attention'",
        "UPDATE orders SET total = -1",
        "UPDATE orders SET short_policy = 'none'",
        "UPDATE orders SET idempotency_hash = 'x' WHERE idempotency_key IS NULL",
        "UPDATE orders SET cancel_requested_at = 5 WHERE cancel_requested_reason IS NULL",
        "UPDATE orders SET channel = NULL",
        "UPDATE order_lines SET quantity = 0, cancelled = 0, shipped = 0, returned = 0",
        "UPDATE order_lines SET cancelled = quantity + 1",
        "UPDATE order_lines SET cancelled = quantity, shipped = 1",
        "UPDATE order_lines SET returned = shipped + 1",
        "UPDATE order_lines SET unit_price = -1",
        "UPDATE holds SET quantity = 0",
        "UPDATE holds SET state = 'held'",
        "UPDATE holds SET confirmation = 'waiting' WHERE kind = 'warehouse'",
        "UPDATE holds SET confirmation = 'perhaps' WHERE kind = 'supplier'",
        "UPDATE holds SET surplus = -1",
        "UPDATE holds SET kind = 'shop'",
        "UPDATE payments SET amount = 0",
        "UPDATE refunds SET amount = 0",
        "UPDATE refunds SET state = 'failed'",
        "UPDATE refunds SET deadline_at = NULL",
        "UPDATE purchase_orders SET state = 'sent'",
        "UPDATE purchase_orders SET deadline_at = NULL",
        "UPDATE purchase_orders SET generation = 0",
        "UPDATE levels SET held = 10 WHERE kind = 'warehouse'",
        "UPDATE levels SET committed = 9 WHERE kind = 'warehouse'",
        "UPDATE levels SET quantity = 2 WHERE kind = 'warehouse'",
        "UPDATE levels SET quantity = -1",
        "UPDATE levels SET held = -1",
        "UPDATE levels SET committed = -1",
        "UPDATE levels SET quantity = 1000000000001",
        "UPDATE levels SET listing = 'gone'",
        "UPDATE levels SET closed_since = NULL WHERE closed_from IS NOT NULL",
        "UPDATE levels SET offer_id = NULL WHERE kind = 'supplier'",
        "UPDATE sku_sources SET pack_size = 0",
        "UPDATE sku_sources SET offer_id = 'x' WHERE kind = 'warehouse'",
        "UPDATE skus SET class = 'cold'",
        "UPDATE skus SET buying_paused_at = 1",
        "INSERT INTO jobs (key, kind, payload, state, run_at, attempts, wakes, lease_token, created_at)
         VALUES ('k', 'sweep', '{}', 'running', 1, 0, 0, 0, 1)",
        "INSERT INTO jobs (key, kind, payload, state, run_at, attempts, wakes, lease_token, created_at)
         VALUES ('k', 'sweep', '{}', 'asleep', 1, 0, 0, 0, 1)",
    ] {
        let refused = test.run(bad).await;
        assert!(matches!(refused, Err(Error::Poison(_))), "{bad}: {refused:?}");
    }
}

/// The other side of each border.
async fn good_rows_are_not(test: TestDb) {
    filled(&test).await;
    for good in [
        "UPDATE orders SET state = 'expired', deadline_at = NULL WHERE state = 'pending_payment'",
        "UPDATE orders SET total = 0",
        "UPDATE levels SET held = 9 WHERE kind = 'warehouse'",
        "UPDATE levels SET held = 1000000000000 WHERE kind = 'supplier'",
        "UPDATE levels SET quantity = 0, held = 0, committed = 0",
        "UPDATE refunds SET state = 'succeeded', deadline_at = NULL",
        "UPDATE purchase_orders SET state = 'received', deadline_at = NULL",
        "UPDATE order_lines SET cancelled = quantity - shipped WHERE no = 1",
        "UPDATE holds SET confirmation = NULL",
    ] {
        let done = test.run(good).await;
        assert!(matches!(done, Ok(n) if n > 0), "{good}: {done:?}");
    }
}
