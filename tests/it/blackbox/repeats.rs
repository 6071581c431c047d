//! C094, C098, C101: whatever is sent twice is done once.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::api::{Answer, Api, KEY, order};
use super::daemon::{Daemon, HOUR, Home, NOON, SECOND, eventually, together};

fn placing(api: &Api, body: &Value, key: Option<&str>) -> reqwest::RequestBuilder {
    let request = api.request(Method::POST, "/v1/orders").json(body);
    match key {
        Some(key) => request.header(KEY, key),
        None => request,
    }
}

#[tokio::test]
async fn c094_ten_identical_placements_are_one_order() {
    let home = Home::new("");
    let daemon = home.serve().await;
    for round in 0..10 {
        let sku = format!("W{round}");
        daemon.stocked(&sku, 100).await;
        let body = order(&format!("o{round}"), &[(&sku, 3)]);
        let answers = together((0..10).map(|_| {
            let (api, body) = ((*daemon).clone(), body.clone());
            async move { api.place(&body).await }
        }))
        .await;
        let with = |status: u16| answers.iter().filter(|a| a.status == status).count();
        assert_eq!((with(201), with(200)), (1, 9));
        assert!(answers.iter().all(|a| a.id() == answers[0].id()));
        assert_eq!(daemon.figures(&sku).await, (100, 3, 0, 97));
    }
    assert_eq!(home.number("SELECT count(*) FROM holds").await, 10);
    home.check_books().await;
}

#[tokio::test]
async fn c094_with_a_payment_the_money_is_taken_once() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 100).await;
    let mut body = order("o1", &[("W1", 2)]);
    body["payment"] = json!({"id": "p1", "amount": "20.00"});
    let answers = together((0..10).map(|n| {
        let (api, body) = ((*daemon).clone(), body.clone());
        // Half of them under one idempotency key.
        async move { Answer::of(placing(&api, &body, (n % 2 == 0).then_some("k"))).await }
    }))
    .await;
    for answer in &answers {
        let fine = matches!(answer.status, 200 | 201) || answer.code() == "request_in_progress";
        assert!(fine, "{}", answer.text);
    }
    let shown = daemon.order(&home.rows::<(String,)>("SELECT id FROM orders").await[0].0).await;
    assert_eq!((&shown["paid"], &shown["refunded"]), (&json!("20.00"), &json!("0.00")));
    assert_eq!(daemon.figures("W1").await, (100, 0, 2, 98));
    home.check_books().await;
}

#[tokio::test]
async fn c098_a_caller_who_gave_up_finds_the_one_order() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    for (external, key) in [("o1", None), ("o2", Some("key-of-o2"))] {
        let body = order(external, &[("W1", 1)]);
        let lock = home.tables.hold_up().await;
        let impatient = placing(&daemon, &body, key).timeout(Duration::from_millis(300));
        let gave_up = Answer::try_of(impatient).await.expect_err("nothing is answered yet");
        assert!(gave_up.is_timeout(), "{gave_up}");
        // It asks again while its first request still waits.
        let (api, again) = ((*daemon).clone(), body.clone());
        let retry = tokio::spawn(async move {
            loop {
                let answer = Answer::of(placing(&api, &again, key)).await;
                // Whether the daemon has noticed that the first caller left is a matter of luck.
                if answer.code() != "request_in_progress" {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        lock.release().await;
        let retried = retry.await.expect("it ends");
        assert!(matches!(retried.status, 200 | 201), "{}", retried.text);
        let last = Answer::of(placing(&daemon, &body, key)).await;
        assert_eq!(last.id(), retried.id());
    }
    assert_eq!(daemon.list("/v1/orders", 50).await.len(), 2);
    assert_eq!(daemon.figures("W1").await, (10, 2, 0, 8));
    home.check_books().await;
}

#[tokio::test]
async fn c101_the_first_request_still_runs() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let body = order("o1", &[("W1", 1)]);
    let lock = home.tables.hold_up().await;
    let send = || {
        let (api, body) = ((*daemon).clone(), body.clone());
        tokio::spawn(async move { Answer::of(placing(&api, &body, Some("k"))).await })
    };
    let (mut one, mut other) = (send(), send());
    // One of the two waits for the store; the other is told so at once.
    let (told, waits) = tokio::select! {
        told = &mut one => (told, other),
        told = &mut other => (told, one),
    };
    told.expect("it ends").refused(409, "request_in_progress");
    lock.release().await;
    let first = waits.await.expect("it ends");
    assert_eq!(first.status, 201, "{}", first.text);
    assert_eq!(first.header("idempotency-replayed"), "");
    let replayed = Answer::of(placing(&daemon, &body, Some("k"))).await;
    assert_eq!((replayed.status, replayed.id()), (201, first.id()));
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    home.check_books().await;
}

#[tokio::test]
async fn c101_a_placement_s_key_names_one_body() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let body = order("o1", &[("W1", 1)]);
    let first = Answer::of(placing(&daemon, &body, Some("k"))).await;
    assert_eq!(first.status, 201);
    daemon.pay(&first.id(), "p1", "10.00").await.ok();
    // The same again: 201, and the order as it is now.
    let again = Answer::of(placing(&daemon, &body, Some("k"))).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, "true".to_owned()));
    assert_eq!(again.body["state"], "confirmed");
    let other = order("o2", &[("W1", 1)]);
    let reused = Answer::of(placing(&daemon, &other, Some("k"))).await;
    reused.refused(422, "idempotency_key_reused");
    // Another key, the same order: its external id names it.
    let by_name = Answer::of(placing(&daemon, &body, Some("k2"))).await;
    assert_eq!((by_name.status, by_name.id()), (200, first.id()));
    assert_eq!(by_name.header("idempotency-replayed"), "");
    // That key is bound like any other: the same answer, with the order as it is now.
    daemon.ship(&first.id(), &[(1, 1)]).await.ok();
    let again = Answer::of(placing(&daemon, &body, Some("k2"))).await;
    assert_eq!((again.status, again.id()), (200, first.id()));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.body["state"], "shipped");
    let reused = Answer::of(placing(&daemon, &other, Some("k2"))).await;
    reused.refused(422, "idempotency_key_reused");
    // A refusal is judged anew.
    let much = order("o3", &[("W1", 50)]);
    for _ in 0..2 {
        let refused = Answer::of(placing(&daemon, &much, Some("k3"))).await;
        refused.refused(409, "insufficient_stock");
    }
    daemon.set_stock("W1", 100).await;
    assert_eq!(Answer::of(placing(&daemon, &much, Some("k3"))).await.status, 201);
    // A day later the keys are free; the order's name is not.
    daemon.time(NOON + 24 * HOUR + SECOND).await;
    let same = Answer::of(placing(&daemon, &body, Some("k"))).await;
    assert_eq!((same.status, same.id()), (200, first.id()), "{}", same.text);
    assert_eq!(same.header("idempotency-replayed"), "");
    Answer::of(placing(&daemon, &other, Some("k"))).await.refused(422, "idempotency_key_reused");
    let free = Answer::of(placing(&daemon, &other, Some("k2"))).await;
    assert_eq!(free.status, 201, "kept for 24 h: {}", free.text);
    let again = Answer::of(placing(&daemon, &other, Some("k2"))).await;
    assert_eq!((again.status, again.id()), (201, free.id()));
    assert_eq!(again.header("idempotency-replayed"), "true");
    home.check_books().await;
}

#[tokio::test]
async fn c101_an_external_id_names_one_content() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let body = order("o1", &[("W1", 1)]);
    let first = daemon.place(&body).await;
    let changed = |change: fn(&mut Value)| {
        let mut other = body.clone();
        change(&mut other);
        other
    };
    let others = [
        changed(|o| o["currency"] = json!("EUR")),
        changed(|o| o["lines"][0]["quantity"] = json!(2)),
        changed(|o| o["lines"][0]["unit_price"] = json!("10.01")),
        changed(|o| o["shipping"] = json!("1.00")),
        changed(|o| o["discount"] = json!("1.00")),
        changed(|o| o["ship_to"] = json!({"name": "A"})),
    ];
    for other in others {
        let answer = daemon.place(&other).await;
        answer.refused(409, "external_id_conflict");
    }
    // What is no content: the customer, the order of members, an amount written otherwise.
    let same = [
        changed(|o| o["customer"] = json!({"id": "c-1"})),
        changed(|o| o["shipping"] = json!("0")),
        changed(|o| o["lines"][0]["unit_price"] = json!("10.0")),
        changed(|o| o["lines"][0]["sku"] = json!(" W1")),
    ];
    for same in same {
        let answer = daemon.place(&same).await;
        assert_eq!((answer.status, answer.id()), (200, first.id()), "{same}: {}", answer.text);
    }
    // A payment in the repeat is recorded.
    let mut paid = body.clone();
    paid["payment"] = json!({"id": "p1", "amount": "10.00"});
    assert_eq!(daemon.place(&paid).await.ok()["state"], "confirmed");
    paid["payment"] = json!({"id": "p1", "amount": "9.00"});
    let other = daemon.place(&paid).await.refused(409, "payment_conflict");
    assert_eq!(other["payment_recorded"], false);
    // The same name on another channel is another order.
    let elsewhere = changed(|o| o["channel"] = json!("app"));
    assert_eq!(daemon.place(&elsewhere).await.status, 201);
    home.check_books().await;
}

/// Endpoints whose bodies carry an amount or a quantity and no id of their own: path, a body, and
/// another one that would do as well.
fn need_a_key(id: &str) -> Vec<(String, Value, Value)> {
    let refund = |amount: &str| json!({"amount": amount, "reason": "x"});
    let parcel = |number: &str| {
        let line = json!([{"line_id": format!("{id}.1"), "quantity": 1}]);
        json!({"lines": line, "carrier": "SF", "tracking_number": number})
    };
    let found = |n: i64| json!({"source": "main", "delta": n, "reason": "found"});
    vec![
        (format!("/v1/orders/{id}/refunds"), refund("1.00"), refund("1.01")),
        (
            format!("/v1/orders/{id}/lines/{id}.1/cancel"),
            json!({"quantity": 1}),
            json!({"quantity": 2}),
        ),
        (format!("/v1/orders/{id}/shipments"), parcel("1"), parcel("2")),
        ("/v1/skus/W1/stock".into(), found(1), found(2)),
    ]
}

#[tokio::test]
async fn c101_where_a_key_is_required() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let id = daemon.placed("o1", "W1", 3).await;
    daemon.pay(&id, "p1", "30.00").await.ok();
    for (path, body, other) in need_a_key(&id) {
        let before = daemon.order(&id).await;
        let bare = daemon.request(Method::POST, &path).json(&body);
        Answer::of(bare).await.refused(400, "idempotency_key_required");
        let empty = daemon.request(Method::POST, &path).header(KEY, "").json(&body);
        Answer::of(empty).await.refused(400, "idempotency_key_required");
        assert_eq!(daemon.order(&id).await, before, "{path}");
        let first = daemon.post_keyed(&path, "k", &body).await;
        first.clone().ok();
        let again = daemon.post_keyed(&path, "k", &body).await;
        assert_eq!(again.header("idempotency-replayed"), "true", "{path}");
        assert_eq!(again.text, first.text, "{path}: the first answer, word for word");
        assert_eq!(first.header("idempotency-replayed"), "");
        let reused = daemon.post_keyed(&path, "k", &other).await;
        reused.refused(422, "idempotency_key_reused");
    }
    let after = daemon.order(&id).await;
    assert_eq!(after["lines"][0]["cancelled_quantity"], 1);
    assert_eq!(after["lines"][0]["shipped_quantity"], 1);
    // 1.00 by hand; then the cancelled unit's 10.00 less what went back already.
    assert_eq!(after["refunds"].as_array().map(Vec::len), Some(2), "{after}");
    assert_eq!(daemon.figures("W1").await.0, 10, "10, 1 found, 1 shipped");
    home.check_books().await;
}

#[tokio::test]
async fn c101_how_long_keys_are_kept() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let found = json!({"source": "main", "delta": 5, "reason": "found"});
    let pause = |reason: &str| json!({"what": "selling", "reason": reason});
    daemon.post_keyed("/v1/skus/W1/stock", "s", &found).await.ok();
    daemon.post_keyed("/v1/skus/W1/pause", "p", &pause("a")).await.ok();
    daemon.time(NOON + 24 * HOUR - SECOND).await;
    let reused = daemon.post_keyed("/v1/skus/W1/pause", "p", &pause("b")).await;
    reused.refused(422, "idempotency_key_reused");
    for later in [24 * HOUR + SECOND, 400 * 24 * HOUR] {
        daemon.time(NOON + later).await;
        let stock = daemon.post_keyed("/v1/skus/W1/stock", "s", &found).await;
        assert_eq!(stock.header("idempotency-replayed"), "true", "for ever");
        assert_eq!(daemon.figures("W1").await.0, 15);
        let reason = format!("after {later}");
        let paused = daemon.post_keyed("/v1/skus/W1/pause", "p", &pause(&reason)).await;
        assert_eq!(paused.header("idempotency-replayed"), "", "for a day");
        assert_eq!(paused.ok()["paused"]["selling"]["reason"], reason);
    }
    home.check_books().await;
}

/// A key is its caller's and its path's own.
#[tokio::test]
async fn c101_the_scope_of_a_key() {
    let home = Home::new("").with_keys();
    let daemon = home.serve().await;
    daemon.stocked("W1", 100).await;
    daemon.stocked("W2", 100).await;
    let found = json!({"source": "main", "delta": 5, "reason": "found"});
    for path in ["/v1/skus/W1/stock", "/v1/skus/W2/stock"] {
        let answer = daemon.post_keyed(path, "k", &found).await;
        assert_eq!(answer.header("idempotency-replayed"), "", "{path}");
        assert_eq!(answer.ok()["quantity"], 105);
    }
    let shop = daemon.speaking_as(Some(super::daemon::SHOP_KEY));
    let by = |api: &Api, id: &str| placing(api, &order(id, &[("W1", 1)]), Some("k"));
    assert_eq!(Answer::of(by(&shop, "o1")).await.status, 201);
    assert_eq!(Answer::of(by(&daemon, "o2")).await.status, 201);
    Answer::of(by(&shop, "o2")).await.refused(422, "idempotency_key_reused");
}

#[tokio::test]
async fn keys_that_cannot_be() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    for (key, status) in [
        (String::new(), 422),
        ("x".repeat(255), 201),
        ("é".repeat(255), 201),
        ("x".repeat(256), 422),
    ] {
        let body = order(&format!("o-{}-{status}", key.len()), &[("W1", 1)]);
        let answer = Answer::of(placing(&daemon, &body, Some(&key))).await;
        assert_eq!(answer.status, status, "{} bytes: {}", key.len(), answer.text);
    }
    let twice = placing(&daemon, &order("o9", &[("W1", 1)]), Some("a")).header(KEY, "b");
    assert_eq!(Answer::of(twice).await.status, 422);
}

/// Stock movements sent twice in parallel under one key move once.
#[tokio::test]
async fn a_key_holds_in_parallel() {
    let home = Home::new("");
    let daemon: Daemon<'_> = home.serve().await;
    daemon.stocked("W1", 0).await;
    for round in 0..10 {
        let answers = together((0..8).map(|_| {
            let api = (*daemon).clone();
            let body = json!({"source": "main", "delta": 1, "reason": "found"});
            let key = format!("round-{round}");
            async move { api.post_keyed("/v1/skus/W1/stock", &key, &body).await }
        }))
        .await;
        for answer in answers {
            let fine = answer.status == 200 || answer.code() == "request_in_progress";
            assert!(fine, "{}", answer.text);
        }
    }
    assert_eq!(daemon.figures("W1").await.0, 10);
    home.check_books().await;
}

/// Every POST keeps its answer under a key: questions and what ops do by hand, too.
#[tokio::test]
async fn what_is_no_command_is_answered_once_for_a_key() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 3).await;
    let ask = json!({"skus": ["W1"]});
    let asked = daemon.post_keyed("/v1/availability", "q", &ask).await;
    assert_eq!(asked.header("idempotency-replayed"), "");
    assert_eq!(asked.body["items"][0]["available"], 3);
    daemon.placed("o1", "W1", 1).await;
    let again = daemon.post_keyed("/v1/availability", "q", &ask).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.body["items"][0]["available"], 3, "the first answer");
    let other = daemon.post_keyed("/v1/availability", "q", &json!({"skus": ["W1", "W1"]})).await;
    other.refused(422, "idempotency_key_reused");
    assert_eq!(daemon.figures("W1").await.3, 2);

    let mut alerts = Vec::new();
    eventually("it runs low", async || {
        alerts = daemon.list("/v1/alerts?state=open", 50).await;
        alerts.len() == 1
    })
    .await;
    let path = format!("/v1/alerts/{}/acknowledge", alerts[0]["id"].as_str().expect("an id"));
    let seen = daemon.post_keyed(&path, "a", &json!({})).await;
    assert_eq!((seen.status, seen.header("idempotency-replayed")), (200, String::new()));
    let again = daemon.post_keyed(&path, "a", &json!({})).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.body, seen.body);
    daemon
        .post_keyed("/v1/alerts/999/acknowledge", "b", &json!({}))
        .await
        .refused(404, "not_found");
    daemon.post_keyed("/v1/jobs/999/retry", "b", &json!({})).await.refused(404, "not_found");
}
