//! Every replica ticks; a slot's work is done once in the whole fleet. And replicas that start
//! together on an empty database make its schema once.

use stockhold::suppliers::simulator::Api as Call;

use super::shop::{Shop, setup};
use crate::blackbox::daemon::eventually;

const A: &str = "700000000001";

/// The newest slot of a schedule with so many runs of its work, read while nothing of it is under way.
async fn quiet(shop: &Shop, name: &str, runs: impl AsyncFn() -> i64) -> (i64, i64) {
    let slot = format!("SELECT last_slot FROM schedules WHERE name = '{name}'");
    let owed = format!("SELECT count(*) FROM jobs WHERE key = '{name}'");
    let mut found = (0, 0);
    eventually("a schedule's work is done", async || {
        let before = shop.number(&slot).await;
        if shop.number(&owed).await > 0 {
            return false;
        }
        found = (before, runs().await);
        // A slot's job is owed with the slot: none came between.
        shop.number(&owed).await == 0 && shop.number(&slot).await == before
    })
    .await;
    found
}

/// The sum of a counter's series of one kind of job over all replicas.
async fn runs(apis: &[crate::blackbox::api::Api], kind: &str) -> i64 {
    let mut sum = 0;
    for api in apis {
        let text = api.get("/metrics").await.text;
        let of_kind = format!("kind=\"{kind}\"");
        let series = text
            .lines()
            .filter(|l| l.starts_with("stockhold_jobs_run_total") && l.contains(&of_kind));
        sum += series.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum::<i64>();
    }
    sum
}

/// A sync a second over three replicas: one call of the supplier for each second, not three.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_s_sync_and_sweep_run_once_in_the_whole_fleet() {
    const SECOND: i64 = 1_000_000;
    let keys = "[holds]\nsweep_interval = \"1s\"\n[supplier]\nsync_interval = \"1s\"\n";
    let shop = Shop::of(3, setup().with(keys).selling(&[(A, 50)])).await;
    let daemons = shop.fleet.serve().await;
    shop.supply(&daemons[0], &[A]).await;
    let apis: Vec<_> = daemons.iter().map(|d| (**d).clone()).collect();
    let syncs = async || i64::try_from(shop.sim.calls(Call::Product)).expect("small");
    let sweeps = async || runs(&apis, "sweep").await;
    let slots = async |name: &str| {
        shop.number(&format!("SELECT last_slot FROM schedules WHERE name = '{name}'")).await
    };
    // Each replica has a sync right after its start; those are over.
    let started = slots("sync:s1688").await;
    eventually("three slots", async || slots("sync:s1688").await >= started + 3 * SECOND).await;
    let synced = quiet(&shop, "sync:s1688", syncs).await;
    let swept = quiet(&shop, "sweep", sweeps).await;
    eventually("twelve slots", async || slots("sync:s1688").await >= synced.0 + 12 * SECOND).await;
    let synced_then = quiet(&shop, "sync:s1688", syncs).await;
    let swept_then = quiet(&shop, "sweep", sweeps).await;
    for ((slot, runs), (slot_then, runs_then)) in [(synced, synced_then), (swept, swept_then)] {
        let (slots, done) = ((slot_then - slot) / SECOND, runs_then - runs);
        assert!(slots >= 8 && done <= slots, "{done} runs in {slots} slots");
        assert!(done > 0, "no run in {slots} slots");
    }
    let missed = "SELECT count(*) FROM alerts WHERE kind = 'schedule_missed'";
    assert_eq!(shop.number(missed).await, 0);
    for daemon in daemons {
        daemon.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_started_at_once_on_an_empty_database_make_its_schema_once() {
    let shop = Shop::of(4, setup().selling(&[(A, 50)])).await;
    let daemons = shop.fleet.serve().await;
    for daemon in &daemons {
        eventually("it is ready", async || daemon.get("/readyz").await.status == 200).await;
    }
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres"));
    let files = i64::try_from(files.expect("a folder").count()).expect("small");
    let applied = "SELECT count(*) FROM _sqlx_migrations WHERE success";
    assert_eq!(shop.number(applied).await, files);
    assert_eq!(shop.number("SELECT count(*) FROM _sqlx_migrations").await, files);
    assert_eq!(shop.number("SELECT count(*) FROM epochs").await, 1);
    // They are one store: what one took, each shows.
    daemons[0].stocked("W1", 10).await;
    let id = daemons[1].placed("o1", "W1", 3).await;
    for daemon in &daemons {
        assert_eq!(daemon.state(&id).await, "pending_payment");
        assert_eq!(daemon.figures("W1").await, (10, 3, 0, 7));
    }
    for daemon in daemons {
        daemon.stop().await;
    }
    assert_eq!(shop.fleet.deadlocks().await, 0);
    shop.check().await;
}
