//! The client for addresses that the configuration names (refund provider, alert channels).
//!
//! What must hold: every call ends within its time-out; redirects are not followed, so that what is
//! signed for one address is not carried to another; bodies are read up to a limit; an error's text
//! never shows the address, which may hold a credential. Suppliers have clients of their own.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, Response};
use url::Url;

/// A client whose calls end within `timeout`, from connecting to the last byte.
///
/// # Errors
/// When the system's TLS cannot be set up.
pub fn client(timeout: Duration) -> reqwest::Result<Client> {
    // Refused when another part of the process did it before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().timeout(timeout).redirect(reqwest::redirect::Policy::none()).build()
}

/// An address that can be called.
///
/// # Errors
/// What is wrong with it, without the address.
pub fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|e| e.to_string())?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!("`{other}` is neither http nor https")),
    }
}

/// The whole body of an answer.
///
/// # Errors
/// When it is longer than `limit` bytes or ends early: a part of a body says nothing.
pub async fn body(mut response: Response, limit: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(text)? {
        if body.len().saturating_add(chunk.len()) > limit {
            return Err(format!("the answer is longer than {limit} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// An error with what caused it (reqwest's own text leaves out the reason) and without the address.
#[allow(clippy::needless_pass_by_value)] // `without_url` takes it
pub fn text(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_or_https() {
        assert!(address("https://shop.example/hooks?token=1").is_ok());
        assert_eq!(address("ftp://shop.example").unwrap_err(), "`ftp` is neither http nor https");
        assert!(address("shop.example").is_err());
    }

    #[tokio::test]
    async fn an_error_tells_its_cause_and_not_the_address() {
        let client = client(Duration::from_secs(5)).expect("a client");
        // Port 1 of the loopback: nothing listens there.
        let error =
            client.get("http://127.0.0.1:1/?token=hidden").send().await.expect_err("refused");
        let text = text(error);
        assert!(text.contains("refused"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }
}
