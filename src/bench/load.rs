//! The load itself: connections that ask until the time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::report::Report;
use super::{Driven, Load, Target, What};
use crate::clock::Clock;
use crate::ids::Ids;

/// Units that `--prepare` puts on the shelf of each SKU.
const PLENTY: u32 = 1_000_000_000;

/// Before a connection that broke is made anew.
const BREATH: Duration = Duration::from_millis(20);

fn fresh_name() -> String {
    Ids::system().next(Clock::System.now())
}

/// A prime, so that it shares no divisor with a number of SKUs; its rest by 10,000 and by a million is
/// near the half, so that neighbours in time are far apart.
const STRIDE: u64 = 2_654_435_761;

fn sku(n: u64) -> String {
    format!("BENCH-{n}")
}

/// The SKU of the n-th request: each as often as any other, neighbours in time apart, as they are in a
/// store of any size and as its pages feel it.
pub fn sku_in_turn(n: u64, skus: u64) -> String {
    sku(n.wrapping_mul(STRIDE) % skus.max(1) + 1)
}

/// Makes the SKUs, as ops.
pub async fn prepare(target: &Target, skus: u32) -> Result<(), String> {
    let mut client = Client::new(target);
    for n in 1..=u64::from(skus) {
        let path = format!("/v1/skus/{}", sku(n));
        let body = json!({"title": sku(n), "sources": [{"source": "main", "kind": "warehouse"}]});
        expect(client.ask(Method::PUT, &path, None, body.to_string()).await)?;
        let count = json!({"source": "main", "set_to": PLENTY, "reason": "count"});
        let (path, key) = (format!("{path}/stock"), format!("{}-{n}", fresh_name()));
        expect(client.ask(Method::POST, &path, Some(&key), count.to_string()).await)?;
    }
    Ok(())
}

fn expect(answer: Result<(StatusCode, bytes::Bytes), String>) -> Result<(), String> {
    let (status, body) = answer?;
    if status.is_success() {
        Ok(())
    } else {
        Err(format!("{status}: {}", String::from_utf8_lossy(&body)))
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    method: Method,
    path: String,
    body: String,
}

/// What the n-th request is, from 0.
pub type Asks = Arc<dyn Fn(u64) -> Ask + Send + Sync>;

impl Ask {
    pub fn get(path: impl Into<String>) -> Ask {
        Ask { method: Method::GET, path: path.into(), body: String::new() }
    }

    /// JSON.
    pub fn post(path: impl Into<String>, body: String) -> Ask {
        Ask { method: Method::POST, path: path.into(), body }
    }
}

/// The requests of a plan, over `skus` SKUs.
pub(super) fn asks(what: What, skus: u32) -> Asks {
    // Names this run: its external ids are its own.
    let name = fresh_name();
    Arc::new(move |turn| {
        let sku = sku_in_turn(turn, skus.into());
        match what {
            What::Place => Ask::post(
                "/v1/orders",
                format!(
                    r#"{{"channel":"bench","external_id":"{name}-{turn}","currency":"USD","lines":[{{"sku":"{sku}","quantity":1,"unit_price":"1.00"}}]}}"#
                ),
            ),
            What::Availability => Ask::get(format!("/v1/skus/{sku}/availability")),
        }
    })
}

/// Asks over all connections at once; the reports are summed.
pub(super) async fn run(target: &Target, load: &Load, asks: &Asks) -> Result<Driven, String> {
    let turns = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let end = start + load.span;
    let callers = (0..load.connections.max(1)).map(|_| {
        let caller = Caller {
            client: Client::new(target),
            turns: Arc::clone(&turns),
            load: load.clone(),
            asks: Arc::clone(asks),
        };
        tokio::spawn(caller.run(start, end))
    });
    let ended = join_all(callers.collect::<Vec<_>>()).await;
    let took = start.elapsed();
    let mut whole = Driven { report: Report::new(load)?, placed: Vec::new() };
    for caller in ended {
        let caller = caller.map_err(|e| e.to_string())??;
        whole.report.add(&caller.report)?;
        whole.placed.extend(caller.placed);
    }
    whole.report.took(took);
    Ok(whole)
}

struct Caller {
    client: Client,
    /// Shared by all: each request has a number of its own.
    turns: Arc<AtomicU64>,
    load: Load,
    asks: Asks,
}

impl Caller {
    async fn run(mut self, start: Instant, end: Instant) -> Result<Driven, String> {
        let mut driven = Driven { report: Report::new(&self.load)?, placed: Vec::new() };
        loop {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed);
            let due = match self.load.rate {
                // In the open, the n-th request is due at its time, whoever is free to send it.
                Some(rate) => start + Duration::from_secs_f64(turn as f64 / rate.max(0.001)),
                None => Instant::now(),
            };
            if due >= end {
                return Ok(driven);
            }
            if self.load.rate.is_some() {
                // Not in the closed loop: a timer's tick, 1 ms, is longer than many an answer.
                sleep_until(due).await;
            }
            let Ask { method, path, body } = (self.asks)(turn);
            let answer = self.client.ask(method, &path, None, body).await;
            let answer = answer.map(|(status, _)| status);
            let broken = answer.is_err();
            if self.load.keep && answer == Ok(StatusCode::CREATED) {
                driven.placed.push(turn);
            }
            driven.report.answered(answer, due.elapsed())?;
            if broken {
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}
