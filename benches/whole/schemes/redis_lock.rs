//! `redis-lock`: a lock in Redis (SET NX PX, waited for, given back by compare-and-delete) around one
//! transaction, which trusts it.

use std::time::Duration;

use async_trait::async_trait;
use rand::Rng;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};
use sqlx::PgPool;
use tokio::time::Instant;

use super::order::Order;
use super::{Failure, Placed, Scheme, rows};

/// The lock's life.
const LEASE_MS: u64 = 5_000;
/// A lock is waited for this long.
const PATIENCE: Duration = Duration::from_secs(5);
const GIVE_BACK: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

pub struct RedisLock {
    pool: PgPool,
    redis: MultiplexedConnection,
    give_back: Script,
}

/// A connection that waits for its answers.
pub async fn connect(redis: &str) -> Result<MultiplexedConnection, Failure> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    Ok(Client::open(redis)?.get_multiplexed_async_connection_with_config(&config).await?)
}

impl RedisLock {
    pub async fn open(pool: PgPool, redis: &str) -> Result<RedisLock, Failure> {
        let redis = connect(redis).await?;
        Ok(RedisLock { pool, redis, give_back: Script::new(GIVE_BACK) })
    }

    async fn lock(&self, key: &str, token: &str) -> Result<bool, Failure> {
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            let taken: Option<String> = redis::cmd("SET")
                .arg(key)
                .arg(token)
                .arg("NX")
                .arg("PX")
                .arg(LEASE_MS)
                .query_async(&mut self.redis.clone())
                .await?;
            if taken.is_some() {
                return Ok(true);
            }
            let pause = Duration::from_micros(rand::rng().random_range(500..3_000));
            tokio::time::sleep(pause).await;
        }
        Ok(false)
    }
}

#[async_trait]
impl Scheme for RedisLock {
    async fn place(&self, order: Order) -> Result<Placed, Failure> {
        let key = format!("lock:{}", order.lines.first().map_or("", |line| line.level.as_str()));
        if !self.lock(&key, &order.id).await? {
            return Ok(Placed::GaveUp);
        }
        let tx = self.pool.begin().await?;
        let placed = rows::hold_in_postgres(tx, rows::LOOK, &order).await;
        let mut redis = self.redis.clone();
        let mut give_back = self.give_back.key(&key);
        give_back.arg(&order.id).invoke_async::<i64>(&mut redis).await?;
        placed
    }
}
