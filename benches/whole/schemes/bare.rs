//! `bare-sqlite`, `bare-postgres`: one transaction for each order and nothing around it, to compare a
//! single client's latency with.
//!
//! SQLite: BEGIN IMMEDIATE; a look at the stock row; six writes; COMMIT, all on one connection with the
//! daemon's settings (WAL, synchronous FULL). PostgreSQL: the four round trips that a group of any size
//! takes at best: BEGIN; the stock row read and locked; one data-modifying WITH for all rows; COMMIT.

use std::str::FromStr;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgPool, SqlitePool};

use super::order::Order;
use super::{Failure, Placed, Scheme, rows};

pub struct BareSqlite(SqlitePool);

impl BareSqlite {
    pub async fn open(database: &str) -> Result<BareSqlite, Failure> {
        let connect = SqliteConnectOptions::from_str(database)?
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("cache_size", "-65536");
        let pool = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false);
        Ok(BareSqlite(pool.connect_with(connect).await?))
    }
}

#[async_trait]
impl Scheme for BareSqlite {
    async fn place(&self, order: Order) -> Result<Placed, Failure> {
        let tx = self.0.begin_with("BEGIN IMMEDIATE").await?;
        rows::hold_in_sqlite(tx, rows::LOOK, &order).await
    }
}

pub struct BarePostgres(pub PgPool);

const ALL: &str = "WITH o AS (INSERT INTO orders (id, channel, external_id, content_hash, state, \
    currency, total, shipping, discount, short_policy, created_at, expires_at, grace_used, \
    deadline_at, shipments, event_seq) VALUES ($1, $2, $3, $4, 'pending_payment', $5, $6, 0, 0, \
    'cancel_order', $7, $8, 0, $8, '[]', 0)), \
    l AS (INSERT INTO order_lines (order_id, no, sku, quantity, unit_price, cancelled, shipped, \
    returned) VALUES ($1, 1, $9, $10, $11, 0, 0, 0)), \
    h AS (INSERT INTO holds (order_id, line, part, sku, level_id, source, kind, quantity, state, \
    lost, surplus, created_at) VALUES ($1, 1, 1, $9, $12, 'main', 'warehouse', $10, 'active', 0, 0, \
    $7)), \
    e AS (INSERT INTO ledger (at, level_id, sku, order_id, line, part, event, by_quantity, by_held, \
    by_committed, note) VALUES ($7, $12, $9, $1, 1, 1, 'placed', 0, $10, 0, '')), \
    j AS (INSERT INTO jobs (key, kind, payload, state, run_at, attempts, wakes, lease_token, \
    created_at) VALUES ($13, 'deadline', $14, 'ready', $8, 0, 0, 0, $7)) \
    UPDATE levels SET held = held + $10, version = version + 1 WHERE id = $12";

#[async_trait]
impl Scheme for BarePostgres {
    async fn place(&self, order: Order) -> Result<Placed, Failure> {
        let [line] = order.lines.as_slice() else { return Err("one line each".into()) };
        let mut tx = self.0.begin().await?;
        let free = sqlx::query_scalar(rows::LOCK).bind(&line.level);
        let free: Option<i64> = free.fetch_optional(&mut *tx).await?;
        if free.unwrap_or(0) < line.quantity {
            tx.rollback().await?;
            return Ok(Placed::SoldOut);
        }
        sqlx::query(ALL)
            .bind(&order.id)
            .bind(&order.channel)
            .bind(&order.external_id)
            .bind(rows::HASH)
            .bind(&order.currency)
            .bind(order.total)
            .bind(order.at)
            .bind(order.expires_at)
            .bind(&line.sku)
            .bind(line.quantity)
            .bind(line.unit_price)
            .bind(&line.level)
            .bind(rows::job_key(&order))
            .bind(rows::job_payload(&order))
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Placed::Held)
    }
}
