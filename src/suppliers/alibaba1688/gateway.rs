//! One signed call through the 1688 gateway.
//!
//! What must hold: a call is sent once, and once more only after a 401 (nothing was done, the token
//! was refused). Nothing beneath repeats a request or follows a redirect. Everything but a whole
//! 2xx answer of the API is [`Fault::Unknown`]. A call ends by its time-out, all included.
//! Left out: what an answer means (`wire`).

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout_at};

use super::pace::Pace;
use super::sign::{SIGNATURE, request_signature};
use super::tokens::Session;
use super::wire::answer::{GatewayError, THROTTLED, UNAUTHORISED, unknown};
use super::wire::{Api, Params};
use super::{Error, Terms};
use crate::clock::{Clock, Span, Timestamp};
use crate::domain::supply::{Fault, NOT_SENT};

/// A longer answer is not read.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;
/// No stated time to wait is taken for longer than this.
const MAX_WAIT_SECS: u32 = 3600;
/// After a throttled answer this account sends nothing for this long.
const THROTTLE_PAUSE: Duration = Duration::from_secs(1);

/// A whole 2xx answer of an API.
pub struct Answer {
    pub body: Vec<u8>,
    /// When the request that this answers was sent.
    pub sent_at: Timestamp,
    pub received_at: Timestamp,
}

pub struct Gateway {
    http: Client,
    url: String,
    app_key: String,
    app_secret: SecretString,
    timeout: Duration,
    clock: Clock,
    pace: Pace,
    pub session: Arc<Session>,
}

enum Failed {
    /// Refused for its token: nothing was done.
    Unauthorised(Fault),
    /// Too many calls. How long to wait is the caller's to know, unless the answer says it.
    Throttled(Fault),
    Otherwise(Fault),
}

impl From<Failed> for Fault {
    fn from(failed: Failed) -> Fault {
        match failed {
            Failed::Unauthorised(fault) | Failed::Throttled(fault) | Failed::Otherwise(fault) => {
                fault
            }
        }
    }
}

impl Gateway {
    pub fn new(terms: &Terms) -> Result<Gateway, Error> {
        let url = terms.gateway.trim_end_matches('/').to_owned();
        let parsed = url::Url::parse(&url).ok().filter(|u| matches!(u.scheme(), "http" | "https"));
        if parsed.is_none() {
            return Err(Error::Gateway { gateway: terms.gateway.clone() });
        }
        // reqwest is built without a provider of its own; one may be installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(|e| Error::Client(e.to_string()))?;
        Ok(Gateway {
            session: Arc::new(Session::new(terms, http.clone(), &url)),
            http,
            url,
            app_key: terms.app_key.clone(),
            app_secret: terms.app_secret.clone(),
            timeout: terms.request_timeout.to_std(),
            clock: terms.clock.clone(),
            pace: Pace::new(terms.max_requests_per_second),
        })
    }

    /// Asks `api`, with a refreshed token where the present one is refused.
    ///
    /// # Errors
    /// [`Fault::Unknown`], whatever went wrong.
    pub async fn call(&self, api: Api, params: &Params) -> Result<Answer, Fault> {
        let deadline = Instant::now() + self.timeout;
        let token = self.session.access();
        match self.attempt(api, params, &token, deadline).await {
            Err(Failed::Unauthorised(_)) => {
                let renewed = timeout_at(deadline, self.session.renewed(token)).await;
                let renewed = renewed.map_err(|_| unknown("timeout", "refreshing the token"))??;
                Ok(self.attempt(api, params, &renewed, deadline).await?)
            }
            other => Ok(other?),
        }
    }

    async fn attempt(
        &self,
        api: Api,
        params: &Params,
        token: &SecretString,
        deadline: Instant,
    ) -> Result<Answer, Failed> {
        if !self.pace.turn(deadline).await {
            let late = unknown(NOT_SENT, "its turn would have come after its time-out");
            return Err(Failed::Otherwise(late));
        }
        let sent_at = self.clock.now();
        let url_path = api.url_path(&self.app_key);
        let form = self.signed(&url_path, params, token, sent_at);
        let sent = self
            .http
            .post(format!("{}/{url_path}", self.url))
            .form(&form)
            .timeout(deadline.saturating_duration_since(Instant::now()))
            .send()
            .await;
        let response = sent.map_err(|e| Failed::Otherwise(not_answered(&e)))?;
        let status = response.status();
        let wait = stated_wait(&response);
        let body = read_body(response).await;
        let received_at = self.clock.now();
        match judge(status, body, wait) {
            Ok(body) => Ok(Answer { body, sent_at, received_at }),
            Err(failed) => {
                if matches!(failed, Failed::Throttled(_)) {
                    self.pace.pause(THROTTLE_PAUSE).await;
                }
                Err(failed)
            }
        }
    }

    /// The whole form: parameters, token, time and signature.
    fn signed(
        &self,
        url_path: &str,
        params: &Params,
        token: &SecretString,
        at: Timestamp,
    ) -> Params {
        let mut form = params.clone();
        form.push(("access_token", token.expose_secret().to_owned()));
        form.push(("_aop_timestamp", at.as_micros().div_euclid(1000).to_string()));
        let pairs = form.iter().map(|(key, value)| (*key, value.as_str()));
        let signature = request_signature(self.app_secret.expose_secret(), url_path, pairs);
        form.push((SIGNATURE, signature));
        form
    }
}

/// What the gateway's answer is worth: the body of a 2xx that is the API's own, or a fault.
fn judge(
    status: StatusCode,
    body: Result<Vec<u8>, Fault>,
    wait: Option<Span>,
) -> Result<Vec<u8>, Failed> {
    if status == StatusCode::UNAUTHORIZED {
        return Err(Failed::Unauthorised(unknown(UNAUTHORISED, "the token was refused")));
    }
    let error = body.as_ref().ok().and_then(|body| GatewayError::find(body));
    let throttled = wait.is_some()
        || status == StatusCode::TOO_MANY_REQUESTS
        || error.as_ref().is_some_and(|e| e.code == THROTTLED);
    let failed = |code: String, message: String| {
        let fault = Fault::Unknown { code, message, retry_after: wait };
        if throttled { Failed::Throttled(fault) } else { Failed::Otherwise(fault) }
    };
    match error {
        Some(e) if e.code == UNAUTHORISED && !status.is_server_error() => {
            Err(Failed::Unauthorised(unknown(e.code, e.message)))
        }
        Some(e) => Err(failed(e.code, e.message)),
        None if status.is_success() => body.map_err(Failed::Otherwise),
        None => {
            let code = format!("http_{}", status.as_u16());
            let reason = status.canonical_reason().unwrap_or("an HTTP error");
            Err(failed(code, reason.to_owned()))
        }
    }
}

/// `Retry-After` in seconds; its date form is not read.
fn stated_wait(response: &Response) -> Option<Span> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let secs: u32 = text.trim().parse().ok()?;
    Some(Span::secs(i64::from(secs.min(MAX_WAIT_SECS))))
}

/// Reads a whole body.
///
/// # Errors
/// [`Fault::Unknown`] when it is torn, late or too long.
pub async fn read_body(mut response: Response) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|e| not_answered(&e))? {
        if body.len() + part.len() > MAX_BODY_BYTES {
            return Err(unknown("too_long", format!("more than {MAX_BODY_BYTES} bytes")));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// A request without an answer. Also one that could not connect is not definite: simple and safe.
pub fn not_answered(error: &reqwest::Error) -> Fault {
    let code = match error {
        e if e.is_timeout() => "timeout",
        e if e.is_connect() => "connect",
        e if e.is_body() || e.is_decode() => "torn",
        _ => "transport",
    };
    let mut message = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(e) = cause {
        message = format!("{message}{}{e}", if message.is_empty() { "" } else { ": " });
        cause = e.source();
    }
    unknown(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, body: &str, wait: Option<Span>) -> Result<Vec<u8>, (bool, Fault)> {
        let status = StatusCode::from_u16(status).expect("a status");
        judge(status, Ok(body.as_bytes().to_vec()), wait).map_err(|failed| match failed {
            Failed::Unauthorised(fault) => (true, fault),
            Failed::Throttled(fault) | Failed::Otherwise(fault) => (false, fault),
        })
    }

    fn fault(code: &str, message: &str, retry_after: Option<Span>) -> (bool, Fault) {
        (false, Fault::Unknown { code: code.into(), message: message.into(), retry_after })
    }

    #[test]
    fn only_a_2xx_of_the_api_is_an_answer() {
        assert_eq!(judged(200, "{}", None), Ok(b"{}".to_vec()));
        assert_eq!(judged(500, "{}", None), Err(fault("http_500", "Internal Server Error", None)));
        assert_eq!(judged(302, "", None), Err(fault("http_302", "Found", None)));
        let refusal = r#"{"success":false,"errorCode":"500_004"}"#;
        assert_eq!(judged(400, refusal, None), Err(fault("http_400", "Bad Request", None)));
        let acl = r#"{"error_code":"gw.APIACLDecline","error_message":"acl"}"#;
        for status in [200, 400, 403, 500] {
            assert_eq!(judged(status, acl, None), Err(fault("gw.APIACLDecline", "acl", None)));
        }
    }

    #[test]
    fn a_throttled_call_says_when_to_come_again_if_it_was_told() {
        let body = r#"{"error_code":"gw.QosAppFrequencyLimit","error_message":"x"}"#;
        for status in [200, 400, 403] {
            let want = fault("gw.QosAppFrequencyLimit", "x", None);
            assert_eq!(judged(status, body, None), Err(want));
        }
        let stated = judged(400, body, Some(Span::secs(3)));
        assert_eq!(stated, Err(fault("gw.QosAppFrequencyLimit", "x", Some(Span::secs(3)))));
        let plain = judged(429, "slow down", None);
        assert_eq!(plain, Err(fault("http_429", "Too Many Requests", None)));
        // A business text with LIMIT in it is not a throttle.
        let code = r#"{"error_code":"gw.LIMIT","error_message":"gw.QosAppFrequencyLimit"}"#;
        assert_eq!(
            judged(400, code, None),
            Err(fault("gw.LIMIT", "gw.QosAppFrequencyLimit", None))
        );
    }

    #[test]
    fn a_refused_token_is_told_apart_because_nothing_was_done() {
        let body = r#"{"error_code":401,"error_message":"x"}"#;
        for (status, body) in [(401, "<html>"), (401, body), (200, body), (400, body)] {
            let got = judged(status, body, None).expect_err("a fault");
            assert!(got.0, "{status} {body}");
        }
        assert!(!judged(500, body, None).expect_err("a fault").0, "a 5xx is never definite");
        let passed_on = r#"{"error_code":"401","result":{"orderId":"1"}}"#;
        assert_eq!(judged(200, passed_on, None), Ok(passed_on.as_bytes().to_vec()));
    }

    #[test]
    fn a_torn_body_of_a_2xx_is_unknown() {
        let torn = judge(StatusCode::OK, Err(unknown("torn", "x")), None);
        assert!(
            matches!(torn, Err(Failed::Otherwise(Fault::Unknown { code, .. })) if code == "torn")
        );
    }
}
