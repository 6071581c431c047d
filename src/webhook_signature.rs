//! Signs what we post, by Standard Webhooks (https://www.standardwebhooks.com, version 1).
//!
//! Three headers: `webhook-id` (the same over all retries of one message), `webhook-timestamp`
//! (seconds since the epoch, of this attempt) and `webhook-signature` (`v1,` and the base64 of
//! HMAC-SHA256 over `id.timestamp.body`). What must hold: the bytes signed are the bytes sent.
//! Leaves out verification: nobody posts to us by this standard.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use crate::clock::Timestamp;

/// A secret that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a secret that starts with whsec_ must go on in base64")]
    NotBase64,
    #[error("the secret is empty")]
    Empty,
}

/// A key to sign with; shown nowhere.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// `whsec_` and base64 of the key's bytes, or else any text, whose bytes are the key.
    ///
    /// # Errors
    /// When there is nothing to sign with.
    pub fn new(secret: &SecretString) -> Result<Key, Error> {
        let text = secret.expose_secret();
        let bytes = match text.strip_prefix("whsec_") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| Error::NotBase64)?,
            None => text.as_bytes().to_vec(),
        };
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        Hmac::new_from_slice(&bytes).map(Key).map_err(|_| Error::Empty)
    }

    /// The headers for one attempt to send `body`.
    pub fn headers(&self, id: &str, now: Timestamp, body: &[u8]) -> [(&'static str, String); 3] {
        let seconds = now.as_micros().div_euclid(1_000_000).to_string();
        let mut mac = self.0.clone();
        for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
            mac.update(part);
        }
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", seconds),
            ("webhook-signature", format!("v1,{signature}")),
        ]
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(secret: &str, id: &str, at: i64, body: &str) -> String {
        let key = Key::new(&SecretString::from(secret)).expect("a key");
        let headers = key.headers(id, Timestamp::from_secs(at), body.as_bytes());
        headers[2].1.clone()
    }

    #[test]
    fn the_published_vector_is_reproduced() {
        // From the tests of the reference implementation (the crate `standardwebhooks`).
        assert_eq!(
            signature(
                "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                1_649_367_553,
                r#"{"email":"test@example.com","username":"test_user"}"#
            ),
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
        );
    }

    #[test]
    fn a_plain_secret_signs_as_the_reference_implementation_does() {
        let oracle = standardwebhooks::Webhook::from_bytes(b"plain secret".to_vec()).expect("ok");
        let expected = oracle.sign("alert-7", 1_800_000_000, b"{}").expect("signs");
        assert_eq!(signature("plain secret", "alert-7", 1_800_000_000, "{}"), expected);
    }

    #[test]
    fn an_unusable_secret_is_refused() {
        let refused = |text: &str| Key::new(&SecretString::from(text)).map(|_| ());
        assert_eq!(refused("whsec_!!"), Err(Error::NotBase64));
        assert_eq!(refused("whsec_"), Err(Error::Empty));
        assert_eq!(refused(""), Err(Error::Empty));
    }
}
