//! `/metrics`: Prometheus text of whatever the daemon records through the `metrics` crate, and the
//! requests' own counters and latencies.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use metrics::{Counter, Histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use super::Shared;

/// Upper bounds of the latency histogram, in seconds.
const BUCKETS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const UPKEEP: Duration = Duration::from_secs(5);
const REQUESTS: &str = "stockhold_http_requests_total";
const DURATION: &str = "stockhold_http_request_duration_seconds";
const PROBLEMS: &str = "stockhold_http_problems_total";

fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS)
}

/// Installs the process's recorder; once, at start.
///
/// # Errors
/// When there is one already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = builder()?.install_recorder()?;
    describe();
    Ok(handle)
}

/// Sums up what was recorded, now and then: until then every single measurement is kept, and a daemon
/// whose metrics nobody reads would grow for ever.
///
/// # Errors
/// None.
pub async fn keep_up(
    recorded: PrometheusHandle,
    stopping: CancellationToken,
) -> Result<(), Infallible> {
    loop {
        tokio::select! {
            () = stopping.cancelled() => return Ok(()),
            () = tokio::time::sleep(UPKEEP) => recorded.run_upkeep(),
        }
    }
}

/// A recorder's handle that nothing records into: for tests and for the API document.
///
/// # Errors
/// When the buckets are not accepted.
pub fn detached() -> Result<PrometheusHandle, BuildError> {
    Ok(builder()?.build_recorder().handle())
}

fn describe() {
    metrics::describe_counter!(REQUESTS, "Requests answered, by method, route and status.");
    metrics::describe_histogram!(
        DURATION,
        metrics::Unit::Seconds,
        "Time from a request's head to its answer's head, by method and route."
    );
    describe_engine();
    describe_coordination();
    metrics::describe_counter!(PROBLEMS, "Error answers, by route and code.");
}

/// Counted from the start on, so that a rule about them finds them before anything has happened.
fn describe_engine() {
    use metrics::{counter, describe_counter, describe_histogram};
    describe_histogram!("stockhold_group_commands", "Commands in a transaction.");
    describe_counter!("stockhold_group_retries_total", "Groups that others were in the way of.");
    describe_counter!(
        "stockhold_commits_unknown_total",
        "Commits whose answer was lost; each is resolved by its group's id."
    );
    describe_counter!(
        "stockhold_drafts_total",
        "Groups decided on what was known, by outcome: written, or undone and decided under locks."
    );
    for name in ["stockhold_group_retries_total", "stockhold_commits_unknown_total"] {
        counter!(name).absolute(0);
    }
    for outcome in ["written", "undone"] {
        counter!("stockhold_drafts_total", "outcome" => outcome).absolute(0);
    }
}

fn describe_coordination() {
    use metrics::{describe_counter, describe_gauge};
    describe_gauge!("stockhold_coordination_degraded", "1 while Redis does not answer.");
    describe_counter!("stockhold_redis_failures_total", "Calls that Redis did not answer in time.");
    describe_counter!(
        "stockhold_availability_cache_hits_total",
        "Levels shown from the cache, by where they were."
    );
    describe_counter!(
        "stockhold_availability_cache_misses_total",
        "Levels read from the store to be shown."
    );
    describe_counter!("stockhold_rate_limited_total", "Requests over their key's limit.");
    describe_counter!("stockhold_duplicate_submissions_total", "Orders refused as sent twice.");
    describe_counter!(
        "stockhold_sold_out_notes_total",
        "Notes that a SKU is sold out, by who made them: this process, or another through Redis."
    );
    describe_counter!(
        "stockhold_sold_out_refusals_total",
        "Placements refused by such a note, without the engine."
    );
}

/// Counts one answer.
pub fn record(method: &str, route: &str, status: u16, code: &'static str, took: Duration) {
    // An unknown method is the caller's text: it must not become a label.
    let method = match method {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        _ => "other",
    };
    let (requests, seconds) = answers(method, route, status);
    requests.increment(1);
    seconds.record(took.as_secs_f64());
    if !code.is_empty() {
        metrics::counter!(PROBLEMS, "route" => route.to_owned(), "code" => code).increment(1);
    }
}

/// The counter and the histogram of such answers; looked up by their labels only once.
fn answers(method: &'static str, route: &str, status: u16) -> (Counter, Histogram) {
    type Routes = HashMap<String, (Counter, Histogram)>;
    static KNOWN: LazyLock<RwLock<HashMap<(&str, u16), Routes>>> = LazyLock::new(RwLock::default);
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(&(method, status)).and_then(|routes| routes.get(route)) {
        return found.clone();
    }
    drop(known);
    let (name, code) = (route.to_owned(), status.to_string());
    let counter =
        metrics::counter!(REQUESTS, "method" => method, "route" => name.clone(), "status" => code);
    let histogram = metrics::histogram!(DURATION, "method" => method, "route" => name.clone());
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let routes = known.entry((method, status)).or_default();
    routes.insert(name, (counter.clone(), histogram.clone()));
    (counter, histogram)
}

/// What the daemon has counted, as Prometheus text.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "Prometheus text", content_type = "text/plain", body = String)))]
pub async fn metrics(State(app): State<Shared>) -> impl IntoResponse {
    let text_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, text_type)], app.metrics.render())
}
