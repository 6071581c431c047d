//! The ways to hold stock that the daemon is measured against, each behind the same HTTP server with
//! the same request body and an answer of about the daemon's size.
//!
//! What must hold: whoever writes, writes the same rows into the daemon's own tables (an order, its
//! lines, holds, ledger entries and a job each, and the stock row), flushed before the answer except
//! where the scheme's point is not to. Left out: everything else that the daemon checks and keeps.

mod bare;
mod floor;
mod locking;
mod optimistic;
mod order;
mod redis_lock;
mod redis_lua;
mod rows;

use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::ValueEnum;
use serde::Serialize;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use self::order::{Body, Order, OrderAnswer};

/// PostgreSQL connections of a scheme that has a pool.
pub const POOL: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Floor,
    ForUpdate,
    Optimistic,
    RedisLock,
    RedisLua,
    BareSqlite,
    BarePostgres,
}

/// What became of a placement.
pub enum Placed {
    Held,
    SoldOut,
    /// Others were in the way for too long.
    GaveUp,
}

pub use redis_lock::connect as redis;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A way to hold stock.
#[async_trait]
pub trait Scheme: Send + Sync {
    async fn place(&self, order: Order) -> Result<Placed, Failure>;
}

/// Serves a scheme until it is killed; its address is told on stdout as the daemon tells its own.
pub async fn serve(kind: Kind, database: &str, redis: &str) -> Result<(), Failure> {
    let scheme: Arc<dyn Scheme> = match kind {
        Kind::Floor => Arc::new(floor::Floor),
        Kind::ForUpdate => Arc::new(locking::ForUpdate(pool(database).await?)),
        Kind::Optimistic => Arc::new(optimistic::Optimistic(pool(database).await?)),
        Kind::RedisLock => {
            Arc::new(redis_lock::RedisLock::open(pool(database).await?, redis).await?)
        }
        Kind::RedisLua => Arc::new(redis_lua::RedisLua::open(pool(database).await?, redis).await?),
        Kind::BareSqlite => Arc::new(bare::BareSqlite::open(database).await?),
        Kind::BarePostgres => Arc::new(bare::BarePostgres(pool(database).await?)),
    };
    let router = Router::new()
        .route("/v1/orders", post(place))
        .route("/v1/skus/{sku}/availability", get(availability))
        .with_state(scheme);
    let listener = stockhold::http::listen(([127, 0, 0, 1], 0).into())?;
    println!("{kind:?} serves http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    Ok(axum::serve(listener, router).await?)
}

async fn pool(database: &str) -> Result<PgPool, Failure> {
    let pool = PgPoolOptions::new()
        .min_connections(POOL)
        .max_connections(POOL)
        .acquire_timeout(std::time::Duration::from_secs(30))
        .test_before_acquire(false);
    Ok(pool.connect(database).await?)
}

async fn place(State(scheme): State<Arc<dyn Scheme>>, Json(body): Json<Body>) -> Response {
    let Some(order) = Order::of(body) else {
        return (StatusCode::UNPROCESSABLE_ENTITY, "amounts are not understood").into_response();
    };
    let answer = OrderAnswer::of(&order);
    match scheme.place(order).await {
        Ok(Placed::Held) => (StatusCode::CREATED, Json(answer)).into_response(),
        Ok(Placed::SoldOut) => (StatusCode::CONFLICT, "sold out").into_response(),
        Ok(Placed::GaveUp) => (StatusCode::SERVICE_UNAVAILABLE, "contended").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[derive(Serialize)]
struct Availability {
    sku: String,
    available: i64,
    orderable: bool,
    paused: bool,
    sources: [Source; 1],
}

#[derive(Serialize)]
struct Source {
    source: &'static str,
    kind: &'static str,
    quantity: i64,
    held: i64,
    committed: i64,
    buffer: i64,
    available: i64,
    version: i64,
    freshness: &'static str,
}

/// The floor of a read: nothing is looked up.
async fn availability(Path(sku): Path<String>) -> Json<Availability> {
    let source = Source {
        source: "main",
        kind: "warehouse",
        quantity: 1_000_000_000,
        held: 18,
        committed: 0,
        buffer: 0,
        available: 999_999_982,
        version: 19,
        freshness: "exact",
    };
    let available = source.available;
    Json(Availability { sku, available, orderable: true, paused: false, sources: [source] })
}
