//! The API as a storefront and an ops person see it: requests, and the parts of the answers that the
//! demo reads. Nothing here knows the daemon otherwise.
//!
//! What must hold: only requests that name themselves (external id, payment id, key) are repeated,
//! and only where nothing was taken or it is not known (503, a lost connection).

use std::time::Duration;

use reqwest::{Client, Method};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::domain::money::{Currency, format_minor, parse_minor};
use crate::http_client;

/// The shop's currency.
pub const CURRENCY: &str = "USD";
/// One request, from connecting to the last byte.
const TIMEOUT: Duration = Duration::from_secs(15);
const ATTEMPTS: usize = 12;
const PAUSE: Duration = Duration::from_millis(250);
/// The largest answer that is read, bytes: a page of 500 orders.
const LIMIT: usize = 64 << 20;

/// A connection to the daemon; clones share it.
#[derive(Clone, Debug)]
pub struct Shop {
    http: Client,
    pub url: String,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// The first answer again, under its `Idempotency-Key`.
    pub replayed: bool,
    pub body: Value,
}

impl Reply {
    /// A problem's code; empty when there is none.
    pub fn code(&self) -> &str {
        self.body.get("code").and_then(Value::as_str).unwrap_or_default()
    }

    /// What went wrong, in words.
    pub fn wrong(&self, asked: &str) -> String {
        let detail = self.body.get("detail").and_then(Value::as_str).unwrap_or_default();
        format!("{asked}: {} {} {detail}", self.status, self.code())
    }

    /// The body as what it should be.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read<T: DeserializeOwned>(self, asked: &str) -> Result<T, String> {
        if !(200..300).contains(&self.status) {
            return Err(self.wrong(asked));
        }
        serde_json::from_value(self.body).map_err(|e| format!("{asked}: {e}"))
    }
}

impl Shop {
    /// # Errors
    /// When no HTTP client can be had.
    pub fn new(url: String) -> Result<Shop, String> {
        let http = http_client::client(TIMEOUT).map_err(http_client::text)?;
        Ok(Shop { http, url })
    }

    /// Posts a request that names itself.
    ///
    /// # Errors
    /// When it was not answered after all.
    pub async fn post(&self, path: &str, body: &Value, key: Option<&str>) -> Result<Reply, String> {
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            match self.once(Method::POST, path, Some(body), key).await {
                Ok(reply) if reply.status != 503 => return Ok(reply),
                Ok(reply) => last = reply.wrong(path),
                Err(error) => last = format!("{path}: {error}"),
            }
        }
        Err(last)
    }

    /// # Errors
    /// When it is not there, or is something else.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        self.once(Method::GET, path, None, None).await?.read(path)
    }

    /// Every element of a list; `query` as in `state=open`, or empty.
    ///
    /// # Errors
    /// As [`Shop::get`].
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
    ) -> Result<Vec<T>, String> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let asked = format!("{path}?limit=500&{query}{cursor}");
            let page: Page<T> = self.get(asked.trim_end_matches('&')).await?;
            items.extend(page.items);
            match page.next_cursor {
                Some(next) if query.is_empty() => cursor = format!("cursor={next}"),
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(items),
            }
        }
    }

    /// # Errors
    /// When it is not there.
    pub async fn order(&self, id: &str) -> Result<OrderView, String> {
        self.get(&format!("/v1/orders/{id}")).await
    }

    /// Captured money, cents.
    ///
    /// # Errors
    /// When it was refused or not answered.
    pub async fn pay(&self, order: &str, payment: &str, cents: i64) -> Result<OrderView, String> {
        let path = format!("/v1/orders/{order}/payments");
        let body = json!({"id": payment, "amount": money(cents), "currency": CURRENCY});
        self.post(&path, &body, None).await?.read(&path)
    }

    async fn once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Reply, String> {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let response = request.send().await.map_err(http_client::text)?;
        let status = response.status().as_u16();
        let replayed = response.headers().contains_key("idempotency-replayed");
        let bytes = http_client::body(response, LIMIT).await?;
        let body = serde_json::from_slice(&bytes).map_err(|e| format!("{path}: {status}, {e}"))?;
        Ok(Reply { status, replayed, body })
    }
}

/// Cents as the API writes them.
pub fn money(cents: i64) -> String {
    Currency::parse(CURRENCY).map_or_else(|_| cents.to_string(), |c| format_minor(cents, c))
}

/// An amount of the API as cents.
///
/// # Errors
/// When it is no amount.
pub fn cents(text: &str) -> Result<i64, String> {
    let currency = Currency::parse(CURRENCY).map_err(|e| e.to_string())?;
    parse_minor(text, currency).map_err(|e| format!("`{text}` {e}"))
}

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct OrderView {
    pub id: String,
    pub external_id: String,
    pub state: String,
    pub paid: String,
    pub cancel_reason: Option<String>,
    pub lines: Vec<LineView>,
    pub purchase_orders: Vec<PurchaseView>,
    pub timeline: Vec<EventView>,
}

impl OrderView {
    /// Its goods are promised or gone: it is neither waiting nor ended.
    pub fn stands(&self) -> bool {
        matches!(self.state.as_str(), "confirmed" | "shipped" | "completed")
    }

    /// Nothing is left to happen to it.
    pub fn at_rest(&self) -> bool {
        matches!(self.state.as_str(), "cancelled" | "expired" | "shipped" | "completed")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct LineView {
    pub id: String,
    pub sku: String,
    pub quantity: i64,
    pub cancelled_quantity: i64,
    pub shipped_quantity: i64,
    pub allocations: Vec<AllocationView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct AllocationView {
    pub kind: String,
    pub quantity: i64,
    pub hold_state: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct PurchaseView {
    pub reference: String,
    pub state: String,
    pub attempts: i64,
    pub supplier_orders: Vec<SupplierOrderView>,
    pub lines: Vec<PurchaseLineView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct SupplierOrderView {
    pub id: String,
    pub role: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct PurchaseLineView {
    pub offer_id: String,
    pub spec_id: Option<String>,
    pub quantity: i64,
    pub result: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct EventView {
    pub event: String,
    pub detail: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct RefundView {
    pub id: String,
    pub order_id: String,
    pub amount: String,
    pub state: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct HoldView {
    pub id: String,
    pub sku: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct LedgerView {
    pub level: String,
    pub quantity: i64,
    pub held: i64,
    pub committed: i64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct AvailabilityView {
    pub sku: String,
    pub sources: Vec<SourceView>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct SourceView {
    pub source: String,
    pub quantity: i64,
    pub held: i64,
    pub committed: i64,
    pub version: i64,
    pub freshness: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct SupplierView {
    pub observed_lag_seconds: i64,
    pub lock_ttl_seconds: i64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct JobView {
    pub key: String,
    pub last_error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_cents_and_back() {
        assert_eq!(money(12_901), "129.01");
        assert_eq!(cents("129.01"), Ok(12_901));
        assert_eq!(cents("0.00"), Ok(0));
        assert!(cents("1.234").is_err());
    }
}
