//! The wire itself: who may call what, paths and methods that are not there, ids, headers, sizes.
//! Endpoints are listed here by hand from the contract, and compared with the served document.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::api::{Answer, Api, KEY, order};
use super::daemon::{DESK_KEY, Home, SHOP_KEY, WALL_KEY, together};

/// (method, path, storefront may, reader may); ops may all.
const ENDPOINTS: &[(&str, &str, bool, bool)] = &[
    ("POST", "/v1/orders", true, false),
    ("GET", "/v1/orders", true, true),
    ("GET", "/v1/orders/{id}", true, true),
    ("POST", "/v1/orders/{id}/payments", true, false),
    ("POST", "/v1/orders/{id}/cancel", true, false),
    ("POST", "/v1/orders/{id}/lines/{line_id}/cancel", true, false),
    ("PUT", "/v1/orders/{id}/ship_to", true, false),
    ("POST", "/v1/orders/{id}/decide", false, false),
    ("POST", "/v1/orders/{id}/shipments", true, false),
    ("POST", "/v1/orders/{id}/complete", true, false),
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
    ("POST", "/v1/skus/{sku}/resume", false, false),
    ("POST", "/v1/skus/{sku}/aliases", false, false),
    ("GET", "/v1/holds", false, true),
    ("GET", "/v1/ledger", false, true),
    ("GET", "/v1/suppliers", false, true),
    ("GET", "/v1/suppliers/{id}", false, true),
    ("POST", "/v1/suppliers/{id}/sync", false, false),
    ("POST", "/v1/suppliers/{id}/pause", false, false),
    ("POST", "/v1/suppliers/{id}/resume", false, false),
    ("GET", "/v1/purchase-orders", false, true),
    ("POST", "/v1/purchase-orders/{id}/retry", false, false),
    ("POST", "/v1/purchase-orders/{id}/resolve", false, false),
    ("GET", "/v1/alerts", false, true),
    ("POST", "/v1/alerts/{id}/acknowledge", false, false),
    ("GET", "/v1/jobs", false, true),
    ("POST", "/v1/jobs/{id}/retry", false, false),
];

fn method(name: &str) -> Method {
    Method::from_bytes(name.as_bytes()).expect("a method")
}

/// The path with something in each place.
/// Said of a path that is there, and the method is not.
const NO_METHOD: &str = "does not take this method";

fn filled(path: &str) -> String {
    path.replace("{line_id}", "none.1").replace("{id}", "none").replace("{sku}", "none")
}

async fn call(api: &Api, name: &str, path: &str) -> Answer {
    let request = api.request(method(name), &filled(path)).header(KEY, "k");
    let body = if name == "GET" { request } else { request.json(&json!({})) };
    Answer::of(body).await
}

#[tokio::test]
async fn each_role_may_do_what_the_contract_says() {
    let home = Home::new("").with_keys();
    let daemon = home.serve().await;
    let (ops, shop) = (daemon.speaking_as(Some(DESK_KEY)), daemon.speaking_as(Some(SHOP_KEY)));
    let reader = daemon.speaking_as(Some(WALL_KEY));
    let strangers = [
        daemon.speaking_as(None),
        daemon.speaking_as(Some("desk-key-012345678")),
        daemon.speaking_as(Some("desk-key-01234567890")),
        daemon.speaking_as(Some("é")),
    ];
    for (name, path, shop_may, reader_may) in ENDPOINTS {
        let what = format!("{name} {path}");
        for stranger in &strangers {
            call(stranger, name, path).await.refused(401, "unauthorized");
        }
        for (api, may) in [(&ops, true), (&shop, *shop_may), (&reader, *reader_may)] {
            let answer = call(api, name, path).await;
            if may {
                assert!(!matches!(answer.status, 401 | 403 | 500..), "{what}: {}", answer.text);
                assert!(!answer.text.contains(NO_METHOD), "{what}");
            } else {
                answer.refused(403, "forbidden");
            }
        }
    }
    for open in ["/healthz", "/readyz"] {
        assert_eq!(strangers[0].get(open).await.status, 200);
    }
    // From this machine these need no key; through a proxy they do.
    for local in ["/metrics", "/openapi.json", "/docs/"] {
        assert_eq!(strangers[0].get(local).await.status, 200, "{local}");
        let proxied = strangers[0].request(Method::GET, local).header("x-forwarded-for", "1.2.3.4");
        assert_eq!(Answer::of(proxied).await.status, 401, "{local}");
    }
    assert!(!home.log().contains("-key-0123"), "no key is ever logged");
}

#[tokio::test]
async fn the_document_lists_exactly_what_the_contract_names() {
    let home = Home::new("");
    let printed = home.run(&["openapi"]).await.ok();
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    assert!(document["openapi"].as_str().is_some_and(|v| v.starts_with("3.1")));
    let mut listed = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for name in item.as_object().expect("methods").keys() {
            listed.insert(format!("{} {path}", name.to_uppercase()));
        }
    }
    let mut expected: BTreeSet<String> =
        ENDPOINTS.iter().map(|(name, path, ..)| format!("{name} {path}")).collect();
    expected.extend(["/healthz", "/readyz", "/metrics"].map(|path| format!("GET {path}")));
    assert_eq!(listed, expected);
    let daemon = home.serve().await;
    assert_eq!(daemon.get("/openapi.json").await.ok(), document);
}

#[tokio::test]
async fn what_is_not_there_is_said_to_be_so() {
    let home = Home::new("");
    let daemon = home.serve().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/orders",
        "/v1/order",
        "/v1/orders/",
        "/v1/orders/x/y",
        "//v1/orders",
        "/v1/ORDERS",
        "/v1/skus/",
        "/favicon.ico",
        "/%00",
        "/v1/orders/%00",
        "/v1/orders/%ff",
        "/v1/orders/%F0%9F%91%9F",
        "/v1/skus/none",
        "/v1/suppliers/none",
    ] {
        let answer = daemon.get(path).await;
        assert!(matches!(answer.status, 400 | 404 | 422), "{path}: {}", answer.status);
        answer.is_problem();
    }
    for (name, path, ..) in ENDPOINTS {
        let other = daemon.request(Method::PATCH, &filled(path));
        let answer = Answer::of(other).await;
        assert!(answer.header("allow").contains(name), "{path}: {}", answer.header("allow"));
        let refused = answer.refused(404, "not_found");
        assert!(refused["detail"].to_string().contains(NO_METHOD), "PATCH {path}: {refused}");
        for odd in [Method::HEAD, Method::OPTIONS, Method::DELETE, Method::TRACE] {
            let answer = Answer::of(daemon.request(odd.clone(), &filled(path))).await;
            assert!(answer.status < 500, "{odd} {path}: {}", answer.status);
            if odd == Method::HEAD {
                assert_eq!(answer.text, "", "HEAD has no body");
            }
        }
        if *name != "GET" {
            let answer = call(&daemon, name, path).await;
            assert!(matches!(answer.status, 404 | 422), "{name} {path}: {}", answer.text);
            answer.is_problem();
        }
    }
    assert_eq!(Answer::of(daemon.request(Method::HEAD, "/v1/orders")).await.status, 200);
    assert_eq!(Answer::of(daemon.request(Method::HEAD, "/healthz")).await.status, 200);
}

#[tokio::test]
async fn every_answer_carries_a_request_id() {
    let home = Home::new("").with_variable("STOCKHOLD_LOG", "stockhold=debug");
    let daemon = home.serve().await;
    let asked = daemon.request(Method::GET, "/v1/orders").header("x-request-id", "mine-17");
    assert_eq!(Answer::of(asked).await.header("x-request-id"), "mine-17");
    assert!(home.log().contains("mine-17"), "it is in the log");
    let (one, two) = (daemon.get("/v1/orders").await, daemon.get("/nowhere").await);
    let (one, two) = (one.header("x-request-id"), two.header("x-request-id"));
    assert!(!one.is_empty() && !two.is_empty() && one != two);
    for odd in ["x".repeat(5_000), "a b\"c".to_owned(), "é".to_owned()] {
        let asked = daemon.request(Method::GET, "/v1/orders").header("x-request-id", odd.as_str());
        let answer = Answer::of(asked).await;
        assert!(answer.status == 200 && answer.header("x-request-id") != odd);
        assert!(!answer.header("x-request-id").is_empty());
    }
}

#[tokio::test]
async fn a_body_has_a_mebibyte_at_most() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let padded = |bytes: usize| {
        let body = order("o1", &[("W1", 1)]).to_string();
        let blanks = " ".repeat(bytes - body.len());
        body + &blanks
    };
    let most = 1024 * 1024;
    let over = daemon.post_text("/v1/orders", padded(most + 1)).await;
    over.refused(413, "payload_too_large");
    // Without a length, in pieces.
    let piece = format!("{:x}\r\n{}\r\n", 100_000, " ".repeat(100_000));
    let head = "POST /v1/orders HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunked = raw(daemon.address(), (head.to_owned() + &piece.repeat(20)).as_bytes()).await;
    assert!(chunked.starts_with("HTTP/1.1 413"), "{chunked}");
    // A client that reads nothing before it has written all reads the answer too, and its end.
    let much = 5 * most;
    let head = format!("POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-length: {much}\r\n\r\n");
    let mut stream = TcpStream::connect(daemon.address()).await.expect("connected");
    stream.write_all(head.as_bytes()).await.expect("written");
    stream.write_all(&vec![b' '; much]).await.expect("all of it is taken");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(super::daemon::LIMIT, read).await.expect("it closes").expect("text");
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.contains("payload_too_large"), "{answer}");
    // Who asks first is told before it has sent anything.
    let asking = head.replace("host: x", "host: x\r\nexpect: 100-continue");
    let asking = raw(daemon.address(), asking.as_bytes()).await;
    assert!(asking.starts_with("HTTP/1.1 413"), "{asking}");
    assert_eq!(daemon.post_text("/v1/orders", padded(most)).await.status, 201);
}

/// Sends bytes and gives what comes back until the daemon closes.
async fn raw(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(super::daemon::LIMIT, stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn odd_bytes_on_the_wire_do_no_harm() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let many: String = (0..2_000).map(|n| format!("x-h{n}: v\r\n")).collect();
    let long = "v".repeat(2_000_000);
    for request in [
        format!("GET /v1/orders HTTP/1.1\r\nhost: x\r\n{many}\r\n"),
        format!("GET /v1/orders HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n"),
        format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(200_000)),
        "GET /v1/orders HTTP/1.1\r\n\r\n".to_owned(),
        "GET /v1/orders HTTP/9.9\r\nhost: x\r\n\r\n".to_owned(),
        "POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n".to_owned(),
        "POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{}".to_owned(),
        "POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"
            .to_owned(),
        "POST /v1/orders HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n"
            .to_owned(),
        "\u{0}\u{1}\u{2}".to_owned(),
        "GET /v1/orders".to_owned(),
    ] {
        let answer = raw(daemon.address(), request.as_bytes()).await;
        let status = answer.split(' ').nth(1).unwrap_or("closed");
        assert!(!status.starts_with('5'), "{}…: {status}", &request[..30.min(request.len())]);
    }
    daemon.placed("o1", "W1", 1).await;
    assert!(!home.log().contains("panicked"), "{}", home.log());
}

/// Callers who open a connection and say nothing do not keep others out.
#[tokio::test]
async fn silent_callers_do_not_keep_others_out() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 100).await;
    let mut silent = Vec::new();
    for n in 0..150 {
        let mut stream = TcpStream::connect(daemon.address()).await.expect("connected");
        if n % 2 == 0 {
            let _ = stream.write_all(b"POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-le").await;
        }
        silent.push(stream);
    }
    let placed = together((0..20).map(|n| {
        let api = (*daemon).clone();
        async move { api.place(&order(&format!("o{n}"), &[("W1", 1)])).await.status }
    }))
    .await;
    assert_eq!(placed, vec![201; 20]);
    assert_eq!(daemon.get("/readyz").await.ok()["status"], "ready");
}

#[tokio::test]
async fn metrics_count_what_happens() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1).await;
    daemon.placed("o1", "W1", 1).await;
    daemon.place(&order("o2", &[("W1", 1)])).await.refused(409, "insufficient_stock");
    let text = daemon.get("/metrics").await.text;
    assert!(text.lines().any(|l| l.starts_with("# TYPE stockhold_")), "{text}");
    assert!(text.contains("/v1/orders") && text.contains("insufficient_stock"), "{text}");
    assert!(!text.contains("o1") || !text.contains("external"), "no label is a caller's text");
}
