//! The calming part: the same suite within one process and over a real Redis (a private server named
//! by `STOCKHOLD_TEST_REDIS`), and what it does when Redis is lost, slow or emptied. A missing server
//! fails the suite.

use std::time::Duration;

use stockhold::clock::Clock;
use stockhold::coordination::{Coordination, Options};
use stockhold::domain::command::{Placement, PlacementLine};
use stockhold::domain::order::{Customer, ShortPolicy};
use stockhold::domain::stock::Level;

use crate::blackbox::daemon::eventually;

pub mod faults;
mod shared;
mod sold_out;

/// The server's address, with the number of one of its databases.
pub fn redis(number: u8) -> String {
    let server = std::env::var("STOCKHOLD_TEST_REDIS")
        .expect("STOCKHOLD_TEST_REDIS must name a private Redis server, as redis://127.0.0.1:6379");
    format!("{server}/{number}")
}

/// The server's host and port.
pub fn redis_server() -> String {
    let url = url::Url::parse(&redis(0)).expect("a URL");
    format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port"))
}

/// Unlike every other test's.
fn some_scope() -> String {
    format!("test-{:016x}", rand::random::<u64>())
}

/// Two replicas of one shop.
struct Pair {
    a: Coordination,
    b: Coordination,
    requests_per_second: u32,
}

impl Pair {
    /// On one machine both are one.
    async fn in_memory(requests_per_second: u32) -> Pair {
        let options = Options { requests_per_second, ..Options::default() };
        let a = Coordination::memory(&Clock::System, &options);
        Pair { b: a.clone(), a, requests_per_second }
    }

    /// A busy machine must not look like a slow Redis here: they are patient.
    async fn over_redis(requests_per_second: u32) -> Pair {
        let patience = Duration::from_secs(20);
        let options = Options { requests_per_second, scope: some_scope(), patience };
        let (a, b) = (connected(0, &options).await, connected(0, &options).await);
        Pair { a, b, requests_per_second }
    }
}

/// One that uses Redis.
async fn connected(number: u8, options: &Options) -> Coordination {
    let one = Coordination::redis(&redis(number), &Clock::System, options).expect("an address");
    eventually("Redis answers", async || {
        one.connect().await;
        one.condition().is_none()
    })
    .await;
    one
}

/// An order of two lines by a customer.
fn placement(external_id: &str, customer: &str) -> Placement {
    let line = |sku: &str| PlacementLine { sku: sku.into(), quantity: 1, unit_price: 1_000 };
    Placement {
        id: external_id.into(),
        channel: "web".into(),
        external_id: external_id.into(),
        content_hash: String::new(),
        idempotency: None,
        currency: "USD".into(),
        lines: vec![line("A"), line("B")],
        shipping: 0,
        discount: 0,
        customer: Some(Customer { id: Some(customer.to_owned()), email: None }),
        ship_to: None,
        payment: None,
        short_policy: ShortPolicy::CancelOrder,
    }
}

/// A shelf of ten times its version.
fn level(id: &str, version: i64) -> Level {
    Level { version, quantity: version * 10, ..Level::empty(id.into(), "main".into(), None) }
}
