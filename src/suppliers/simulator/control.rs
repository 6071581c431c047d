//! `/sim`: the same hands on the simulator over HTTP, for a person with curl and for tests that see
//! a process only. JSON in and out; loopback callers only.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::Api;
use super::connection::Peer;
use super::faults::Fault;
use super::order::{By, Order};
use super::server::Shared;
use super::settings;
use super::shop::Wrong;
use super::tally::Tally;
use crate::domain::supply::Item;

/// The routes below `/sim`.
pub(super) fn router(shared: Shared) -> Router<Shared> {
    Router::new()
        .route("/book", get(book))
        .route("/stock", post(stock))
        .route("/purchases", post(purchases))
        .route("/offers/{id}", post(offer))
        .route("/orders", get(orders))
        .route("/orders/{id}", get(order))
        .route("/orders/{id}/{step}", post(step))
        .route("/faults", get(faults).post(script).delete(clear_script))
        .route("/settings", get(current).post(change))
        .route("/calls", get(calls).delete(clear_calls))
        .route("/tokens/expire", post(expire_tokens))
        .layer(middleware::from_fn(loopback_only))
        .with_state(shared)
}

/// What went wrong, as `{"error": …}`.
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, axum::Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<Wrong> for Problem {
    fn from(wrong: Wrong) -> Problem {
        let status = match wrong {
            Wrong::NoOrder | Wrong::NoItem => StatusCode::NOT_FOUND,
            Wrong::State | Wrong::TooFast => StatusCode::CONFLICT,
        };
        Problem(status, wrong.to_string())
    }
}

impl From<settings::Error> for Problem {
    fn from(error: settings::Error) -> Problem {
        Problem(StatusCode::BAD_REQUEST, error.to_string())
    }
}

type Answer = Result<axum::Json<Value>, Problem>;

fn answer(value: impl serde::Serialize) -> Answer {
    serde_json::to_value(value)
        .map(axum::Json)
        .map_err(|e| Problem(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))
}

/// A body, where none counts as `{}`.
fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Problem> {
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    serde_json::from_slice(text).map_err(|e| Problem(StatusCode::BAD_REQUEST, e.to_string()))
}

async fn loopback_only(
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    if peer.address.ip().to_canonical().is_loopback() {
        return next.run(request).await;
    }
    Problem(StatusCode::FORBIDDEN, "only from this machine".into()).into_response()
}

async fn book(State(shared): State<Shared>) -> Answer {
    answer(shared.with(|gateway, _| gateway.shop.book()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StockBody {
    offer_id: String,
    spec_id: Option<String>,
    /// The stock becomes this.
    stock: i64,
}

async fn stock(State(shared): State<Shared>, bytes: Bytes) -> Answer {
    let body: StockBody = body(&bytes)?;
    let item = Item { offer_id: body.offer_id, spec_id: body.spec_id };
    shared.with(|gateway, now| gateway.shop.set_stock(&item, body.stock, now))?;
    answer(json!({ "stock": shared.with(|gateway, now| gateway.shop.stock_at(&item, now)) }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PurchaseBody {
    offer_id: String,
    spec_id: Option<String>,
    units: i64,
}

async fn purchases(State(shared): State<Shared>, bytes: Bytes) -> Answer {
    let body: PurchaseBody = body(&bytes)?;
    let item = Item { offer_id: body.offer_id, spec_id: body.spec_id };
    let got = shared.with(|g, now| g.shop.other_buyer_takes(&item, body.units, now))?;
    answer(json!({ "units": got }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfferBody {
    status: String,
}

async fn offer(State(shared): State<Shared>, Path(id): Path<String>, bytes: Bytes) -> Answer {
    let body: OfferBody = body(&bytes)?;
    shared.with(|gateway, _| gateway.shop.set_status(&id, &body.status))?;
    answer(json!({ "offer_id": id, "status": body.status }))
}

/// An order with its id as text, its state and times in words.
fn shown(order: &Order) -> Value {
    let time = |at: Option<crate::clock::Timestamp>| at.map(crate::clock::Timestamp::rfc3339);
    json!({
        "id": order.id.to_string(),
        "out_order_id": order.reference,
        "status": order.status(),
        "lines": order.lines,
        "total_fen": order.total_fen(),
        "holds_stock": order.holds_stock,
        "created_at": time(Some(order.created_at)),
        "paid_at": time(order.paid_at),
        "shipped_at": time(order.shipped_at),
        "received_at": time(order.received_at),
        "completed_at": time(order.completed_at),
        "closed": order.closed.as_ref().map(|closing| json!({
            "at": closing.at.rfc3339(),
            "by": closing.by,
            "reason": closing.reason,
        })),
    })
}

async fn orders(State(shared): State<Shared>) -> Answer {
    answer(shared.with(|gateway, _| gateway.shop.orders().map(shown).collect::<Vec<_>>()))
}

async fn order(State(shared): State<Shared>, Path(id): Path<u64>) -> Answer {
    answer(shared.with(|g, _| g.shop.order(id).map(shown)).ok_or(Wrong::NoOrder)?)
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StepBody {
    by: By,
    reason: String,
}

impl Default for StepBody {
    fn default() -> StepBody {
        StepBody { by: By::Seller, reason: "卖家关闭".into() }
    }
}

async fn step(
    State(shared): State<Shared>,
    Path((id, step)): Path<(u64, String)>,
    bytes: Bytes,
) -> Answer {
    let body: StepBody = body(&bytes)?;
    let done = shared.with(|gateway, now| match step.as_str() {
        "pay" => Some(gateway.shop.pay(id, now)),
        "ship" => Some(gateway.shop.ship(id, now)),
        "receive" => Some(gateway.shop.receive(id, now)),
        "close" => Some(gateway.shop.close(id, body.by, &body.reason, now)),
        _ => None,
    });
    done.ok_or_else(|| Problem(StatusCode::NOT_FOUND, format!("no such step: {step}")))??;
    order(State(shared), Path(id)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptBody {
    api: Api,
    fault: Fault,
    #[serde(default = "once")]
    times: u32,
}

const fn once() -> u32 {
    1
}

async fn faults(State(shared): State<Shared>) -> Answer {
    answer(shared.with(|gateway, _| gateway.faults.scripted().clone()))
}

async fn script(State(shared): State<Shared>, bytes: Bytes) -> Answer {
    let body: ScriptBody = body(&bytes)?;
    shared.with(|gateway, _| {
        (0..body.times.min(10_000)).try_for_each(|_| gateway.script(body.api, body.fault.clone()))
    })?;
    faults(State(shared)).await
}

async fn clear_script(State(shared): State<Shared>) -> Answer {
    shared.with(|gateway, _| gateway.faults.clear());
    faults(State(shared)).await
}

async fn current(State(shared): State<Shared>) -> Answer {
    answer(shared.with(|gateway, _| gateway.settings().clone()))
}

/// The keys given are changed, the others stay; lists are replaced whole.
async fn change(State(shared): State<Shared>, bytes: Bytes) -> Answer {
    let wanted: Value = body(&bytes)?;
    shared.with(|gateway, now| {
        let Answer::Ok(axum::Json(mut merged)) = answer(gateway.settings()) else {
            return Ok(());
        };
        merge(&mut merged, wanted);
        let settings = serde_json::from_value(merged)
            .map_err(|e| Problem(StatusCode::BAD_REQUEST, e.to_string()))?;
        gateway.change(settings, now).map_err(Problem::from)
    })?;
    current(State(shared)).await
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

async fn calls(State(shared): State<Shared>) -> Answer {
    answer(shared.with(|gateway, _| gateway.tally.clone()))
}

async fn clear_calls(State(shared): State<Shared>) -> Answer {
    shared.with(|gateway, _| gateway.tally = Tally::default());
    calls(State(shared)).await
}

async fn expire_tokens(State(shared): State<Shared>) -> Answer {
    shared.with(|gateway, _| gateway.tokens.expire());
    answer(json!({}))
}
