//! The load itself: connections that ask until the time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::report::Report;
use super::{Plan, Target, What};
use crate::clock::Clock;
use crate::ids::Ids;

/// Units that `--prepare` puts on the shelf of each SKU.
const PLENTY: u32 = 1_000_000_000;

/// Before a connection that broke is made anew.
const BREATH: Duration = Duration::from_millis(20);

fn fresh_name() -> String {
    Ids::system().next(Clock::System.now())
}

fn sku(n: u64) -> String {
    format!("BENCH-{n}")
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

/// Asks over all connections at once; the reports are summed.
pub async fn run(target: &Target, plan: &Plan) -> Result<Report, String> {
    // Names this run: its external ids are its own.
    let name = fresh_name();
    let turns = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let end = start + plan.span;
    let callers = (0..plan.connections.max(1)).map(|_| {
        let caller = Caller {
            client: Client::new(target),
            name: name.clone(),
            turns: Arc::clone(&turns),
            plan: plan.clone(),
        };
        tokio::spawn(caller.run(start, end))
    });
    let mut whole = Report::new(plan)?;
    for caller in callers.collect::<Vec<_>>() {
        whole.add(&caller.await.map_err(|e| e.to_string())??)?;
    }
    whole.took(start.elapsed());
    Ok(whole)
}

struct Caller {
    client: Client,
    name: String,
    /// Shared by all: each request has a number of its own.
    turns: Arc<AtomicU64>,
    plan: Plan,
}

impl Caller {
    async fn run(mut self, start: Instant, end: Instant) -> Result<Report, String> {
        let mut report = Report::new(&self.plan)?;
        loop {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed);
            let due = match self.plan.rate {
                // In the open, the n-th request is due at its time, whoever is free to send it.
                Some(rate) => start + Duration::from_secs_f64(turn as f64 / rate.max(0.001)),
                None => Instant::now(),
            };
            if due >= end {
                return Ok(report);
            }
            sleep_until(due).await;
            let answer = self.ask(turn).await;
            let broken = answer.is_err();
            report.answered(answer, due.elapsed())?;
            if broken {
                tokio::time::sleep(BREATH).await;
            }
        }
    }

    async fn ask(&mut self, turn: u64) -> Result<StatusCode, String> {
        let sku = sku(turn % u64::from(self.plan.skus.max(1)) + 1);
        let answer = match self.plan.what {
            What::Place => {
                let body = format!(
                    r#"{{"channel":"bench","external_id":"{}-{turn}","currency":"USD","lines":[{{"sku":"{sku}","quantity":1,"unit_price":"1.00"}}]}}"#,
                    self.name
                );
                self.client.ask(Method::POST, "/v1/orders", None, body).await
            }
            What::Availability => {
                let path = format!("/v1/skus/{sku}/availability");
                self.client.ask(Method::GET, &path, None, String::new()).await
            }
        };
        answer.map(|(status, _)| status)
    }
}
