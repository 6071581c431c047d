//! The account's tokens and their refresh (`system.oauth2/getToken`, not signed).
//!
//! What must hold: one refresh at a time, however many calls find the token expired; a refresh once
//! begun is finished and its tokens kept even if the call that began it is gone; the old refresh
//! token stays where the answer brings none; tokens appear in no message.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::Terms;
use super::gateway::{self, read_body};
use super::wire::answer::{read, unknown};
use super::wire::scalar::Scalar;
use crate::domain::supply::Fault;

/// For this long after a failed refresh the failure is the answer to the next ones.
const FAILURE_HOLDS: Duration = Duration::from_secs(5);

/// The tokens in use; to be kept by the caller over a restart.
#[derive(Clone, Debug)]
pub struct Tokens {
    pub access: SecretString,
    pub refresh: Option<SecretString>,
}

pub struct Session {
    http: Client,
    address: String,
    app_key: String,
    app_secret: SecretString,
    timeout: Duration,
    tokens: watch::Sender<Tokens>,
    last_failure: Mutex<Option<(Instant, Fault)>>,
}

impl Session {
    pub fn new(terms: &Terms, http: Client, gateway: &str) -> Session {
        let tokens =
            Tokens { access: terms.access_token.clone(), refresh: terms.refresh_token.clone() };
        Session {
            http,
            address: format!("{gateway}/http/1/system.oauth2/getToken/{}", terms.app_key),
            app_key: terms.app_key.clone(),
            app_secret: terms.app_secret.clone(),
            timeout: terms.request_timeout.to_std(),
            tokens: watch::Sender::new(tokens),
            last_failure: Mutex::new(None),
        }
    }

    pub fn subscribe(&self) -> watch::Receiver<Tokens> {
        self.tokens.subscribe()
    }

    pub fn access(&self) -> SecretString {
        self.tokens.borrow().access.clone()
    }

    /// A token that is not `stale`: another call's new one, or ours after a refresh.
    ///
    /// # Errors
    /// [`Fault::Unknown`] when there is no refresh token or it brought no new token.
    pub async fn renewed(self: &Arc<Self>, stale: SecretString) -> Result<SecretString, Fault> {
        let session = Arc::clone(self);
        let refresh = tokio::spawn(async move { session.renew(&stale).await });
        refresh.await.unwrap_or_else(|e| Err(unknown("token_refresh", e.to_string())))
    }

    async fn renew(&self, stale: &SecretString) -> Result<SecretString, Fault> {
        let mut last_failure = self.last_failure.lock().await;
        let current = self.tokens.borrow().clone();
        if current.access.expose_secret() != stale.expose_secret() {
            return Ok(current.access);
        }
        match last_failure.take() {
            Some((at, fault)) if at.elapsed() < FAILURE_HOLDS => {
                *last_failure = Some((at, fault.clone()));
                return Err(fault);
            }
            _ => {}
        }
        let renewed = match &current.refresh {
            Some(token) => self.ask(token).await,
            None => Err(unknown("token_refresh", "the access token expired; no refresh token")),
        };
        match renewed {
            Ok(new) => {
                let refresh = new.refresh.or(current.refresh);
                self.tokens.send_replace(Tokens { access: new.access.clone(), refresh });
                Ok(new.access)
            }
            Err(fault) => {
                *last_failure = Some((Instant::now(), fault.clone()));
                Err(fault)
            }
        }
    }

    async fn ask(&self, refresh: &SecretString) -> Result<Tokens, Fault> {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", &self.app_key),
            ("client_secret", self.app_secret.expose_secret()),
            ("refresh_token", refresh.expose_secret()),
        ];
        let failed = |e: Fault| unknown("token_refresh", e.to_string());
        let sent = self.http.post(&self.address).form(&form).timeout(self.timeout).send().await;
        let response = sent.map_err(|e| failed(gateway::not_answered(&e)))?;
        let status = response.status();
        let body = read_body(response).await.map_err(failed)?;
        if !status.is_success() {
            return Err(unknown("token_refresh", format!("HTTP {status}: {}", said(&body))));
        }
        new_tokens(&body).ok_or_else(|| unknown("token_refresh", said(&body)))
    }
}

#[derive(Default, Deserialize)]
struct Answer {
    access_token: Option<Scalar>,
    refresh_token: Option<Scalar>,
    error: Option<Scalar>,
    error_description: Option<Scalar>,
    error_code: Option<Scalar>,
    error_message: Option<Scalar>,
}

fn new_tokens(body: &[u8]) -> Option<Tokens> {
    let answer: Answer = read(body).ok()?;
    let secret = |s: Scalar| s.text().map(SecretString::from);
    let access = answer.access_token.and_then(secret)?;
    Some(Tokens { access, refresh: answer.refresh_token.and_then(secret) })
}

/// The error fields of a refused refresh, and nothing else of it: the body may hold a token.
fn said(body: &[u8]) -> String {
    let answer: Answer = read(body).unwrap_or_default();
    let fields = [answer.error, answer.error_code, answer.error_description, answer.error_message];
    let said: Vec<String> = fields.into_iter().flatten().filter_map(|s| s.text()).collect();
    if said.is_empty() { "no new token in the answer".into() } else { said.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suppliers::alibaba1688::wire::fixture;

    #[test]
    fn a_refresh_may_bring_no_refresh_token() {
        let new = new_tokens(&fixture("token.json")).expect("tokens");
        assert_eq!(new.access.expose_secret(), "tok-0002");
        assert!(new.refresh.is_none());
        let both = new_tokens(br#"{"access_token":"a","refresh_token":"r","expires_in":36000}"#);
        let both = both.expect("tokens");
        assert_eq!(both.refresh.expect("a refresh token").expose_secret(), "r");
        assert!(new_tokens(br#"{"access_token":""}"#).is_none());
        assert!(new_tokens(b"<html>").is_none());
    }

    #[test]
    fn what_went_wrong_is_said_without_tokens() {
        let refused = br#"{"error":"invalid_grant","error_description":"expired","x":"secret-1"}"#;
        assert_eq!(said(refused), "invalid_grant, expired");
        assert_eq!(said(br#"{"refresh_token":"secret-1"}"#), "no new token in the answer");
    }
}
