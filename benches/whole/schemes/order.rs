//! The request and the answer, as the daemon has them; typed, and read by serde.

use serde::{Deserialize, Serialize};
use stockhold::clock::{Clock, Span, Timestamp};
use stockhold::ids::Ids;

use std::sync::LazyLock;

static IDS: LazyLock<Ids> = LazyLock::new(Ids::system);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    channel: String,
    external_id: String,
    currency: String,
    lines: Vec<BodyLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BodyLine {
    sku: String,
    quantity: i64,
    unit_price: String,
}

/// An order to be placed.
#[derive(Clone)]
pub struct Order {
    pub id: String,
    pub channel: String,
    pub external_id: String,
    pub currency: String,
    /// Minor units.
    pub total: i64,
    pub lines: Vec<Line>,
    /// Microseconds.
    pub at: i64,
    pub expires_at: i64,
}

#[derive(Clone)]
pub struct Line {
    pub no: i64,
    pub sku: String,
    pub level: String,
    pub quantity: i64,
    /// Minor units.
    pub unit_price: i64,
}

impl Order {
    /// `None` where a figure is none.
    pub fn of(body: Body) -> Option<Order> {
        let now = Clock::System.now();
        let lines = (1..).zip(body.lines).map(|(no, line)| {
            let level = format!("main:{}", line.sku);
            let unit_price = minor(&line.unit_price)?;
            let quantity = Some(line.quantity).filter(|n| *n > 0)?;
            Some(Line { no, sku: line.sku, level, quantity, unit_price })
        });
        let lines = lines.collect::<Option<Vec<Line>>>().filter(|lines| !lines.is_empty())?;
        let total = lines.iter().try_fold(0_i64, |sum, line| {
            sum.checked_add(line.unit_price.checked_mul(line.quantity)?)
        })?;
        Some(Order {
            id: IDS.next(now),
            channel: body.channel,
            external_id: body.external_id,
            currency: body.currency,
            total,
            lines,
            at: now.as_micros(),
            expires_at: (now + Span::minutes(30)).as_micros(),
        })
    }
}

/// `"19.99"` as 1999.
fn minor(text: &str) -> Option<i64> {
    let (whole, cents) = text.split_once('.')?;
    if cents.len() != 2 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let cents: u8 = cents.parse().ok()?;
    Some(i64::from(whole) * 100 + i64::from(cents))
}

fn money(minor: i64) -> String {
    format!("{}.{:02}", minor / 100, minor % 100)
}

/// What the daemon answers of an order, field by field.
#[derive(Serialize)]
pub struct OrderAnswer {
    id: String,
    channel: String,
    external_id: String,
    state: &'static str,
    currency: String,
    total: String,
    due: String,
    paid: &'static str,
    refunded: &'static str,
    created_at: String,
    expires_at: String,
    expires_in_seconds: i64,
    cancel_reason: Option<String>,
    cancel_requested_at: Option<String>,
    lines: Vec<LineAnswer>,
    payments: [(); 0],
    refunds: [(); 0],
    purchase_orders: [(); 0],
    timeline: [Told; 1],
}

#[derive(Serialize)]
struct LineAnswer {
    id: String,
    sku: String,
    quantity: i64,
    cancelled_quantity: i64,
    shipped_quantity: i64,
    returned_quantity: i64,
    unit_price: String,
    state: &'static str,
    allocations: [Allocation; 1],
}

#[derive(Serialize)]
struct Allocation {
    source: &'static str,
    kind: &'static str,
    quantity: i64,
    hold_id: String,
    hold_state: &'static str,
    confirmation: Option<String>,
}

#[derive(Serialize)]
struct Told {
    at: String,
    event: &'static str,
    detail: &'static str,
}

impl OrderAnswer {
    pub fn of(order: &Order) -> OrderAnswer {
        let created_at = Timestamp(order.at).rfc3339();
        let lines = order.lines.iter().map(|line| LineAnswer {
            id: format!("{}.{}", order.id, line.no),
            sku: line.sku.clone(),
            quantity: line.quantity,
            cancelled_quantity: 0,
            shipped_quantity: 0,
            returned_quantity: 0,
            unit_price: money(line.unit_price),
            state: "held",
            allocations: [Allocation {
                source: "main",
                kind: "warehouse",
                quantity: line.quantity,
                hold_id: format!("{}.{}.1", order.id, line.no),
                hold_state: "active",
                confirmation: None,
            }],
        });
        OrderAnswer {
            id: order.id.clone(),
            channel: order.channel.clone(),
            external_id: order.external_id.clone(),
            state: "pending_payment",
            currency: order.currency.clone(),
            total: money(order.total),
            due: money(order.total),
            paid: "0.00",
            refunded: "0.00",
            expires_at: Timestamp(order.expires_at).rfc3339(),
            expires_in_seconds: 1800,
            cancel_reason: None,
            cancel_requested_at: None,
            lines: lines.collect(),
            payments: [],
            refunds: [],
            purchase_orders: [],
            timeline: [Told { at: created_at.clone(), event: "order_placed", detail: "" }],
            created_at,
        }
    }
}
