//! The commands of the command line, each from its arguments to an exit code. What they say of an
//! error is one line on stderr that names what is wrong.

use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt;

use super::daemon::Daemon;
use super::{import, policy, store, test_clock};
use crate::bench::Plan;
use crate::catalogue;
use crate::cli::{Cli, Command, Stock};
use crate::clock::Clock;
use crate::engine::{Engine, Parts};
use crate::ids::Ids;
use crate::lifecycle::{Lifecycle, Signals};
use crate::settings::{self, Loaded, Settings, Sources};
use crate::storage::{Options, epochs};
use crate::suppliers::simulator;
use crate::telemetry;

/// How long a soft stop may take before it becomes a hard one.
const GRACE: Duration = Duration::from_secs(30);

type Outcome = Result<ExitCode, String>;

/// Runs what the command line says.
pub fn run(cli: Cli) -> ExitCode {
    let outcome = match cli.command {
        Command::CheckConfig => check_config(cli.config),
        Command::Openapi => openapi(),
        Command::Serve { listen } => with_runtime(serve(cli.config, listen)),
        // What goes wrong there is the story: it is told on stdout.
        Command::Demo { keep } => with_runtime_and_log("error", crate::demo::run(keep)),
        Command::SimulateSupplier { settings, listen } => {
            let served = async move { simulator::serve_cli(settings, listen).await };
            with_runtime(served.map_ok(|()| ExitCode::SUCCESS).map_err(|e| e.to_string()))
        }
        Command::Bench { url, key, what, connections, seconds, rate, skus, prepare, json } => {
            bench(seconds, rate).and_then(|span| {
                let plan = Plan { url, key, what, connections, span, rate, skus, prepare, json };
                with_runtime_and_log("error", crate::bench::run(plan))
            })
        }
        Command::Migrate => with_runtime(migrate(cli.config)),
        Command::RestoreMark => with_runtime(restore_mark(cli.config)),
        Command::Stock(Stock::Import { file, set_quantities }) => {
            with_runtime(stock_import(cli.config, file, set_quantities))
        }
        Command::Stock(Stock::Export { file }) => with_runtime(stock_export(cli.config, file)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("stockhold: {error}");
        ExitCode::FAILURE
    })
}

fn with_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    with_runtime_and_log("info", work)
}

fn with_runtime_and_log(filter: &str, work: impl Future<Output = Outcome>) -> Outcome {
    telemetry::init(filter).map_err(|e| e.to_string())?;
    // An HTTP client without an installed provider would panic; a second installation is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Answers of the database come from outside of the runtime, and many wait for each.
        .global_queue_interval(4)
        .build();
    runtime.map_err(|e| format!("the runtime cannot be started: {e}"))?.block_on(work)
}

/// Loads the settings, telling warnings on stderr.
fn load(file: Option<PathBuf>, listen: Option<String>) -> Result<Loaded, String> {
    let loaded = settings::load(&Sources::of_the_process(file, listen));
    let loaded = loaded.map_err(|e| e.to_string())?;
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(loaded)
}

/// Prints what is in force on stdout, warnings and faults on stderr.
fn check_config(file: Option<PathBuf>) -> Outcome {
    print!("{}", load(file, None)?.redacted());
    Ok(ExitCode::SUCCESS)
}

fn openapi() -> Outcome {
    println!("{}", crate::http::openapi().map_err(|e| e.to_string())?);
    Ok(ExitCode::SUCCESS)
}

async fn serve(file: Option<PathBuf>, listen: Option<String>) -> Outcome {
    let settings = load(file, listen)?.settings;
    let clock = test_clock::clock()?;
    let life = Lifecycle::new();
    let signals = Signals::of_the_process().map_err(|e| e.to_string())?;
    let daemon = Daemon::start(&settings, clock, &life).await?;
    println!("stockhold serves http://{}", daemon.address);
    let end = life.run(GRACE, signals).await;
    daemon.stop().await;
    tracing::info!(end = ?end, "stopped");
    Ok(end.into())
}

/// The span of a measurement whose numbers make sense.
fn bench(seconds: f64, rate: Option<f64>) -> Result<Duration, String> {
    if rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err("--rate must be above 0".into());
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(span) if !span.is_zero() => Ok(span),
        _ => Err("--seconds must be above 0".into()),
    }
}

async fn migrate(file: Option<PathBuf>) -> Outcome {
    let settings = load(file, None)?.settings;
    let store = store::open(&settings, &Clock::System).await.map_err(|e| e.to_string())?;
    println!("the schema is up to date");
    store.db.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn restore_mark(file: Option<PathBuf>) -> Outcome {
    let settings = load(file, None)?.settings;
    let clock = test_clock::clock()?;
    let options = Options { application: "stockhold restore-mark", ..Options::default() };
    let store = store::open_as(&settings, &clock, &options).await.map_err(|e| e.to_string())?;
    let connected = epochs::replicas_connected(&store.db).await.map_err(|e| e.to_string())?;
    if connected > 0 {
        return Err(format!(
            "daemons are connected to the store ({connected} connections) and go on in ignorance of the \
             restore: stop every replica first. Nothing was marked"
        ));
    }
    let id = Ids::system().next(clock.now());
    let epoch = epochs::restored(&store.db, &clock, id).await.map_err(|e| e.to_string())?;
    store.db.close().await;
    println!(
        "restored at {}: what older orders owe is looked up before it is bought or refunded",
        epoch.began_at
    );
    Ok(ExitCode::SUCCESS)
}

async fn stock_import(file: Option<PathBuf>, csv: PathBuf, set_quantities: bool) -> Outcome {
    let settings = load(file, None)?.settings;
    let bytes = std::fs::read(&csv).map_err(|e| format!("{}: {e}", csv.display()))?;
    let suppliers: Vec<&str> = settings.suppliers.iter().map(|s| s.id.as_str()).collect();
    let rows = import::check(&bytes, &suppliers).map_err(|e| format!("{}:\n{e}", csv.display()))?;
    let store = store::open(&settings, &Clock::System).await.map_err(|e| e.to_string())?;
    let report = import_rows(&store, &settings, &rows, set_quantities).await;
    store.db.close().await;
    print!("{}", import::report(&report?, set_quantities));
    Ok(ExitCode::SUCCESS)
}

/// Applies checked rows with an engine of its own; for a store that no daemon has.
async fn import_rows(
    store: &store::Store,
    settings: &Settings,
    rows: &[catalogue::Row],
    set_quantities: bool,
) -> Result<crate::domain::outcome::ImportReport, String> {
    let (engine, writer) = Engine::new(Parts {
        db: store.db.clone(),
        clock: Clock::System,
        ids: Ids::system(),
        policy: Arc::new(policy::policy(settings)),
        max_queued: settings.limits.max_queued_commands,
        epoch: store.epoch.clone(),
        on_commit: Arc::new(|_| {}),
    });
    let writer = tokio::spawn(writer);
    let report = import::import(&engine, rows, set_quantities).await;
    engine.close();
    writer.await.map_err(|e| e.to_string())??;
    report
}

async fn stock_export(file: Option<PathBuf>, csv: Option<PathBuf>) -> Outcome {
    let settings = load(file, None)?.settings;
    let db = store::open_to_read(&settings).await.map_err(|e| e.to_string())?;
    let rows = import::rows(&db).await?;
    db.close().await;
    let written = match &csv {
        Some(path) => write_file(path, &rows),
        None => catalogue::write_rows(&rows, std::io::stdout().lock()).map_err(|e| e.to_string()),
    };
    written?;
    Ok(ExitCode::SUCCESS)
}

/// Writes beside the file and renames, so that an interruption leaves the old one whole.
fn write_file(path: &Path, rows: &[catalogue::Row]) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = std::fs::File::create(&part).map_err(failed)?;
    catalogue::write_rows(rows, &mut file).map_err(std::io::Error::from).map_err(failed)?;
    file.flush().and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)
}
