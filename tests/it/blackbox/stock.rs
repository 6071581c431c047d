//! Stock by hand, SKUs, aliases, the stop switch, availability, and C073.

use serde_json::{Value, json};

use super::api::{order, text, warehouse};
use super::daemon::{Home, together};

fn count(to: i64) -> Value {
    json!({"source": "main", "set_to": to, "reason": "count"})
}

#[tokio::test]
async fn counts_and_corrections_move_the_shelf() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let path = "/v1/skus/W1/stock";
    let delta = |by: i64| json!({"source": "main", "delta": by, "reason": "damaged"});
    let level = daemon.post(path, &delta(-2)).await.ok();
    assert_eq!((&level["quantity"], &level["source"]), (&json!(8), &json!("main")));
    assert_eq!(daemon.post(path, &delta(-9)).await.fields(), ["delta"]);
    assert_eq!(daemon.post(path, &delta(1_000_000_000_000)).await.fields(), ["delta"]);
    let north = json!({"source": "north", "delta": 1, "reason": "x"});
    assert_eq!(daemon.post(path, &north).await.fields(), ["source"]);
    for (body, field) in [
        (json!({"source": "main", "reason": "x"}), "delta"),
        (json!({"source": "main", "delta": 0, "reason": "x"}), "delta"),
        (json!({"source": "main", "delta": 1, "set_to": 1, "reason": "x"}), "set_to"),
        (json!({"source": "main", "set_to": -1, "reason": "x"}), "set_to"),
        (json!({"source": "main", "delta": 1}), "reason"),
        (json!({"source": "main", "delta": 1, "reason": ""}), "reason"),
        (json!({"source": "main", "delta": 1, "reason": "x", "by": "me"}), "by"),
    ] {
        assert_eq!(daemon.post(path, &body).await.fields(), [field], "{body}");
    }
    daemon.post("/v1/skus/none/stock", &delta(1)).await.refused(404, "not_found");
    assert_eq!(daemon.figures("W1").await, (8, 0, 0, 8));
    home.settled().await;
    let entries = daemon.list("/v1/ledger?sku=W1", 50).await;
    let moves: Vec<_> =
        entries.iter().map(|e| (text(&e["note"]), e["quantity"].as_i64())).collect();
    assert_eq!(moves, [("count".to_owned(), Some(10)), ("damaged".to_owned(), Some(-2))]);
    home.check_books().await;
}

/// C073: who counted before a sale does not undo the sale.
#[tokio::test]
async fn c073_a_stale_count_is_refused_with_the_figures() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let form = daemon.get("/v1/skus/W1/availability").await.ok()["sources"][0].clone();
    let id = daemon.placed("o1", "W1", 5).await;
    daemon.pay(&id, "p1", "50.00").await.ok();
    daemon.ship(&id, &[(1, 5)]).await.ok();
    let mut saved = count(10);
    saved["if_version"] = form["version"].clone();
    let conflict = daemon.post("/v1/skus/W1/stock", &saved).await.refused(409, "version_conflict");
    let current = &conflict["current"];
    assert_eq!((&current["quantity"], &current["committed"]), (&json!(5), &json!(0)));
    saved["if_version"] = current["version"].clone();
    assert_eq!(daemon.post("/v1/skus/W1/stock", &saved).await.ok()["quantity"], 10);
    home.check_books().await;
}

#[tokio::test]
async fn what_is_promised_is_not_counted_away() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(daemon.placed(&format!("o{n}"), "W1", 2).await);
    }
    daemon.pay(&ids[3], "p1", "20.00").await.ok();
    daemon.pay(&ids[0], "p2", "5.00").await.ok();
    let path = "/v1/skus/W1/stock";
    let refused = daemon.post(path, &count(5)).await.refused(409, "quantity_below_held");
    let holds: Vec<String> = refused["holds"].as_array().expect("holds").iter().map(text).collect();
    let expected: Vec<String> = ids.iter().rev().map(|id| format!("{id}.1.1")).collect();
    assert_eq!(holds, expected, "every hold in question, newest order first");
    assert_eq!(
        (&refused["current"]["held"], &refused["current"]["committed"]),
        (&json!(6), &json!(2))
    );
    let minus = json!({"source": "main", "delta": -5, "reason": "gone"});
    daemon.post(path, &minus).await.refused(409, "quantity_below_held");
    // The newest unpaid give way, and no more of them than need be; what is sold does not.
    let mut release = count(5);
    release["release_newest"] = json!(true);
    let level = daemon.post(path, &release).await.ok();
    assert_eq!(level["cancelled_orders"], json!([ids[2], ids[1]]));
    assert_eq!(
        (&level["quantity"], &level["held"], &level["committed"]),
        (&json!(5), &json!(2), &json!(2))
    );
    let gone = daemon.order(&ids[2]).await;
    assert_eq!(
        (&gone["state"], &gone["cancel_reason"]),
        (&json!("cancelled"), &json!("stock_correction"))
    );
    let mut less = count(1);
    less["release_newest"] = json!(true);
    daemon.post(path, &less).await.refused(409, "quantity_below_held");
    assert_eq!(daemon.state(&ids[0]).await, "pending_payment", "a refusal cancels nobody");
    less["set_to"] = json!(2);
    assert_eq!(daemon.post(path, &less).await.ok()["cancelled_orders"], json!([ids[0]]));
    let part = daemon.order(&ids[0]).await;
    assert_eq!((&part["paid"], &part["refunded"]), (&json!("5.00"), &json!("5.00")));
    home.check_books().await;
}

/// Counts race orders: whatever the order of things, the books agree and nothing is oversold.
#[tokio::test]
async fn counts_race_orders() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 20).await;
    together((0..120).map(|n: i64| {
        let api = (*daemon).clone();
        async move {
            match n % 4 {
                0 => {
                    let by = if n % 8 == 0 { 3 } else { -2 };
                    let body = json!({"source": "main", "delta": by, "reason": "x"});
                    let answer = api.post("/v1/skus/W1/stock", &body).await;
                    assert!(matches!(answer.status, 200 | 409 | 422), "{}", answer.text);
                }
                1 => {
                    let mut body = count(10 + n % 7);
                    body["release_newest"] = json!(n % 3 == 0);
                    let answer = api.post("/v1/skus/W1/stock", &body).await;
                    assert!(matches!(answer.status, 200 | 409), "{}", answer.text);
                }
                _ => {
                    let placed = api.place(&order(&format!("o{n}"), &[("W1", 1 + n % 3)])).await;
                    assert!(matches!(placed.status, 201 | 409), "{}", placed.text);
                    if placed.status == 201 && n % 5 == 0 {
                        api.pay(&placed.id(), &format!("p{n}"), "30.00").await.ok();
                    }
                }
            }
        }
    }))
    .await;
    home.check_books().await;
    let (quantity, held, committed, available) = daemon.figures("W1").await;
    assert_eq!(available, quantity - held - committed);
}

#[tokio::test]
async fn a_sku_is_checked_before_it_is_put() {
    let home = Home::new("");
    let daemon = home.serve().await;
    let with = |sources: Value| json!({"title": "T", "sources": sources});
    let shelf = warehouse();
    let six: Vec<Value> =
        (0..6).map(|n| json!({"source": format!("w{n}"), "kind": "warehouse"})).collect();
    for (body, field) in [
        (json!({"title": "T"}), "sources"),
        (with(json!([])), "sources"),
        (with(json!(six)), "sources"),
        (with(json!([shelf, shelf])), "sources[1].source"),
        (with(json!([{"source": "s9", "kind": "supplier", "offer_id": "1"}])), "sources[0].source"),
        (with(json!([{"source": "Main", "kind": "warehouse"}])), "sources[0].source"),
        (with(json!([{"source": "main", "kind": "shop"}])), "sources[0].kind"),
        (with(json!([{"source": "main", "kind": "warehouse", "buffer": -1}])), "sources[0].buffer"),
        (with(json!([{"source": "main", "kind": "warehouse", "cost": "1"}])), "sources[0].cost"),
        (json!({"title": "T", "class": "cold", "sources": [shelf]}), "class"),
        (
            json!({"title": "T", "watermark": {"low": 5, "recover": 5}, "sources": [shelf]}),
            "watermark.recover",
        ),
        (json!({"title": "T", "watermark": {"low": -1}, "sources": [shelf]}), "watermark.low"),
        (json!({"title": "x".repeat(256), "sources": [shelf]}), "title"),
        (json!({"title": "a\u{0}", "sources": [shelf]}), "title"),
    ] {
        assert_eq!(daemon.put("/v1/skus/W1", &body).await.fields(), [field], "{body}");
    }
    daemon.get("/v1/skus/W1").await.refused(404, "not_found");
    let full = json!({"title": "Court sneaker", "class": "hot",
        "watermark": {"low": 2, "recover": 4},
        "sources": [{"source": "main", "kind": "warehouse", "buffer": 3}]});
    let put = daemon.put("/v1/skus/W1", &full).await.ok();
    assert_eq!(put["sources"], full["sources"]);
    assert_eq!(daemon.get("/v1/skus/W1").await.ok(), put);
    daemon.set_stock("W1", 5).await;
    assert_eq!(daemon.figures("W1").await, (5, 0, 0, 2), "the buffer is never sold");
    // Put again: what it is changes, its figures do not.
    daemon.sku("W1", &with(json!([shelf]))).await;
    assert_eq!(daemon.figures("W1").await, (5, 0, 0, 5));
}

/// C085: keys are text, trimmed and in one normal form; nothing collapses in silence.
#[tokio::test]
async fn c085_keys_are_text() {
    let home = Home::new("");
    let daemon = home.serve().await;
    let keys = ["01234", "1234", "AB-1", "ab-1", "1E5", "100000", "é", "１２３４", "👟", "a/b"];
    for (n, key) in keys.iter().enumerate() {
        let path = format!("/v1/skus/{}", urlencoded(key));
        daemon.put(&path, &json!({"title": key, "sources": [warehouse()]})).await.ok();
        let body = json!({"source": "main", "set_to": n + 1, "reason": "count"});
        daemon.post(&format!("{path}/stock"), &body).await.ok();
    }
    assert_eq!(daemon.list("/v1/skus", 3).await.len(), keys.len());
    let decomposed = urlencoded(" e\u{301} ");
    let found = daemon.get(&format!("/v1/skus/{decomposed}/availability")).await.ok();
    assert_eq!((&found["sku"], &found["available"]), (&json!("é"), &json!(7)));
    let all: Vec<&str> = keys.to_vec();
    let answer = daemon.post("/v1/availability", &json!({"skus": all})).await.ok();
    let there: Vec<_> = answer["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|i| i["available"].as_i64())
        .collect();
    assert_eq!(there, (1..=10).map(Some).collect::<Vec<_>>());
    let unknown = daemon.post("/v1/availability", &json!({"skus": ["1234", "ab-2"]})).await;
    assert_eq!(unknown.refused(422, "unknown_sku")["skus"], json!(["ab-2"]));
    for (wrong, body) in [("", 1), ("  ", 1), (&"x".repeat(129), 1), ("a\nb", 1)] {
        let placed = daemon.place(&order("o1", &[(wrong, body)])).await;
        assert_eq!(placed.fields(), ["lines[0].sku"], "{wrong:?}");
    }
    let ghost = daemon.place(&order("o1", &[("AB-1", 1), ("ghost", 1)])).await;
    assert_eq!(ghost.refused(422, "unknown_sku")["skus"], json!(["ghost"]));
}

fn urlencoded(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02X}")).collect()
}

#[tokio::test]
async fn an_alias_names_its_sku_everywhere() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("S1", 5).await;
    daemon.stocked("S2", 5).await;
    let alias = |name: &str| json!({"alias": name});
    for _ in 0..2 {
        daemon.post("/v1/skus/S1/aliases", &alias("S1-NEW")).await.ok();
    }
    for (taken, state) in [("S1-NEW", "alias"), ("S1", "sku")] {
        let refused = daemon.post("/v1/skus/S2/aliases", &alias(taken)).await;
        assert_eq!(refused.refused(409, "order_state_conflict")["state"], state);
    }
    daemon.post("/v1/skus/none/aliases", &alias("x")).await.refused(404, "not_found");
    assert_eq!(daemon.post("/v1/skus/S1/aliases", &alias(" ")).await.fields(), ["alias"]);
    // Lines by both names are one SKU's.
    let placed = daemon.place(&order("o1", &[("S1", 3), ("S1-NEW", 3)])).await;
    let short = placed.refused(409, "insufficient_stock");
    assert_eq!(short["shortages"], json!([{"sku": "S1", "requested": 6, "available": 5}]));
    let id = daemon.placed("o2", "S1-NEW", 2).await;
    assert_eq!(daemon.order(&id).await["lines"][0]["sku"], "S1");
    assert_eq!(daemon.figures("S1-NEW").await, (5, 2, 0, 3));
    let chained = daemon.post("/v1/skus/S1-NEW/aliases", &alias("S1-NEWER")).await.ok();
    assert_eq!(chained["sku"], "S1");
    assert_eq!(daemon.set_stock("S1-NEWER", 9).await["quantity"], 9);
    let put = json!({"title": "x", "sources": [warehouse()]});
    let refused = daemon.put("/v1/skus/S1-NEW", &put).await.refused(409, "order_state_conflict");
    assert_eq!(refused["state"], "alias", "an alias is no SKU");
    home.settled().await;
    for filter in ["sku=S1", "sku=S1-NEW"] {
        assert_eq!(daemon.list(&format!("/v1/orders?{filter}"), 5).await.len(), 1, "{filter}");
        assert_eq!(daemon.list(&format!("/v1/holds?{filter}"), 5).await.len(), 1, "{filter}");
        assert!(!daemon.list(&format!("/v1/ledger?{filter}"), 5).await.is_empty(), "{filter}");
    }
    home.check_books().await;
}

#[tokio::test]
async fn the_stop_switch_stops_new_orders_alone() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let id = daemon.placed("o1", "W1", 1).await;
    let switch = |what: &str| json!({"what": what, "reason": "flood"});
    let paused = daemon.post("/v1/skus/W1/pause", &switch("selling")).await.ok();
    assert_eq!(paused["paused"]["selling"]["reason"], "flood");
    assert_eq!(paused["paused"]["buying"], Value::Null);
    let refused = daemon.place(&order("o2", &[("W1", 1)])).await.refused(409, "sku_paused");
    assert_eq!(refused["skus"], json!(["W1"]));
    let seen = daemon.get("/v1/skus/W1/availability").await.ok();
    assert_eq!((&seen["paused"], &seen["orderable"]), (&json!(true), &json!(false)));
    // What is placed goes on: a repeat, a payment, a shipment.
    assert_eq!(daemon.place(&order("o1", &[("W1", 1)])).await.ok()["id"], id.as_str());
    daemon.pay(&id, "p1", "10.00").await.ok();
    daemon.ship(&id, &[(1, 1)]).await.ok();
    for what in ["all", "", "Selling"] {
        assert_eq!(daemon.post("/v1/skus/W1/pause", &switch(what)).await.fields(), ["what"]);
    }
    // A put does not lift it; a resume does.
    daemon.sku("W1", &json!({"title": "new", "sources": [warehouse()]})).await;
    daemon.place(&order("o2", &[("W1", 1)])).await.refused(409, "sku_paused");
    daemon.post("/v1/skus/W1/resume", &switch("both")).await.ok();
    assert_eq!(daemon.place(&order("o2", &[("W1", 1)])).await.status, 201);
    daemon.post("/v1/skus/none/pause", &switch("both")).await.refused(404, "not_found");
    daemon.post("/v1/suppliers/none/pause", &switch("both")).await.refused(404, "not_found");
}
