//! A backup is restored under a running daemon: it notices before it writes anything more, and ends.

use reqwest::Method;
use serde_json::json;

use super::api::{Answer, order};
use super::daemon::{Daemon, Home};

/// The store no longer is the one that was written: nothing is taken, and the daemon ends and says what
/// to do. (Its own work may notice before our request does.)
async fn it_ends(home: &Home, daemon: Daemon<'_>) {
    let request = daemon.request(Method::POST, "/v1/orders").json(&order("W-2", &[("W1", 1)]));
    if let Ok(answer) = Answer::try_of(request).await {
        assert_eq!(answer.body["code"], "storage_unavailable", "{}", answer.text);
    }
    let status = daemon.ended().await;
    assert_eq!(status.code(), Some(1), "{}", home.log());
    assert!(home.log().contains("stockhold restore-mark"), "{}", home.log());
    home.settled().await;
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 1);
}

#[tokio::test]
async fn a_daemon_whose_last_transaction_is_gone_writes_nothing_more() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    assert_eq!(daemon.post("/v1/orders", &order("W-1", &[("W1", 1)])).await.status, 201);
    home.tamper("DELETE FROM command_groups").await;
    it_ends(&home, daemon).await;
}

#[tokio::test]
async fn a_daemon_whose_store_has_begun_another_life_writes_nothing_more() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    assert_eq!(daemon.post("/v1/orders", &order("W-1", &[("W1", 1)])).await.status, 201);
    home.tamper("INSERT INTO epochs (no, id, began_at) VALUES (2, 'another', 1)").await;
    it_ends(&home, daemon).await;
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
