//! A replica stands still in the middle of a transaction: its locks are taken from it, others go on,
//! and what it was told meanwhile is done once when it goes on too.

use std::time::Duration;

use serde_json::Value;

use super::fleet::Fleet;
use super::shop::{go_on, pair, stop};
use crate::blackbox::api::{Answer, Api, order};
use crate::blackbox::daemon::{eventually, together};

/// Sessions that wait, in a transaction, for a client that says nothing.
const STUCK: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND application_name = 'stockhold' AND state LIKE 'idle in transaction%'
    AND state_change < clock_timestamp() - interval '500 milliseconds'";

/// Places until it is answered for good; how often it was told to come again.
async fn insist(api: Api, body: Value) -> usize {
    for told in 0..1_000 {
        let answer: Answer = api.place(&body).await;
        match answer.status {
            200 | 201 => return told,
            503 => answer.is_problem(),
            _ => panic!("{} {}", answer.status, answer.text),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never answered: {body}");
}

/// So many callers who place, one order after the other.
async fn crowd(api: &Api, name: &str, callers: usize, each: usize) {
    let callers = (0..callers).map(|caller| {
        let (api, name) = (api.clone(), format!("{name}-{caller}"));
        async move {
            for n in 0..each {
                insist(api.clone(), order(&format!("{name}-{n}"), &[("HOT", 1)])).await;
            }
        }
    });
    together(callers.collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_stands_still_in_a_transaction_holds_the_others_up_for_a_moment_only() {
    let fleet = Fleet::of(2, "").await;
    let (stalls, lives) = pair(&fleet).await;
    stalls.stocked("HOT", 100_000).await;
    let mut rounds = 0;
    let mut placed = 0;
    // Until it was caught in a transaction twice.
    let mut caught = 0;
    while caught < 2 {
        rounds += 1;
        assert!(rounds <= 60, "never caught in a transaction");
        let (api, name) = ((*stalls).clone(), format!("stalls-{rounds}"));
        let theirs = tokio::spawn(async move { crowd(&api, &name, 8, 6).await });
        tokio::time::sleep(Duration::from_millis(60)).await;
        stop(&stalls);
        tokio::time::sleep(Duration::from_millis(700)).await;
        let stuck = fleet.tables.number(STUCK).await > 0;
        if stuck {
            caught += 1;
            // All of them want the row that it may have locked.
            crowd(&lives, &format!("lives-{rounds}"), 8, 3).await;
            placed += 8 * 3;
            eventually("its session is ended", async || fleet.tables.number(STUCK).await == 0)
                .await;
        }
        go_on(&stalls);
        theirs.await.expect("they are answered");
        placed += 8 * 6;
    }
    assert_eq!(lives.get("/readyz").await.status, 200);
    eventually("it is ready again", async || stalls.get("/readyz").await.status == 200).await;
    for daemon in [stalls, lives] {
        daemon.stop().await;
    }
    for table in ["orders", "holds", "ledger WHERE event = 'placed'"] {
        let rows = fleet.tables.number(&format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(rows, placed, "{table}");
    }
    fleet.homes[0].check_books().await;
    assert_eq!(fleet.deadlocks().await, 0);
}
