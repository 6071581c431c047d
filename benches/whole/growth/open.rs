//! Orders a second with ever more open holds, and with ever more SKUs: over all SKUs, 256 connections.

use std::time::Duration;

use serde_json::json;
use stockhold::bench::{Load, drive};

use super::Found;
use super::seed::{self, Due};
use crate::Run;
use crate::books::{self, Acknowledged};
use crate::cells::{SKUS, Scheme};
use crate::figures::{Spread, spread};
use crate::report::short;
use crate::rounds::{fresh, orders};
use crate::schemes::Failure;
use crate::stand::Stand;
use crate::store::{Stage, Store, stock};

const CONNECTIONS: usize = 256;
const WARM: Duration = Duration::from_secs(1);

/// A shop of some size.
#[derive(Clone, Copy)]
struct Size {
    holds: u64,
    skus: u64,
}

pub async fn holds(
    run: &Run,
    stage: &Stage,
    daemons: &[Scheme],
    found: &mut Found,
) -> Result<(), Failure> {
    let holds: &[u64] = if run.quick { &[1_000, 100_000] } else { &[1_000, 100_000, 1_000_000] };
    let sizes: Vec<Size> = holds.iter().map(|n| Size { holds: *n, skus: SKUS }).collect();
    measure(run, stage, daemons, &sizes, "holds", found).await
}

pub async fn catalogue(
    run: &Run,
    stage: &Stage,
    daemons: &[Scheme],
    found: &mut Found,
) -> Result<(), Failure> {
    let skus: &[u64] = if run.quick { &[10_000, 100_000] } else { &[10_000, 1_000_000] };
    let sizes: Vec<Size> = skus.iter().map(|n| Size { holds: 1_000, skus: *n }).collect();
    measure(run, stage, daemons, &sizes, "catalogue", found).await
}

/// Every size of every daemon in turn, on a copy of a store that was seeded once.
async fn measure(
    run: &Run,
    stage: &Stage,
    daemons: &[Scheme],
    sizes: &[Size],
    part: &str,
    found: &mut Found,
) -> Result<(), Failure> {
    found.line(&format!(
        "\n## {}\n\nOrders over all SKUs, {CONNECTIONS} connections; median of the rounds (smallest to \
         largest). Target: within 20 % of the smallest.\n\n\
         | daemon | open holds | SKUs | orders a second | of the smallest | p99, ms |\n\
         |---|---|---|---|---|---|",
        if part == "holds" { "Open holds" } else { "SKUs" }
    ));
    for daemon in daemons {
        let mut models = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            models.push(model(stage, *daemon, *size, &format!("{part}_{n}")).await?);
        }
        let mut rates = vec![(Vec::new(), Vec::new()); sizes.len()];
        for _ in 0..run.rounds.unwrap_or(if run.quick { 1 } else { 3 }) {
            for ((size, model), (rate, p99)) in sizes.iter().zip(&models).zip(&mut rates) {
                let (r, p) = one(run, stage, model, *size, found).await?;
                rate.push(r);
                p99.push(p);
            }
        }
        let mut smallest: Option<Spread> = None;
        for (size, (rates, p99)) in sizes.iter().zip(rates) {
            let (Some(rate), Some(p99)) = (spread(rates), spread(p99)) else { continue };
            let share = rate.median / smallest.get_or_insert(rate).median.max(1e-9);
            found.line(&format!(
                "| {} | {} | {} | {:.0} ({:.0}–{:.0}) | {} | {} |",
                daemon.name(),
                size.holds,
                size.skus,
                rate.median,
                rate.min,
                rate.max,
                short(share),
                short(p99.median)
            ));
            found.figure(
                part,
                json!({"daemon": daemon, "holds": size.holds, "skus": size.skus, "per_second": rate,
                    "p99_ms": p99, "of_smallest": share}),
            );
        }
        for model in &models {
            stage.remove(model).await?;
        }
    }
    Ok(())
}

async fn model(stage: &Stage, daemon: Scheme, size: Size, name: &str) -> Result<Store, Failure> {
    eprintln!("seeding {} holds, {} SKUs for {}", size.holds, size.skus, daemon.name());
    let store = stage.empty(daemon.on_sqlite(), name).await?;
    let mut conn = store.connect().await?;
    stock(&mut conn, size.skus).await?;
    seed::orders(&mut conn, size.holds, size.skus, Due::Later).await?;
    conn.close().await?;
    Ok(store)
}

/// Orders a second, and the p99 in milliseconds.
async fn one(
    run: &Run,
    stage: &Stage,
    model: &Store,
    size: Size,
    found: &mut Found,
) -> Result<(f64, f64), Failure> {
    let store = stage.copy_of(model).await?;
    let stand = Stand::daemon(stage, store.clone(), "").await?;
    let span = Duration::try_from_secs_f64(run.seconds.unwrap_or(3.0))?;
    let mut placed = Vec::new();
    let mut last = None;
    for span in [WARM, span] {
        let name = fresh();
        let load = Load { what: "growth", connections: CONNECTIONS, span, rate: None, keep: true };
        let driven = drive(&stand.url, None, &load, &orders(&name, size.skus)).await?;
        placed.push(Acknowledged { run: name, numbers: driven.placed });
        last = Some(driven.report);
    }
    let mut conn = store.connect().await?;
    let what = format!("{} holds, {} SKUs", size.holds, size.skus);
    found.judge(&what, books::check(&mut conn, &placed).await?);
    conn.close().await?;
    stand.clear(stage).await?;
    let report = last.ok_or("nothing was measured")?;
    let rate = report.status(201) as f64 / report.seconds().max(0.001);
    eprintln!("  {what}: {rate:.0}/s");
    Ok((rate, report.quantile(0.99) as f64 / 1e3))
}
