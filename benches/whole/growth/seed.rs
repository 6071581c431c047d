//! Orders by plain SQL, in masses: as if each had been placed by the daemon and its hold were active.

use stockhold::clock::{Clock, Span};

use crate::schemes::Failure;
use crate::store::Conn;

/// When the seeded orders fall due.
#[derive(Clone, Copy)]
pub enum Due {
    /// Within half an hour, an hour from now.
    Later,
    /// Within the minute before the last.
    Before,
}

/// `n` unpaid orders of one unit each over `BENCH-1` to `BENCH-{skus}`, which must be stocked and
/// hold nothing, with the jobs that end them.
pub async fn orders(conn: &mut Conn, n: u64, skus: u64, due: Due) -> Result<(), Failure> {
    let now = Clock::System.now();
    let (first, seconds) = match due {
        Due::Later => ((now + Span::hours(1)).as_micros(), 1_800),
        Due::Before => ((now - Span::minutes(2)).as_micros(), 60),
    };
    let at = (now - Span::minutes(45)).as_micros();
    let id = match conn {
        Conn::Sqlite(_) => "printf('%032x', i)",
        Conn::Postgres(_) => "lpad(to_hex(i), 32, '0')",
    };
    let i =
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})");
    let sku = format!("'BENCH-' || (i % {skus} + 1)");
    let until = format!("CAST({first} AS BIGINT) + (i % {seconds}) * 1000000");
    let texts = [
        format!(
            "{i} INSERT INTO orders (id, channel, external_id, content_hash, state, currency, total, \
             shipping, discount, short_policy, created_at, expires_at, grace_used, deadline_at, \
             shipments, event_seq) SELECT {id}, 'seed', 'seed-' || i, '{hash}', 'pending_payment', \
             'USD', 100, 0, 0, 'cancel_order', {at}, {until}, 0, {until}, '[]', 1 FROM n",
            hash = "0".repeat(64),
        ),
        format!(
            "{i} INSERT INTO order_lines (order_id, no, sku, quantity, unit_price, cancelled, \
             shipped, returned) SELECT {id}, 1, {sku}, 1, 100, 0, 0, 0 FROM n"
        ),
        format!(
            "{i} INSERT INTO holds (order_id, line, part, sku, level_id, source, kind, quantity, \
             state, lost, surplus, created_at) SELECT {id}, 1, 1, {sku}, 'main:' || {sku}, 'main', \
             'warehouse', 1, 'active', 0, 0, {at} FROM n"
        ),
        format!(
            "{i} INSERT INTO events (order_id, n, at, event, detail) \
             SELECT {id}, 1, {at}, 'order_placed', '' FROM n"
        ),
        format!(
            "{i} INSERT INTO ledger (at, level_id, sku, order_id, line, part, event, by_quantity, \
             by_held, by_committed, note) SELECT {at}, 'main:' || {sku}, {sku}, {id}, 1, 1, \
             'placed', 0, 1, 0, '' FROM n"
        ),
        "UPDATE levels SET held = held + h.n, version = version + h.n FROM (SELECT level_id, \
         count(*) AS n FROM holds GROUP BY level_id) AS h WHERE h.level_id = levels.id"
            .to_owned(),
        // The job of the first whole second at or after each deadline.
        "INSERT INTO jobs (key, kind, payload, state, run_at, attempts, wakes, lease_token, \
         created_at) SELECT 'expire:' || s, 'deadline', '{\"kind\":\"deadline\",\"second\":' || s || \
         '}', 'ready', s * 1000000, 0, 0, 0, 0 FROM (SELECT DISTINCT (deadline_at + 999999) / \
         1000000 AS s FROM orders WHERE deadline_at IS NOT NULL) AS d"
            .to_owned(),
    ];
    for text in texts {
        conn.execute(&text).await?;
    }
    conn.settle().await
}
