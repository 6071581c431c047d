//! The rows of one order, statement by statement as an interactive transaction sends them; the same
//! texts on both databases.

use sqlx::{PgConnection, Postgres, Sqlite, SqliteConnection, Transaction};

use super::order::{Line, Order};
use super::{Failure, Placed};

pub const ORDER: &str = "INSERT INTO orders (id, channel, external_id, content_hash, state, currency, \
    total, shipping, discount, short_policy, created_at, expires_at, grace_used, deadline_at, \
    shipments, event_seq) \
    VALUES ($1, $2, $3, $4, 'pending_payment', $5, $6, 0, 0, 'cancel_order', $7, $8, 0, $8, '[]', 0)";
pub const LINE: &str = "INSERT INTO order_lines (order_id, no, sku, quantity, unit_price, cancelled, \
    shipped, returned) VALUES ($1, $2, $3, $4, $5, 0, 0, 0)";
pub const HOLD: &str = "INSERT INTO holds (order_id, line, part, sku, level_id, source, kind, quantity, \
    state, lost, surplus, created_at) \
    VALUES ($1, $2, 1, $3, $4, 'main', 'warehouse', $5, 'active', 0, 0, $6)";
pub const LEDGER: &str = "INSERT INTO ledger (at, level_id, sku, order_id, line, part, event, \
    by_quantity, by_held, by_committed, note) VALUES ($1, $2, $3, $4, $5, 1, 'placed', 0, $6, 0, '')";
pub const JOB: &str = "INSERT INTO jobs (key, kind, payload, state, run_at, attempts, wakes, \
    lease_token, created_at) VALUES ($1, 'deadline', $2, 'ready', $3, 0, 0, 0, $4)";
/// What is free of a level; and the same with its row locked.
pub const LOOK: &str = "SELECT quantity - held - committed FROM levels WHERE id = $1";
pub const LOCK: &str = "SELECT quantity - held - committed FROM levels WHERE id = $1 FOR UPDATE";
pub const TAKE: &str = "UPDATE levels SET held = held + $2, version = version + 1 WHERE id = $1";

/// As long as the daemon's.
pub const HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

pub fn job_key(order: &Order) -> String {
    format!("expire:{}", order.id)
}

pub fn job_payload(order: &Order) -> String {
    format!(r#"{{"kind":"deadline","second":{}}}"#, order.expires_at / 1_000_000 + 1)
}

macro_rules! write_order {
    ($name:ident, $connection:ty, $hold:ident, $Database:ty) => {
        /// The whole order: `look` at each level, take from it, write the rows, commit.
        pub async fn $hold(
            mut tx: Transaction<'_, $Database>,
            look: &'static str,
            order: &Order,
        ) -> Result<Placed, Failure> {
            for line in &order.lines {
                let free = sqlx::query_scalar(look).bind(&line.level);
                let free: Option<i64> = free.fetch_optional(&mut *tx).await?;
                if free.unwrap_or(0) < line.quantity {
                    tx.rollback().await?;
                    return Ok(Placed::SoldOut);
                }
                let take = sqlx::query(TAKE).bind(&line.level).bind(line.quantity);
                take.execute(&mut *tx).await?;
            }
            $name(&mut tx, order).await?;
            tx.commit().await?;
            Ok(Placed::Held)
        }

        /// Everything but the stock row: a statement for each row.
        pub async fn $name(conn: &mut $connection, order: &Order) -> Result<(), Failure> {
            sqlx::query(ORDER)
                .bind(&order.id)
                .bind(&order.channel)
                .bind(&order.external_id)
                .bind(HASH)
                .bind(&order.currency)
                .bind(order.total)
                .bind(order.at)
                .bind(order.expires_at)
                .execute(&mut *conn)
                .await?;
            for Line { no, sku, level, quantity, unit_price } in &order.lines {
                let line = sqlx::query(LINE).bind(&order.id).bind(no).bind(sku).bind(quantity);
                line.bind(unit_price).execute(&mut *conn).await?;
                let hold = sqlx::query(HOLD).bind(&order.id).bind(no).bind(sku).bind(level);
                hold.bind(quantity).bind(order.at).execute(&mut *conn).await?;
                let entry = sqlx::query(LEDGER).bind(order.at).bind(level).bind(sku);
                entry.bind(&order.id).bind(no).bind(quantity).execute(&mut *conn).await?;
            }
            let job = sqlx::query(JOB).bind(job_key(order)).bind(job_payload(order));
            job.bind(order.expires_at).bind(order.at).execute(&mut *conn).await?;
            Ok(())
        }
    };
}

write_order!(into_postgres, PgConnection, hold_in_postgres, Postgres);
write_order!(into_sqlite, SqliteConnection, hold_in_sqlite, Sqlite);
