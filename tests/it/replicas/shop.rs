//! Replicas with a supplier, on the machine's real clock: minutes are seconds here, and what a test
//! knows it reads from the tables and from the supplier's own book.
//!
//! What must hold: nothing waits for a time to pass, only for what must come to be (within
//! `daemon::LIMIT`); a replica that a test has stopped stands still until it is told to go on.

use serde_json::json;
use stockhold::clock::Clock;
use stockhold::suppliers::simulator::{Api as Call, Chance, Fault, Handle, Order, Simulator};

use super::fleet::Fleet;
use crate::blackbox::api::Api;
use crate::blackbox::daemon::{Daemon, Home, eventually, signal};
use crate::faults::books;
use crate::faults::world::{Setup, World, at_supplier};

/// As `config/try.toml`. A lease that a call needs lasts 7 s (its time-out and 5 s), a purchase's 19 s
/// (two calls and 15 s), whatever `jobs.lease` is; a figure is stale after 6 s + 1.2 × 2 s.
const SECONDS: &str = r#"
[holds]
ttl_normal = "60s"
ttl_hot = "30s"
ttl_flash = "15s"
sweep_interval = "5s"
payment_grace = "1s"
[confirm]
delay = "1s"
max_answer_age = "10s"
retry_deadline = "60s"
attention_deadline = "60s"
[jobs]
lease = "3s"
[supplier]
sync_interval = "2s"
declared_lag = "6s"
settle_margin = "1s"
lookup_settle = "2s"
unpaid_deadline = "300s"
request_timeout = "2s"
"#;

/// With second-scale durations.
pub fn setup() -> Setup {
    Setup::new().with(SECONDS)
}

/// A fleet and its supplier.
pub struct Shop {
    pub sim: Handle,
    pub fleet: Fleet,
}

impl Shop {
    /// So many replicas, none of them started.
    pub async fn of(replicas: usize, setup: Setup) -> Shop {
        Shop::each(replicas, setup, |_, home| home).await
    }

    /// So many replicas, each with something of its own.
    pub async fn each(replicas: usize, setup: Setup, own: impl Fn(usize, Home) -> Home) -> Shop {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let sim = Simulator::start(setup.simulator.clone(), Clock::System).await;
        let sim = sim.expect("a simulator");
        let fleet = Fleet::each(replicas, &setup.settings(&sim.gateway_url()), own).await;
        Shop { sim, fleet }
    }

    /// Makes each offer a SKU of the same name, and waits until its figure has been read.
    pub async fn supply(&self, api: &Api, offers: &[&str]) {
        for offer in offers {
            api.sku(offer, &json!({"title": offer, "sources": [at_supplier(offer, None)]})).await;
        }
        self.read().await;
    }

    /// Waits until every figure of the supplier has been read.
    pub async fn read(&self) {
        let unread = "SELECT count(*) FROM levels WHERE kind = 'supplier' AND listing = 'unread'";
        eventually("every figure is read", async || self.number(unread).await == 0).await;
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.fleet.tables.number(sql).await
    }

    /// Waits until a statement counts so many.
    pub async fn until(&self, what: &str, sql: &str, wanted: i64) {
        eventually(what, async || self.number(sql).await == wanted).await;
    }

    /// Waits until so many orders are in a state.
    pub async fn until_orders(&self, state: &str, wanted: i64) {
        let sql = format!("SELECT count(*) FROM orders WHERE state = '{state}'");
        self.until(&format!("{wanted} orders are {state}"), &sql, wanted).await;
    }

    /// From now on every call of `api` meets this fault; with `None` none does.
    pub fn always(&self, api: Call, fault: Option<Fault>) {
        let chances = fault.into_iter().map(|fault| Chance { chance: 1.0, fault }).collect();
        self.sim.change(|s| s.conduct_mut(api).chances = chances).expect("settings");
    }

    pub fn script(&self, api: Call, faults: &[Fault]) {
        for fault in faults {
            self.sim.script(api, fault.clone()).expect("a fault");
        }
    }

    /// The one order that stands at the supplier for an order of ours.
    pub fn upstream(&self, order: &str) -> Order {
        let mut found = self.sim.orders();
        let prefix = format!("{order}-s1688-");
        found.retain(|o| o.reference.as_deref().is_some_and(|r| r.starts_with(&prefix)));
        assert_eq!(found.len(), 1, "{found:?}");
        let one = found.remove(0);
        assert_eq!(one.reference, Some(World::reference(order, 1)));
        one
    }

    /// Everything placed upstream is paid there, and waits until the replicas know.
    pub async fn pay_upstream(&self) {
        for order in self.sim.orders() {
            self.sim.pay(order.id).expect("it is unpaid");
        }
        let unpaid = "SELECT count(*) FROM purchase_orders WHERE state = 'placed'";
        self.until("what is paid is known to be", unpaid, 0).await;
    }

    /// What must hold in the tables and at the supplier; no job is dead.
    pub async fn check(&self) {
        books::check_tables(&self.fleet.homes[0]).await;
        books::check_supplier(&self.sim);
        let dead = "SELECT count(*) FROM jobs WHERE state = 'dead'";
        assert_eq!(self.number(dead).await, 0, "{}", self.fleet.homes[0].log());
    }
}

/// Has a replica stand still (SIGSTOP) where it is.
pub fn stop(daemon: &Daemon<'_>) {
    signal(daemon.process(), "STOP");
}

/// Has it go on.
pub fn go_on(daemon: &Daemon<'_>) {
    signal(daemon.process(), "CONT");
}

/// The two replicas of a fleet of two, started.
pub async fn pair(fleet: &Fleet) -> (Daemon<'_>, Daemon<'_>) {
    let mut daemons = fleet.serve().await;
    let (Some(second), Some(first)) = (daemons.pop(), daemons.pop()) else {
        panic!("a fleet of two");
    };
    (first, second)
}
