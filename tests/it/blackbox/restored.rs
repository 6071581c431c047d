//! A backup is restored under a running daemon: it notices before it writes anything more, and ends.

use reqwest::Method;
use serde_json::json;

use super::api::{Answer, order};
use super::daemon::{Daemon, Home};

/// `change` makes another store of it: nothing more is taken, and the daemon ends and says what to do. Its
/// own work may notice before our request does. (A transaction that was under way in the meantime is its
/// newest, and is there: then once more.)
async fn it_ends(home: &Home, daemon: Daemon<'_>, change: &str) {
    let mut placed = 1;
    loop {
        home.tamper(change).await;
        let body = order(&format!("W-{placed}-more"), &[("W1", 1)]);
        let request = daemon.request(Method::POST, "/v1/orders").json(&body);
        match Answer::try_of(request).await {
            Ok(answer) if answer.status == 201 && placed < 10 => placed += 1,
            Ok(answer) => {
                // Whoever comes when it has noticed and is ending already hears that.
                let told = ["storage_unavailable", "overloaded"].contains(&answer.code().as_str());
                assert!(answer.status == 503 && told, "{}", answer.text);
                break;
            }
            Err(_) => break,
        }
    }
    let status = daemon.ended().await;
    assert_eq!(status.code(), Some(1), "{}", home.log());
    assert!(home.log().contains("stockhold restore-mark"), "{}", home.log());
    home.settled().await;
    assert_eq!(home.number("SELECT count(*) FROM orders").await, placed);
}

#[tokio::test]
async fn a_daemon_whose_last_transaction_is_gone_writes_nothing_more() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    assert_eq!(daemon.post("/v1/orders", &order("W-1", &[("W1", 1)])).await.status, 201);
    it_ends(&home, daemon, "DELETE FROM command_groups").await;
}

#[tokio::test]
async fn a_daemon_whose_store_has_begun_another_life_writes_nothing_more() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    assert_eq!(daemon.post("/v1/orders", &order("W-1", &[("W1", 1)])).await.status, 201);
    let change = "INSERT INTO epochs (no, id, began_at) SELECT max(no) + 1, 'life', 1 FROM epochs";
    it_ends(&home, daemon, change).await;
}

#[tokio::test]
async fn a_restore_is_not_marked_beside_a_running_daemon() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let said = home.run(&["restore-mark"]).await.refused();
    assert!(said.contains("connected") || said.contains("process"), "{said}");
    assert_eq!(home.number("SELECT count(*) FROM epochs").await, 1);
    let placed = daemon.post("/v1/orders", &order("W-1", &[("W1", 1)])).await;
    assert_eq!((placed.status, &placed.body["state"]), (201, &json!("pending_payment")));
    daemon.stop().await;
    assert!(home.run(&["restore-mark"]).await.ok().starts_with("restored at "));
}
