//! The rounds: every scheme of every cell in turn, then again, each on a fresh store, each followed by a
//! look at the books.
//!
//! What must hold: only what is there when the time is over counts; for a scheme that writes behind, that
//! is what has reached the database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use stockhold::bench::{Ask, Asks, Driven, Load, drive, sku_in_turn};
use stockhold::clock::Clock;
use stockhold::ids::Ids;

use crate::books::{self, Acknowledged};
use crate::cells::{Asked, Cell, FEW, Plan, Scheme};
use crate::crash;
use crate::schemes::Failure;
use crate::stand::Stand;
use crate::store::{Conn, Stage};

/// Before the time counts: connections, plans and caches are made.
const WARM: Duration = Duration::from_millis(400);

/// One scheme in one cell of one round.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    pub cell: &'static str,
    pub scheme: Scheme,
    pub round: usize,
    /// Orders (or answers) a second.
    pub per_second: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub broken: u64,
}

/// What the run found.
#[derive(Default)]
pub struct Found {
    pub samples: Vec<Sample>,
    /// What is wrong with the daemon's books: the run fails.
    pub faults: Vec<String>,
    /// What was found in the others' books.
    pub others: Vec<(Scheme, String)>,
    /// Kills that lost nothing: scheme, orders acknowledged by then.
    pub crashes: Vec<(Scheme, usize)>,
    /// Stores whose books balanced.
    pub balanced: usize,
}

impl Found {
    fn judge(&mut self, scheme: Scheme, cell: &str, faults: Vec<String>) {
        if faults.is_empty() {
            self.balanced += 1;
        }
        for fault in faults {
            if scheme.is_daemon() {
                self.faults.push(format!("{} in {cell}: {fault}", scheme.name()));
            } else {
                self.others.push((scheme, format!("{cell}: {fault}")));
            }
        }
    }
}

pub async fn run(stage: &Stage, plan: &Plan) -> Result<Found, Failure> {
    let mut found = Found::default();
    for round in 0..plan.rounds.max(1) {
        for cell in plan.cells.iter().filter(|cell| round == 0 || !cell.once) {
            for scheme in &cell.schemes {
                let sample = sample(stage, plan, cell, *scheme, round, &mut found).await?;
                eprintln!(
                    "{round} {:<12} {:<18} {:>8.0}/s  p50 {:>8.2} ms  p99 {:>8.2} ms  {:?}",
                    cell.name,
                    scheme.name(),
                    sample.per_second,
                    sample.p50_us as f64 / 1e3,
                    sample.p99_us as f64 / 1e3,
                    sample.statuses,
                );
                found.samples.push(sample);
            }
        }
        if round < plan.crash_rounds {
            for scheme in &plan.crashes {
                let (faults, placed) = crash::run(stage, *scheme).await?;
                eprintln!("{round} {:<12} {:<18} {placed} acknowledged", "crash", scheme.name());
                if faults.is_empty() {
                    found.crashes.push((*scheme, placed));
                }
                found.judge(*scheme, "crash", faults);
            }
        }
    }
    Ok(found)
}

/// Orders of one line each, over `skus` SKUs.
pub fn orders(run: &str, skus: u64) -> Asks {
    let run = run.to_owned();
    Arc::new(move |n| {
        let body = format!(
            r#"{{"channel":"bench","external_id":"{run}-{n}","currency":"USD","lines":[{{"sku":"{}","quantity":1,"unit_price":"1.00"}}]}}"#,
            sku_in_turn(n, skus)
        );
        Ask::post("/v1/orders", body)
    })
}

fn reads(skus: u64) -> Asks {
    Arc::new(move |n| Ask::get(format!("/v1/skus/{}/availability", sku_in_turn(n, skus))))
}

/// A name that no other run has.
pub fn fresh() -> String {
    Ids::system().next(Clock::System.now())
}

async fn sample(
    stage: &Stage,
    plan: &Plan,
    cell: &Cell,
    scheme: Scheme,
    round: usize,
    found: &mut Found,
) -> Result<Sample, Failure> {
    let stand = Stand::start(stage, scheme, cell.stock).await?;
    let mut acknowledged = Vec::new();
    let mut conn = match &stand.store {
        Some(store) => Some(store.connect().await?),
        None => None,
    };
    if cell.stock != Some(FEW) {
        ask(&stand, cell, WARM, &mut acknowledged).await?;
    }
    let behind = scheme == Scheme::RedisLua;
    let before = written(behind, &mut conn).await?;
    let driven = ask(&stand, cell, plan.span, &mut acknowledged).await?;
    let after = written(behind, &mut conn).await?;
    let report = &driven.report;
    let counted = match cell.asked {
        Asked::Orders if cell.stock.is_none() && behind => (after - before).max(0) as f64,
        Asked::Orders if cell.stock.is_none() => report.status(201) as f64,
        _ => report.worked() as f64,
    };
    if scheme.is_daemon() {
        found.faults.extend(
            unexpected(cell, &driven)
                .map(|what| format!("{} in {}: {what}", scheme.name(), cell.name)),
        );
    }
    if let Some(mut conn) = conn {
        let faults = if behind {
            behind_books(&mut conn, &acknowledged).await?
        } else {
            books::check(&mut conn, &acknowledged).await?
        };
        found.judge(scheme, cell.name, faults);
        conn.close().await?;
    }
    let sample = Sample {
        cell: cell.name,
        scheme,
        round,
        per_second: counted / report.seconds().max(0.001),
        p50_us: report.quantile(0.5),
        p99_us: report.quantile(0.99),
        statuses: report.statuses().clone(),
        broken: report.broken(),
    };
    stand.clear(stage).await?;
    Ok(sample)
}

/// Puts the cell's load on it for a while, and notes what was acknowledged.
async fn ask(
    stand: &Stand,
    cell: &Cell,
    span: Duration,
    acknowledged: &mut Vec<Acknowledged>,
) -> Result<Driven, Failure> {
    let run = fresh();
    let asks = match cell.asked {
        Asked::Orders => orders(&run, cell.skus),
        Asked::Reads => reads(cell.skus),
    };
    let load =
        Load { what: cell.name, connections: cell.connections, span, rate: None, keep: true };
    let mut driven = drive(&stand.url, None, &load, &asks).await?;
    acknowledged.push(Acknowledged { run, numbers: std::mem::take(&mut driven.placed) });
    Ok(driven)
}

async fn written(behind: bool, conn: &mut Option<Conn>) -> Result<i64, Failure> {
    match conn {
        Some(conn) if behind => conn.number("SELECT count(*) FROM orders").await,
        _ => Ok(0),
    }
}

/// The loose scheme promises no order, only that nothing is oversold.
async fn behind_books(conn: &mut Conn, runs: &[Acknowledged]) -> Result<Vec<String>, Failure> {
    let none = [];
    let faults = books::check(conn, &none).await?;
    let mut late = 0;
    for run in runs {
        late += books::lost(conn, run).await?.len();
    }
    if late > 0 {
        eprintln!("  {late} acknowledged orders are not in the database yet");
    }
    Ok(faults)
}

/// An answer of the daemon that the cell does not allow.
fn unexpected(cell: &Cell, driven: &Driven) -> Option<String> {
    let report = &driven.report;
    let allowed: &[u16] = match (cell.asked, cell.stock) {
        (Asked::Reads, _) => &[200],
        (Asked::Orders, None) => &[201],
        (Asked::Orders, Some(0)) => &[409],
        (Asked::Orders, Some(_)) => &[201, 409],
    };
    let other: BTreeMap<_, _> =
        report.statuses().iter().filter(|(status, _)| !allowed.contains(status)).collect();
    if !other.is_empty() || report.broken() > 0 {
        return Some(format!("answers {other:?}, broken connections {}", report.broken()));
    }
    let sold = i64::try_from(report.status(201)).unwrap_or(i64::MAX);
    match cell.stock {
        Some(stock) if sold > stock => Some(format!("{sold} of {stock} units were sold")),
        Some(stock) if sold < stock && report.status(409) > 0 => {
            Some(format!("{sold} of {stock} units were sold, and somebody was refused"))
        }
        _ => None,
    }
}
