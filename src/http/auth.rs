//! Who calls and what they may do: API keys with one role each.
//!
//! What must hold: keys are compared in constant time, as SHA-256; a path that is not named for a
//! role is refused to it. With no key configured every caller may do everything: the settings then
//! allow no listening address but loopback. Each key's requests of `/v1` are counted before anything
//! else is judged of them; without keys all callers are one.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, MatchedPath, Request};
use axum::http::{HeaderMap, Method, header};
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::Shared;
use super::problem::Problem;
use crate::settings::{KeySettings, Role};

/// The API keys, hashed.
#[derive(Clone, Default)]
pub struct Keys(Arc<Vec<Key>>);

struct Key {
    name: Arc<str>,
    role: Role,
    digest: [u8; 32],
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The API key's name; `local` when none is configured.
    pub name: Arc<str>,
    pub role: Role,
}

impl Keys {
    pub fn new(settings: &[KeySettings]) -> Keys {
        let keys = settings.iter().map(|key| Key {
            name: key.name.as_str().into(),
            role: key.role,
            digest: Sha256::digest(key.key.expose_secret().as_bytes()).into(),
        });
        Keys(Arc::new(keys.collect()))
    }

    /// The caller who sent this `Authorization` header. Every key is compared, whichever matches.
    pub fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        if self.0.is_empty() {
            return Some(Caller { name: "local".into(), role: Role::Ops });
        }
        let digest: [u8; 32] = Sha256::digest(bearer(headers)?.as_bytes()).into();
        let mut found = u32::MAX;
        for (i, key) in (0..).zip(self.0.iter()) {
            let same: Choice = key.digest.ct_eq(&digest);
            found = u32::conditional_select(&found, &i, same);
        }
        let key = self.0.get(usize::try_from(found).ok()?)?;
        Some(Caller { name: key.name.clone(), role: key.role })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// What a path asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// Anybody.
    Open,
    /// Any key, or a caller on this machine.
    KeyOrLocal,
    /// A key whose role permits it.
    Role,
}

fn guard(path: &str) -> Guard {
    match path {
        "/healthz" | "/readyz" => Guard::Open,
        "/metrics" | "/openapi.json" => Guard::KeyOrLocal,
        _ if path == "/docs" || path.starts_with("/docs/") => Guard::KeyOrLocal,
        _ => Guard::Role,
    }
}

/// Whether a role may use a route (as matched, with its parameters' names).
pub fn permits(role: Role, method: &Method, route: &str) -> bool {
    let reads = method == Method::GET || method == Method::HEAD;
    match role {
        Role::Ops => true,
        Role::Reader => reads,
        Role::Storefront => match route {
            "/v1/skus" | "/v1/skus/{sku}" | "/v1/skus/{sku}/availability" => reads,
            "/v1/availability" | "/v1/orders" => true,
            _ => route
                .strip_prefix("/v1/orders/{id}")
                .is_some_and(|rest| !matches!(rest, "/decide" | "/refunds")),
        },
    }
}

/// Lets a request of that caller through, and leaves it the [`Caller`].
///
/// # Errors
/// `401`, `403`, `429`.
pub async fn check(
    app: &Shared,
    caller: Option<Caller>,
    request: &mut Request,
) -> Result<(), Problem> {
    let Some(route) = request.extensions().get::<MatchedPath>().cloned() else {
        // No such path: the fallback says so to anybody.
        return Ok(());
    };
    let guard = guard(route.as_str());
    match caller {
        _ if guard == Guard::Open => {}
        None if guard == Guard::KeyOrLocal && is_local(request) => {}
        None => return Err(Problem::unauthorized()),
        Some(caller) => {
            if guard == Guard::Role {
                app.coordination.admit(&caller.name).await.map_err(Problem::rate_limited)?;
            }
            if guard == Guard::Role && !permits(caller.role, request.method(), route.as_str()) {
                return Err(Problem::forbidden("See /docs for what each role may do."));
            }
            request.extensions_mut().insert(caller);
        }
    }
    Ok(())
}

/// From this machine, and not passed on by a proxy on it.
fn is_local(request: &Request) -> bool {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let proxied = ["forwarded", "x-forwarded-for", "x-real-ip", "via"]
        .iter()
        .any(|name| request.headers().contains_key(*name));
    !proxied && peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use secrecy::SecretString;

    fn keys() -> Keys {
        let key = |name: &str, role, key: &str| KeySettings {
            name: name.into(),
            role,
            key: SecretString::from(key.to_owned()),
        };
        Keys::new(&[
            key("shop", Role::Storefront, "shop-key-0123456789"),
            key("desk", Role::Ops, "desk-key-0123456789"),
            key("wall", Role::Reader, "wall-key-0123456789"),
        ])
    }

    fn with(value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
        headers
    }

    #[test]
    fn a_key_names_its_caller_and_anything_else_nobody() {
        let desk = keys().caller(&with("Bearer desk-key-0123456789")).expect("known");
        assert_eq!((&*desk.name, desk.role), ("desk", Role::Ops));
        assert!(keys().caller(&with("bearer wall-key-0123456789")).is_some());
        for value in [
            "Bearer desk-key-012345678",
            "Bearer desk-key-01234567890",
            "Bearer ",
            "Bearer",
            "Basic desk-key-0123456789",
            "desk-key-0123456789",
        ] {
            assert_eq!(keys().caller(&with(value)), None, "{value}");
        }
        assert_eq!(keys().caller(&HeaderMap::new()), None);
    }

    #[test]
    fn without_keys_everybody_is_ops() {
        let caller = Keys::default().caller(&HeaderMap::new()).expect("let in");
        assert_eq!((&*caller.name, caller.role), ("local", Role::Ops));
    }

    /// (method, route, storefront, reader) as the contract has it; ops may do all of them.
    const MATRIX: &[(&str, &str, bool, bool)] = &[
        ("POST", "/v1/orders", true, false),
        ("GET", "/v1/orders", true, true),
        ("GET", "/v1/orders/{id}", true, true),
        ("POST", "/v1/orders/{id}/payments", true, false),
        ("POST", "/v1/orders/{id}/cancel", true, false),
        ("POST", "/v1/orders/{id}/lines/{line_id}/cancel", true, false),
        ("PUT", "/v1/orders/{id}/ship_to", true, false),
        ("POST", "/v1/orders/{id}/shipments", true, false),
        ("POST", "/v1/orders/{id}/complete", true, false),
        ("POST", "/v1/orders/{id}/decide", false, false),
        ("POST", "/v1/orders/{id}/refunds", false, false),
        ("GET", "/v1/refunds", false, true),
        ("POST", "/v1/refunds/{id}/retry", false, false),
        ("POST", "/v1/refunds/{id}/resolve", false, false),
        ("GET", "/v1/skus", true, true),
        ("GET", "/v1/skus/{sku}", true, true),
        ("PUT", "/v1/skus/{sku}", false, false),
        ("GET", "/v1/skus/{sku}/availability", true, true),
        ("POST", "/v1/availability", true, false),
        ("POST", "/v1/skus/{sku}/stock", false, false),
        ("POST", "/v1/skus/{sku}/pause", false, false),
        ("POST", "/v1/skus/{sku}/aliases", false, false),
        ("GET", "/v1/holds", false, true),
        ("GET", "/v1/ledger", false, true),
        ("GET", "/v1/suppliers", false, true),
        ("POST", "/v1/suppliers/{id}/sync", false, false),
        ("POST", "/v1/suppliers/{id}/resume", false, false),
        ("GET", "/v1/purchase-orders", false, true),
        ("POST", "/v1/purchase-orders/{id}/resolve", false, false),
        ("GET", "/v1/alerts", false, true),
        ("POST", "/v1/alerts/{id}/acknowledge", false, false),
        ("GET", "/v1/jobs", false, true),
        ("POST", "/v1/jobs/{id}/retry", false, false),
        ("GET", "/v1/something-new", false, true),
    ];

    #[test]
    fn each_role_may_do_what_the_contract_gives_it() {
        for (method, route, storefront, reader) in MATRIX {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let may = |role| permits(role, &method, route);
            assert!(may(Role::Ops), "{method} {route}");
            assert_eq!(may(Role::Storefront), *storefront, "storefront {method} {route}");
            assert_eq!(may(Role::Reader), *reader, "reader {method} {route}");
        }
    }

    #[test]
    fn only_the_probes_are_open() {
        assert_eq!(guard("/healthz"), Guard::Open);
        assert_eq!(guard("/readyz"), Guard::Open);
        for path in ["/metrics", "/openapi.json", "/docs", "/docs/", "/docs/{*rest}"] {
            assert_eq!(guard(path), Guard::KeyOrLocal, "{path}");
        }
        for path in ["/v1/orders", "/docsecrets", "/metrics/x"] {
            assert_eq!(guard(path), Guard::Role, "{path}");
        }
    }

    #[test]
    fn local_is_this_machine_and_no_proxy_on_it() {
        let request = |peer: &str, proxied: bool| {
            let mut request = Request::builder().body(axum::body::Body::empty()).expect("one");
            let peer: SocketAddr = peer.parse().expect("an address");
            request.extensions_mut().insert(ConnectInfo(peer));
            if proxied {
                request
                    .headers_mut()
                    .insert("x-forwarded-for", HeaderValue::from_static("203.0.113.9"));
            }
            request
        };
        assert!(is_local(&request("127.0.0.1:5000", false)));
        assert!(is_local(&request("[::1]:5000", false)));
        assert!(is_local(&request("[::ffff:127.0.0.1]:5000", false)));
        assert!(!is_local(&request("127.0.0.1:5000", true)));
        assert!(!is_local(&request("192.0.2.1:5000", false)));
        assert!(!is_local(&Request::builder().body(axum::body::Body::empty()).expect("one")));
    }
}
