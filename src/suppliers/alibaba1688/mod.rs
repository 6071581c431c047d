//! The 1688 open platform as a supplier: signed form calls over HTTP, answers in our own words.
//!
//! What must hold: as of the port. In particular a call is sent once; the one repeat is after a
//! 401, which says for certain that nothing was done. Pure parts (`sign`, `wire`) are apart from
//! those that send (`gateway`, `tokens`, `pace`). Left out: payment, and push messages beyond
//! [`sign::push_signature_matches`].

use secrecy::SecretString;

use crate::clock::{Clock, Span};

mod client;
mod gateway;
mod look_up;
mod pace;
pub mod sign;
mod tokens;
mod wire;

pub use client::Alibaba1688;
pub use tokens::Tokens;

/// What the adapter must know of one account.
#[derive(Clone, Debug)]
pub struct Terms {
    /// `https://gw.open.1688.com/openapi`, or another that speaks the same.
    pub gateway: String,
    pub app_key: String,
    pub app_secret: SecretString,
    pub access_token: SecretString,
    /// Without one an expired access token stays expired.
    pub refresh_token: Option<SecretString>,
    /// The platform's order flow: `general`, `fenxiao`, `saleproxy`, …
    pub flow: String,
    /// For one call as a whole: waiting for its turn, a token refresh and a repeat included.
    pub request_timeout: Span,
    /// Over all calls of this account; 0 = no limit of ours.
    pub max_requests_per_second: u32,
    /// Rows asked for per page of the order list; at least 1 is asked for.
    pub page_size: u32,
    pub clock: Clock,
}

/// Why an adapter cannot be built from its [`Terms`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{gateway:?} is not an http or https address")]
    Gateway { gateway: String },
    #[error("no HTTP client: {0}")]
    Client(String),
}
