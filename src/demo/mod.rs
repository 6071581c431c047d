//! `stockhold demo`: the night of the story, played against a real daemon over HTTP, with the 1688
//! simulator as its supplier, in a folder of its own that is gone afterwards.
//!
//! What must hold: whatever is said at the end is read from the outside (the API, the supplier's
//! accounts, the storefront's notes); the exit code is 0 only if every promise held against every
//! trouble. The daemon is the same that `serve` runs, with settings from the same layers.

mod books;
mod cast;
mod customer;
mod folder;
mod night;
mod pace;
mod people;
mod promises;
mod shop;
mod table;
mod troubles;
mod verdict;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::folder::Folder;
use self::pace::Story;
use self::shop::Shop;
use self::verdict::Verdict;
use crate::app::daemon::Daemon;
use crate::clock::Clock;
use crate::lifecycle::{Death, End, Lifecycle, Signals};
use crate::settings::{self, Settings, Sources};
use crate::suppliers::simulator::{self, Handle, Simulator};

/// The supplier's id in the demo's settings.
const SUPPLIER: &str = "s1688";
const DAEMON: &str = include_str!("../../fixtures/demo/stockhold.toml");
const SUPPLIER_SETTINGS: &str = include_str!("../../fixtures/demo/supplier.toml");
/// The night has so long to come to rest; what is open then is told, and is a failure.
const REST_WITHIN: Duration = Duration::from_secs(74);
/// And so long altogether.
const LIMIT: Duration = Duration::from_secs(85);
/// How long a soft stop may take.
const GRACE: Duration = Duration::from_secs(4);

/// Plays the night and judges it; with `keep`, everything stays up until a signal.
///
/// # Errors
/// When the night could not be played at all.
pub async fn run(keep: bool) -> Result<ExitCode, String> {
    let began = Instant::now();
    let folder = Folder::new()?;
    let supplier = simulator().await?;
    let settings = settings(&folder, &supplier)?;
    let life = Lifecycle::new();
    let signals = Signals::of_the_process().map_err(|e| e.to_string())?;
    let daemon = Daemon::start(&settings, Clock::System, &life).await?;
    let stopping = life.stopping();
    let running = tokio::spawn(life.clone().run(GRACE, signals));
    let played = tokio::select! {
        played = play(&daemon, &supplier, &stopping, began, keep) => played,
        () = stopping.cancelled() => Err("stopped before the night was over".to_owned()),
    };
    life.stop();
    let end = running.await.map_err(|e| e.to_string())?;
    daemon.stop().await;
    let _ = supplier.stop().await;
    match (played, end) {
        (_, End::Died(Death { task, cause })) => Err(format!("the daemon's {task} {cause}")),
        (Ok(verdict), _) if verdict.kept() => Ok(ExitCode::SUCCESS),
        (Ok(_), _) => Ok(ExitCode::FAILURE),
        (Err(wrong), _) => Err(wrong),
    }
}

async fn simulator() -> Result<Handle, String> {
    let text = pace::scaled(SUPPLIER_SETTINGS)?;
    let settings = simulator::Settings::parse(&text, "the demo's supplier");
    let settings = settings.map_err(|e| e.to_string())?;
    Simulator::start(settings, Clock::System).await.map_err(|e| e.to_string())
}

/// The demo's file over the defaults, and over it, as from the environment, what is known only now.
fn settings(folder: &Folder, supplier: &Handle) -> Result<Settings, String> {
    let file = folder.write("stockhold.toml", &pace::scaled(DAEMON)?)?;
    let database = format!("sqlite://{}", folder.path().join("stockhold.db").display());
    let environment = vec![
        ("STOCKHOLD_STORAGE__URL".to_owned(), database),
        ("STOCKHOLD_SUPPLIERS__0__GATEWAY".to_owned(), supplier.gateway_url()),
    ];
    let sources = Sources { file: Some(file), environment, listen: None };
    Ok(settings::load(&sources).map_err(|e| e.to_string())?.settings)
}

async fn play(
    daemon: &Daemon,
    supplier: &Handle,
    stopping: &CancellationToken,
    began: Instant,
    keep: bool,
) -> Result<Verdict, String> {
    let shop = Shop::new(format!("http://{}", daemon.address))?;
    let stop = stopping.child_token();
    let rows = night::prepare(&shop, &daemon.engine).await?;
    let story = Story::open();
    story.say(&format!("{} SKUs imported; the shop is open at {}", rows.len(), shop.url));
    let ops = tokio::spawn(people::ops(shop.clone(), story, stop.clone()));
    let buyer = people::supplier(supplier.clone(), Clock::System, story, stop.clone());
    let buyer = tokio::spawn(buyer);
    let books = async {
        let night = night::play(&shop, supplier, story).await?;
        let rested = night::rest(&shop, supplier);
        match tokio::time::timeout_at(began + REST_WITHIN, rested).await {
            Ok(rested) => rested?,
            Err(_) => story.say("the time is over, and not everything has come to rest"),
        }
        books::read(&shop, supplier, &rows, night).await
    };
    let books = tokio::time::timeout_at(began + LIMIT, books);
    let books = books.await.map_err(|_| format!("not over after {} s", LIMIT.as_secs()))??;
    let verdict = verdict::judge(&books);
    let took = began.elapsed().as_secs();
    print(&format!("{}{took} s on the clock\n", table::text(&books, &verdict)));
    if keep {
        print(&invitation(&shop.url));
        stopping.cancelled().await;
    }
    stop.cancel();
    let _ = tokio::join!(ops, buyer);
    Ok(verdict)
}

/// What one can do with a kept demo.
fn invitation(url: &str) -> String {
    format!(
        "\nstill open at {url} (browse {url}/docs), at the story's pace; Ctrl-C ends it\n\
         curl -s {url}/v1/orders -d '{{\"channel\":\"web\",\"external_id\":\"curl-1\",\
         \"currency\":\"USD\",\"lines\":[{{\"sku\":\"MUG-01\",\"quantity\":1,\
         \"unit_price\":\"12.50\"}}]}}'\n\
         curl -s '{url}/v1/orders?channel=web&external_id=curl-1'\n\
         curl -s {url}/v1/skus/MUG-01/availability\n"
    )
}

/// Prints. A reader that has gone away is no reason to stop.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}
