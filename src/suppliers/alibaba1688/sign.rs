//! The three signatures of the 1688 open platform: of our requests, of its push messages, and of
//! its WebSocket frames.
//!
//! What must hold: a request signature is `UPPER(HEX(HMAC-SHA1(secret, url_path + concat(sorted
//! key+value))))` over raw UTF-8 values, sorted as whole `key+value` strings like Alibaba's own SDKs
//! do (not by key: the two differ when one key is a prefix of another). A push signature is the
//! same without a path and is compared in constant time. Left out: encoding and sending.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

/// The form field that carries the signature; it does not sign itself.
pub const SIGNATURE: &str = "_aop_signature";

/// Signature of a request: `url_path` runs from `param2` to the app key, without a leading slash;
/// `params` are all form fields as sent, empty ones too ([`SIGNATURE`] is skipped).
pub fn request_signature<'a>(
    app_secret: &str,
    url_path: &str,
    params: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut parts: Vec<String> = params
        .into_iter()
        .filter(|(key, _)| *key != SIGNATURE)
        .map(|(key, value)| format!("{key}{value}"))
        .collect();
    parts.sort_unstable();
    let mut mac = Hmac::<Sha1>::new_from_slice(app_secret.as_bytes())
        .expect("HMAC takes a key of any length");
    mac.update(url_path.as_bytes());
    for part in &parts {
        mac.update(part.as_bytes());
    }
    hex::encode_upper(mac.finalize().into_bytes())
}

/// Whether a push message's `claimed` signature is right for the other form fields that came with
/// it. Hex case does not matter; the time taken does not depend on where the two differ.
pub fn push_signature_matches<'a>(
    secret: &str,
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    claimed: &str,
) -> bool {
    let ours = request_signature(secret, "", fields);
    let theirs = claimed.to_ascii_uppercase();
    ours.as_bytes().ct_eq(theirs.as_bytes()).into()
}

/// The `sign` of a WebSocket frame: upper hex MD5 of secret, app key, content and `pubTime`
/// (milliseconds since the epoch). CONNECT and HEARTBEAT frames have an empty content.
pub fn websocket_signature(
    app_secret: &str,
    app_key: &str,
    content: &str,
    pub_time: &str,
) -> String {
    let mut hash = Md5::new();
    for part in [app_secret, app_key, content, pub_time] {
        hash.update(part.as_bytes());
    }
    hex::encode_upper(hash.finalize())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Vector {
        name: String,
        kind: String,
        app_secret: String,
        #[serde(default)]
        url_path: String,
        #[serde(default)]
        params: BTreeMap<String, String>,
        #[serde(default)]
        app_key: String,
        #[serde(default)]
        content: String,
        #[serde(default)]
        pub_time: String,
        expected: String,
    }

    fn vectors() -> Vec<Vector> {
        let text = include_str!("../../../fixtures/suppliers/1688-vectors.json");
        serde_json::from_str(text).expect("the vectors are JSON")
    }

    fn pairs(of: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
        of.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    #[test]
    fn every_published_vector_is_reproduced() {
        let mut seen = BTreeMap::new();
        for v in vectors() {
            let got = match v.kind.as_str() {
                "websocket_md5" => {
                    websocket_signature(&v.app_secret, &v.app_key, &v.content, &v.pub_time)
                }
                _ => request_signature(&v.app_secret, &v.url_path, pairs(&v.params)),
            };
            assert_eq!(got, v.expected, "{}", v.name);
            *seen.entry(v.kind).or_insert(0) += 1;
        }
        let want = [("push", 1), ("request", 16), ("websocket_md5", 2)];
        assert_eq!(seen, want.map(|(k, n)| (k.to_owned(), n)).into());
    }

    #[test]
    fn a_signature_field_is_not_part_of_what_is_signed() {
        let with = [("a", "1"), (SIGNATURE, "OLD"), ("b", "2")];
        let got = request_signature("test123", "param2/1/system/currentTime/1000000", with);
        assert_eq!(got, "33E54F4F7B989E3E0E912D3FBD2F1A03CA7CCE88");
    }

    #[test]
    fn a_push_signature_is_checked_without_regard_to_case() {
        let v = vectors().into_iter().find(|v| v.kind == "push").expect("a push vector");
        let ok = |claimed: &str| push_signature_matches(&v.app_secret, pairs(&v.params), claimed);
        assert!(ok(&v.expected));
        assert!(ok(&v.expected.to_lowercase()));
        assert!(!ok(""));
        assert!(!ok("533F781387A9C9E8634D203D932094F6C694298F"), "last digit differs");
        assert!(!ok(&v.expected[..39]), "cut short");
        assert!(!ok("ÿ"), "not ASCII");
        assert!(!push_signature_matches("another secret", pairs(&v.params), &v.expected));
        assert!(!push_signature_matches(&v.app_secret, [("message", "{}")], &v.expected));
    }
}
