//! What happens after the money: shipments in parts, completion by call and by the clock,
//! addresses, and the alert about goods that do not leave.

use serde_json::json;

use super::api::{order, text};
use super::daemon::{HOUR, Home, NOON, eventually};

const DAY: i64 = 24 * HOUR;

#[tokio::test]
async fn an_order_ships_in_parts() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("A", 10).await;
    daemon.stocked("B", 10).await;
    let id = daemon.place(&order("o1", &[("A", 3), ("B", 2)])).await.id();
    let unpaid = daemon.ship(&id, &[(1, 1)]).await.refused(409, "order_state_conflict");
    assert_eq!(unpaid["state"], "pending_payment");
    daemon.pay(&id, "p1", "50.00").await.ok();
    let complete = format!("/v1/orders/{id}/complete");
    daemon.post(&complete, &json!({})).await.refused(409, "order_state_conflict");
    for too_many in [vec![(1, 4)], vec![(1, 3), (2, 3)]] {
        daemon.ship(&id, &too_many).await.refused(422, "quantity_exceeded");
    }
    assert_eq!(daemon.figures("A").await, (10, 0, 3, 7), "all of a shipment or nothing");
    assert_eq!(daemon.ship(&id, &[(1, 2)]).await.ok()["state"], "confirmed");
    assert_eq!(daemon.figures("A").await, (8, 0, 1, 7));
    let path = format!("/v1/orders/{id}/lines/{id}.1/cancel");
    daemon.post(&path, &json!({"quantity": 2})).await.refused(422, "quantity_exceeded");
    let cut = daemon.post(&path, &json!({"quantity": 1})).await.ok();
    assert_eq!((&cut["state"], &cut["refunded"]), (&json!("confirmed"), &json!("10.00")));
    let shipped = daemon.ship(&id, &[(2, 2)]).await.ok();
    assert_eq!(shipped["state"], "shipped");
    for (line, states) in [(0, ["settled", "reversed"]), (1, ["settled", ""])] {
        let all = shipped["lines"][line]["allocations"].as_array().expect("allocations");
        for state in states.iter().filter(|s| !s.is_empty()) {
            assert!(all.iter().any(|a| a["hold_state"] == *state), "{state}: {shipped}");
        }
    }
    daemon.ship(&id, &[(2, 1)]).await.refused(409, "order_state_conflict");
    for _ in 0..2 {
        assert_eq!(daemon.post(&complete, &json!({})).await.ok()["state"], "completed");
    }
    assert_eq!(daemon.figures("A").await, (8, 0, 0, 8));
    assert_eq!(daemon.figures("B").await, (8, 0, 0, 8));
    home.check_books().await;
}

#[tokio::test]
async fn a_shipment_must_make_sense() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("A", 10).await;
    let id = daemon.placed("o1", "A", 3).await;
    let other = daemon.placed("o2", "A", 1).await;
    daemon.pay(&id, "p1", "30.00").await.ok();
    let path = format!("/v1/orders/{id}/shipments");
    let good = json!({"line_id": format!("{id}.1"), "quantity": 1});
    let with =
        |lines: serde_json::Value| json!({"lines": lines, "carrier": "SF", "tracking_number": "1"});
    for (lines, field) in [
        (json!([]), "lines"),
        (json!([good, good]), "lines[1].line_id"),
        (json!([{"line_id": format!("{other}.1"), "quantity": 1}]), "lines[0].line_id"),
        (json!([{"line_id": format!("{id}.1"), "quantity": 0}]), "lines[0].quantity"),
        (json!([{"line_id": format!("{id}.1")}]), "lines[0].quantity"),
    ] {
        assert_eq!(daemon.post(&path, &with(lines.clone())).await.fields(), [field], "{lines}");
    }
    let ghost = with(json!([{"line_id": format!("{id}.2"), "quantity": 1}]));
    daemon.post(&path, &ghost).await.refused(404, "not_found");
    let bare = json!({"lines": [good]});
    assert_eq!(daemon.post(&path, &bare).await.fields(), ["carrier", "tracking_number"]);
    assert_eq!(daemon.figures("A").await, (10, 1, 3, 6));
}

#[tokio::test]
async fn shipped_orders_complete_by_the_clock() {
    let home = Home::new("[orders]\ncomplete_after = \"9d\"").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("A", 10).await;
    let id = daemon.placed("o1", "A", 1).await;
    daemon.pay(&id, "p1", "10.00").await.ok();
    // Sold and not shipped for a week: told to ops, again each day, and never released.
    daemon.time(NOON + 7 * DAY - HOUR).await;
    let waiting = async || {
        let open = daemon.list("/v1/alerts?state=open", 50).await;
        open.iter().any(|a| a["kind"] == "order_attention" && a["subject"] == id.as_str())
    };
    assert!(!waiting().await);
    daemon.time(NOON + 7 * DAY).await;
    eventually("ops are told", &waiting).await;
    daemon.time(NOON + 30 * DAY).await;
    assert_eq!(daemon.state(&id).await, "confirmed");
    assert_eq!(daemon.figures("A").await, (10, 0, 1, 9));
    daemon.ship(&id, &[(1, 1)]).await.ok();
    eventually("the alert closes", async || !waiting().await).await;
    daemon.time(NOON + 39 * DAY - HOUR).await;
    assert_eq!(daemon.state(&id).await, "shipped");
    daemon.time(NOON + 39 * DAY).await;
    eventually("it completes", async || daemon.state(&id).await == "completed").await;
    home.check_books().await;
}

#[tokio::test]
async fn an_address_can_be_set_until_goods_leave() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("A", 10).await;
    let id = daemon.placed("o1", "A", 2).await;
    let path = format!("/v1/orders/{id}/ship_to");
    let address = json!({"name": "李雷", "country": "CN", "address": "长安街 1 号"});
    for _ in 0..2 {
        daemon.put(&path, &address).await.ok();
    }
    let changes = daemon.order(&id).await["timeline"].as_array().expect("events").clone();
    let changed = changes.iter().filter(|e| text(&e["event"]) == "ship_to_changed").count();
    assert_eq!(changed, 1, "the same address again is no change");
    assert_eq!(daemon.put(&path, &json!({"name": "x".repeat(256)})).await.fields(), ["name"]);
    assert_eq!(daemon.put(&path, &json!({"street": "x", "name": "y"})).await.fields(), ["street"]);
    assert_eq!(daemon.put(&path, &json!({"name": "a\u{0}b"})).await.fields(), ["name"]);
    assert_eq!(daemon.put(&path, &json!({})).await.status, 422);
    daemon.pay(&id, "p1", "20.00").await.ok();
    daemon.put(&path, &json!({"name": "韩梅梅"})).await.ok();
    daemon.ship(&id, &[(1, 2)]).await.ok();
    daemon.put(&path, &address).await.refused(409, "order_state_conflict");
    let stored: Vec<(String,)> = home.rows("SELECT ship_to FROM orders").await;
    assert!(stored[0].0.contains("韩梅梅"), "{stored:?}");
}

/// `cancel` as ops, and by a storefront that may not give ops' reason.
#[tokio::test]
async fn who_may_cancel_for_which_reason() {
    let home = Home::new("").with_keys();
    let daemon = home.serve().await;
    daemon.stocked("A", 10).await;
    let id = daemon.placed("o1", "A", 2).await;
    let shop = daemon.speaking_as(Some(super::daemon::SHOP_KEY));
    let path = format!("/v1/orders/{id}/cancel");
    let ops = json!({"reason": "ops"});
    shop.post(&path, &ops).await.refused(403, "forbidden");
    for reason in ["supplier_short", "Customer", ""] {
        assert_eq!(daemon.post(&path, &json!({"reason": reason})).await.fields(), ["reason"]);
    }
    assert_eq!(daemon.state(&id).await, "pending_payment");
    let ended = daemon.post(&path, &ops).await.ok();
    assert_eq!(ended["cancel_reason"], "ops");
    let decide = format!("/v1/orders/{id}/decide");
    shop.post(&decide, &json!({"action": "retry"})).await.refused(403, "forbidden");
}
