//! What was found, for people (docs/benchmarks.md, ratios first) and for machines.

use std::fmt::Write;

use serde_json::json;

use crate::Run;
use crate::cells::{FEW, Scheme};
use crate::figures::{Ratio, Target, spread};
use crate::machine::Machine;
use crate::rounds::{Found, Sample};
use crate::schemes::{Failure, POOL};

const FILE: &str = "docs/benchmarks.md";

pub fn json(
    run: &Run,
    machine: &Machine,
    found: &Found,
    ratios: &[Ratio],
) -> Result<String, Failure> {
    let others: Vec<_> =
        found.others.iter().map(|(s, what)| json!({"scheme": s, "what": what})).collect();
    let crashes: Vec<_> =
        found.crashes.iter().map(|(s, n)| json!({"scheme": s, "acknowledged": n})).collect();
    Ok(serde_json::to_string_pretty(&json!({
        "quick": run.quick,
        "machine": machine,
        "ratios": ratios,
        "samples": found.samples,
        "faults": found.faults,
        "balanced": found.balanced,
        "others": others,
        "crashes": crashes,
    }))?)
}

pub fn text(run: &Run, machine: &Machine, found: &Found, ratios: &[Ratio]) -> String {
    let mut out = String::from("## Ratios\n\n");
    out += "Median of the rounds (smallest to largest); each ratio is taken within a round.\n\n";
    out += "| ratio | measured | target | met |\n|---|---|---|---|\n";
    for ratio in ratios {
        let target = match ratio.target {
            Some(Target::AtLeast(n)) => format!("at least {n}"),
            Some(Target::AtMost(n)) => format!("at most {n}"),
            None => String::new(),
        };
        let met = ratio.met.map_or("", |met| if met { "yes" } else { "**no**" });
        let s = ratio.spread;
        let measured = format!("{} ({}–{})", short(s.median), short(s.min), short(s.max));
        let _ = writeln!(out, "| {} | {measured} | {target} | {met} |", ratio.what);
    }
    out += "\n## Books\n\n";
    out += &books(found);
    out += "\n## Absolute numbers\n\nOrders (or answers) a second; latencies in milliseconds.\n\n";
    out += "| cell | scheme | a second | p50 | p99 |\n|---|---|---|---|---|\n";
    out += &table(&found.samples);
    out += "\n## Measured on\n\n";
    for (name, value) in machine {
        let _ = writeln!(out, "- {name}: {value}");
    }
    let rounds = found.samples.iter().map(|s| s.round + 1).max().unwrap_or(0);
    let how = if run.quick { " --quick" } else { "" };
    let _ = writeln!(out, "- {rounds} rounds of `scripts/bench{how}`");
    out + "\n" + &how_measured()
}

/// Three digits that mean something.
pub fn short(n: f64) -> String {
    match n.abs() {
        n if n >= 100.0 => format!("{:.0}", n),
        n if n >= 10.0 => format!("{:.1}", n),
        n => format!("{n:.2}"),
    }
}

fn books(found: &Found) -> String {
    let mut out = format!(
        "Read from the database after every measurement ({} stores balanced): no level below zero or \
         oversold, every level holds what its holds and its ledger say, every acknowledged order is there \
         with its hold.\n\n",
        found.balanced
    );
    for fault in &found.faults {
        let _ = writeln!(out, "- **WRONG**: {fault}");
    }
    for (scheme, placed) in &found.crashes {
        let _ = writeln!(
            out,
            "- {}: killed (SIGKILL) under load with 256 connections; of {placed} acknowledged orders \
             none is missing",
            scheme.name()
        );
    }
    for (scheme, what) in &found.others {
        let _ = writeln!(out, "- {} in {what}", scheme.name());
    }
    let oversold = |s: &&Sample| s.cell == "sell-out";
    for sample in found.samples.iter().filter(oversold) {
        let sold = sample.statuses.get(&201).copied().unwrap_or(0);
        let _ = writeln!(out, "- {} sold {sold} of {FEW} units", sample.scheme.name());
    }
    out
}

fn table(samples: &[Sample]) -> String {
    let mut seen: Vec<(&str, Scheme)> = Vec::new();
    let mut out = String::new();
    for sample in samples {
        let place = (sample.cell, sample.scheme);
        if seen.contains(&place) {
            continue;
        }
        seen.push(place);
        let these = || samples.iter().filter(move |s| (s.cell, s.scheme) == place);
        let row = [
            spread(these().map(|s| s.per_second))
                .map(|s| format!("{:.0} ({:.0}–{:.0})", s.median, s.min, s.max)),
            spread(these().map(|s| s.p50_us as f64 / 1e3)).map(|s| short(s.median)),
            spread(these().map(|s| s.p99_us as f64 / 1e3)).map(|s| short(s.median)),
        ];
        let row: Vec<String> = row.into_iter().map(Option::unwrap_or_default).collect();
        let _ =
            writeln!(out, "| {} | {} | {} |", sample.cell, sample.scheme.name(), row.join(" | "));
    }
    out
}

fn how_measured() -> String {
    format!(
        "\
## How

Daemon, database, Redis and load generator share the machine. Each scheme is a process of its own, on a
fresh database with 10,000 SKUs; the daemon runs on its defaults. The generator asks in a closed loop over
connections that are kept alive, one order of one line each (`hot`: one SKU, `spread`: 10,000), after 0.4 s
that do not count. The schemes of a cell run one after the other, and all cells again in the next round.

All schemes but the floor write into the daemon's own tables and indexes: an order, its line, hold, ledger
entry and job each (the daemon: an event in place of the job, which many orders share), and the stock row;
through sqlx with {POOL} connections, in one interactive transaction of a statement for each row:

- `floor`: reads the body into a typed structure, answers `201` with an order of the daemon's size; for
  reads, an availability. Nothing is kept.
- `for-update`: `SELECT … FOR UPDATE` of the stock row, then the rows.
- `optimistic`: reads the stock row's version, updates where it is the same, up to 5 retries, then `503`.
- `redis-lock`: `SET NX PX`, waited for with pauses of 0.5 to 3 ms, around the transaction;
  compare-and-delete after it.
- `redis-lua`: a script checks and decrements; the answer goes out; two writers put batches of 200 into
  PostgreSQL behind it. Counted: orders that are there when the time is over.
- `bare-sqlite`: `BEGIN IMMEDIATE`, a look at the stock row, six writes, `COMMIT`, on one connection with the
  daemon's settings. `bare-postgres`: `BEGIN`, the stock row read and locked, one data-modifying `WITH` for
  all rows, `COMMIT`: four round trips. Both behind the same HTTP server; `floor` in the same cell is what
  HTTP alone takes.

`refused` asks for an SKU of which nothing is left, and counts refusals. `sell-out` sells {FEW} units to 64
connections.
"
    )
}

/// Puts a part into the document between its marks, leaving the others as they are.
pub fn write(part: &str, text: &str) -> Result<(), Failure> {
    let old = std::fs::read_to_string(FILE)?;
    let (begin, end) =
        (format!("<!-- {part}: written by scripts/bench -->"), format!("<!-- end of {part} -->"));
    let split = old
        .split_once(&begin)
        .and_then(|(before, rest)| rest.split_once(&end).map(|(_, after)| (before, after)));
    let (before, after) = split.ok_or_else(|| format!("{FILE} has no place for {part}"))?;
    std::fs::write(FILE, format!("{before}{begin}\n\n{text}\n{end}{after}"))?;
    Ok(())
}
