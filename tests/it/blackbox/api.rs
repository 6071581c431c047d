//! A client of the HTTP interface: requests by path and JSON, answers with their status, headers
//! and body, and the few calls that most tests make. Clones share one connection pool.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use super::daemon::LIMIT;

/// The header that names a request.
pub const KEY: &str = "Idempotency-Key";

/// See the module.
#[derive(Clone)]
pub struct Api {
    client: Client,
    url: String,
    bearer: Option<String>,
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// Null when the body is no JSON.
    pub body: Value,
}

impl Api {
    pub fn new(url: &str, bearer: Option<&str>) -> Api {
        // Without a provider the client would panic; one that is there already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().timeout(LIMIT).no_proxy().build().expect("a client");
        Api { client, url: url.to_owned(), bearer: bearer.map(str::to_owned) }
    }

    /// The same daemon, asked with another key, or none.
    pub fn speaking_as(&self, bearer: Option<&str>) -> Api {
        Api { bearer: bearer.map(str::to_owned), ..self.clone() }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// A request to be completed by hand.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.bearer {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::PUT, path).json(body)).await
    }

    /// Under an idempotency key of its own, which no endpoint minds.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let key = format!("key-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.post_keyed(path, &key, body).await
    }

    pub async fn post_keyed(&self, path: &str, key: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path).header(KEY, key).json(body)).await
    }

    /// A body as it stands.
    pub async fn post_text(&self, path: &str, body: impl Into<String>) -> Answer {
        let request = self.request(Method::POST, path).header("content-type", "application/json");
        Answer::of(request.body(body.into())).await
    }

    /// A SKU sold from the warehouse `main`, with so many on the shelf.
    pub async fn stocked(&self, sku: &str, quantity: i64) {
        self.sku(sku, &json!({"title": sku, "sources": [warehouse()]})).await;
        self.set_stock(sku, quantity).await;
    }

    pub async fn sku(&self, sku: &str, body: &Value) {
        self.put(&format!("/v1/skus/{sku}"), body).await.ok();
    }

    pub async fn set_stock(&self, sku: &str, quantity: i64) -> Value {
        let body = json!({"source": "main", "set_to": quantity, "reason": "count"});
        self.post(&format!("/v1/skus/{sku}/stock"), &body).await.ok()
    }

    /// The figures of a SKU's first source: quantity, held, committed, available.
    pub async fn figures(&self, sku: &str) -> (i64, i64, i64, i64) {
        let answer = self.get(&format!("/v1/skus/{sku}/availability")).await.ok();
        let of = |name: &str| answer["sources"][0][name].as_i64().expect("a figure");
        (of("quantity"), of("held"), of("committed"), of("available"))
    }

    pub async fn place(&self, order: &Value) -> Answer {
        Answer::of(self.request(Method::POST, "/v1/orders").json(order)).await
    }

    /// Places an order of one line at 10.00 each and gives its id.
    pub async fn placed(&self, external_id: &str, sku: &str, quantity: i64) -> String {
        let answer = self.place(&order(external_id, &[(sku, quantity)])).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.id()
    }

    pub async fn order(&self, id: &str) -> Value {
        self.get(&format!("/v1/orders/{id}")).await.ok()
    }

    pub async fn state(&self, id: &str) -> String {
        text(&self.order(id).await["state"])
    }

    pub async fn pay(&self, id: &str, payment: &str, amount: &str) -> Answer {
        let path = format!("/v1/orders/{id}/payments");
        let body = json!({"id": payment, "amount": amount});
        Answer::of(self.request(Method::POST, &path).json(&body)).await
    }

    pub async fn cancel(&self, id: &str) -> Answer {
        self.post(&format!("/v1/orders/{id}/cancel"), &json!({"reason": "customer"})).await
    }

    /// Ships units of lines by their numbers, from 1.
    pub async fn ship(&self, id: &str, lines: &[(usize, i64)]) -> Answer {
        let line = |(no, quantity): &(usize, i64)| json!({"line_id": format!("{id}.{no}"), "quantity": quantity});
        let lines: Vec<Value> = lines.iter().map(line).collect();
        let body = json!({"lines": lines, "carrier": "SF", "tracking_number": "SF1"});
        self.post(&format!("/v1/orders/{id}/shipments"), &body).await
    }

    /// Every element of a list, by pages of this size.
    pub async fn list(&self, path: &str, limit: usize) -> Vec<Value> {
        let join = if path.contains('?') { '&' } else { '?' };
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("{path}{join}limit={limit}{cursor}")).await.ok();
            let items = page["items"].as_array().expect("items").clone();
            assert!(items.len() <= limit, "{path}: a page of {}", items.len());
            all.extend(items);
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
            assert!(all.len() < 100_000, "{path} never ends");
        }
    }
}

impl Answer {
    /// Sends a request and reads its answer.
    pub async fn of(request: RequestBuilder) -> Answer {
        Answer::try_of(request).await.expect("an answer")
    }

    /// # Errors
    /// When there is no answer, or it breaks off.
    pub async fn try_of(request: RequestBuilder) -> reqwest::Result<Answer> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, headers, text, body })
    }

    /// The body of a `200`.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.body
    }

    /// The body of a refusal, whose status and code must be these and whose form is the
    /// contract's.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        let found = (self.status, self.code());
        assert_eq!(found, (status, code.to_owned()), "{}", self.text);
        self.is_problem();
        self.body
    }

    /// Has the form of every error answer.
    #[track_caller]
    pub fn is_problem(&self) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        assert_eq!(self.body["status"].as_u64(), Some(self.status.into()), "{}", self.text);
        for member in ["type", "title", "detail", "code"] {
            assert!(self.body[member].is_string(), "no {member}: {}", self.text);
        }
        assert!(!self.header("x-request-id").is_empty(), "no request id: {}", self.text);
        if self.status == 503 {
            assert!(!self.header("retry-after").is_empty(), "no Retry-After: {}", self.text);
        }
    }

    /// The error's code; empty for anything else.
    pub fn code(&self) -> String {
        self.body["code"].as_str().unwrap_or_default().to_owned()
    }

    /// A header's text; empty when it is absent.
    pub fn header(&self, name: &str) -> String {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    }

    /// The paths of the fields that a `422 validation_failed` names.
    #[track_caller]
    pub fn fields(self) -> Vec<String> {
        let body = self.refused(422, "validation_failed");
        let errors = body["errors"].as_array().expect("errors");
        errors.iter().map(|error| text(&error["field"])).collect()
    }

    /// The id of what was answered.
    #[track_caller]
    pub fn id(&self) -> String {
        text(&self.body["id"])
    }
}

/// A JSON text as a string.
#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// An order of the channel `web` in USD, each unit at 10.00.
pub fn order(external_id: &str, lines: &[(&str, i64)]) -> Value {
    let line = |(sku, quantity): &(&str, i64)| json!({"sku": sku, "quantity": quantity, "unit_price": "10.00"});
    let lines: Vec<Value> = lines.iter().map(line).collect();
    json!({"channel": "web", "external_id": external_id, "currency": "USD", "lines": lines})
}

/// The warehouse `main` as a SKU's source.
pub fn warehouse() -> Value {
    json!({"source": "main", "kind": "warehouse"})
}
