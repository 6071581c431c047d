//! The whole, measured: the daemon and the ways that others take, each in a process of its own, on one
//! machine with database and load generator, in turns. `scripts/bench` is the way to run it.
//!
//! What must hold: a run in which a level is oversold, a figure is not the sum of its rows, or an order
//! that was acknowledged is not there, ends with a failure and says so.
//! This one program is conductor, load generator (`stockhold::bench`) and, started again with
//! `serve SCHEME`, each of the schemes.

mod books;
mod cells;
mod crash;
mod figures;
mod growth;
mod machine;
mod plain;
mod report;
mod rounds;
mod schemes;
mod stand;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use self::schemes::{Failure, Kind};

/// Measures the whole.
#[derive(Debug, Parser)]
#[command(name = "scripts/bench", after_help = cells::HELP)]
pub struct Run {
    /// Short rounds at 256 connections, in under five minutes.
    #[arg(long)]
    quick: bool,
    /// Where every sample and ratio goes, for machines.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these cells and schemes; nothing is written to docs/benchmarks.md then.
    #[arg(value_name = "NAMES")]
    names: Vec<String>,
    /// Rounds, instead of 3 (quick) or 5.
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds of one measurement, instead of 2 (quick) or 3.
    #[arg(long)]
    seconds: Option<f64>,
    /// What cargo says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Serves a scheme.
#[derive(Debug, Parser)]
struct Serve {
    #[arg(value_enum)]
    scheme: Kind,
    #[arg(long, default_value = "")]
    database: String,
    #[arg(long, default_value = "")]
    redis: String,
}

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let serves = std::env::args().nth(1).is_some_and(|first| first == "serve");
    let ended = match tokio::runtime::Runtime::new() {
        Err(error) => Err(error.into()),
        Ok(runtime) if serves => {
            let Serve { scheme, database, redis } = Serve::parse_from(std::env::args().skip(1));
            runtime.block_on(schemes::serve(scheme, &database, &redis)).map(|()| true)
        }
        Ok(runtime) => {
            let run = Run::parse();
            // A plain `cargo bench`, or `cargo test --all-targets`.
            if !run.bench || !store::has_services() {
                println!("scripts/bench starts what this needs, and this");
                return ExitCode::SUCCESS;
            }
            runtime.block_on(measure(&run))
        }
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything held.
async fn measure(run: &Run) -> Result<bool, Failure> {
    let stage = store::Stage::open()?;
    let machine = machine::look(&stage).await?;
    if run.names.first().is_some_and(|name| name == "growth") {
        return growth::run(run, &stage, &machine).await;
    }
    let plan = cells::plan(run)?;
    let found = rounds::run(&stage, &plan).await?;
    let ratios = figures::ratios(&found.samples);
    if let Some(path) = &run.json {
        std::fs::write(path, report::json(run, &machine, &found, &ratios)?)?;
    }
    let text = report::text(run, &machine, &found, &ratios);
    println!("{text}");
    if plan.whole && found.faults.is_empty() {
        report::write("whole", &text)?;
    }
    for fault in &found.faults {
        eprintln!("the books do not balance: {fault}");
    }
    Ok(found.faults.is_empty())
}
