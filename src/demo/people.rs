//! The people of the night beside the customers: ops at the shop, who work through the API alone,
//! and whoever pays and sells at the supplier, who has the simulator's handle.

use std::collections::BTreeMap;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::pace::{Story, real};
use super::shop::{AllocationView, LineView, OrderView, RefundView, Shop};
use crate::clock::{Clock, Span};
use crate::suppliers::simulator::{Handle, Status};

/// The offer of which the seller closes an order.
pub const CLOSED_OFFER: &str = "554456348334";
/// Ops look at the refunds so often, story minutes.
const DESK_EVERY: i64 = 2;
/// The carrier comes so often, story minutes.
const CARRIER_EVERY: i64 = 20;
/// A purchase is paid by hand so long after it was placed, story minutes.
const PAID_AFTER: i64 = 10;

/// Ops: make the refunds, hand the warehouse's goods to the carrier, decide what nobody else can.
pub async fn ops(shop: Shop, story: Story, stop: CancellationToken) {
    let (mut carrier_at, mut told) = (CARRIER_EVERY, String::new());
    while !stop.is_cancelled() {
        let mut round = refunds(&shop).await;
        if round.is_ok() && story.minutes() >= carrier_at {
            carrier_at = story.minutes() + CARRIER_EVERY;
            round = floor(&shop, story, &mut told).await;
        }
        if let Err(wrong) = round
            && !stop.is_cancelled()
        {
            story.say(&format!("ops could not: {wrong}"));
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = story.pass(DESK_EVERY) => {}
        }
    }
}

/// Makes every refund that is owed.
async fn refunds(shop: &Shop) -> Result<(), String> {
    let open: Vec<RefundView> = shop.list("/v1/refunds", "state=pending").await?;
    for refund in open {
        let path = format!("/v1/refunds/{}/resolve", refund.id);
        let body = json!({"outcome": "succeeded", "reference": format!("bank-{}", refund.id)});
        shop.post(&path, &body, Some(&refund.id)).await?.read::<RefundView>(&path)?;
    }
    Ok(())
}

/// Looks at all orders: ships what is the warehouse's, decides what is in attention, tells how many
/// stand where if that is news.
async fn floor(shop: &Shop, story: Story, told: &mut String) -> Result<(), String> {
    let orders: Vec<OrderView> = shop.list("/v1/orders", "").await?;
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for order in &orders {
        *states.entry(&order.state).or_default() += 1;
    }
    let states: Vec<String> = states.iter().map(|(state, n)| format!("{n} {state}")).collect();
    let standing = format!("{} orders: {}", orders.len(), states.join(", "));
    if standing != *told {
        story.say(&standing);
        *told = standing;
    }
    for order in &orders {
        match order.state.as_str() {
            "confirmed" => ship(shop, order).await?,
            "attention" => decide(shop, story, order).await?,
            _ => {}
        }
    }
    Ok(())
}

async fn ship(shop: &Shop, order: &OrderView) -> Result<(), String> {
    let units = |line: &LineView| {
        let sold = |a: &&AllocationView| a.kind == "warehouse" && a.hold_state == "committed";
        line.allocations.iter().filter(sold).map(|a| a.quantity).sum::<i64>()
    };
    let lines = order.lines.iter().map(|line| (line.id.as_str(), units(line)));
    let lines: Vec<_> = lines
        .filter(|(_, units)| *units > 0)
        .map(|(id, units)| json!({"line_id": id, "quantity": units}))
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    let path = format!("/v1/orders/{}/shipments", order.id);
    let number = format!("SF-{}", order.external_id);
    let body = json!({"lines": lines, "carrier": "SF", "tracking_number": number});
    let reply = shop.post(&path, &body, Some(&format!("ship-{}", order.id))).await?;
    match reply.status {
        // 409: cancelled since it was listed.
        200 | 409 => Ok(()),
        _ => Err(reply.wrong(&path)),
    }
}

/// A customer's cancel came after the supplier's order was paid: the goods go on. Everything else is
/// left to its deadline.
async fn decide(shop: &Shop, story: Story, order: &OrderView) -> Result<(), String> {
    let why = order.timeline.iter().rev().find(|e| e.event == "order_attention");
    let why = why.map_or("", |e| e.detail.as_str());
    story.say(&format!("{} needs a person: {why}", order.external_id));
    if why != "cancel_refused_upstream" {
        return Ok(());
    }
    let path = format!("/v1/orders/{}/decide", order.id);
    let reply = shop.post(&path, &json!({"action": "retry"}), None).await?;
    match reply.status {
        200 | 409 => Ok(()),
        _ => Err(reply.wrong(&path)),
    }
}

/// At the supplier: our buyer pays each order by hand, and the seller closes one.
pub async fn supplier(handle: Handle, clock: Clock, story: Story, stop: CancellationToken) {
    let mut closed = false;
    while !stop.is_cancelled() {
        let now = clock.now();
        for order in handle.orders().iter().filter(|o| o.status() == Status::Unpaid) {
            let disliked = order.lines.iter().any(|l| l.item.offer_id == CLOSED_OFFER);
            if disliked && !closed {
                closed = handle.close_by_seller(order.id).is_ok();
                story.say(&format!("the seller closes order {}: no reason given", order.id));
            } else if now.since(order.created_at) >= real(Span::minutes(PAID_AFTER)) {
                // Refused only if it was closed in this moment.
                let _ = handle.pay(order.id);
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = story.pass(1) => {}
        }
    }
}
