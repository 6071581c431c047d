//! The check of `_aop_signature`, from the protocol's description (`UPPER(HEX(HMAC_SHA1(secret,
//! urlPath + sorted key+value)))`) and from nothing of the adapter, so that each checks the other.
//!
//! What must hold: every parameter that was sent takes part, the signature itself excepted; values
//! are the raw text. Alibaba's SDKs sort the joined `key+value` texts, its own page sorts by key;
//! which the live gateway enforces is unknown, so both are accepted and told apart.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// In which order the parameters of an accepted signature were joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorting {
    /// By the joined `key+value`, as the official SDKs do. Said also when both orders agree.
    Joined,
    /// By key alone, as the official text says.
    Key,
}

/// The signature of `params` under `url_path` (`param2/…/{appKey}`, no leading slash).
pub fn sign(secret: &str, url_path: &str, params: &[(String, String)], sorting: Sorting) -> String {
    let mut ordered: Vec<&(String, String)> = params.iter().collect();
    match sorting {
        Sorting::Joined => ordered.sort_by_cached_key(|(key, value)| format!("{key}{value}")),
        Sorting::Key => ordered.sort(),
    }
    // A key of any length is a valid HMAC key, so the error cannot occur; it would sign nothing.
    let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(url_path.as_bytes());
    for (key, value) in ordered {
        mac.update(key.as_bytes());
        mac.update(value.as_bytes());
    }
    hex::encode_upper(mac.finalize().into_bytes())
}

/// Which order `signature` was made in, or `None` when it is not the secret's.
pub fn check(
    secret: &str,
    url_path: &str,
    params: &[(String, String)],
    signature: &str,
) -> Option<Sorting> {
    [Sorting::Joined, Sorting::Key]
        .into_iter()
        .find(|sorting| sign(secret, url_path, params, *sorting) == signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "test_app_secret_0123456789abcdef";

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn every_request_vector_is_accepted() {
        let file = include_str!("../../../fixtures/suppliers/1688-vectors.json");
        let vectors: Vec<serde_json::Value> = serde_json::from_str(file).unwrap();
        let mut seen = 0;
        for vector in vectors.iter().filter(|v| v["kind"] == "request") {
            let params: Vec<(String, String)> = vector["params"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
                .collect();
            let (secret, path) = (&vector["app_secret"], &vector["url_path"]);
            let (secret, path) = (secret.as_str().unwrap(), path.as_str().unwrap());
            let expected = vector["expected"].as_str().unwrap();
            assert_eq!(
                check(secret, path, &params, expected),
                Some(Sorting::Joined),
                "{}",
                vector["name"]
            );
            seen += 1;
        }
        assert_eq!(seen, 16);
    }

    #[test]
    fn the_two_orders_differ_where_a_key_is_a_prefix() {
        let path = "param2/1/com.example/prefix/1000000";
        let params = pairs(&[("a", "z"), ("ab", "0"), ("b", "1")]);
        let joined = "47B54805FE42DEB23792C4F5E3120B44A1AE10BB";
        let by_key = "A3692478891029F59DFD863E02E207E4FB5E0940";
        assert_eq!(check(SECRET, path, &params, joined), Some(Sorting::Joined));
        assert_eq!(check(SECRET, path, &params, by_key), Some(Sorting::Key));
    }

    #[test]
    fn a_changed_value_path_or_secret_is_refused() {
        let path = "param2/1/com.alibaba.trade/alibaba.trade.receiveAddress.get/1000000";
        let params = pairs(&[("access_token", "tok-simple-0001")]);
        let good = "EB1E76D24488EF25B6492269DC7D94B008DD53C7";
        assert_eq!(check(SECRET, path, &params, good), Some(Sorting::Joined));
        assert_eq!(check("other", path, &params, good), None);
        assert_eq!(check(SECRET, "param2/1/x", &params, good), None);
        assert_eq!(check(SECRET, path, &pairs(&[("access_token", "tok")]), good), None);
        assert_eq!(check(SECRET, path, &params, &good.to_lowercase()), None);
    }
}
