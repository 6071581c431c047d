//! C001 to C010: nothing is sold twice, whoever races whom.

use serde_json::{Value, json};

use super::api::{Answer, order, text, warehouse};
use super::daemon::{Daemon, Home, together};
use super::tables;

/// Places orders at once; each is (external id, SKU, quantity).
async fn race(daemon: &Daemon<'_>, orders: Vec<Value>) -> Vec<Answer> {
    together(orders.into_iter().map(|order| {
        let api = (**daemon).clone();
        async move { api.place(&order).await }
    }))
    .await
}

/// The ids of those that were taken; the others were refused for want of stock, with what is left.
fn taken(answers: &[Answer], left: i64) -> Vec<String> {
    let (taken, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|a| a.status == 201);
    for answer in refused {
        let body = answer.clone().refused(409, "insufficient_stock");
        assert_eq!(body["shortages"][0]["available"], left, "{body}");
    }
    taken.into_iter().map(Answer::id).collect()
}

/// A catalogue of SKUs with one unit each, `S0` on.
fn catalogue(skus: usize, quantity: i64) -> String {
    let row = |n| format!("S{n},Item {n},normal,,main,{quantity},,,,,,,\n");
    let head = "sku,title,class,low_watermark,warehouse,warehouse_quantity,supplier,offer_id,\
                spec_id,supplier_cost,supplier_currency,min_quantity,pack_size\n";
    head.to_owned() + &(0..skus).map(row).collect::<String>()
}

#[tokio::test]
async fn c001_two_buyers_of_the_last_unit() {
    let home = Home::new("");
    std::fs::write(home.path("catalogue.csv"), catalogue(200, 1)).expect("written");
    home.run(&["stock", "import", "catalogue.csv"]).await.ok();
    let daemon = home.serve().await;
    for n in 0..200 {
        let sku = format!("S{n}");
        let pair = ["a", "b"].map(|who| order(&format!("{who}{n}"), &[(&sku, 1)]));
        let answers = race(&daemon, pair.to_vec()).await;
        assert_eq!(taken(&answers, 0).len(), 1, "{sku}");
        assert_eq!(daemon.figures(&sku).await, (1, 1, 0, 0));
    }
    let entries = if tables::replicas() { "xact, seq" } else { "seq" };
    let most = format!(
        "SELECT max(n) FROM (SELECT sum(by_held) OVER
        (PARTITION BY level_id ORDER BY {entries}) AS n FROM ledger) AS sums"
    );
    assert_eq!(
        home.number(&most).await,
        1,
        "never more than one unit was held at any entry of the ledger"
    );
    home.check_books().await;
}

#[tokio::test]
async fn c002_fifty_buyers_of_one_unit() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1).await;
    let orders = (0..50).map(|n| order(&format!("o{n}"), &[("W1", 1)])).collect();
    assert_eq!(taken(&race(&daemon, orders).await, 0).len(), 1);
    let held: Vec<(String, i64, i64)> =
        home.rows("SELECT event, by_quantity, by_held FROM ledger WHERE by_held <> 0").await;
    assert_eq!(held, [("placed".to_owned(), 0, 1)], "exactly one hold of one unit");
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 1);
    home.check_books().await;
}

#[tokio::test]
async fn c003_lines_of_one_sku_are_summed() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 5).await;
    let body = daemon.place(&order("o1", &[("W1", 3), ("W1", 3)])).await;
    let body = body.refused(409, "insufficient_stock");
    assert_eq!(body["shortages"], json!([{"sku": "W1", "requested": 6, "available": 5}]));
    assert_eq!(daemon.figures("W1").await, (5, 0, 0, 5));
    let fits = daemon.place(&order("o2", &[("W1", 3), (" W1 ", 2)])).await;
    assert_eq!(fits.status, 201, "{}", fits.text);
    assert_eq!(daemon.figures("W1").await, (5, 5, 0, 0));
    home.check_books().await;
}

/// C005, with a kill in the place of the panic: the process dies in the race, several times.
#[tokio::test]
async fn c005_no_order_without_a_hold_survives_a_death() {
    let home = Home::new("");
    for round in 0..4 {
        let daemon = home.serve().await;
        let sku = format!("W{round}");
        daemon.stocked(&sku, 1).await;
        let calls: Vec<_> = (0..20)
            .map(|n| {
                let api = (*daemon).clone();
                let body = order(&format!("{round}-{n}"), &[(&sku, 1)]);
                tokio::spawn(async move {
                    let request = api.request(reqwest::Method::POST, "/v1/orders");
                    Answer::try_of(request.json(&body)).await.ok()
                })
            })
            .collect();
        // The kill falls at another point of the race in each round.
        tokio::time::sleep(std::time::Duration::from_millis(round * 4)).await;
        daemon.kill().await;
        let mut won = Vec::new();
        for call in calls {
            let answer = call.await.expect("a task ends");
            won.extend(answer.filter(|a| a.status == 201).map(|a| a.id()));
        }
        assert!(won.len() <= 1, "{won:?}");
        let daemon = home.serve().await;
        home.check_books().await;
        for id in won {
            assert_eq!(daemon.state(&id).await, "pending_payment", "what was answered is there");
        }
        let again = order(&format!("{round}-again"), &[(&sku, 1)]);
        let there = daemon.list(&format!("/v1/orders?sku={sku}"), 50).await.len();
        assert!(there <= 1);
        assert_eq!(daemon.place(&again).await.status == 201, there == 0);
        daemon.stop().await;
    }
    home.check_books().await;
}

/// C005: twenty race, one wins, and what lost is not there at all.
#[tokio::test]
async fn c005_losers_leave_nothing_behind() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1).await;
    let paid = |n: i64| {
        let mut body = order(&format!("o{n}"), &[("W1", 1)]);
        body["payment"] = json!({"id": format!("p{n}"), "amount": "10.00"});
        body
    };
    let answers = race(&daemon, (0..20).map(paid).collect()).await;
    assert_eq!(taken(&answers, 0).len(), 1);
    for answer in answers.iter().filter(|a| a.status != 201) {
        assert_eq!(answer.body["payment_recorded"], false, "{}", answer.text);
    }
    daemon.kill().await;
    let daemon = home.serve().await;
    assert_eq!(daemon.list("/v1/orders", 50).await.len(), 1);
    let left = "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM order_lines)
        + (SELECT count(*) FROM holds) + (SELECT count(*) FROM payments)";
    assert_eq!(home.number(left).await, 4, "one order, line, hold and payment");
    home.check_books().await;
}

#[tokio::test]
async fn c006_only_a_hold_can_be_paid() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1).await;
    let orders = ["a", "b"].map(|id| order(id, &[("W1", 1)])).to_vec();
    let answers = race(&daemon, orders).await;
    let won = taken(&answers, 0);
    assert_eq!(won.len(), 1);
    // The loser knows no id that it could pay; its payment finds no order.
    let (a, b) = tokio::join!(
        daemon.pay(&won[0], "pay-a", "10.00"),
        daemon.pay("0197b000-0000-7000-8000-000000000000", "pay-b", "10.00")
    );
    assert_eq!(a.ok()["state"], "confirmed");
    b.refused(404, "not_found");
    assert_eq!(daemon.figures("W1").await, (1, 0, 1, 0));
    assert_eq!(home.number("SELECT count(*) FROM payments").await, 1);
    home.check_books().await;
}

#[tokio::test]
async fn c007_a_burst_of_orders_loses_no_update() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1000).await;
    let through = together((0..500).map(|n| {
        let api = (*daemon).clone();
        async move {
            let id = api.placed(&format!("o{n}"), "W1", 1).await;
            let paid = api.pay(&id, &format!("p{n}"), "10.00").await.ok();
            assert_eq!(paid["state"], "confirmed");
            let key = format!("ship-{n}");
            let body = json!({"lines": [{"line_id": paid["lines"][0]["id"], "quantity": 1}],
                "carrier": "SF", "tracking_number": key});
            let shipped = api.post_keyed(&format!("/v1/orders/{id}/shipments"), &key, &body).await;
            text(&shipped.ok()["state"])
        }
    }))
    .await;
    assert_eq!(through, vec!["shipped"; 500]);
    assert_eq!(daemon.figures("W1").await, (500, 0, 0, 500));
    let ledger: Vec<(String, i64, i64, i64, i64)> = home
        .rows(
            "SELECT event, count(*), CAST(sum(by_quantity) AS BIGINT),
                CAST(sum(by_held) AS BIGINT), CAST(sum(by_committed) AS BIGINT)
             FROM ledger GROUP BY event ORDER BY event",
        )
        .await;
    let row = |event: &str, n, quantity, held, committed| {
        (event.to_owned(), n, quantity, held, committed)
    };
    let expected = [
        row("correction", 1, 1000, 0, 0),
        row("placed", 500, 0, 500, 0),
        row("shipped", 500, -500, 0, -500),
        row("sold", 500, 0, -500, 500),
    ];
    assert_eq!(ledger, expected);
    home.check_books().await;
}

#[tokio::test]
async fn c008_two_of_three_want_five() {
    let home = Home::new("");
    let daemon = home.serve().await;
    for n in 0..20 {
        let sku = format!("W{n}");
        daemon.stocked(&sku, 5).await;
        let pair = ["a", "b"].map(|who| order(&format!("{who}{n}"), &[(&sku, 3)]));
        assert_eq!(taken(&race(&daemon, pair.to_vec()).await, 2).len(), 1);
        assert_eq!(daemon.figures(&sku).await, (5, 3, 0, 2), "no part of the loser is held");
    }
    home.check_books().await;
}

#[tokio::test]
async fn c010_two_want_all_five() {
    let home = Home::new("");
    let daemon = home.serve().await;
    for n in 0..20 {
        let sku = format!("W{n}");
        daemon.stocked(&sku, 5).await;
        let paid = |who: &str| {
            let mut body = order(&format!("{who}{n}"), &[(&sku, 5)]);
            body["payment"] = json!({"id": format!("{who}{n}"), "amount": "50.00"});
            body
        };
        let answers = race(&daemon, vec![paid("a"), paid("b")]).await;
        let won = taken(&answers, 0);
        assert_eq!(won.len(), 1);
        assert_eq!(daemon.state(&won[0]).await, "confirmed");
        assert_eq!(daemon.figures(&sku).await, (5, 0, 5, 0));
        daemon.ship(&won[0], &[(1, 5)]).await.ok();
        assert_eq!(daemon.figures(&sku).await, (0, 0, 0, 0));
    }
    home.check_books().await;
}

/// Orders that name the same SKUs in opposite order neither deadlock nor take halves.
#[tokio::test]
async fn orders_over_many_skus_take_all_or_nothing() {
    let home = Home::new("");
    let daemon = home.serve().await;
    for sku in ["A", "B", "C"] {
        daemon.stocked(sku, 10).await;
    }
    let mixed = |n: i64| {
        let lines = match n % 3 {
            0 => [("A", 1), ("B", 1), ("C", 1)],
            1 => [("C", 1), ("B", 1), ("A", 1)],
            _ => [("B", 1), ("A", 1), ("C", 1)],
        };
        order(&format!("o{n}"), &lines)
    };
    let answers = race(&daemon, (0..60).map(mixed).collect()).await;
    assert_eq!(taken(&answers, 0).len(), 10);
    for sku in ["A", "B", "C"] {
        assert_eq!(daemon.figures(sku).await, (10, 10, 0, 0));
    }
    home.check_books().await;
}

/// A second warehouse helps out: a line may be split, and never beyond what both have.
#[tokio::test]
async fn two_warehouses_serve_one_line() {
    let home = Home::new("");
    let daemon = home.serve().await;
    let second = json!({"source": "north", "kind": "warehouse", "buffer": 1});
    daemon.sku("W1", &json!({"title": "W1", "sources": [warehouse(), second]})).await;
    daemon.set_stock("W1", 3).await;
    let body = json!({"source": "north", "set_to": 5, "reason": "count"});
    daemon.post("/v1/skus/W1/stock", &body).await.ok();
    let refused = daemon.place(&order("o1", &[("W1", 8)])).await;
    let refused = refused.refused(409, "insufficient_stock");
    assert_eq!(refused["shortages"][0]["available"], 7, "3, and 5 less the buffer of 1");
    let body = daemon.place(&order("o2", &[("W1", 6)])).await.body;
    let allocations = body["lines"][0]["allocations"].as_array().expect("allocations").iter();
    let shares: Vec<_> =
        allocations.map(|a| (text(&a["source"]), a["quantity"].as_i64())).collect();
    assert_eq!(shares, [("main".to_owned(), Some(3)), ("north".to_owned(), Some(3))]);
    home.check_books().await;
}
