//! A wave of paid orders of supplier stock whose delay is over at once: how long until all are confirmed.
//!
//! Placed and paid over the API, a unit each over 20 items of the built-in simulator; the daemon is killed,
//! their delay passes, and it is started again. Buying is paused, so that only confirmations are measured;
//! the platform's limit of calls is lifted, so that it is the daemon that is measured.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stockhold::bench::{Ask, Asks, Load, drive};
use stockhold::clock::Clock;
use stockhold::suppliers::simulator::{Handle, Offer, Settings, Simulator};
use tokio::time::{Instant, sleep, sleep_until};

use super::Found;
use super::sweep::until_none;
use crate::Run;
use crate::books;
use crate::cells::Scheme;
use crate::plain::call;
use crate::rounds::fresh;
use crate::schemes::Failure;
use crate::stand::Stand;
use crate::store::Stage;

const ITEMS: u64 = 20;
/// No supplier's word on a share of it yet.
const UNDECIDED: &str = "holds WHERE confirmation IN ('not_due', 'waiting', 'unknown')";
const FIRST_OFFER: u64 = 610_947_572_000;

pub async fn run(
    run: &Run,
    stage: &Stage,
    daemons: &[Scheme],
    found: &mut Found,
) -> Result<(), Failure> {
    let (least, delay) = if run.quick { (5_000, 20) } else { (50_000, 90) };
    found.line(&format!(
        "\n## A confirmation wave\n\nAt least {least} paid orders of {ITEMS} items of a simulated supplier, \
         all past their delay when the daemon starts, buying paused: from its first answer to the last \
         confirmed share.\n\n| daemon | orders | seconds | orders a second | questions to the supplier \
         |\n|---|---|---|---|---|"
    ));
    for daemon in daemons {
        one(stage, *daemon, least, Duration::from_secs(delay), found).await?;
    }
    Ok(())
}

async fn one(
    stage: &Stage,
    daemon: Scheme,
    least: usize,
    delay: Duration,
    found: &mut Found,
) -> Result<(), Failure> {
    let supplier = supplier().await?;
    let settings = settings(&supplier, delay);
    let store = stage.empty(daemon.on_sqlite(), "wave").await?;
    let mut stand = Stand::daemon(stage, store.clone(), &settings).await?;
    open_shop(&stand.url).await?;
    let placed = place(&stand.url, least, delay).await?;
    let due = Instant::now() + delay;
    stand.kill().await?;
    let asked_before = questions(&supplier);
    let mut conn = store.connect().await?;
    let confirmed = "SELECT count(*) FROM holds WHERE confirmation = 'confirmed'";
    let early = conn.number(confirmed).await?;
    sleep_until(due).await;
    let stand = Stand::daemon(stage, store, &settings).await?;
    let seconds = until_none(&mut conn, UNDECIDED).await?;
    let asked = questions(&supplier).saturating_sub(asked_before);
    let done = conn.number(confirmed).await?;
    let mut faults = books::check(&mut conn, &[]).await?;
    if early != 0 || usize::try_from(done) != Ok(placed) {
        faults.push(format!("of {placed} orders {early} were early, {done} are confirmed"));
    }
    found.judge(&format!("wave, {}", daemon.name()), faults);
    found.line(&format!(
        "| {} | {placed} | {seconds:.1} | {:.0} | {asked} |",
        daemon.name(),
        placed as f64 / seconds.max(0.001)
    ));
    found.figure(
        "wave",
        json!({"daemon": daemon, "orders": placed, "seconds": seconds, "questions": asked}),
    );
    conn.close().await?;
    stand.clear(stage).await?;
    Ok(supplier.stop().await?)
}

async fn supplier() -> Result<Handle, Failure> {
    let offer = |n: u64| -> Result<Offer, serde_json::Error> {
        let id = (FIRST_OFFER + n).to_string();
        serde_json::from_value(
            json!({"offer_id": id, "title": id, "price_fen": 100, "stock": 1_000_000}),
        )
    };
    let offers = (0..ITEMS).map(offer).collect::<Result<Vec<Offer>, _>>()?;
    let mut settings = Settings::quiet();
    settings.offers = offers;
    settings.gateway.calls_per_second = 0;
    Ok(Simulator::start(settings, Clock::System).await?)
}

fn questions(supplier: &Handle) -> u64 {
    supplier.calls(stockhold::suppliers::simulator::Api::Product)
}

fn settings(supplier: &Handle, delay: Duration) -> String {
    format!(
        "[confirm]\ndelay = \"{}s\"\n\
         [[suppliers]]\nid = \"s1688\"\ngateway = \"{}\"\napp_key = \"1000000\"\n\
         app_secret = \"test_app_secret_0123456789abcdef\"\naccess_token = \"tok-simple-0001\"\n\
         refresh_token = \"refresh-simple-0001\"\nmax_requests_per_second = 1000\n",
        delay.as_secs(),
        supplier.gateway_url()
    )
}

/// The SKUs, their first figures, and the stop switch of buying.
async fn open_shop(url: &str) -> Result<(), Failure> {
    for n in 0..ITEMS {
        let source = json!({"source": "s1688", "kind": "supplier",
            "offer_id": (FIRST_OFFER + n).to_string(), "cost": "1.00", "currency": "CNY"});
        let sku = json!({"title": "a thing", "sources": [source]});
        call(url, "PUT", &format!("/v1/skus/WAVE-{n}"), &sku.to_string()).await?;
    }
    let pause = json!({"what": "buying", "reason": "only confirmations are measured"});
    call(url, "POST", "/v1/suppliers/s1688/pause", &pause.to_string()).await?;
    // Refused where one is under way already, which is as good.
    let _ = call(url, "POST", "/v1/suppliers/s1688/sync", "").await;
    for n in 0..ITEMS {
        let path = format!("/v1/skus/WAVE-{n}/availability");
        let since = Instant::now();
        while !call(url, "GET", &path, "").await?.contains("\"orderable\":true") {
            if since.elapsed() > Duration::from_secs(20) {
                return Err("the supplier's figures do not come".into());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Places and pays at least so many; how many it became.
async fn place(url: &str, least: usize, delay: Duration) -> Result<usize, Failure> {
    let since = Instant::now();
    let mut placed = 0;
    while placed < least {
        let span = Duration::from_secs(1);
        let load = Load { what: "wave", connections: 64, span, rate: None, keep: false };
        let report = drive(url, None, &load, &paid(&fresh())).await?.report;
        let taken = usize::try_from(report.status(201))?;
        if taken == 0 || since.elapsed() > delay {
            return Err(format!("{placed} orders placed, then {:?}", report.statuses()).into());
        }
        placed += taken;
    }
    Ok(placed)
}

fn paid(run: &str) -> Asks {
    let run = run.to_owned();
    Arc::new(move |n| {
        let body = format!(
            r#"{{"channel":"bench","external_id":"{run}-{n}","currency":"USD","lines":[{{"sku":"WAVE-{}","quantity":1,"unit_price":"1.00"}}],"payment":{{"id":"pay-{run}-{n}","amount":"1.00"}},"ship_to":{{"name":"张三","phone":"13800138000","country":"CN","province":"浙江省","city":"杭州市","district":"西湖区","address":"文一西路 969 号"}}}}"#,
            n % ITEMS
        );
        Ask::post("/v1/orders", body)
    })
}
