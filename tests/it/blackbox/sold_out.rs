//! Sold-out notes from the outside: whoever comes when nothing is left is refused from a note, as the
//! rules would refuse; a repeat is answered as ever; what comes back is sold.
//!
//! Time stands in the test's hand, and Redis has no part (its clock is its own): so a note lives until
//! the test ends it.

use serde_json::{Value, json};

use super::api::{Answer, KEY, order, warehouse};
use super::daemon::{Daemon, Home, NOON, SECOND};

fn home() -> Home {
    Home::new("[coordination]\nurl = \"memory:\"").with_clock()
}

/// How many were refused by a note so far.
async fn by_note(daemon: &Daemon<'_>) -> u64 {
    let text = daemon.get("/metrics").await.text;
    let value = text.lines().find_map(|l| l.strip_prefix("stockhold_sold_out_refusals_total "));
    value.map_or(0, |value| value.parse().expect("a count"))
}

/// Is refused by the rules, which makes a note, and then by the note.
async fn is_noted(daemon: &Daemon<'_>, name: &str) {
    let before = by_note(daemon).await;
    for n in 0..2 {
        let answer = daemon.place(&order(&format!("{name}-{n}"), &[("W1", 1)])).await;
        answer.refused(409, "insufficient_stock");
        assert_eq!(by_note(daemon).await, before + n, "{name}");
    }
}

async fn keyed(daemon: &Daemon<'_>, key: &str, body: &Value) -> Answer {
    let request = daemon.request(reqwest::Method::POST, "/v1/orders").json(body);
    Answer::of(request.header(KEY, key)).await
}

#[tokio::test]
async fn a_refusal_is_the_same_with_and_without_a_note() {
    let home = home();
    let daemon = home.serve().await;
    daemon.stocked("W1", 1).await;
    daemon.stocked("W2", 5).await;
    daemon.post("/v1/skus/W1/aliases", &json!({"alias": "OLD"})).await.ok();
    daemon.placed("o1", "W1", 1).await;
    let refused = async |body: Value, notes: u64| {
        let body = daemon.place(&body).await.refused(409, "insufficient_stock");
        assert_eq!(by_note(&daemon).await, notes, "{body}");
        body
    };
    let ruled = refused(order("o2", &[("W1", 3)]), 0).await;
    assert_eq!(ruled["shortages"], json!([{"sku": "W1", "requested": 3, "available": 0}]));
    assert_eq!(refused(order("o3", &[("W1", 3)]), 1).await, ruled);
    assert_eq!(refused(order("o4", &[("W1", 1), (" W1", 2)]), 2).await, ruled, "lines are summed");
    // By an alias it is noted on its own, and told as the SKU.
    assert_eq!(refused(order("o5", &[("OLD", 3)]), 2).await, ruled);
    assert_eq!(refused(order("o6", &[("OLD", 3)]), 3).await, ruled);
    let mut paid = order("o7", &[("W1", 3)]);
    paid["payment"] = json!({"id": "p7", "amount": "30.00"});
    let mut told = refused(paid, 4).await;
    assert_eq!(told["payment_recorded"], false);
    told.as_object_mut().expect("an object").remove("payment_recorded");
    assert_eq!(told, ruled);
    // What is of several SKUs, or at fault, is the rules' to answer.
    refused(order("o8", &[("W1", 1), ("W2", 1)]), 4).await;
    refused(order("o9", &[("W1", 1), ("OLD", 1)]), 4).await;
    assert_eq!(daemon.place(&order("o10", &[("W1", 0)])).await.fields(), ["lines[0].quantity"]);
    // Its second is over: the rules are asked, and note it anew.
    daemon.time(NOON + SECOND).await;
    refused(order("o11", &[("W1", 1)]), 4).await;
    refused(order("o12", &[("W1", 1)]), 5).await;
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 1);
    home.check_books().await;
}

#[tokio::test]
async fn repeats_are_answered_while_there_is_a_note() {
    let home = home();
    let daemon = home.serve().await;
    daemon.stocked("W1", 2).await;
    let (one, two) = (order("o1", &[("W1", 1)]), order("o2", &[("W1", 1)]));
    let first = daemon.place(&one).await;
    let second = keyed(&daemon, "k2", &two).await;
    assert_eq!((first.status, second.status), (201, 201));
    is_noted(&daemon, "a").await;

    let again = daemon.place(&one).await;
    assert_eq!((again.status, again.id()), (200, first.id()));
    let other = order("o1", &[("W1", 2)]);
    daemon.place(&other).await.refused(409, "external_id_conflict");
    let again = keyed(&daemon, "k2", &two).await;
    assert_eq!((again.status, again.id()), (201, second.id()));
    assert_eq!(again.header("idempotency-replayed"), "true");
    keyed(&daemon, "k2", &order("o3", &[("W1", 1)])).await.refused(422, "idempotency_key_reused");
    // A key of a repeat is kept with its answer, and not with the order.
    for replayed in ["", "true"] {
        let again = keyed(&daemon, "k1", &one).await;
        assert_eq!((again.status, again.id()), (200, first.id()));
        assert_eq!(again.header("idempotency-replayed"), replayed);
    }
    keyed(&daemon, "k1", &order("o4", &[("W1", 1)])).await.refused(422, "idempotency_key_reused");
    // All that went beside the note, which is still there.
    let before = by_note(&daemon).await;
    keyed(&daemon, "k5", &order("o5", &[("W1", 1)])).await.refused(409, "insufficient_stock");
    assert_eq!(by_note(&daemon).await, before + 1);

    // Money that comes with a repeat is recorded; its id is no other order's.
    let mut paid = one.clone();
    paid["payment"] = json!({"id": "p1", "amount": "10.00"});
    assert_eq!(daemon.place(&paid).await.ok()["paid"], "10.00");
    is_noted(&daemon, "b").await;
    let mut stolen = order("o6", &[("W1", 1)]);
    stolen["payment"] = json!({"id": "p1", "amount": "10.00"});
    let refused = daemon.place(&stolen).await.refused(409, "payment_conflict");
    assert_eq!(refused["payment_recorded"], false);
    assert_eq!(daemon.figures("W1").await, (2, 1, 1, 0));
    home.check_books().await;
}

#[tokio::test]
async fn what_comes_back_is_sold() {
    let home = home();
    let daemon = home.serve().await;
    daemon.stocked("W1", 1).await;
    let first = daemon.placed("o1", "W1", 1).await;
    is_noted(&daemon, "a").await;
    daemon.cancel(&first).await.ok();
    daemon.placed("o2", "W1", 1).await;

    is_noted(&daemon, "b").await;
    daemon.set_stock("W1", 2).await;
    daemon.placed("o3", "W1", 1).await;

    is_noted(&daemon, "c").await;
    let switch = json!({"what": "selling", "reason": "fault"});
    daemon.post("/v1/skus/W1/pause", &switch).await.ok();
    for external_id in ["o4", "o5"] {
        daemon.place(&order(external_id, &[("W1", 1)])).await.refused(409, "sku_paused");
    }
    daemon.post("/v1/skus/W1/resume", &switch).await.ok();

    is_noted(&daemon, "d").await;
    let north = json!({"source": "north", "kind": "warehouse"});
    daemon.sku("W1", &json!({"title": "W1", "sources": [warehouse(), north]})).await;
    let count = json!({"source": "north", "set_to": 1, "reason": "count"});
    daemon.post("/v1/skus/W1/stock", &count).await.ok();
    daemon.placed("o6", "W1", 1).await;

    is_noted(&daemon, "e").await;
    // Three unpaid orders are due, and their units are sold again.
    daemon.time(NOON + 30 * 60 * SECOND).await;
    for n in 7..10 {
        daemon.placed(&format!("o{n}"), "W1", 1).await;
    }
    is_noted(&daemon, "f").await;
    assert_eq!(home.number("SELECT sum(held) FROM levels").await, 3);

    // What another process gave back is seen by the look, whatever the note says.
    home.tamper(
        "UPDATE levels SET quantity = quantity + 1, version = version + 1 WHERE id = 'main:W1';
        UPDATE ledger SET by_quantity = by_quantity + 1 WHERE level_id = 'main:W1' AND seq =
            (SELECT min(seq) FROM ledger WHERE level_id = 'main:W1')",
    )
    .await;
    daemon.placed("o10", "W1", 1).await;
    home.check_books().await;
}
