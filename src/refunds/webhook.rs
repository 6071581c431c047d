//! Refunds by the shop's own endpoint. Wire format: `api.md`, "Refund provider `webhook`".
//!
//! We `POST` the url, signed by Standard Webhooks, with `Idempotency-Key: <refund id>`; a 2xx answer
//! says `{"status":"succeeded"|"pending"}` and may carry a `reference`. `GET url/{refund_id}`, signed
//! the same way over an empty body, asks what became of it: 404 says that it was never made. Any
//! other 4xx than 408, 425 and 429 is a definite refusal. Everything else, a 2xx that cannot be read
//! included, is unknown. Redirects are not followed: money is asked for at one address.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode};
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use super::{Provider, Request};
use crate::clock::Clock;
use crate::domain::command::RefundAnswer;
use crate::domain::names::RefundId;
use crate::http_client;
use crate::webhook_signature::{self, Key};

/// One request, from connecting to the last byte.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Of an answer's body so much is read.
const MAX_BODY: usize = 64 * 1024;
/// Of a refusal's body so much is kept, in characters.
const MAX_MESSAGE: usize = 500;
/// Client errors that say nothing of the refund.
const COME_AGAIN: [StatusCode; 3] =
    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];

/// A provider that cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the refund url is not an http address: {0}")]
    Url(String),
    #[error("the refund secret: {0}")]
    Secret(#[from] webhook_signature::Error),
    #[error("cannot set up the client: {0}")]
    Client(#[from] reqwest::Error),
}

/// The shop's endpoint.
pub struct Webhook {
    client: Client,
    url: Url,
    key: Key,
    clock: Clock,
}

#[derive(Deserialize)]
struct Answer {
    status: Status,
    #[serde(default)]
    reference: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Succeeded,
    Pending,
}

impl Webhook {
    /// # Errors
    /// When the url or the secret cannot be used.
    pub fn new(url: &str, secret: &SecretString, clock: Clock) -> Result<Webhook, Error> {
        Ok(Webhook {
            client: http_client::client(TIMEOUT)?,
            url: http_client::address(url).map_err(Error::Url)?,
            key: Key::new(secret)?,
            clock,
        })
    }

    async fn send(&self, method: Method, url: Url, id: &RefundId, body: Vec<u8>) -> RefundAnswer {
        let looking_up = method == Method::GET;
        let mut request = self.client.request(method, url);
        for (name, value) in self.key.headers(id.as_str(), self.clock.now(), &body) {
            request = request.header(HeaderName::from_static(name), value);
        }
        if !looking_up {
            request = request
                .header("idempotency-key", id.as_str())
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .body(body);
        }
        match request.send().await {
            Ok(response) => read(response, looking_up).await,
            Err(error) => RefundAnswer::Unknown { message: http_client::text(error) },
        }
    }
}

#[async_trait]
impl Provider for Webhook {
    async fn make(&self, request: &Request) -> RefundAnswer {
        let body = serde_json::json!({
            "refund_id": request.refund_id,
            "order_id": request.order_id,
            "external_id": request.external_id,
            "payment_id": request.payment_id,
            "amount": request.amount,
            "currency": request.currency,
            "reason": request.reason,
        });
        let body = body.to_string().into_bytes();
        self.send(Method::POST, self.url.clone(), &request.refund_id, body).await
    }

    async fn look_up(&self, refund: &RefundId) -> RefundAnswer {
        let mut url = self.url.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => drop(segments.pop_if_empty().push(refund.as_str())),
            Err(()) => {
                let message = "the refund url has no path".to_owned();
                return RefundAnswer::Unknown { message };
            }
        }
        self.send(Method::GET, url, refund, Vec::new()).await
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }
}

/// Translates an answer; see the head of this file.
async fn read(response: Response, looking_up: bool) -> RefundAnswer {
    let status = response.status();
    if looking_up && status == StatusCode::NOT_FOUND {
        return RefundAnswer::NotMade;
    }
    let body = http_client::body(response, MAX_BODY).await;
    if status.is_client_error() && !COME_AGAIN.contains(&status) {
        return RefundAnswer::Refused { message: described(status, &body) };
    }
    let answer = body
        .as_ref()
        .ok()
        .filter(|_| status.is_success())
        .and_then(|body| serde_json::from_slice(body).ok());
    match answer {
        Some(Answer { status: Status::Succeeded, reference }) => {
            RefundAnswer::Succeeded { reference }
        }
        Some(Answer { status: Status::Pending, .. }) => RefundAnswer::Pending,
        None => RefundAnswer::Unknown { message: described(status, &body) },
    }
}

/// Status and the beginning of the body, for people.
fn described(status: StatusCode, body: &Result<Vec<u8>, String>) -> String {
    let text: String = match body {
        Ok(body) => String::from_utf8_lossy(body)
            .chars()
            .filter(|c| !c.is_control())
            .take(MAX_MESSAGE)
            .collect(),
        Err(error) => error.clone(),
    };
    format!("{status}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use serde_json::json;
    use wiremock::matchers::{header, method, path};
    use wiremock::{Mock, MockServer, ResponseTemplate};

    fn request() -> Request {
        Request {
            refund_id: "r-1".into(),
            order_id: "o-1".into(),
            external_id: "W-1001".into(),
            payment_id: "pay-1".into(),
            amount: "5.00".into(),
            currency: "USD".into(),
            reason: "supplier_short".into(),
        }
    }

    fn provider(url: &str) -> Webhook {
        let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
        Webhook::new(url, &SecretString::from("shop secret"), clock).expect("a provider")
    }

    async fn answering(verb: &str, template: ResponseTemplate) -> (MockServer, Webhook) {
        let server = MockServer::start().await;
        Mock::given(method(verb)).respond_with(template).mount(&server).await;
        let provider = provider(&format!("{}/refunds", server.uri()));
        (server, provider)
    }

    fn json_body(value: serde_json::Value) -> ResponseTemplate {
        ResponseTemplate::new(200).set_body_json(value)
    }

    #[tokio::test]
    async fn a_refund_is_posted_signed_and_keyed() {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .and(path("/refunds"))
            .and(header("idempotency-key", "r-1"))
            .and(header("webhook-id", "r-1"))
            .and(header("content-type", "application/json"))
            .respond_with(json_body(json!({"status": "succeeded", "reference": "re_9"})))
            .expect(1)
            .mount(&server)
            .await;
        let answer = provider(&format!("{}/refunds", server.uri())).make(&request()).await;
        assert_eq!(answer, RefundAnswer::Succeeded { reference: Some("re_9".into()) });

        let sent = &server.received_requests().await.expect("recorded")[0];
        let body: serde_json::Value = serde_json::from_slice(&sent.body).expect("JSON");
        assert_eq!(
            body,
            json!({"refund_id": "r-1", "order_id": "o-1", "external_id": "W-1001",
                   "payment_id": "pay-1", "amount": "5.00", "currency": "USD",
                   "reason": "supplier_short"})
        );
        let oracle = standardwebhooks::Webhook::from_bytes(b"shop secret".to_vec()).expect("ok");
        let expected = oracle.sign("r-1", 1_800_000_000, &sent.body);
        assert_eq!(sent.headers["webhook-signature"], expected.expect("signs").as_str());
    }

    #[tokio::test]
    async fn each_answer_to_a_request_is_read_as_the_contract_says() {
        let refused = |message: &str| RefundAnswer::Refused { message: message.to_owned() };
        let unknown = |message: &str| RefundAnswer::Unknown { message: message.to_owned() };
        let plain = |status, text| ResponseTemplate::new(status).set_body_string(text);
        let cases = [
            (json_body(json!({"status": "pending"})), RefundAnswer::Pending),
            (
                json_body(json!({"status": "succeeded"})),
                RefundAnswer::Succeeded { reference: None },
            ),
            (plain(400, "no such payment"), refused("400 Bad Request: no such payment")),
            (plain(404, ""), refused("404 Not Found: ")),
            (plain(409, ""), refused("409 Conflict: ")),
            (plain(408, ""), unknown("408 Request Timeout: ")),
            (plain(425, ""), unknown("425 Too Early: ")),
            (plain(429, ""), unknown("429 Too Many Requests: ")),
            (plain(500, "boom"), unknown("500 Internal Server Error: boom")),
            (plain(503, ""), unknown("503 Service Unavailable: ")),
            (plain(200, "<html>"), unknown("200 OK: <html>")),
            (plain(204, ""), unknown("204 No Content: ")),
            (json_body(json!({"status": "failed"})), unknown("200 OK: {\"status\":\"failed\"}")),
            (
                plain(302, "").insert_header("location", "https://elsewhere.example/"),
                unknown("302 Found: "),
            ),
        ];
        for (template, expected) in cases {
            let (_server, provider) = answering("POST", template).await;
            assert_eq!(provider.make(&request()).await, expected);
        }
    }

    #[tokio::test]
    async fn a_lost_answer_is_unknown_and_the_look_up_tells() {
        // The connection is refused: whether an earlier request arrived is not known.
        let lost = provider("http://127.0.0.1:1/refunds").make(&request()).await;
        assert!(matches!(lost, RefundAnswer::Unknown { .. }), "{lost:?}");

        let server = MockServer::start().await;
        Mock::given(method("GET"))
            .and(path("/refunds/r-1"))
            .and(header("webhook-id", "r-1"))
            .respond_with(json_body(json!({"status": "succeeded", "reference": "re_9"})))
            .expect(1)
            .mount(&server)
            .await;
        // A slash at the end of the address changes nothing.
        let found = provider(&format!("{}/refunds/", server.uri())).look_up(&"r-1".into()).await;
        assert_eq!(found, RefundAnswer::Succeeded { reference: Some("re_9".into()) });
    }

    #[tokio::test]
    async fn only_a_404_says_that_nothing_was_made() {
        let (_server, provider) = answering("GET", ResponseTemplate::new(404)).await;
        assert_eq!(provider.look_up(&"r-1".into()).await, RefundAnswer::NotMade);

        let (_server, provider) = answering("GET", ResponseTemplate::new(410)).await;
        let gone = provider.look_up(&"r-1".into()).await;
        assert!(matches!(gone, RefundAnswer::Refused { .. }), "{gone:?}");

        let (_server, provider) = answering("GET", ResponseTemplate::new(502)).await;
        let down = provider.look_up(&"r-1".into()).await;
        assert!(matches!(down, RefundAnswer::Unknown { .. }), "{down:?}");
    }

    #[tokio::test]
    async fn an_endless_answer_is_unknown() {
        let long = ResponseTemplate::new(200).set_body_bytes(vec![b' '; MAX_BODY + 1]);
        let (_server, provider) = answering("POST", long).await;
        assert_eq!(
            provider.make(&request()).await,
            RefundAnswer::Unknown {
                message: "200 OK: the answer is longer than 65536 bytes".into()
            }
        );
    }

    #[test]
    fn an_unusable_address_or_secret_is_refused_at_start() {
        let new = |url: &str, secret: &str| {
            Webhook::new(url, &SecretString::from(secret), Clock::System)
                .err()
                .map(|e| e.to_string())
        };
        assert!(new("ftp://shop.example", "s").is_some());
        assert!(new("https://shop.example", "whsec_!").is_some());
        assert_eq!(new("https://shop.example/refunds", "s"), None);
    }
}
