//! Lists: filters, pages of one that walk through everything exactly once, cursors and parameters
//! that cannot be, and the ledger as the explanation of every figure.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::api::{order, text};
use super::daemon::{Daemon, Home, NOON, eventually};

/// A little history: three SKUs, nine orders of which some are paid, shipped, cancelled.
async fn history(daemon: &Daemon<'_>) -> Vec<String> {
    for sku in ["A", "B", "C"] {
        daemon.stocked(sku, 20).await;
    }
    let mut ids = Vec::new();
    for n in 0..9 {
        let lines: &[(&str, i64)] = if n % 2 == 0 { &[("A", 1), ("B", 2)] } else { &[("C", 1)] };
        let id = daemon.place(&order(&format!("o{n}"), lines)).await.id();
        if n % 3 == 0 {
            daemon.pay(&id, &format!("p{n}"), "30.00").await.ok();
        }
        if n == 0 {
            daemon.ship(&id, &[(1, 1)]).await.ok();
        }
        if n % 3 == 1 || n == 6 {
            daemon.cancel(&id).await.ok();
        }
        ids.push(id);
    }
    ids
}

fn ids(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| text(&item["id"])).collect()
}

#[tokio::test]
async fn pages_of_any_size_show_everything_exactly_once() {
    // The clock stands, so that no schedule makes a job between two pages.
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    let placed = history(&daemon).await;
    let due = format!("SELECT count(*) FROM jobs WHERE state = 'running' OR run_at <= {NOON}");
    eventually("what is due is done", async || home.number(&due).await == 0).await;
    home.settled().await;
    for path in ["/v1/orders", "/v1/holds", "/v1/ledger", "/v1/refunds", "/v1/jobs"] {
        let all = ids(&daemon.list(path, 500).await);
        assert!(all.len() > 1, "{path}");
        let once: BTreeSet<&String> = all.iter().collect();
        assert_eq!(once.len(), all.len(), "{path} shows something twice");
        for limit in [1, 2, 7] {
            assert_eq!(ids(&daemon.list(path, limit).await), all, "{path} by {limit}");
        }
    }
    let keys: Vec<String> =
        daemon.list("/v1/skus", 1).await.iter().map(|sku| text(&sku["sku"])).collect();
    assert_eq!(keys, ["A", "B", "C"]);
    let newest_first: Vec<String> = placed.iter().rev().cloned().collect();
    assert_eq!(ids(&daemon.list("/v1/orders", 4).await), newest_first);
}

#[tokio::test]
async fn filters_show_what_they_say() {
    let home = Home::new("");
    let daemon = home.serve().await;
    let placed = history(&daemon).await;
    let count = async |path: &str| daemon.list(path, 2).await.len();
    assert_eq!(count("/v1/orders?state=cancelled").await, 4, "1, 4, 7 and 6");
    assert_eq!(count("/v1/orders?state=confirmed").await, 2, "0 and 3");
    assert_eq!(count("/v1/orders?state=pending_payment").await, 3, "2, 5 and 8");
    assert_eq!(count("/v1/orders?sku=C").await, 4);
    assert_eq!(count("/v1/orders?sku=C&state=cancelled").await, 2, "1 and 7");
    assert_eq!(count("/v1/orders?channel=web").await, 9);
    assert_eq!(count("/v1/orders?channel=app").await, 0);
    assert_eq!(count("/v1/orders?channel=web&external_id=o5").await, 1);
    assert_eq!(count(&format!("/v1/holds?order_id={}", placed[0])).await, 2);
    assert_eq!(count("/v1/holds?state=settled").await, 1);
    assert_eq!(count("/v1/holds?sku=B&state=active").await, 2, "2 and 8");
    home.settled().await;
    assert_eq!(count(&format!("/v1/ledger?order_id={}", placed[0])).await, 5);
    assert_eq!(count("/v1/refunds?state=pending").await, 2, "3 overpaid, 6 paid and cancelled");
    assert_eq!(count("/v1/refunds?state=succeeded").await, 0);
    assert_eq!(count("/v1/purchase-orders").await, 0);
    assert_eq!(count("/v1/suppliers").await, 0);
}

#[tokio::test]
async fn the_ledger_explains_every_figure() {
    let home = Home::new("");
    let daemon = home.serve().await;
    history(&daemon).await;
    home.settled().await;
    for sku in ["A", "B", "C"] {
        let entries = daemon.list(&format!("/v1/ledger?sku={sku}"), 3).await;
        let sum = |name: &str| entries.iter().filter_map(|e| e[name].as_i64()).sum::<i64>();
        let (quantity, held, committed, _) = daemon.figures(sku).await;
        assert_eq!((sum("quantity"), sum("held"), sum("committed")), (quantity, held, committed));
        let mut running = 0;
        for entry in &entries {
            running += entry["held"].as_i64().expect("a figure");
            assert!(running >= 0, "held is never below zero");
            assert!(text(&entry["at"]).ends_with('Z') && !text(&entry["event"]).is_empty());
        }
    }
    home.check_books().await;
}

#[tokio::test]
async fn parameters_that_cannot_be_are_named() {
    let home = Home::new("");
    let daemon = home.serve().await;
    history(&daemon).await;
    let cursor = daemon.get("/v1/orders?limit=1").await.ok()["next_cursor"].clone();
    let cursor = text(&cursor);
    for (path, field) in [
        ("/v1/orders?limit=0", "limit"),
        ("/v1/orders?limit=501", "limit"),
        ("/v1/orders?limit=-1", "limit"),
        ("/v1/orders?limit=1.0", "limit"),
        ("/v1/orders?limit=99999999999999999999", "limit"),
        ("/v1/orders?limit=", "limit"),
        ("/v1/orders?state=payed", "state"),
        ("/v1/orders?page=2", "page"),
        ("/v1/orders?sku=A&sku=B", "sku"),
        ("/v1/orders?channel=%00", "channel"),
        ("/v1/orders?channel=", "channel"),
        ("/v1/orders?cursor=", "cursor"),
        ("/v1/orders?cursor=nonsense", "cursor"),
        ("/v1/orders?cursor=%F0%9F%91%9F", "cursor"),
        ("/v1/holds?state=gone", "state"),
        ("/v1/jobs?state=done", "state"),
        ("/v1/alerts?state=seen", "state"),
        ("/v1/refunds?cursor=WyJyZWZ1bmRzIiwieCIsInkiXQ", "cursor"),
        ("/v1/ledger?cursor=WyJsZWRnZXIiLCJ4IiwieSJd", "cursor"),
        ("/v1/ledger?cursor=WyJsZWRnZXIiXQ", "cursor"),
    ] {
        assert_eq!(daemon.get(path).await.fields(), [field], "{path}");
    }
    // A cursor belongs to its list.
    for list in ["holds", "ledger", "refunds", "jobs", "skus", "purchase-orders", "alerts"] {
        let answer = daemon.get(&format!("/v1/{list}?cursor={cursor}")).await;
        assert_eq!(answer.fields(), ["cursor"], "{list}");
    }
}

/// What is placed while somebody walks through the ledger is neither missed nor shown twice.
#[tokio::test]
async fn a_walk_through_the_ledger_misses_nothing_that_comes_meanwhile() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("A", 1_000).await;
    let api = (*daemon).clone();
    let busy = tokio::spawn(async move {
        for n in 0..60 {
            api.placed(&format!("o{n}"), "A", 1).await;
        }
    });
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let over = busy.is_finished();
        if over {
            home.settled().await;
        }
        let page = daemon.get(&format!("/v1/ledger?limit=3{cursor}")).await.ok();
        seen.extend(ids(page["items"].as_array().expect("items")));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            // The end so far: ask again after the last one seen until nobody writes any more.
            None if over => break,
            None => {
                seen.clear();
                cursor.clear();
            }
        }
    }
    busy.await.expect("placed");
    let all = ids(&daemon.list("/v1/ledger", 500).await);
    assert_eq!(all.len(), 61);
    assert_eq!(seen, all);
}

/// The stop switch is audited: who set it, when, and why, in the ledger, where no figure changes by it.
#[tokio::test]
async fn who_set_the_stop_switch_and_why_is_in_the_ledger() {
    let keys = ["id", "gateway", "app_key", "app_secret", "access_token"];
    let values = ["s1688", "http://127.0.0.1:9", "1", "s", "t"];
    let supplier: String =
        keys.iter().zip(values).map(|(k, v)| format!("{k} = \"{v}\"\n")).collect();
    let supplier = format!("[[suppliers]]\n{supplier}");
    let home = Home::new(&supplier).with_keys();
    let daemon = home.serve().await;
    daemon.stocked("A", 5).await;
    let switch = |what: &str, reason: &str| json!({"what": what, "reason": reason});
    daemon.post("/v1/skus/A/pause", &switch("selling", "flood")).await.ok();
    daemon.post("/v1/skus/A/resume", &switch("both", "dry again")).await.ok();
    daemon.post("/v1/suppliers/s1688/pause", &switch("buying", "strike")).await.ok();
    let refused = daemon.post("/v1/skus/none/pause", &switch("selling", "x")).await;
    refused.refused(404, "not_found");
    home.settled().await;
    let told = async |path: &str| {
        let entries = daemon.list(path, 50).await;
        let of = |e: &Value| {
            let word = |name: &str| e[name].as_str().unwrap_or_default().to_owned();
            (word("event"), word("note"), e["quantity"].as_i64())
        };
        let switched = |e: &&Value| e["event"] == "paused" || e["event"] == "resumed";
        entries.iter().filter(switched).map(of).collect::<Vec<_>>()
    };
    let of = |event: &str, note: &str| (event.to_owned(), note.to_owned(), Some(0));
    let sku = [of("paused", "selling by desk: flood"), of("resumed", "both by desk: dry again")];
    assert_eq!(told("/v1/ledger?sku=A").await, sku);
    let all = told("/v1/ledger").await;
    assert_eq!(all[2..], [of("paused", "buying by desk: strike")]);
    home.check_books().await;
}
