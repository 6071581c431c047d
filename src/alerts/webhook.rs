//! Alerts posted as JSON. Wire format: `api.md`, "Outgoing webhooks".
//!
//! The body is `{"type":"alert.opened|reminder|closed","timestamp":"…","data":{…}}`; where there is a
//! secret it is signed by Standard Webhooks. Only a 2xx answer says that it arrived.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use secrecy::SecretString;
use url::Url;

use super::{Channel, Error, Notice};
use crate::clock::Clock;
use crate::http_client;
use crate::webhook_signature::Key;

/// One delivery, from connecting to the answer's head.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A receiver's address.
pub struct Webhook {
    name: String,
    client: Client,
    url: Url,
    key: Option<Key>,
    clock: Clock,
}

impl Webhook {
    /// # Errors
    /// When the address or the secret cannot be used.
    pub fn new(
        name: String,
        url: &str,
        secret: Option<&SecretString>,
        clock: Clock,
    ) -> Result<Webhook, Error> {
        let wrong = |what: &dyn std::fmt::Display| Error(format!("alert channel {name}: {what}"));
        Ok(Webhook {
            client: http_client::client(TIMEOUT).map_err(|e| wrong(&http_client::text(e)))?,
            url: http_client::address(url).map_err(|e| wrong(&e))?,
            key: secret.map(Key::new).transpose().map_err(|e| wrong(&e))?,
            clock,
            name,
        })
    }
}

#[async_trait]
impl Channel for Webhook {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, notice: &Notice) -> Result<(), Error> {
        let body = serde_json::json!({
            "type": format!("alert.{}", notice.event),
            "timestamp": notice.at.rfc3339(),
            "data": notice.data,
        });
        let body = body.to_string().into_bytes();
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.key {
            for (name, value) in key.headers(&notice.id, self.clock.now(), &body) {
                request = request.header(HeaderName::from_static(name), value);
            }
        }
        let response = request.body(body).send().await;
        let status = response.map_err(|e| Error(http_client::text(e)))?.status();
        if status.is_success() { Ok(()) } else { Err(Error(format!("answered {status}"))) }
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::{Data, Event};
    use crate::clock::Timestamp;
    use serde_json::json;
    use wiremock::matchers::method;
    use wiremock::{Mock, MockServer, ResponseTemplate};

    fn notice() -> Notice {
        Notice {
            id: "alert-7-opened".into(),
            event: Event::Opened,
            at: Timestamp::from_secs(1_800_000_000),
            data: Data {
                id: "7".into(),
                kind: "low_stock".into(),
                subject: "SHOE-42".into(),
                detail: "5 left, below 6".into(),
                opened_at: "2027-01-15T08:00:00.000Z".into(),
                closed_at: None,
            },
        }
    }

    async fn answering(status: u16) -> MockServer {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .respond_with(ResponseTemplate::new(status))
            .mount(&server)
            .await;
        server
    }

    fn channel(server: &MockServer, secret: Option<&str>, clock: Clock) -> Webhook {
        let secret = secret.map(SecretString::from);
        Webhook::new("webhook-1".into(), &server.uri(), secret.as_ref(), clock).expect("a channel")
    }

    #[tokio::test]
    async fn a_notice_is_posted_and_the_reference_implementation_verifies_it() {
        let server = answering(204).await;
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwSw";
        // The oracle compares with the machine's clock.
        let channel = channel(&server, Some(secret), Clock::System);
        assert_eq!(channel.deliver(&notice()).await, Ok(()));

        let sent = &server.received_requests().await.expect("recorded")[0];
        let oracle = standardwebhooks::Webhook::new(secret).expect("a secret");
        oracle.verify(&sent.body, &sent.headers).expect("the signature is right");
        assert_eq!(sent.headers["webhook-id"], "alert-7-opened");
        let body: serde_json::Value = serde_json::from_slice(&sent.body).expect("JSON");
        assert_eq!(
            body,
            json!({"type": "alert.opened", "timestamp": "2027-01-15T08:00:00.000Z",
                   "data": {"id": "7", "kind": "low_stock", "subject": "SHOE-42",
                            "detail": "5 left, below 6", "opened_at": "2027-01-15T08:00:00.000Z",
                            "closed_at": null}})
        );
    }

    #[tokio::test]
    async fn a_retry_keeps_the_id_and_signs_its_own_time() {
        let server = answering(200).await;
        let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
        let channel = channel(&server, Some("plain"), clock.clone());
        channel.deliver(&notice()).await.expect("delivered");
        clock.advance(crate::clock::Span::minutes(10));
        channel.deliver(&notice()).await.expect("delivered");

        let sent = server.received_requests().await.expect("recorded");
        let header =
            |n: usize, name: &str| sent[n].headers[name].to_str().expect("text").to_owned();
        assert_eq!(header(0, "webhook-id"), header(1, "webhook-id"));
        assert_eq!(header(0, "webhook-timestamp"), "1800000000");
        assert_eq!(header(1, "webhook-timestamp"), "1800000600");
        assert_ne!(header(0, "webhook-signature"), header(1, "webhook-signature"));
    }

    #[tokio::test]
    async fn without_a_secret_nothing_is_signed() {
        let server = answering(200).await;
        let channel = channel(&server, None, Clock::System);
        channel.deliver(&notice()).await.expect("delivered");
        let sent = server.received_requests().await.expect("recorded");
        assert!(!sent[0].headers.contains_key("webhook-signature"));
    }

    #[tokio::test]
    async fn anything_but_a_2xx_has_not_arrived() {
        for (status, text) in [
            (500, "answered 500 Internal Server Error"),
            (404, "answered 404 Not Found"),
            (301, "answered 301 Moved Permanently"),
        ] {
            let server = answering(status).await;
            let channel = channel(&server, None, Clock::System);
            assert_eq!(channel.deliver(&notice()).await, Err(Error(text.into())));
        }
    }

    #[test]
    fn an_unusable_secret_stops_the_start_and_names_the_channel() {
        let secret = SecretString::from("whsec_!");
        let new = Webhook::new(
            "webhook-3".into(),
            "https://ops.example/hook",
            Some(&secret),
            Clock::System,
        );
        let text = new.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(text.starts_with("alert channel webhook-3: "), "{text}");
    }
}
