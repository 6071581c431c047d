//! Work that was under way when its worker died: taken over when the lease ends, done once, and
//! parked when it keeps killing its worker.

use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, Fault};

use super::books;
use super::world::{Setup, World};

const EXPIRED: &str = "SELECT count(*) FROM orders WHERE state = 'expired'";
const HELD: &str = "SELECT sum(held) FROM levels";

/// A SKU of the own warehouse with much of it.
async fn with_shelf(w: &World) {
    let source = json!({ "source": "main", "kind": "warehouse", "buffer": 0 });
    let body = json!({ "title": "mug", "class": "flash", "sources": [source] });
    assert!(w.call("PUT", "/v1/skus/MUG", Some(body)).await.0 < 300);
    let request = json!({ "source": "main", "delta": 100_000, "reason": "count" });
    let base = w.post_keyed("/v1/skus/MUG/stock", "stock-1", request).await;
    assert_eq!(base.0, 200, "{}", base.1);
}

/// Unpaid orders that all expire in the same seconds.
async fn wave(w: &World, orders: i64) {
    for _ in 0..orders {
        w.post_order(w.basket(&[("MUG", 2)])).await;
    }
    assert_eq!(w.number(HELD).await, 2 * orders);
}

/// (10) An expiry wave, killed in its middle.
#[tokio::test]
async fn an_expiry_wave_that_is_killed_goes_on() {
    let mut w = Setup::new().start().await;
    with_shelf(&w).await;
    wave(&w, 150).await;
    w.advance_to(w.now() + Span::minutes(6)).await;
    w.until("some have expired", async |w| w.number(EXPIRED).await > 0).await;
    w.crash().await;
    w.until("all have expired", async |w| w.number(EXPIRED).await == 150).await;
    assert_eq!(w.number(HELD).await, 0);
    books::check(&w).await;
}

/// C113: the sweep alone (the deadlines' own jobs are lost), killed in its middle, twice.
#[tokio::test]
async fn a_sweep_that_is_killed_is_run_again_when_its_lease_ends() {
    let mut w = Setup::new().start().await;
    with_shelf(&w).await;
    wave(&w, 150).await;
    w.kill().await;
    assert!(w.number("SELECT count(*) FROM jobs WHERE kind = 'deadline'").await > 0);
    w.home.tamper("DELETE FROM jobs WHERE kind = 'deadline'").await;
    w.advance_to(w.now() + Span::minutes(6)).await;
    w.restart().await;
    w.until("some have expired", async |w| w.number(EXPIRED).await > 0).await;
    let running = "SELECT count(*) FROM jobs WHERE kind = 'sweep' AND state = 'running'";
    w.crash().await;
    let was_killed = w.number(running).await;
    w.until("all have expired", async |w| w.number(EXPIRED).await == 150).await;
    w.until("the sweep is over", async |w| w.number(running).await == 0).await;
    assert!(was_killed <= 1);
    assert_eq!(w.number(HELD).await, 0);
    w.pass(Span::minutes(3)).await;
    assert_eq!(w.number("SELECT count(*) FROM ledger WHERE event = 'released'").await, 150);
    books::check(&w).await;
}

/// Twenty items, each with an order that waits for its confirmation.
async fn twenty() -> (World, Vec<String>) {
    let offers: Vec<String> = (0..20).map(|n| format!("7000000001{n:02}")).collect();
    let offers: Vec<(&str, i64)> = offers.iter().map(|id| (id.as_str(), 9)).collect();
    let names: Vec<&str> = offers.iter().map(|(id, _)| *id).collect();
    let w = Setup::new().selling(&offers).start().await.with_skus(&names).await;
    let mut orders = Vec::new();
    for name in names {
        orders.push(w.buy(name, 1).await);
    }
    (w, orders)
}

/// C114: killed after the claims, in the questions, in the purchases, and when answers come in.
#[tokio::test]
async fn twenty_confirmations_survive_four_kills_and_buy_twenty_orders() {
    let (mut w, orders) = twenty().await;
    let running = "SELECT count(*) FROM jobs WHERE kind = 'confirm' AND state = 'running'";
    w.script(Api::Product, &vec![Fault::TIMED_OUT; 4]);
    w.until("some are claimed", async |w| w.number(running).await > 0).await;
    w.crash().await;
    w.sim.clear_script();
    let before = w.sim.calls(Api::Product);
    w.script(Api::Product, &vec![Fault::TIMED_OUT; 4]);
    w.until("the questions are asked", async |w| w.sim.calls(Api::Product) >= before + 4).await;
    w.crash().await;
    w.script(Api::Create, &[Fault::LOST, Fault::TIMED_OUT, Fault::LOST, Fault::TIMED_OUT]);
    w.until("creates were sent", async |w| w.sim.calls(Api::Create) >= 2).await;
    w.crash().await;
    w.sim.clear_script();
    let placed = w.sim.orders().len();
    w.until("answers come in", async |w| w.sim.orders().len() > placed).await;
    w.crash().await;
    for id in &orders {
        w.until_state(id, "confirmed").await;
        let _one = w.upstream(id, 1);
        assert_eq!(w.refunded(id).await, (0, 0));
    }
    w.pass(Span::minutes(70)).await;
    assert_eq!(w.sim.orders().len(), 20);
    books::check(&w).await;
}

/// C114: a job that takes its worker with it five times is parked and told; put back, it is done.
#[tokio::test]
async fn a_job_that_kills_its_worker_is_parked_and_told() {
    let mut w = Setup::new().start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    let confirm = "SELECT coalesce(max(lapses + 1), 0) FROM jobs WHERE kind = 'confirm'
        AND state = 'running'";
    w.always(Api::Product, Some(Fault::TIMED_OUT));
    for life in 1..=5 {
        let what = format!("worker {life} has it");
        w.until(&what, async |w| w.number(confirm).await == life).await;
        w.crash().await;
    }
    let dead = "SELECT count(*) FROM jobs WHERE kind = 'confirm' AND state = 'dead'";
    w.until("it is parked", async |w| w.number(dead).await == 1).await;
    assert!(w.metric("stockhold_job_stuck_total").await > 0);
    // The sync hung and died with the daemon as often, so it may be parked as well.
    let alerts = w.alerts("job_dead").await;
    assert!(alerts.iter().any(|(subject, open)| *open && subject.starts_with("confirm:")));
    assert_eq!((w.state(&id).await, w.refunded(&id).await), ("confirming".into(), (0, 0)));
    w.always(Api::Product, None);
    // Parked it may be: its order does not hang.
    w.until_state(&id, "attention").await;
    let jobs = w.get("/v1/jobs?state=dead").await;
    for job in jobs["items"].as_array().expect("a list") {
        let path = format!("/v1/jobs/{}/retry", job["id"].as_str().expect("an id"));
        assert!(w.post(&path, json!({})).await.0 < 300);
    }
    w.until_state(&id, "confirmed").await;
    books::check(&w).await;
}
