//! Replicas are replaced one after the other while callers go to whichever answers: no order that was
//! answered is lost or done twice, and nobody sees an error but `503` with `Retry-After`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::front::Front;
use super::shop::{Shop, setup};
use crate::blackbox::daemon::eventually;
use crate::faults::world::basket;

const A: &str = "700000000001";
const CALLERS: usize = 12;
/// The first of the callers buy what is the supplier's.
const FROM_SUPPLIER: usize = 2;

/// What became of an order, as its caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Paid,
    Cancelled,
    Placed,
}

/// The load, while it goes on.
#[derive(Clone)]
struct Load {
    front: Front,
    over: Arc<AtomicBool>,
    /// Orders answered so far.
    answered: Arc<AtomicUsize>,
}

impl Load {
    /// Places orders and pays the first of three, cancels the second, leaves the third.
    async fn caller(self, caller: usize) -> Vec<(String, Told)> {
        let mut orders = Vec::new();
        while !self.over.load(Ordering::SeqCst) {
            let n = orders.len();
            let name = format!("o-{caller}-{n}");
            let sku = if caller < FROM_SUPPLIER { A } else { "W1" };
            let placed = self.front.place(caller + n, &basket(&name, &[(sku, 1)])).await;
            // 200: the first one's answer was lost on the way.
            assert!(matches!(placed.status, 200 | 201), "{} {}", placed.status, placed.text);
            let id = placed.id();
            let told = match n % 3 {
                0 => {
                    let paid = self.front.pay(caller + n + 1, &id, &name, 1).await;
                    assert!(matches!(paid.status, 200 | 201), "{} {}", paid.status, paid.text);
                    Told::Paid
                }
                1 => {
                    let cancelled = self.front.cancel(caller + n, &id).await;
                    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
                    Told::Cancelled
                }
                _ => Told::Placed,
            };
            orders.push((id, told));
            self.answered.fetch_add(1, Ordering::SeqCst);
            let pause = if caller < FROM_SUPPLIER { 150 } else { 20 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        orders
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_twice_round_loses_nothing_that_was_answered() {
    let keys = "[holds]\nttl_normal = \"10m\"\n[supplier]\nsync_interval = \"5s\"\n";
    let shop = Shop::of(2, setup().with(keys).selling(&[(A, 100_000)])).await;
    let mut daemons = shop.fleet.serve().await;
    daemons[0].stocked("W1", 1_000_000).await;
    shop.supply(&daemons[0], &[A]).await;
    let load = Load { front: Front::of(&daemons), over: Arc::default(), answered: Arc::default() };
    let callers: Vec<_> =
        (0..CALLERS).map(|caller| tokio::spawn(load.clone().caller(caller))).collect();
    let more = async |what: &str| {
        let before = load.answered.load(Ordering::SeqCst);
        eventually(what, async || load.answered.load(Ordering::SeqCst) > before + 50).await;
    };
    more("both serve").await;
    for _ in 0..2 {
        for replica in 0..2 {
            daemons.remove(replica).stop().await;
            more("the other one serves").await;
            let anew = shop.fleet.homes[replica].serve().await;
            eventually("it is ready", async || anew.get("/readyz").await.status == 200).await;
            load.front.set(replica, &anew);
            daemons.insert(replica, anew);
            more("both serve").await;
        }
    }
    load.over.store(true, Ordering::SeqCst);
    let mut answered = Vec::new();
    for caller in callers {
        answered.extend(caller.await.expect("a caller ends"));
    }
    let waits = "SELECT count(*) FROM orders WHERE state IN ('paid', 'confirming')";
    shop.until("what is paid is confirmed", waits, 0).await;
    let stored: Vec<(String, String)> =
        shop.fleet.tables.rows("SELECT id, state FROM orders ORDER BY id", &[]).await;
    let mut wanted: Vec<(String, String)> = answered
        .iter()
        .map(|(id, told)| {
            let state = match told {
                Told::Paid => "confirmed",
                Told::Cancelled => "cancelled",
                Told::Placed => "pending_payment",
            };
            (id.clone(), state.to_owned())
        })
        .collect();
    wanted.sort();
    assert_eq!(stored, wanted);
    // The supplier has one order for each of ours that is paid.
    let bought = "SELECT count(DISTINCT order_id) FROM holds WHERE kind = 'supplier'
        AND state IN ('committed', 'settled')";
    let bought = shop.number(bought).await;
    assert!(bought > 0);
    assert_eq!(i64::try_from(shop.sim.orders().len()), Ok(bought));
    for daemon in daemons {
        daemon.stop().await;
    }
    assert_eq!(shop.fleet.deadlocks().await, 0);
    shop.check().await;
}
