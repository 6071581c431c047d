//! One customer's evening, as the storefront lives it, and the storefront's own notes of it: what it
//! was told, and what money it captured. The verdict compares these with what the daemon says.

use serde_json::{Value, json};

use super::cast::{Customer, Pays, Repeats, SHIPPING, price};
use super::pace::Story;
use super::shop::{CURRENCY, OrderView, Reply, Shop, money};
use crate::clock::Span;

pub const CHANNEL: &str = "web";
/// A late payer looks so often whether the order has expired, story minutes.
const LOOKS_EVERY: i64 = 1;
const LOOKS: usize = 150;
/// Who is told that the figures are too old tries again so often, so many story minutes later: they
/// grow old for a moment when the machine, or a supplier that hangs, is slower than the story.
const TRIES: usize = 12;
const TRIES_AFTER: i64 = 2;

/// What became of a payment after expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    HeldAnew,
    MoneyBack,
}

/// The storefront's notes on one order. Money is in cents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    pub external_id: String,
    /// SKU, units, price of one.
    pub lines: Vec<(String, i64, i64)>,
    pub shipping: i64,
    /// The id that the first answer gave.
    pub order: Option<String>,
    /// How often a new order was said to be placed.
    pub accepted: u32,
    /// How often the same order was answered again.
    pub repeated: u32,
    /// Ids in later answers that are not the first one's.
    pub strays: Vec<String>,
    /// The code of the refusal.
    pub refused: Option<String>,
    /// Changed repeats that were refused, as they must be.
    pub conflicts: u32,
    /// Payment id and amount, once each.
    pub captured: Vec<(String, i64)>,
    /// Notices of a payment that the daemon had already.
    pub renotified: u32,
    pub late: Option<Late>,
    pub paid_twice: bool,
    /// A cancel was accepted.
    pub cancelled: bool,
    /// Answers that no storefront should get.
    pub troubles: Vec<String>,
}

/// Lives the customer's evening.
pub async fn live(customer: Customer, shop: Shop, story: Story) -> Visit {
    story.until(customer.comes_at).await;
    let priced = |(sku, n): &(&str, i64)| ((*sku).to_owned(), *n, price(sku));
    let visit = Visit {
        external_id: customer.external_id.clone(),
        lines: customer.lines.iter().map(priced).collect(),
        shipping: SHIPPING,
        ..Visit::default()
    };
    let mut evening = Evening { customer, shop, story, visit };
    if let Err(wrong) = evening.play().await {
        evening.visit.troubles.push(wrong);
    }
    evening.visit
}

/// Places an order, again where the supplier's figures were too old to sell by.
async fn submit(
    shop: &Shop,
    story: Story,
    body: &Value,
    key: Option<&str>,
) -> Result<Reply, String> {
    for _ in 0..TRIES {
        let reply = shop.post("/v1/orders", body, key).await?;
        if reply.code() != "stale_feed" {
            return Ok(reply);
        }
        story.pass(TRIES_AFTER).await;
    }
    shop.post("/v1/orders", body, key).await
}

struct Evening {
    customer: Customer,
    shop: Shop,
    story: Story,
    visit: Visit,
}

impl Evening {
    async fn play(&mut self) -> Result<(), String> {
        self.place().await?;
        let Some(order) = self.visit.order.clone() else {
            return Ok(());
        };
        if !self.pay(&order).await? {
            return Ok(());
        }
        if self.customer.notified_twice
            && let Some((payment, cents)) = self.visit.captured.first().cloned()
        {
            self.shop.pay(&order, &payment, cents).await?;
            self.visit.renotified += 1;
        }
        if let Some(minutes) = self.customer.cancels {
            self.story.pass(minutes).await;
            self.cancel(&order).await?;
        }
        Ok(())
    }

    async fn place(&mut self) -> Result<(), String> {
        let body = self.body(0);
        let shop = self.shop.clone();
        let story = self.story;
        let send = |key| submit(&shop, story, &body, key);
        match self.customer.repeats {
            Repeats::Not => self.note(send(None).await?)?,
            Repeats::AtOnce => {
                let (one, other) = tokio::join!(send(None), send(None));
                self.note(one?)?;
                self.note(other?)?;
            }
            Repeats::Again => {
                let key = format!("place-{}", self.visit.external_id);
                self.note(send(Some(&key)).await?)?;
                self.note(send(Some(&key)).await?)?;
            }
            Repeats::Changed => {
                self.note(send(None).await?)?;
                if self.visit.order.is_some() {
                    let changed = shop.post("/v1/orders", &self.body(1), None).await?;
                    if changed.code() != "external_id_conflict" {
                        return Err(changed.wrong("a changed repeat"));
                    }
                    self.visit.conflicts += 1;
                }
            }
        }
        if self.customer.pays == Pays::WithOrder && self.visit.order.is_some() {
            self.visit.captured.push((self.payment(1), self.total()));
        }
        Ok(())
    }

    /// The order as it is sent, with so many units more on its first line.
    fn body(&self, more: i64) -> Value {
        let line = |(n, (sku, units, cents)): (usize, &(String, i64, i64))| {
            let units = if n == 0 { units + more } else { *units };
            json!({"sku": sku, "quantity": units, "unit_price": money(*cents)})
        };
        let mut body = json!({
            "channel": CHANNEL,
            "external_id": self.visit.external_id,
            "currency": CURRENCY,
            "lines": self.visit.lines.iter().enumerate().map(line).collect::<Vec<_>>(),
            "shipping": money(SHIPPING),
            "customer": {"id": self.visit.external_id},
            "ship_to": {
                "name": "王芳", "phone": "13800000000", "country": "CN", "province": "浙江省",
                "city": "杭州市", "district": "西湖区", "address": "文三路 1 号", "postcode": "310000",
            },
            "short_policy": if self.customer.keeps_rest { "cancel_lines" } else { "cancel_order" },
        });
        if self.customer.pays == Pays::WithOrder
            && let Some(body) = body.as_object_mut()
        {
            let payment = json!({"id": self.payment(1), "amount": money(self.total())});
            body.insert("payment".to_owned(), payment);
        }
        body
    }

    fn payment(&self, n: u32) -> String {
        format!("pay-{n}-{}", self.visit.external_id)
    }

    fn total(&self) -> i64 {
        let goods = self.visit.lines.iter().map(|(_, units, cents)| units * cents);
        goods.sum::<i64>() + self.visit.shipping
    }

    /// Notes an answer to a placement.
    fn note(&mut self, reply: Reply) -> Result<(), String> {
        if reply.status == 409 {
            self.visit.refused = Some(reply.code().to_owned());
            return Ok(());
        }
        let new = reply.status == 201 && !reply.replayed;
        let order: OrderView = reply.read("placing")?;
        *(if new { &mut self.visit.accepted } else { &mut self.visit.repeated }) += 1;
        match &self.visit.order {
            None => self.visit.order = Some(order.id),
            Some(first) if *first == order.id => {}
            Some(_) => self.visit.strays.push(order.id),
        }
        Ok(())
    }

    /// Pays as this customer does; whether anything was paid.
    async fn pay(&mut self, order: &str) -> Result<bool, String> {
        match self.customer.pays {
            Pays::WithOrder => {}
            Pays::Never => return Ok(false),
            Pays::After(minutes) => {
                self.story.pass(minutes).await;
                self.capture(order, 1).await?;
            }
            Pays::Twice(minutes) => {
                self.story.pass(minutes).await;
                self.capture(order, 1).await?;
                self.capture(order, 2).await?;
                self.visit.paid_twice = true;
            }
            Pays::Late(minute) => {
                self.story.until(Span::minutes(minute)).await;
                self.expired(order).await?;
                let after = self.capture(order, 1).await?;
                let back = after.state == "cancelled";
                self.visit.late = Some(if back { Late::MoneyBack } else { Late::HeldAnew });
            }
        }
        Ok(true)
    }

    async fn capture(&mut self, order: &str, n: u32) -> Result<OrderView, String> {
        let (payment, total) = (self.payment(n), self.total());
        let answer = self.shop.pay(order, &payment, total).await?;
        self.visit.captured.push((payment, total));
        Ok(answer)
    }

    async fn expired(&self, order: &str) -> Result<(), String> {
        for _ in 0..LOOKS {
            if self.shop.order(order).await?.state == "expired" {
                return Ok(());
            }
            self.story.pass(LOOKS_EVERY).await;
        }
        Err(format!("order {order} is unpaid and does not expire"))
    }

    async fn cancel(&mut self, order: &str) -> Result<(), String> {
        let path = format!("/v1/orders/{order}/cancel");
        let reply = self.shop.post(&path, &json!({"reason": "customer"}), None).await?;
        match reply.status {
            200 | 202 => self.visit.cancelled = true,
            // On its way already, or ended before.
            409 => {}
            _ => return Err(reply.wrong(&path)),
        }
        Ok(())
    }
}
