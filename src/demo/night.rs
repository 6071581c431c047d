//! The night's script: the catalogue is imported, the customers come, the supplier has its troubles,
//! and then everybody waits until nothing is left open.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::customer::{self, Visit};
use super::pace::{Story, in_story, real};
use super::shop::{AvailabilityView, OrderView, RefundView, Shop};
use super::{SUPPLIER, cast};
use crate::app::import;
use crate::catalogue::Row;
use crate::clock::Span;
use crate::domain::supply::Item;
use crate::engine::Engine;
use crate::suppliers::simulator::{Api, Fault, Handle, Status};

const CATALOGUE: &str = include_str!("../../fixtures/catalog/demo.csv");
/// What other buyers take while nobody looks.
const LAMP: (&str, &str) = ("LAMP-01", "602101010101");
const LAMPS_GO_AT: i64 = 7;
const THROTTLED_AT: i64 = 26;
/// First figures, or the sight of the lamps being gone, take no longer.
const PATIENCE: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// States in which something is still to happen.
const OPEN: [&str; 5] = ["pending_payment", "paid", "confirming", "attention", "confirmed"];

/// What came of the night outside the daemon.
pub struct Night {
    pub visits: Vec<Visit>,
    /// From the moment when others took the lamps to the moment when the feed showed it.
    pub feed_late_by: Option<Duration>,
}

/// Imports the catalogue with the daemon's own engine and waits for the supplier's first figures.
///
/// # Errors
/// In words.
pub async fn prepare(shop: &Shop, engine: &Engine) -> Result<Vec<Row>, String> {
    let rows = import::check(CATALOGUE.as_bytes(), &[SUPPLIER])?;
    import::import(engine, &rows, false).await?;
    let path = format!("/v1/suppliers/{SUPPLIER}/sync");
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        // 409 while the regular one runs, which is as good.
        shop.post(&path, &json!({}), None).await?;
        tokio::time::sleep(LOOK_EVERY).await;
        let seen = availability(shop, &rows).await?;
        if seen.iter().flat_map(|a| &a.sources).all(|s| s.freshness != "unknown") {
            return Ok(rows);
        }
    }
    Err("the supplier's figures were never read".into())
}

/// Every SKU's figures.
///
/// # Errors
/// When the daemon does not answer.
pub async fn availability(shop: &Shop, rows: &[Row]) -> Result<Vec<AvailabilityView>, String> {
    #[derive(serde::Deserialize)]
    struct All {
        items: Vec<AvailabilityView>,
    }
    let skus: Vec<&str> = rows.iter().map(|row| row.sku.as_str()).collect();
    let reply = shop.post("/v1/availability", &json!({ "skus": skus }), None).await?;
    Ok(reply.read::<All>("availability")?.items)
}

/// Plays the night until the last customer has gone.
///
/// # Errors
/// When the script cannot be played.
pub async fn play(shop: &Shop, supplier: &Handle, story: Story) -> Result<Night, String> {
    script(supplier, Api::Create, [Fault::LOST, Fault::TIMED_OUT, late(), Fault::LOST])?;
    let people = cast::everybody();
    story.say(&format!("{} customers are about to come", people.len()));
    let mut evenings = JoinSet::new();
    for person in people {
        evenings.spawn(customer::live(person, shop.clone(), story));
    }
    let (lamps, throttled) = tokio::join!(lamps(shop, supplier, story), throttle(supplier, story));
    throttled?;
    let feed_late_by = lamps?;
    let mut visits = Vec::new();
    while let Some(visit) = evenings.join_next().await {
        visits.push(visit.map_err(|e| format!("a customer's evening: {e}"))?);
    }
    visits.sort_by(|a, b| a.external_id.cmp(&b.external_id));
    story.say("the last customer has gone");
    Ok(Night { visits, feed_late_by })
}

/// Made 20 minutes after whoever asked has given up.
fn late() -> Fault {
    Fault::Late { after: real(Span::minutes(20)) }
}

fn script(
    supplier: &Handle,
    api: Api,
    faults: impl IntoIterator<Item = Fault>,
) -> Result<(), String> {
    faults.into_iter().try_for_each(|f| supplier.script(api, f)).map_err(|e| e.to_string())
}

async fn throttle(supplier: &Handle, story: Story) -> Result<(), String> {
    story.until(Span::minutes(2)).await;
    story.say(
        "the supplier takes the next four orders and answers none: two made, one not, one late",
    );
    story.until(Span::minutes(THROTTLED_AT)).await;
    story.say("the supplier throttles our calls");
    script(supplier, Api::Product, [Fault::throttled()])?;
    script(supplier, Api::View, [Fault::throttled()])
}

/// Others take every lamp; the feed does not say so yet.
async fn lamps(shop: &Shop, supplier: &Handle, story: Story) -> Result<Option<Duration>, String> {
    let (sku, offer_id) = LAMP;
    story.until(Span::minutes(LAMPS_GO_AT)).await;
    let item = Item { offer_id: offer_id.to_owned(), spec_id: None };
    let since = Instant::now();
    let units = supplier.stock(&item);
    let taken = supplier.other_buyer_takes(&item, units).map_err(|e| e.to_string())?;
    story.say(&format!("other people buy the last {taken} lamps; our feed is 40 minutes late"));
    let path = format!("/v1/skus/{sku}/availability");
    while since.elapsed() < PATIENCE {
        let seen: AvailabilityView = shop.get(&path).await?;
        if seen.sources.iter().all(|source| source.quantity == 0) {
            let late_by = since.elapsed();
            let minutes = in_story(late_by);
            story.say(&format!("the feed shows that the lamps are gone, {minutes} minutes later"));
            return Ok(Some(late_by));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(None)
}

/// Waits until every order is at its end or on its way, every refund made and every purchase paid.
///
/// # Errors
/// When the daemon does not answer.
pub async fn rest(shop: &Shop, supplier: &Handle) -> Result<(), String> {
    while !rested(shop, supplier).await? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn rested(shop: &Shop, supplier: &Handle) -> Result<bool, String> {
    for state in OPEN {
        let open: Vec<OrderView> = shop.list("/v1/orders", &format!("state={state}")).await?;
        if !open.is_empty() {
            return Ok(false);
        }
    }
    let owed: Vec<RefundView> = shop.list("/v1/refunds", "state=pending").await?;
    Ok(owed.is_empty() && supplier.orders().iter().all(|o| o.status() != Status::Unpaid))
}
