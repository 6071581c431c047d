//! The router with the real engine on a fresh SQLite file: what surrounds a request, replays, and
//! the shape of answers. What the rules decide is tested where they are.

use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use secrecy::SecretString;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::extract::Page;
use super::health::{Check, Condition};
use super::operations::{Answered, Answering, Refused};
use super::*;
use crate::clock::{Span, Timestamp};
use crate::coordination::{Coordination, Options as Calm};
use crate::domain::names::SourceId;
use crate::domain::policy::Terms;
use crate::engine::{KeptAnswer, Parts};
use crate::settings::{KeySettings, Role};
use crate::storage::Options;
use crate::storage::alerts::Alert;
use crate::storage::epochs::Epoch;
use crate::storage::groups::Keep;
use crate::storage::jobs::JobInfo;

const OPS: &str = "ops-key-0123456789";
const SHOP: &str = "shop-key-0123456789";

/// One sync runs for ever; there are no jobs and no alerts.
struct Busy;

#[async_trait]
impl Operations for Busy {
    async fn sync(
        &self,
        _: &SourceId,
        _: bool,
        _: Option<Keep>,
    ) -> Result<Option<KeptAnswer>, Refused> {
        Err(Refused::AlreadyRunning("since a minute".into()))
    }
    async fn retry_job(&self, _: i64, _: Answering<JobInfo>) -> Result<Answered, Refused> {
        Err(Refused::NotFound("job"))
    }
    async fn acknowledge_alert(&self, _: i64, _: Answering<Alert>) -> Result<Answered, Refused> {
        Err(Refused::NotFound("alert"))
    }
    async fn keep(&self, _: Keep) -> Result<Option<KeptAnswer>, Refused> {
        Ok(None)
    }
}

struct Server {
    router: Router,
    app: Shared,
    _folder: tempfile::TempDir,
}

/// A status, its headers, and its body as JSON.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

fn policy() -> Policy {
    Policy { suppliers: [("s1688".into(), Terms::default())].into(), ..Policy::default() }
}

async fn server() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}/test.db", folder.path().display());
    let db = Db::open(&url, &Options::default()).expect("opens");
    db.migrate().await.expect("migrates");
    let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
    let (ids, policy) = (Ids::seeded(1), Arc::new(policy()));
    let coordination = Coordination::memory(&clock, &Calm::default());
    let cache = coordination.clone();
    let (engine, writer) = Engine::new(Parts {
        db: db.clone(),
        clock: clock.clone(),
        ids: ids.clone(),
        policy: Arc::clone(&policy),
        max_queued: 100,
        epoch: Epoch::first(),
        on_commit: Arc::new(move |touched| cache.committed(&touched.levels, touched.catalogue)),
    });
    tokio::spawn(writer);
    let key = |name: &str, role, key: &str| KeySettings {
        name: name.into(),
        role,
        key: SecretString::from(key.to_owned()),
    };
    let app = App {
        chances: Chances::new(db.clone()),
        coordination,
        engine,
        db,
        policy,
        clock,
        ids,
        keys: Keys::new(&[key("desk", Role::Ops, OPS), key("shop", Role::Storefront, SHOP)]),
        operations: Arc::new(Busy),
        probe: Arc::new(|| vec![Check::failed("schedules", Condition::Degraded, "late")]),
        metrics: metrics::detached().expect("a recorder"),
        running: Running::default(),
    };
    let app = Arc::new(app);
    Server { router: routed(Arc::clone(&app)), app, _folder: folder }
}

impl Server {
    async fn raw(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.expect("answers")
    }

    async fn send(&self, method: &str, path: &str, key: &str, body: &str) -> Answer {
        self.with(method, path, key, body, &[]).await
    }

    async fn with(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !key.is_empty() {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.raw(request.body(Body::from(body.to_owned())).expect("one")).await;
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        }
    }

    /// A SKU with so many units on the shelf.
    async fn stock(&self, sku: &str, units: i64) {
        let put = r#"{"title":"T","sources":[{"source":"main","kind":"warehouse"}]}"#;
        let answer = self.send("PUT", &format!("/v1/skus/{sku}"), OPS, put).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let set = json!({"source": "main", "set_to": units, "reason": "count"}).to_string();
        let key = [("idempotency-key", sku)];
        let path = format!("/v1/skus/{sku}/stock");
        let answer = self.with("POST", &path, OPS, &set, &key).await;
        assert_eq!((answer.status, &answer.body["quantity"]), (200, &json!(units)));
    }

    async fn place(&self, external_id: &str, quantity: i64) -> Answer {
        self.send("POST", "/v1/orders", SHOP, &order(external_id, quantity)).await
    }
}

fn order(external_id: &str, quantity: i64) -> String {
    json!({"channel": "web", "external_id": external_id, "currency": "USD",
        "lines": [{"sku": "A", "quantity": quantity, "unit_price": "19.99"}]})
    .to_string()
}

#[tokio::test]
async fn an_order_is_placed_paid_and_read_as_the_contract_shows_it() {
    let server = server().await;
    server.stock("A", 5).await;
    let placed = server.place("W-1", 2).await;
    assert_eq!(placed.status, 201, "{}", placed.body);
    let id = placed.body["id"].as_str().expect("an id").to_owned();
    let line = format!("{id}.1");
    assert_eq!(placed.body["state"], "pending_payment");
    assert_eq!(placed.body["total"], "39.98");
    assert_eq!(placed.body["expires_in_seconds"], 1800);
    assert_eq!(placed.body["created_at"], "2027-01-15T08:00:00.000Z");
    assert_eq!(
        placed.body["lines"],
        json!([{"id": line, "sku": "A", "quantity": 2, "cancelled_quantity": 0,
            "shipped_quantity": 0, "returned_quantity": 0, "unit_price": "19.99", "state": "held",
            "allocations": [{"source": "main", "kind": "warehouse", "quantity": 2,
                "hold_id": format!("{line}.1"), "hold_state": "active", "confirmation": null}]}])
    );
    let path = format!("/v1/orders/{id}/payments");
    let paid = server.send("POST", &path, SHOP, r#"{"id":"pay-1","amount":"39.98"}"#).await;
    assert_eq!((paid.status, &paid.body["state"]), (200, &json!("confirmed")), "{}", paid.body);
    assert_eq!(paid.body["paid"], "39.98");
    assert_eq!(paid.body["lines"][0]["state"], "sold");
    let read = server.send("GET", &format!("/v1/orders/{id}"), SHOP, "").await;
    assert_eq!((read.status, read.body), (200, paid.body));

    let yen = r#"{"id":"pay-2","amount":"1","currency":"JPY"}"#;
    assert_eq!(server.send("POST", &path, SHOP, yen).await.status, 422);
    let missing = server.send("GET", "/v1/orders/nope", SHOP, "").await;
    assert_eq!((missing.status, &missing.body["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn a_placement_is_repeated_by_its_key_and_by_its_external_id() {
    let server = server().await;
    server.stock("A", 5).await;
    let key = [("idempotency-key", "k-1")];
    let post = |body: String| {
        let server = &server;
        async move { server.with("POST", "/v1/orders", SHOP, &body, &key).await }
    };
    let first = post(order("W-1", 2)).await;
    assert_eq!(first.status, 201);
    assert!(!first.headers.contains_key("idempotency-replayed"));
    server.app.clock.advance(Span::secs(10));
    let again = post(order("W-1", 2)).await;
    assert_eq!(
        (again.status, &again.headers["idempotency-replayed"]),
        (201, &"true".parse().expect("a value"))
    );
    assert_eq!(again.body["id"], first.body["id"]);
    assert_eq!(again.body["expires_in_seconds"], 1790);
    let other = post(order("W-2", 2)).await;
    assert_eq!((other.status, &other.body["code"]), (422, &json!("idempotency_key_reused")));

    let existing = server.place("W-1", 2).await;
    assert_eq!((existing.status, &existing.body["id"]), (200, &first.body["id"]));
    let differs = server.place("W-1", 1).await;
    assert_eq!((differs.status, &differs.body["code"]), (409, &json!("external_id_conflict")));
}

#[tokio::test]
async fn a_kept_answer_is_given_again_word_for_word() {
    let server = server().await;
    server.stock("A", 5).await;
    let delta = r#"{"source":"main","delta":-2,"reason":"damaged"}"#;
    let path = "/v1/skus/A/stock";
    let missing = server.send("POST", path, OPS, delta).await;
    assert_eq!((missing.status, &missing.body["code"]), (400, &json!("idempotency_key_required")));
    let key = [("idempotency-key", "d-1")];
    let first = server.with("POST", path, OPS, delta, &key).await;
    assert_eq!((first.status, &first.body["quantity"]), (200, &json!(3)), "{}", first.body);
    let again = server.with("POST", path, OPS, delta, &key).await;
    assert_eq!((again.status, again.body), (200, first.body));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let other = delta.replace("-2", "-1");
    let reused = server.with("POST", path, OPS, &other, &key).await;
    assert_eq!((reused.status, &reused.body["code"]), (422, &json!("idempotency_key_reused")));
    // The scope is the path as well.
    server.stock("B", 5).await;
    let elsewhere = server.with("POST", "/v1/skus/B/stock", OPS, delta, &key).await;
    assert_eq!((elsewhere.status, &elsewhere.body["quantity"]), (200, &json!(3)));
}

#[tokio::test]
async fn a_key_whose_first_request_runs_is_refused_until_it_ends() {
    let server = server().await;
    server.stock("A", 5).await;
    let scope = ("shop".to_owned(), "/v1/orders".to_owned(), "k-1".to_owned());
    let held = server.app.running.hold(&scope);
    let key = [("idempotency-key", "k-1")];
    let body = order("W-1", 1);
    let busy = server.with("POST", "/v1/orders", SHOP, &body, &key).await;
    assert_eq!((busy.status, &busy.body["code"]), (409, &json!("request_in_progress")));
    // Another caller's key of the same name is another.
    let other = server.with("POST", "/v1/orders", OPS, &order("W-2", 1), &key).await;
    assert_eq!(other.status, 201);
    drop(held);
    assert_eq!(server.with("POST", "/v1/orders", SHOP, &body, &key).await.status, 201);
    let empty = server.with("POST", "/v1/orders", SHOP, &body, &[("idempotency-key", "")]).await;
    assert_eq!((empty.status, &empty.body["errors"][0]["field"]), (422, &json!("Idempotency-Key")));
    let stock = r#"{"source":"main","delta":1,"reason":"found"}"#;
    let empty = [("idempotency-key", "")];
    let empty = server.with("POST", "/v1/skus/A/stock", OPS, stock, &empty).await;
    assert_eq!((empty.status, &empty.body["code"]), (400, &json!("idempotency_key_required")));
    let long = "k".repeat(256);
    let long = server.with("POST", "/v1/orders", SHOP, &body, &[("idempotency-key", &long)]).await;
    assert_eq!((long.status, &long.body["errors"][0]["field"]), (422, &json!("Idempotency-Key")));
}

#[tokio::test]
async fn a_refused_placement_says_what_there_is_and_that_no_money_was_recorded() {
    let server = server().await;
    server.stock("A", 5).await;
    let mut body: Value = serde_json::from_str(&order("W-1", 6)).expect("JSON");
    body["payment"] = json!({"id": "pay-1", "amount": "119.94"});
    let refused = server.send("POST", "/v1/orders", SHOP, &body.to_string()).await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    assert_eq!(refused.body["code"], "insufficient_stock");
    assert_eq!(refused.body["shortages"], json!([{"sku": "A", "requested": 6, "available": 5}]));
    assert_eq!(refused.body["payment_recorded"], false);
    let short = server.place("W-1", 6).await;
    assert_eq!(short.body.get("payment_recorded"), None);
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_every_error_is_a_problem() {
    let server = server().await;
    for (method, path, key, status, code) in [
        ("GET", "/v1/orders", "", 401, "unauthorized"),
        ("GET", "/v1/orders", "wrong-key-0123456789", 401, "unauthorized"),
        ("GET", "/v1/refunds", SHOP, 403, "forbidden"),
        ("GET", "/nowhere", "", 404, "not_found"),
        ("GET", "/v1/nowhere", OPS, 404, "not_found"),
        ("DELETE", "/v1/orders", OPS, 404, "not_found"),
        ("POST", "/v1/orders", SHOP, 422, "validation_failed"),
        ("GET", "/v1/orders?limit=0", SHOP, 422, "validation_failed"),
        ("GET", "/v1/orders?state=payed", SHOP, 422, "validation_failed"),
        ("GET", "/v1/skus/%00", SHOP, 422, "validation_failed"),
        ("GET", "/v1/skus/%ff", SHOP, 400, "malformed_request"),
        ("POST", "/v1/suppliers/s1688/sync", OPS, 409, "already_running"),
        ("POST", "/v1/suppliers/s1/sync", OPS, 404, "not_found"),
        ("POST", "/v1/alerts/1/acknowledge", OPS, 404, "not_found"),
        ("POST", "/v1/jobs/x/retry", OPS, 404, "not_found"),
    ] {
        let answer = server.send(method, path, key, "").await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert_eq!(answer.body["code"], code, "{method} {path}");
        assert_eq!(answer.body["status"], status);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        assert_eq!(answer.headers["x-request-id"].len(), 32);
    }
    let wrong = server.send("DELETE", "/v1/orders", OPS, "").await;
    let allowed = wrong.headers["allow"].to_str().expect("text");
    assert!(["GET", "POST"].iter().all(|method| allowed.contains(method)), "{allowed}");
    let named = [("x-request-id", "mine-1")];
    let answer = server.with("GET", "/healthz", "", "", &named).await;
    assert_eq!(
        (answer.status, &answer.headers["x-request-id"]),
        (200, &"mine-1".parse().expect("a value"))
    );
}

#[tokio::test]
async fn a_panic_in_a_handler_is_an_answer() {
    let server = server().await;
    async fn broken(uri: axum::http::Uri) -> &'static str {
        let query = uri.query().map(|_| "there is a query");
        query.expect("nothing")
    }
    let router = Router::new().route("/broken", get(broken));
    let observe = middleware::from_fn_with_state(server.app.clone(), request::observe);
    let router = router.layer(observe);
    let request =
        Request::builder().uri("/broken").header("authorization", format!("Bearer {OPS}"));
    let request = request.body(Body::empty()).expect("one");
    let response = router.oneshot(request).await.expect("answers");
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    assert!(response.headers().contains_key("x-request-id"));
}

#[tokio::test]
async fn pages_lead_through_a_list_once() {
    let server = server().await;
    server.stock("A", 50).await;
    for i in 0..5 {
        assert_eq!(server.place(&format!("W-{i}"), 1).await.status, 201);
        server.app.clock.advance(Span::secs(1));
    }
    for (list, newest_first) in [
        ("/v1/orders?sku=A", true),
        ("/v1/holds?sku=A&state=active", true),
        ("/v1/ledger?sku=A", false),
    ] {
        let whole = server.send("GET", &format!("{list}&limit=500"), OPS, "").await;
        assert_eq!(
            (whole.status, &whole.body["next_cursor"]),
            (200, &Value::Null),
            "{}",
            whole.body
        );
        let whole = whole.body["items"].as_array().expect("items").clone();
        assert!(whole.len() >= 5, "{list}");
        let mut paged = Vec::new();
        let mut path = format!("{list}&limit=2");
        for _ in 0..10 {
            let page = server.send("GET", &path, OPS, "").await;
            paged.extend(page.body["items"].as_array().expect("items").clone());
            match page.body["next_cursor"].as_str() {
                Some(cursor) => path = format!("{list}&limit=2&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(paged, whole, "{list}");
        let at = |item: &Value| item.get("created_at").or(item.get("at")).cloned();
        let (first, last) = (at(&whole[0]), at(&whole[whole.len() - 1]));
        assert_eq!(
            first.map(|t| t.to_string()) > last.map(|t| t.to_string()),
            newest_first,
            "{list}"
        );
    }
    let found = server
        .send("GET", "/v1/orders?channel=web&external_id=W-3&state=pending_payment", OPS, "")
        .await;
    assert_eq!(found.body["items"].as_array().map(Vec::len), Some(1));
    let cursor = Page::cursor("holds", &["x", "1", "y"]);
    for path in [format!("/v1/holds?cursor={cursor}"), format!("/v1/orders?cursor={cursor}")] {
        let bad = server.send("GET", &path, OPS, "").await;
        assert_eq!(
            (bad.status, &bad.body["errors"][0]["field"]),
            (422, &json!("cursor")),
            "{path}"
        );
    }
}
#[tokio::test]
async fn stock_is_shown_as_it_can_be_sold() {
    let server = server().await;
    server.stock("A", 5).await;
    assert_eq!(server.place("W-1", 2).await.status, 201);
    let one = server.send("GET", "/v1/skus/A/availability", SHOP, "").await;
    let source = &one.body["sources"][0];
    let version = source["version"].clone();
    assert_eq!(
        one.body,
        json!({"sku": "A", "available": 3, "orderable": true, "paused": false,
            "sources": [{"source": "main", "kind": "warehouse", "quantity": 5, "held": 2,
                "committed": 0, "buffer": 0, "available": 3, "version": version,
                "freshness": "exact"}]})
    );
    let many = server.send("POST", "/v1/availability", SHOP, r#"{"skus":["A"," A "]}"#).await;
    assert_eq!(many.body["items"], json!([one.body.clone(), one.body]));
    let unknown = server.send("POST", "/v1/availability", SHOP, r#"{"skus":["A","B"]}"#).await;
    assert_eq!((unknown.status, &unknown.body["skus"]), (422, &json!(["B"])));

    let stop = r#"{"what":"selling","reason":"flood"}"#;
    let paused = server.send("POST", "/v1/skus/A/pause", OPS, stop).await;
    assert_eq!(paused.body["paused"]["selling"]["reason"], "flood", "{}", paused.body);
    let shown = server.send("GET", "/v1/skus/A/availability", SHOP, "").await;
    assert_eq!((&shown.body["paused"], &shown.body["orderable"]), (&json!(true), &json!(false)));
    let refused = server.place("W-2", 1).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("sku_paused")));
    let resumed = server.send("POST", "/v1/skus/A/resume", OPS, stop).await;
    assert_eq!(resumed.body["paused"]["selling"], Value::Null);

    let alias = server.send("POST", "/v1/skus/A/aliases", OPS, r#"{"alias":"A-OLD"}"#).await;
    assert_eq!(alias.status, 200, "{}", alias.body);
    let aliased = server.send("GET", "/v1/skus/A-OLD", SHOP, "").await;
    assert_eq!((aliased.status, &aliased.body["sku"]), (200, &json!("A")));
}

#[tokio::test]
async fn a_supplier_shows_how_late_it_is() {
    let server = server().await;
    let supplier = server.send("GET", "/v1/suppliers/s1688", OPS, "").await;
    assert_eq!(supplier.status, 200, "{}", supplier.body);
    for (field, value) in [
        ("sync_interval_seconds", json!(600)),
        ("observed_lag_seconds", json!(60)),
        ("lock_ttl_seconds", json!(720)),
        ("stale_after_seconds", json!(780)),
        ("last_sync_at", Value::Null),
        ("paused", json!({"selling": null, "buying": null})),
        ("levels", json!({"fresh": 0, "stale": 0, "not_listed": 0, "unknown": 0})),
    ] {
        assert_eq!(supplier.body[field], value, "{field}");
    }
    let all = server.send("GET", "/v1/suppliers", OPS, "").await;
    assert_eq!(all.body["items"], json!([supplier.body]));
    let stop = r#"{"what":"both","reason":"late"}"#;
    let paused = server.send("POST", "/v1/suppliers/s1688/pause", OPS, stop).await;
    assert_eq!((paused.status, &paused.body["paused"]["buying"]["reason"]), (200, &json!("late")));
}

#[tokio::test]
async fn the_probes_are_open_and_readiness_names_its_parts() {
    let server = server().await;
    let ready = server.send("GET", "/readyz", "", "").await;
    assert_eq!(ready.status, 200);
    assert_eq!(ready.body["status"], "degraded");
    assert_eq!(
        ready.body["checks"][0],
        json!({"name": "storage", "status": "ready", "reason": null})
    );
    assert_eq!(server.send("GET", "/metrics", "", "").await.status, 401);
    assert_eq!(server.send("GET", "/metrics", SHOP, "").await.status, 200);
    assert_eq!(server.send("GET", "/docs/", SHOP, "").await.status, 200);
    assert_eq!(server.send("GET", "/docs/", "", "").await.status, 401);
}

#[tokio::test]
async fn the_document_is_the_same_everywhere_and_names_every_path() {
    let server = server().await;
    let served = server.send("GET", "/openapi.json", OPS, "").await.body;
    let printed: Value = serde_json::from_str(&openapi().expect("a document")).expect("JSON");
    assert_eq!(served, printed);
    let paths: Vec<String> = printed["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .map(|(path, item)| {
            let methods: Vec<&str> =
                item.as_object().expect("an item").keys().map(String::as_str).collect();
            format!("{path} {}", methods.join(" "))
        })
        .collect();
    assert!(printed["openapi"].as_str().expect("a version").starts_with("3.1"));
    insta::assert_snapshot!(paths.join("\n"));
}

/// Sends one request over a connection and reads until the server closes it.
async fn over_tcp(address: std::net::SocketAddr, request: String) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("reads");
    answer
}

#[tokio::test]
async fn what_was_begun_before_the_stop_is_answered() {
    let server = server().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel::<()>();
    let (go_on, may_go_on) = tokio::sync::oneshot::channel::<()>();
    let held = std::sync::Mutex::new(Some((begun, may_go_on)));
    let held = Arc::new(held);
    let slow = move || {
        let held = held.lock().ok().and_then(|mut held| held.take());
        async move {
            if let Some((begun, may_go_on)) = held {
                begun.send(()).expect("told");
                may_go_on.await.expect("told");
            }
            "done"
        }
    };
    let router = server.router.clone().route("/slow", get(slow));
    let serving = tokio::spawn(serve(listener, router, async {
        stopped.await.expect("told");
    }));
    // From this machine the metrics need no key.
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let metrics = over_tcp(address, get("/metrics")).await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK"), "{metrics}");
    let orders = over_tcp(address, get("/v1/orders")).await;
    assert!(orders.starts_with("HTTP/1.1 401"), "{orders}");

    let request = tokio::spawn(over_tcp(address, get("/slow")));
    has_begun.await.expect("begun");
    stop.send(()).expect("told");
    go_on.send(()).expect("told");
    let answer = request.await.expect("ends");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("done"), "{answer}");
    serving.await.expect("ends").expect("served");
}

#[tokio::test]
async fn a_crowd_that_connects_at_once_finds_room() {
    let listener = listen(([127, 0, 0, 1], 0).into()).expect("listens");
    let address = listener.local_addr().expect("an address");
    // More than the 128 that a listener has room for unless told; nobody accepts.
    let crowd = (0..300).map(|_| tokio::net::TcpStream::connect(address));
    let all = futures::future::try_join_all(crowd);
    let all = tokio::time::timeout(std::time::Duration::from_secs(20), all).await;
    assert_eq!(all.expect("nobody waits for ever").expect("all connect").len(), 300);
}
