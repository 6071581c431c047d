//! The database goes away: stopped, or silent behind a way that still seems open. Nothing is taken that
//! cannot be kept, and when it is back everything that was owed goes on, without a restart.

use std::time::{Duration, Instant};

use super::fleet::Fleet;
use crate::blackbox::api::order;
use crate::blackbox::daemon::{Daemon, eventually};
use crate::proxy::Way;

const SETTINGS: &str = "[holds]\nttl_normal = \"8s\"\nsweep_interval = \"1s\"\n";

async fn ready(daemon: &Daemon<'_>) -> bool {
    daemon.get("/readyz").await.status == 200
}

/// Until it is back, every placement is refused with a hint; answers how many were tried.
async fn refuses_for(daemon: &Daemon<'_>, span: Duration, codes: &[&str]) -> usize {
    let end = Instant::now() + span;
    let mut tried = 0;
    while Instant::now() < end {
        let answer = daemon.place(&order(&format!("during-{tried}"), &[("W1", 1)])).await;
        assert_eq!(answer.status, 503, "{}", answer.text);
        assert!(codes.contains(&answer.code().as_str()), "{}", answer.text);
        assert_eq!(answer.header("retry-after"), "1");
        tried += 1;
    }
    assert_eq!(daemon.get("/healthz").await.status, 200);
    tried
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_for_twenty_seconds_it_takes_nothing_and_then_does_all_that_is_owed() {
    let fleet = Fleet::of(1, SETTINGS).await;
    let daemons = fleet.serve().await;
    let daemon = &daemons[0];
    daemon.stocked("W1", 1_000).await;
    for n in 0..5 {
        daemon.placed(&format!("before-{n}"), "W1", 1).await;
    }
    fleet.to_database[0].set(Way::Shut);
    let tried = refuses_for(daemon, Duration::from_secs(20), &["storage_unavailable"]).await;
    assert!(tried > 0);
    eventually("readiness is red", async || daemon.get("/readyz").await.status == 503).await;
    assert_eq!(fleet.tables.number("SELECT count(*) FROM orders").await, 5, "nothing was taken");

    fleet.to_database[0].set(Way::Open);
    eventually("it takes orders again", async || {
        daemon.place(&order("during-0", &[("W1", 1)])).await.status == 201
    })
    .await;
    eventually("it is ready", async || ready(daemon).await).await;
    let expired = "SELECT count(*) FROM orders WHERE state = 'expired'
        AND external_id LIKE 'before-%'";
    eventually("what fell due meanwhile ends", async || fleet.tables.number(expired).await == 5)
        .await;
    let released = "SELECT count(*) FROM ledger l JOIN orders o ON o.id = l.order_id
        WHERE l.event = 'released' AND o.external_id LIKE 'before-%'";
    assert_eq!(fleet.tables.number(released).await, 5, "each once");
    fleet.homes[0].check_books().await;
}

/// Redis away for both: nothing is refused for it, and it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_both_replicas_go_on_and_say_so() {
    let fleet = Fleet::of(2, SETTINGS).await;
    let daemons = fleet.serve().await;
    daemons[0].stocked("W1", 1_000).await;
    let says = async |what: &str| {
        for daemon in &daemons {
            eventually(what, async || {
                let answer = daemon.get("/readyz").await;
                answer.status == 200 && answer.body["status"] == what
            })
            .await;
        }
    };
    says("ready").await;
    fleet.to_redis.iter().for_each(|way| way.set(Way::Shut));
    says("degraded").await;
    for n in 0..20 {
        let id = daemons[n % 2].placed(&format!("o{n}"), "W1", 1).await;
        let paid = daemons[(n + 1) % 2].pay(&id, &format!("p{n}"), "10.00").await.ok();
        assert_eq!(paid["state"], "confirmed");
    }
    fleet.to_redis.iter().for_each(|way| way.set(Way::Open));
    says("ready").await;
    fleet.homes[0].check_books().await;
}

/// A half-open way: what is said is swallowed, and nothing says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_it_is_given_up_in_a_bounded_time() {
    let fleet = Fleet::of(2, SETTINGS).await;
    let daemons = fleet.serve().await;
    daemons[0].stocked("W1", 1_000).await;
    fleet.to_database[0].set(Way::Silent);
    let unknown = ["storage_unavailable", "outcome_unknown"];
    refuses_for(&daemons[0], Duration::from_secs(1), &unknown).await;
    // Whatever the silent one's sessions held, the other goes on.
    daemons[1].placed("beside", "W1", 1).await;
    fleet.to_database[0].set(Way::Open);
    eventually("it takes orders again", async || {
        let answer = daemons[0].place(&order("after", &[("W1", 1)])).await;
        matches!(answer.status, 200 | 201)
    })
    .await;
    eventually("it is ready", async || ready(&daemons[0]).await).await;
    fleet.homes[0].check_books().await;
}
