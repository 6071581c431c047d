//! Crowds at two replicas at once: everything that locks meets everything else, callers hang up in the
//! middle, and the server never has to break a deadlock.

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::fleet::Fleet;
use crate::blackbox::api::{Answer, Api, order};
use crate::blackbox::daemon::together;

/// A generator of its own for each caller: the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// The answers that a healthy deployment may give to a crowd.
#[track_caller]
fn sane(answer: &Answer) {
    assert!(matches!(answer.status, 200 | 201 | 202 | 409), "{} {}", answer.status, answer.text);
}

/// Places orders of several SKUs under names that a caller of the other replica uses too, and pays,
/// cancels or abandons them.
async fn shopper(api: Api, seed: u64, rounds: u64) {
    let mut dice = Dice(seed);
    for round in 0..rounds {
        let name = format!("o-{}-{round}", seed / 2);
        // The same content from both, chosen by the name.
        let mut content = Dice(seed / 2 * 1_000 + round);
        let (a, b) = (content.below(5), content.below(5));
        let skus = [format!("W{a}"), format!("W{}", if a == b { (b + 1) % 5 } else { b })];
        let lines = [(skus[0].as_str(), 1), (skus[1].as_str(), 2)];
        let placed = api.place(&order(&name, &lines)).await;
        sane(&placed);
        if placed.status == 409 {
            continue;
        }
        let id = placed.id();
        match dice.below(5) {
            0 => sane(&api.pay(&id, &format!("p-{name}"), "30.00").await),
            1 => {
                // About when it expires.
                tokio::time::sleep(std::time::Duration::from_millis(900 + dice.below(300))).await;
                sane(&api.pay(&id, &format!("p-{name}"), "30.00").await);
            }
            2 => sane(&api.cancel(&id).await),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn placements_that_end_overdue_orders_payments_and_expiries_never_deadlock() {
    let fleet = Fleet::of(2, "[holds]\nttl_normal = \"1s\"\nsweep_interval = \"1s\"\n").await;
    let daemons = fleet.serve().await;
    for n in 0..5 {
        daemons[0].stocked(&format!("W{n}"), 40).await;
    }
    let callers = (0..16u64).map(|seed| {
        let api = (*daemons[(seed % 2) as usize]).clone();
        shopper(api, seed, 60)
    });
    together(callers).await;
    let orders = fleet.tables.number("SELECT count(*) FROM orders").await;
    assert!(orders > 40, "{orders}");
    let states: Vec<(String, i64)> = fleet
        .tables
        .rows("SELECT state, count(*) FROM orders GROUP BY state ORDER BY state", &[])
        .await;
    for state in ["cancelled", "confirmed", "expired"] {
        assert!(states.iter().any(|(s, _)| s == state), "{state}: {states:?}");
    }
    for daemon in daemons {
        daemon.stop().await;
    }
    fleet.homes[0].check_books().await;
    assert_eq!(fleet.deadlocks().await, 0);
}

/// sqlx #4385: a caller who is gone must not leave a transaction open on a pooled connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_hang_up_and_every_later_write_is_there() {
    let fleet = Fleet::of(1, "").await;
    let daemons = fleet.serve().await;
    let daemon = &daemons[0];
    daemon.stocked("W1", 100_000).await;
    let load = (0..4).map(|caller| {
        let api = (**daemon).clone();
        async move {
            for n in 0..100 {
                let placed = api.place(&order(&format!("load-{caller}-{n}"), &[("W1", 1)])).await;
                assert_eq!(placed.status, 201, "{}", placed.text);
            }
        }
    });
    let load = tokio::spawn(together(load.collect::<Vec<_>>()));
    let address = daemon.address();
    let gone = (0..200).map(|n| {
        let address = address.to_string();
        async move {
            let body = order(&format!("gone-{n}"), &[("W1", 1)]).to_string();
            let head = format!(
                "POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
            stream.write_all(head.as_bytes()).await.expect("sent");
            stream.write_all(body.as_bytes()).await.expect("sent");
            stream.set_zero_linger().expect("a reset");
            // Some at once, some while it is being written.
            tokio::time::sleep(std::time::Duration::from_micros(n % 20 * 300)).await;
        }
    });
    together(gone).await;
    load.await.expect("the load ends");
    let mut later = Vec::new();
    for n in 0..200 {
        let body = json!({"id": format!("p{n}"), "amount": "10.00", "currency": "USD"});
        let id = daemon.placed(&format!("later-{n}"), "W1", 1).await;
        daemon.post(&format!("/v1/orders/{id}/payments"), &body).await.ok();
        later.push(id);
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND state LIKE 'idle in transaction%' AND state_change < now() - interval '2 seconds'";
    assert_eq!(fleet.tables.number(open).await, 0);
    let stored: Vec<(String,)> = fleet
        .tables
        .rows("SELECT o.id FROM orders o JOIN payments p ON p.order_id = o.id", &[])
        .await;
    let stored: std::collections::BTreeSet<String> = stored.into_iter().map(|(id,)| id).collect();
    assert_eq!(later.iter().filter(|id| !stored.contains(*id)).count(), 0);
    let loaded = "SELECT count(*) FROM orders WHERE external_id LIKE 'load-%'";
    assert_eq!(fleet.tables.number(loaded).await, 400);
    fleet.homes[0].check_books().await;
}
