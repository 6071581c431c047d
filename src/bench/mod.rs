//! `stockhold bench`: a small load generator for a running daemon, so that whoever runs one can measure
//! it. It places orders, or asks for availability, and reports rates and a latency histogram.
//!
//! Two ways of asking. *Closed* (the default): each connection sends its next request when the last one
//! is answered; latency is from sending to the answer. *Open* (`--rate`): requests are due at fixed
//! times, whether or not the daemon keeps up, and latency counts from when a request was due, not from
//! when a busy connection got round to it, so that a stall shows in every request that it held up
//! (no coordinated omission).
//!
//! What must hold: what is reported as placed was answered `201`; nothing is repeated in silence.
//! Leaves out TLS: run it beside the daemon.

mod client;
mod load;
mod report;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use url::Url;

pub use load::{Ask, Asks, sku_in_turn};
pub use report::Report;

/// What each request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// Orders of one line.
    Place,
    /// One SKU's availability.
    Availability,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `http://host:port` of a daemon.
    pub url: String,
    /// An API key, where the daemon has any.
    pub key: Option<String>,
    pub what: What,
    pub connections: usize,
    pub span: Duration,
    /// Requests a second over all connections; closed without.
    pub rate: Option<f64>,
    /// SKUs `BENCH-1` to `BENCH-n` are asked for in turn.
    pub skus: u32,
    /// Makes those SKUs first, with a billion units each.
    pub prepare: bool,
    /// One JSON object instead of a table.
    pub json: bool,
}

/// Runs the plan, prints what was found on stdout. Fails when not one request was answered 2xx or 409.
///
/// # Errors
/// What is wrong with the plan, or why the daemon cannot be reached.
pub async fn run(plan: Plan) -> Result<ExitCode, String> {
    let report = measure(&plan).await?;
    if plan.json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    Ok(if report.worked() > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the plan.
///
/// # Errors
/// As [`run`].
pub async fn measure(plan: &Plan) -> Result<Report, String> {
    let target = Target::of(&plan.url, plan.key.as_deref()).await?;
    if plan.prepare {
        load::prepare(&target, plan.skus).await?;
    }
    let asks = load::asks(plan.what, plan.skus);
    Ok(load::run(&target, &plan.load(), &asks).await?.report)
}

/// How hard is asked, whatever is asked.
#[derive(Clone, Debug)]
pub struct Load {
    pub what: &'static str,
    pub connections: usize,
    pub span: Duration,
    /// Requests a second over all connections; closed without.
    pub rate: Option<f64>,
    /// Notes which requests were answered `201`, eight bytes each.
    pub keep: bool,
}

/// What became of a load.
pub struct Driven {
    pub report: Report,
    /// The numbers of the requests that were answered `201`, in no order; empty unless kept.
    pub placed: Vec<u64>,
}

/// Runs a load of the caller's own: `asks` says what the n-th request is.
///
/// # Errors
/// As [`run`].
pub async fn drive(
    url: &str,
    key: Option<&str>,
    load: &Load,
    asks: &Asks,
) -> Result<Driven, String> {
    load::run(&Target::of(url, key).await?, load, asks).await
}

impl Plan {
    fn load(&self) -> Load {
        Load {
            what: match self.what {
                What::Place => "place",
                What::Availability => "availability",
            },
            connections: self.connections,
            span: self.span,
            rate: self.rate,
            keep: false,
        }
    }
}

/// Where the daemon is.
#[derive(Clone, Debug)]
struct Target {
    address: SocketAddr,
    host: String,
    key: Option<String>,
}

impl Target {
    async fn of(url: &str, key: Option<&str>) -> Result<Target, String> {
        let url = Url::parse(url).map_err(|e| format!("--url: {e}"))?;
        let host = match url.host_str() {
            Some(host) if url.scheme() == "http" => host.to_owned(),
            _ => return Err("--url: must be http://host:port".into()),
        };
        let port = url.port_or_known_default().unwrap_or(80);
        let mut found = tokio::net::lookup_host((host.as_str(), port))
            .await
            .map_err(|e| format!("--url: {host}: {e}"))?;
        let address = found.next().ok_or_else(|| format!("--url: {host} has no address"))?;
        Ok(Target { address, host: format!("{host}:{port}"), key: key.map(str::to_owned) })
    }
}
