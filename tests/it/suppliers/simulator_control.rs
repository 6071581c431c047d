//! The simulator driven and watched over HTTP, under `/sim`.

use serde_json::json;
use stockhold::suppliers::simulator::{Chance, Fault};

use super::caller::{Caller, SHOE, SIZE_42, TAPE};

#[tokio::test]
async fn it_is_driven_over_http() {
    let caller = Caller::start(|_| {}).await;
    let shoe = json!({ "offer_id": SHOE, "spec_id": SIZE_42, "stock": 3 });
    assert_eq!(caller.sim("stock", Some(shoe)).await, (200, json!({ "stock": 3 })));
    let others = json!({ "offer_id": SHOE, "spec_id": SIZE_42, "units": 5 });
    assert_eq!(caller.sim("purchases", Some(others)).await, (200, json!({ "units": 3 })));
    let id = caller.order_tape("so-1", 2).await;
    let (_, orders) = caller.sim("orders", None).await;
    assert_eq!(
        (&orders[0]["out_order_id"], &orders[0]["status"]),
        (&json!("so-1"), &json!("waitbuyerpay"))
    );
    let (_, paid) = caller.sim(&format!("orders/{id}/pay"), Some(json!({}))).await;
    assert_eq!(
        (&paid["status"], &paid["paid_at"]),
        (&json!("waitsellersend"), &json!("2026-11-30T08:00:00.000Z"))
    );
    assert_eq!(caller.sim(&format!("orders/{id}/pay"), Some(json!({}))).await.0, 409);
    assert_eq!(caller.sim("orders/7/pay", Some(json!({}))).await.0, 404);
    let (_, book) = caller.sim("book", None).await;
    let tape = book.as_array().unwrap().iter().find(|e| e["offer_id"] == TAPE).unwrap();
    assert_eq!(
        (&tape["bought"], &tape["had_for_us"], &tape["stock"]),
        (&json!(2), &json!(500), &json!(498))
    );
    let (_, gone) = caller.sim(&format!("orders/{id}/close"), Some(json!({ "by": "bops" }))).await;
    assert_eq!(gone["closed"]["by"], "bops");
    assert_eq!(
        caller.sim(&format!("offers/{TAPE}"), Some(json!({ "status": "deleted" }))).await.0,
        200
    );
    let (_, calls) = caller.sim("calls", None).await;
    assert_eq!(calls["counts"]["create"]["calls"], 1);
    let first = &calls["last"][0];
    assert_eq!(first["about"]["outOrderId"], "so-1");
    assert_eq!(first["at"], "2026-11-30T08:00:00.000Z");
}

#[tokio::test]
async fn settings_change_while_it_runs() {
    let caller = Caller::start(|_| {}).await;
    let lag = json!({ "apis": { "product": { "lag": "40m" } } });
    let (status, settings) = caller.sim("settings", Some(lag)).await;
    assert_eq!((status, &settings["apis"]["product"]["lag"]), (200, &json!("40m")));
    assert_eq!(settings["trade"]["post_fee_fen"], 800, "the other keys stay");
    let fault = json!({ "kind": "http", "status": 502 });
    let script = json!({ "api": "product", "fault": fault, "times": 2 });
    let (_, scripted) = caller.sim("faults", Some(script)).await;
    assert_eq!(scripted["product"].as_array().unwrap().len(), 2);
    for (path, body, word) in [
        ("settings", json!({ "trade": { "fee": 1 } }), "`fee`"),
        ("settings", json!({ "seed": 2 }), "seed"),
        ("settings", json!({ "apis": { "create": { "lag": "1m" } } }), "lag"),
        ("faults", json!({ "api": "view", "fault": { "kind": "late", "after": "1s" } }), "create"),
        ("stock", json!({ "offer_id": SHOE, "stok": 1 }), "`stok`"),
    ] {
        let (status, refused) = caller.sim(path, Some(body)).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused["error"].as_str().unwrap().contains(word), "{refused}");
    }
    let chance = Chance { chance: 1.0, fault: Fault::unknown_error() };
    caller.simulator.change(|s| s.chances = vec![chance]).unwrap();
    let (_, shown) = caller.sim("settings", None).await;
    assert_eq!(shown["chances"][0]["fault"]["message"], "inventory service 0 nodes available");
}
