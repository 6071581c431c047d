//! Access tokens: which are good, and `getToken`, which gives new ones.
//!
//! What must hold: a token is good until its end and never after. `getToken` is not signed; it asks
//! for the application's secret. Its errors are OAuth's (`error`, `error_description`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::settings::Gateway;
use super::transport::Call;
use super::wire::stamp;
use crate::clock::{Span, Timestamp};

/// What the platform gives an access token, where the settings let it end never.
const USUAL_LIFE: Span = Span::hours(10);
const REFRESH_LIFE: Span = Span::days(180);

/// The tokens that were given out.
#[derive(Debug)]
pub struct Tokens {
    /// Access tokens and their ends.
    access: BTreeMap<String, Option<Timestamp>>,
    refresh: String,
    given: u64,
}

impl Tokens {
    pub fn new(gateway: &Gateway, now: Timestamp) -> Tokens {
        let end = gateway.access_token_life.map(|life| now + life);
        let access = BTreeMap::from([(gateway.access_token.clone(), end)]);
        Tokens { access, refresh: gateway.refresh_token.clone(), given: 0 }
    }

    pub fn is_good(&self, token: &str, now: Timestamp) -> bool {
        self.access.get(token).is_some_and(|end| end.is_none_or(|end| now < end))
    }

    /// Ends every access token; the refresh token stays good.
    pub fn expire(&mut self) {
        self.access.clear();
    }

    /// `getToken`.
    ///
    /// # Errors
    /// OAuth's error body.
    pub fn give(&mut self, gateway: &Gateway, call: &Call, now: Timestamp) -> Result<Value, Value> {
        let wrong = |error: &str, text: &str| json!({ "error": error, "error_description": text });
        let param = |name: &str| call.param(name).unwrap_or_default();
        if param("client_id") != gateway.app_key || param("client_secret") != gateway.app_secret {
            return Err(wrong("invalid_client", "client_id or client_secret is wrong"));
        }
        let first = match param("grant_type") {
            "refresh_token" if param("refresh_token") == self.refresh => false,
            "refresh_token" => return Err(wrong("invalid_grant", "refresh_token is wrong")),
            // Whoever knows the secret may log in: there is nobody to ask.
            "authorization_code" if !param("code").is_empty() => true,
            _ => return Err(wrong("unsupported_grant_type", "no such grant_type")),
        };
        self.given += 1;
        let token = format!("{}-{}", gateway.access_token, self.given);
        self.access.insert(token.clone(), gateway.access_token_life.map(|life| now + life));
        let life = gateway.access_token_life.unwrap_or(USUAL_LIFE);
        let mut answer = json!({
            "access_token": token,
            "expires_in": life.as_secs().to_string(),
            "aliId": "665170100",
            "memberId": "b2b-665170100",
            "resource_owner": "stockhold",
        });
        // A refresh's answer has no new refresh token: the old one stays good.
        if let Some(fields) = answer.as_object_mut().filter(|_| first) {
            fields.insert("refresh_token".into(), self.refresh.clone().into());
            fields.insert("refresh_token_timeout".into(), stamp(now + REFRESH_LIFE).into());
        }
        Ok(answer)
    }
}
