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
use tokio_util::task::TaskTracker;

use self::folder::Folder;
use self::pace::Story;
use self::shop::Shop;
use self::verdict::Verdict;
use crate::app::daemon::Daemon;
use crate::clock::Clock;
use crate::engine::Engine;
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
    let (stopping, home) = (life.stopping(), CancellationToken::new());
    let running = tokio::spawn(life.clone().run(GRACE, signals));
    let stage = Stage {
        shop: Shop::new(format!("http://{}", daemon.address))?,
        supplier: supplier.clone(),
        people: life.tracker().clone(),
        home: home.clone(),
    };
    let played = tokio::select! {
        played = play(&stage, &daemon.engine, began) => played,
        () = stopping.cancelled() => Err("stopped before the night was over".to_owned()),
    };
    if !keep {
        home.cancel();
    }
    let played = played.map(|(verdict, text)| {
        print(&format!("{text}after {} s on the clock\n", began.elapsed().as_secs()));
        verdict
    });
    if keep && played.is_ok() {
        print(&invitation(&stage.shop.url));
        stopping.cancelled().await;
    }
    home.cancel();
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

/// Where the night is played.
struct Stage {
    shop: Shop,
    supplier: Handle,
    /// Ops, and whoever pays at the supplier; they go when `home` is cancelled.
    people: TaskTracker,
    home: CancellationToken,
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

/// The judgement, and the end of the night on paper.
async fn play(stage: &Stage, engine: &Engine, began: Instant) -> Result<(Verdict, String), String> {
    let Stage { shop, supplier, people, home } = stage;
    let rows = night::prepare(shop, engine).await?;
    let story = Story::open();
    story.say(&format!("{} SKUs imported; the shop is open at {}", rows.len(), shop.url));
    people.spawn(people::ops(shop.clone(), story, home.clone()));
    people.spawn(people::supplier(supplier.clone(), Clock::System, story, home.clone()));
    let books = async {
        let night = night::play(shop, supplier, story).await?;
        let rested = night::rest(shop, supplier);
        match tokio::time::timeout_at(began + REST_WITHIN, rested).await {
            Ok(rested) => rested?,
            Err(_) => story.say("the time is over, and not everything has come to rest"),
        }
        books::read(shop, supplier, &rows, night).await
    };
    let books = tokio::time::timeout_at(began + LIMIT, books);
    let books = books.await.map_err(|_| format!("not over after {} s", LIMIT.as_secs()))??;
    let verdict = verdict::judge(&books);
    let text = table::text(&books, &verdict);
    Ok((verdict, text))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Span;

    #[tokio::test]
    async fn the_night_is_scaled_by_its_settings_alone() {
        let folder = Folder::new().expect("a folder");
        let supplier = simulator().await.expect("a simulator");
        let lag = supplier.settings().conduct(simulator::Api::Product).lag;
        assert_eq!(lag, Span::secs(8)); // 40 minutes at 200 ms each
        let settings = settings(&folder, &supplier).expect("settings");
        let [terms] = settings.suppliers.as_slice() else {
            panic!("one supplier");
        };
        assert_eq!((terms.sync_interval, terms.declared_lag), (Span::secs(2), lag));
        assert_eq!(settings.holds.ttl_normal, Span::secs(6));
        assert_eq!(settings.holds.ttl_flash, Span::secs(1));
        assert_eq!(settings.confirm.delay, Span::secs(1));
        assert_eq!(terms.gateway, supplier.gateway_url());
        assert_eq!(settings.server.listen.port(), 0);
    }
}
