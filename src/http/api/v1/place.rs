//! `POST /v1/orders`: places an order and holds its stock, all lines or none.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use sha2::{Digest, Sha256};
use tracing::Instrument;
use utoipa::ToSchema;

use super::order_answer;
use super::progress::{AddressBody, read_address};
use crate::coordination::{Submission, Submitted};
use crate::domain::command::{Capture, Command, Placement, PlacementLine};
use crate::domain::money::Currency;
use crate::domain::names::{OrderId, SkuKey};
use crate::domain::order::{Customer, ShortPolicy};
use crate::domain::outcome::{Outcome, Refusal, Shortage, Touch};
use crate::engine::{self, Envelope, KeptAnswer, Reply};
use crate::http::Shared;
use crate::http::extract::{Body, Object, Report, Value};
use crate::http::idempotency::{Call, Keep, Turn, answer, plain, replayed, respond};
use crate::http::problem::{Problem, Problems};
use crate::http::view::order::OrderView;
use crate::storage::reads::orders::{self, Filter};
use crate::storage::reads::placements::Names;

/// An order as a storefront places it. Money is in `currency`.
#[derive(ToSchema)]
pub struct PlaceOrder {
    #[schema(min_length = 1, max_length = 255)]
    pub channel: String,
    /// Names the order once within its channel.
    #[schema(min_length = 1, max_length = 255)]
    pub external_id: String,
    /// ISO 4217.
    #[schema(example = "USD")]
    pub currency: String,
    #[schema(min_items = 1, max_items = 100)]
    pub lines: Vec<PlaceLine>,
    #[schema(example = "4.00")]
    pub shipping: Option<String>,
    /// At most lines and shipping together.
    #[schema(example = "0.00")]
    pub discount: Option<String>,
    pub customer: Option<CustomerBody>,
    pub ship_to: Option<AddressBody>,
    /// Money that is already captured.
    pub payment: Option<PlacePayment>,
    /// `cancel_order` (default) or `cancel_lines`.
    pub short_policy: Option<String>,
}

#[derive(ToSchema)]
pub struct PlaceLine {
    /// Trimmed, Unicode NFC, case-sensitive.
    #[schema(min_length = 1, max_length = 128)]
    pub sku: String,
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub quantity: i64,
    #[schema(example = "19.99")]
    pub unit_price: String,
}

#[derive(ToSchema)]
pub struct CustomerBody {
    #[schema(max_length = 255)]
    pub id: Option<String>,
    #[schema(max_length = 255)]
    pub email: Option<String>,
}

#[derive(ToSchema)]
pub struct PlacePayment {
    /// Unique within the channel.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// Above 0.
    #[schema(example = "23.99")]
    pub amount: String,
    /// RFC 3339; information only.
    pub paid_at: Option<String>,
}

/// Place an order. `201` with the order; `200` when `(channel, external_id)` names one with the
/// same content.
#[utoipa::path(post, path = "/v1/orders", tag = "orders", request_body = PlaceOrder,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = OrderView), (status = 200, body = OrderView), Problems))]
pub async fn place_order(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    place(&app, call, &body).await.map_err(|problem| note_payment(problem, &body))
}

async fn place(app: &Shared, call: Call, body: &Body) -> Result<Response, Problem> {
    let turn = Turn::begin(app, call, body, Keep::Day)?;
    let mut placement = read(body.text(), OrderId::from(app.ids.next(turn.now)))?;
    placement.idempotency = turn.placement_key();
    if let Some(refusal) = sold_out(app, &turn, &placement).await {
        return Err(refusal.into());
    }
    let named = named(&placement);
    let render = order_answer(turn.now);
    let idempotency = turn.idempotency(move |outcome| match outcome {
        // The order itself keeps the key that made it.
        Outcome::Order { touch: Touch::Created | Touch::Replayed, .. } => None,
        outcome => Some(render(outcome)),
    });
    let guarded = guard(app, &placement, &named).await?;
    let command = Command::Place(Box::new(placement));
    let reply = submit(app, Envelope { command, fence: None, idempotency }, guarded).await?;
    match reply {
        Reply::Outcome(_) if touch(&reply) == Some(Touch::Replayed) => {
            Ok(replayed(respond(&reply, order_answer(turn.now))))
        }
        Reply::Outcome(_) => Ok(respond(&reply, order_answer(turn.now))),
        Reply::Kept(kept) => Ok(replayed(plain(as_it_is_now(app, &named, &turn, kept).await?))),
    }
}

/// The refusal of a placement of one SKU that is noted as sold out, unless it has a chance: it repeats
/// something, or the stock has changed. That is the engine's to answer, as is all that cannot be told.
async fn sold_out(app: &Shared, turn: &Turn, placement: &Placement) -> Option<Refusal> {
    let asked = only_sku(placement)?;
    let note = app.coordination.sold_out(asked)?;
    let names = Names {
        channel: placement.channel.clone(),
        external_id: placement.external_id.clone(),
        key: turn.placement_names(),
        payment_id: placement.payment.as_ref().map(|payment| payment.id.clone()),
        versions: note.versions,
    };
    if app.chances.has_one(names).await != Some(false) {
        return None;
    }
    // It may have ended meanwhile.
    let sku = app.coordination.sold_out(asked)?.sku;
    metrics::counter!("stockhold_sold_out_refusals_total").increment(1);
    let requested = placement.lines.iter().fold(0i64, |n, line| n.saturating_add(line.quantity));
    Some(Refusal::InsufficientStock(vec![Shortage { sku, requested, available: 0 }]))
}

/// The name that all lines ask for.
fn only_sku(placement: &Placement) -> Option<&SkuKey> {
    let (first, rest) = placement.lines.split_first()?;
    rest.iter().all(|line| line.sku == first.sku).then_some(&first.sku)
}

/// The order of the placement's name.
fn named(placement: &Placement) -> Filter {
    Filter {
        channel: Some(placement.channel.clone()),
        external_id: Some(placement.external_id.clone()),
        ..Filter::default()
    }
}

/// The first answer with the order as it is now: it names the same order, which is never deleted.
async fn as_it_is_now(
    app: &Shared,
    named: &Filter,
    turn: &Turn,
    kept: KeptAnswer,
) -> Result<KeptAnswer, Problem> {
    let orders = orders::list(&app.db, named, None, 1).await?;
    let Some(order) = orders.first() else { return Ok(kept) };
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    Ok(answer(status, &OrderView::new(order, turn.now)))
}

/// The order's turn among those that look like it; `None` when it names no customer.
///
/// # Errors
/// `429 duplicate_submission`; never for an order that is there already, since a repeat is answered.
async fn guard(
    app: &Shared,
    placement: &Placement,
    named: &Filter,
) -> Result<Option<Submitted>, Problem> {
    let Some(submission) = Submission::of(placement) else { return Ok(None) };
    let submitted = app.coordination.submit(submission).await;
    let Some(wait) = submitted.duplicate_for else { return Ok(Some(submitted)) };
    if orders::list(&app.db, named, None, 1).await?.is_empty() {
        submitted.refused();
        return Err(Problem::duplicate_submission(wait));
    }
    Ok(Some(submitted))
}

/// Submits it. What was accepted is remembered by the guard before it is answered, and also when the
/// caller has hung up meanwhile, as an impatient one does.
async fn submit(
    app: &Shared,
    command: Envelope,
    guarded: Option<Submitted>,
) -> Result<Reply, engine::Error> {
    let Some(guarded) = guarded else { return app.engine.submit(command).await };
    let engine = app.engine.clone();
    let submitting = async move {
        let reply = engine.submit(command).await?;
        if touch(&reply) == Some(Touch::Created) {
            guarded.accepted().await;
        }
        Ok(reply)
    };
    let submitting = tokio::spawn(submitting.in_current_span());
    submitting.await.unwrap_or(Err(engine::Error::OutcomeUnknown))
}

fn touch(reply: &Reply) -> Option<Touch> {
    match reply {
        Reply::Outcome(Outcome::Order { touch, .. }) => Some(*touch),
        _ => None,
    }
}

/// A refused placement that carried a payment says that the money was not recorded, unless that
/// is not known.
fn note_payment(problem: Problem, body: &Body) -> Problem {
    let report = Report::default();
    let pays = Object::of_body(body.text(), &report)
        .is_ok_and(|object| object.nullable("payment").is_some());
    if pays && problem.nothing_taken() {
        problem.with("payment_recorded", json!(false))
    } else {
        problem
    }
}

fn read(text: &str, id: OrderId) -> Result<Placement, Problem> {
    let report = Report::default();
    let placement = read_object(Object::of_body(text, &report)?, id);
    report.finish(placement)
}

/// An optional member that is at fault reads as absent here; the report refuses the whole then.
fn read_object(body: Object<'_>, id: OrderId) -> Option<Placement> {
    let channel = body.required("channel").and_then(|v| v.external_text());
    let external_id = body.required("external_id").and_then(|v| v.external_text());
    let currency = body.required("currency").and_then(|v| v.currency());
    let lines = body.required("lines").and_then(|v| v.array(1..=100)).and_then(|lines| {
        // Every line is read, so that all faults are told.
        let lines: Vec<_> = lines.iter().map(|v| read_line(v, currency)).collect();
        lines.into_iter().collect::<Option<Vec<_>>>()
    });
    let money = |name: &'static str| match body.nullable(name) {
        Some(value) => value.amount(currency),
        None => Some(0),
    };
    let (shipping, discount) = (money("shipping"), money("discount"));
    let customer = body.nullable("customer").and_then(|v| read_customer(&v));
    let ship_to = body.nullable("ship_to").and_then(|v| read_address(v.object()));
    let payment = body.nullable("payment").and_then(|v| read_payment(&v, currency));
    let short_policy = match body.nullable("short_policy") {
        Some(value) => value.choice(ShortPolicy::ALL, ShortPolicy::as_str),
        None => Some(ShortPolicy::CancelOrder),
    };
    check_total(&body, lines.as_deref(), shipping, discount);
    body.finish();
    let mut placement = Placement {
        id,
        channel: channel?,
        external_id: external_id?,
        content_hash: String::new(),
        idempotency: None,
        currency: currency?.code().to_owned(),
        lines: lines?,
        shipping: shipping?,
        discount: discount?,
        customer,
        ship_to,
        payment,
        short_policy: short_policy?,
    };
    placement.content_hash = content_hash(&placement);
    Some(placement)
}

fn read_line(value: &Value<'_>, currency: Option<Currency>) -> Option<PlacementLine> {
    let line = value.object()?;
    let sku = line.required("sku").and_then(|v| v.sku());
    let quantity = line.required("quantity").and_then(|v| v.quantity());
    let unit_price = line.required("unit_price").and_then(|v| v.amount(currency));
    line.finish();
    Some(PlacementLine { sku: sku?, quantity: quantity?, unit_price: unit_price? })
}

fn read_customer(value: &Value<'_>) -> Option<Customer> {
    let customer = value.object()?;
    let text = |name: &'static str| customer.nullable(name).and_then(|v| v.text(0..=255));
    let (id, email) = (text("id"), text("email"));
    customer.finish();
    Some(Customer { id, email })
}

fn read_payment(value: &Value<'_>, currency: Option<Currency>) -> Option<Capture> {
    let payment = value.object()?;
    let id = payment.required("id").and_then(|v| v.external_text());
    let amount = payment.required("amount").and_then(|v| v.amount_above_zero(currency));
    let paid_at = payment.nullable("paid_at").and_then(|v| v.time());
    payment.finish();
    Some(Capture { id: id?, amount: amount?, currency: None, paid_at })
}

/// The total must fit, and the discount must not exceed what it is taken from.
fn check_total(
    body: &Object<'_>,
    lines: Option<&[PlacementLine]>,
    shipping: Option<i64>,
    discount: Option<i64>,
) {
    let (Some(lines), Some(shipping), Some(discount)) = (lines, shipping, discount) else {
        return;
    };
    let gross = lines.iter().try_fold(shipping, |sum, line| {
        line.unit_price.checked_mul(line.quantity).and_then(|amount| sum.checked_add(amount))
    });
    match gross {
        None => body.fault("lines", "add up to too large an amount"),
        Some(gross) if discount > gross => {
            body.fault("discount", "must not exceed lines and shipping");
        }
        Some(_) => {}
    }
}

/// SHA-256 over what makes two placements the same order: currency, lines, shipping, discount and
/// address, as they were understood.
fn content_hash(placement: &Placement) -> String {
    let lines: Vec<_> =
        placement.lines.iter().map(|l| (l.sku.as_str(), l.quantity, l.unit_price)).collect();
    let (shipping, discount) = (placement.shipping, placement.discount);
    let ship_to = placement.ship_to.as_ref().map(|address| json!(address));
    // Plain data with text keys: writing it cannot fail.
    let content = serde_json::to_vec(&(&placement.currency, lines, shipping, discount, ship_to));
    hex::encode(Sha256::digest(content.unwrap_or_default()))
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
