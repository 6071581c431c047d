//! `redis-lua`: a script checks and decrements in Redis, the customer is answered, and orders, lines
//! and holds are written behind in batches of 200. Fast and loose: what was answered and not yet
//! written is lost when this process dies, and a Redis that forgets sells again.

use async_trait::async_trait;
use redis::Script;
use redis::aio::MultiplexedConnection;
use sqlx::PgPool;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::order::Order;
use super::redis_lock::connect;
use super::{Failure, Placed, Scheme, rows};

/// Orders in one write-back transaction.
const BATCH: usize = 200;
/// Write-backs under way at once.
const WRITERS: usize = 2;
const TAKE: &str = "for i, key in ipairs(KEYS) do \
    if tonumber(redis.call('GET', key) or '0') < tonumber(ARGV[i]) then return 0 end end \
    for i, key in ipairs(KEYS) do redis.call('DECRBY', key, ARGV[i]) end return 1";

pub struct RedisLua {
    redis: MultiplexedConnection,
    take: Script,
    behind: UnboundedSender<Order>,
}

impl RedisLua {
    pub async fn open(pool: PgPool, redis: &str) -> Result<RedisLua, Failure> {
        let mut redis = connect(redis).await?;
        let levels: Vec<(String, i64)> =
            sqlx::query_as("SELECT 'free:' || id, quantity - held - committed FROM levels")
                .fetch_all(&pool)
                .await?;
        for some in levels.chunks(1_000) {
            redis::cmd("MSET").arg(some).exec_async(&mut redis).await?;
        }
        let (behind, orders) = unbounded_channel();
        let orders = std::sync::Arc::new(Mutex::new(orders));
        for _ in 0..WRITERS {
            tokio::spawn(write_behind(pool.clone(), std::sync::Arc::clone(&orders)));
        }
        Ok(RedisLua { redis, take: Script::new(TAKE), behind })
    }
}

#[async_trait]
impl Scheme for RedisLua {
    async fn place(&self, order: Order) -> Result<Placed, Failure> {
        let mut call = self.take.prepare_invoke();
        for line in &order.lines {
            call.key(format!("free:{}", line.level)).arg(line.quantity);
        }
        let taken: i64 = call.invoke_async(&mut self.redis.clone()).await?;
        if taken == 0 {
            return Ok(Placed::SoldOut);
        }
        self.behind.send(order)?;
        Ok(Placed::Held)
    }
}

type Orders = std::sync::Arc<Mutex<UnboundedReceiver<Order>>>;

async fn write_behind(pool: PgPool, orders: Orders) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        batch.clear();
        if orders.lock().await.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        if let Err(error) = write(&pool, &batch).await {
            eprintln!("redis-lua: {} orders are lost: {error}", batch.len());
        }
    }
}

/// One transaction, a statement for each table.
async fn write(pool: &PgPool, batch: &[Order]) -> Result<(), Failure> {
    let texts = |of: fn(&Order) -> String| batch.iter().map(of).collect::<Vec<String>>();
    let figures = |of: fn(&Order) -> i64| batch.iter().map(of).collect::<Vec<i64>>();
    let ids = texts(|o| o.id.clone());
    let (at, expires_at) = (figures(|o| o.at), figures(|o| o.expires_at));
    let mut tx = pool.begin().await?;
    sqlx::query(
        "INSERT INTO orders (id, channel, external_id, content_hash, state, currency, total, \
         shipping, discount, short_policy, created_at, expires_at, grace_used, deadline_at, \
         shipments, event_seq) \
         SELECT id, channel, external_id, $8, 'pending_payment', currency, total, 0, 0, \
         'cancel_order', at, expires_at, 0, expires_at, '[]', 0 \
         FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], \
         $7::bigint[]) AS u(id, channel, external_id, currency, total, at, expires_at)",
    )
    .bind(&ids)
    .bind(texts(|o| o.channel.clone()))
    .bind(texts(|o| o.external_id.clone()))
    .bind(texts(|o| o.currency.clone()))
    .bind(figures(|o| o.total))
    .bind(&at)
    .bind(&expires_at)
    .bind(rows::HASH)
    .execute(&mut *tx)
    .await?;
    write_lines(&mut tx, batch).await?;
    sqlx::query(
        "INSERT INTO jobs (key, kind, payload, state, run_at, attempts, wakes, lease_token, \
         created_at) SELECT key, 'deadline', payload, 'ready', run_at, 0, 0, 0, at \
         FROM UNNEST($1::text[], $2::text[], $3::bigint[], $4::bigint[]) \
         AS u(key, payload, run_at, at)",
    )
    .bind(texts(rows::job_key))
    .bind(texts(rows::job_payload))
    .bind(&expires_at)
    .bind(&at)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(())
}

async fn write_lines(tx: &mut sqlx::PgConnection, batch: &[Order]) -> Result<(), Failure> {
    let lines = || batch.iter().flat_map(|o| o.lines.iter().map(move |line| (o, line)));
    let order: Vec<&str> = lines().map(|(o, _)| o.id.as_str()).collect();
    let no: Vec<i64> = lines().map(|(_, l)| l.no).collect();
    let sku: Vec<&str> = lines().map(|(_, l)| l.sku.as_str()).collect();
    let level: Vec<&str> = lines().map(|(_, l)| l.level.as_str()).collect();
    let quantity: Vec<i64> = lines().map(|(_, l)| l.quantity).collect();
    let unit_price: Vec<i64> = lines().map(|(_, l)| l.unit_price).collect();
    let at: Vec<i64> = lines().map(|(o, _)| o.at).collect();
    let rows = "FROM UNNEST($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], \
        $6::bigint[], $7::bigint[]) AS u(order_id, no, sku, level_id, quantity, unit_price, at)";
    let statements = [
        format!(
            "INSERT INTO order_lines (order_id, no, sku, quantity, unit_price, cancelled, shipped, \
             returned) SELECT order_id, no, sku, quantity, unit_price, 0, 0, 0 {rows}"
        ),
        format!(
            "INSERT INTO holds (order_id, line, part, sku, level_id, source, kind, quantity, state, \
             lost, surplus, created_at) SELECT order_id, no, 1, sku, level_id, 'main', 'warehouse', \
             quantity, 'active', 0, 0, at {rows}"
        ),
        format!(
            "INSERT INTO ledger (at, level_id, sku, order_id, line, part, event, by_quantity, \
             by_held, by_committed, note) SELECT at, level_id, sku, order_id, no, 1, 'placed', 0, \
             quantity, 0, '' {rows}"
        ),
        // Locked in key order, since two write-backs are under way.
        format!(
            "WITH taken AS MATERIALIZED (SELECT level_id, sum(quantity)::bigint AS units {rows} \
             GROUP BY level_id), locked AS MATERIALIZED (SELECT l.id FROM levels l JOIN taken \
             ON l.id = taken.level_id ORDER BY l.id FOR UPDATE OF l) \
             UPDATE levels SET held = held + units, version = version + 1 FROM taken, locked \
             WHERE levels.id = taken.level_id AND levels.id = locked.id"
        ),
    ];
    for text in statements {
        sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(&order)
            .bind(&no)
            .bind(&sku)
            .bind(&level)
            .bind(&quantity)
            .bind(&unit_price)
            .bind(&at)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}
