//! A daemon (the built binary), its simulated supplier, and one clock for both.
//!
//! The clock stands while the daemon works: it is moved, to the time of the next job or of the next
//! sync, only when no job is due or running. So minutes cost nothing, calls that hang end by their
//! real time-out, and a slow machine changes nothing but how long a test takes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use stockhold::clock::{Clock, Span, Timestamp};
use stockhold::domain::supply::Item;
use stockhold::suppliers::simulator::{Api, Chance, Fault, Handle, Offer, Settings, Simulator};
use tokio::time::{Instant, sleep};

use super::process::{self, Process};
use crate::blackbox::daemon::{Home, NOON};

pub const SHOE: &str = "610947572360";
pub const SIZE_42: &str = "b266e0726506185beaf205cbae88530d";
/// A state that is not reached in this (real) time is not reached at all.
const GIVE_UP: Duration = Duration::from_secs(100);

/// Production's durations, but for the (real) time-out of calls.
const CONFIG: &str = r#"
[watermark]
low = 0
[[suppliers]]
id = "s1688"
app_key = "1000000"
app_secret = "test_app_secret_0123456789abcdef"
access_token = "tok-simple-0001"
refresh_token = "refresh-simple-0001"
request_timeout = "3s"
max_requests_per_second = 1000
"#;

/// How a world begins.
pub struct Setup {
    pub simulator: Settings,
    config: toml::Table,
    catalogue: Option<String>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::new()
    }
}

impl Setup {
    pub fn new() -> Setup {
        let config = CONFIG.parse().expect("TOML");
        Setup { simulator: Settings::quiet(), config, catalogue: None }
    }

    /// Sets keys: TOML whose table `supplier` is the supplier's.
    pub fn with(mut self, keys: &str) -> Setup {
        let mut keys: toml::Table = keys.parse().expect("TOML");
        if let Some(supplier) = keys.remove("supplier") {
            let list = self.config.get_mut("suppliers").and_then(toml::Value::as_array_mut);
            merge(&mut list.expect("a list")[0], supplier);
        }
        let mut config = toml::Value::Table(std::mem::take(&mut self.config));
        merge(&mut config, toml::Value::Table(keys));
        self.config = config.as_table().expect("a table").clone();
        self
    }

    /// Changes what the simulator is.
    pub fn simulated(mut self, change: impl FnOnce(&mut Settings)) -> Setup {
        change(&mut self.simulator);
        self
    }

    /// The simulator sells these, each an offer of one item, and nothing else.
    pub fn selling(self, offers: &[(&str, i64)]) -> Setup {
        let offer = |(id, stock): &(&str, i64)| -> Offer {
            let offer = json!({ "offer_id": id, "title": id, "price_fen": 1000, "stock": stock });
            serde_json::from_value(offer).expect("an offer")
        };
        self.simulated(|s| s.offers = offers.iter().map(offer).collect())
    }

    /// The configuration's text, with the supplier at `gateway`.
    pub fn settings(&self, gateway: &str) -> String {
        let mut config = self.config.clone();
        let supplier = &mut config.get_mut("suppliers").expect("suppliers")[0];
        supplier.as_table_mut().expect("a table").insert("gateway".into(), gateway.into());
        toml::to_string(&config).expect("TOML")
    }

    /// Imported before the daemon first starts.
    pub fn catalogue(mut self, csv: String) -> Setup {
        self.catalogue = Some(csv);
        self
    }

    pub async fn start(self) -> World {
        World::start(self).await
    }
}

fn merge(into: &mut toml::Value, from: toml::Value) {
    match (into, from) {
        (toml::Value::Table(into), toml::Value::Table(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(old) => merge(old, value),
                    None => drop(into.insert(key, value)),
                }
            }
        }
        (into, from) => *into = from,
    }
}

/// See the module.
pub struct World {
    pub sim: Handle,
    pub home: Home,
    clock: Clock,
    process: Option<Process>,
    /// Job and token of what killed daemons were running.
    orphans: BTreeSet<(i64, i64)>,
    sync_interval: Span,
    /// The clock moves at least so far at once, microseconds.
    least_step: AtomicI64,
    placed: AtomicU32,
}

impl World {
    async fn start(setup: Setup) -> World {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Noon: slots fall on it.
        let clock = Clock::manual(Timestamp(NOON));
        let sim = Simulator::start(setup.simulator.clone(), clock.clone()).await;
        let sim = sim.expect("a simulator");
        let supplier = &setup.config.get("suppliers").expect("suppliers")[0];
        let interval = supplier.get("sync_interval").and_then(toml::Value::as_str).unwrap_or("10m");
        let minutes = interval.strip_suffix('m').and_then(|n| n.parse().ok()).expect("minutes");
        let home = Home::new(&setup.settings(&sim.gateway_url())).with_clock();
        let mut world = World {
            sim,
            home,
            clock,
            process: None,
            orphans: BTreeSet::new(),
            sync_interval: Span::minutes(minutes),
            least_step: AtomicI64::new(0),
            placed: AtomicU32::new(0),
        };
        if let Some(csv) = setup.catalogue {
            let path = world.home.path("catalogue.csv");
            std::fs::write(&path, csv).expect("written");
            world.home.run(&["stock", "import", path.to_str().expect("UTF-8")]).await.ok();
        }
        world.restart().await;
        world
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Starts the daemon.
    pub async fn restart(&mut self) {
        assert!(self.process.is_none(), "it runs");
        self.process = Some(Process::serve(&self.home).await);
    }

    /// `kill -9`.
    pub async fn kill(&mut self) {
        self.process.take().expect("it runs").kill().await;
        let running = "SELECT id, lease_token FROM jobs WHERE state = 'running'";
        let rows: Vec<(i64, i64)> = self.home.rows(running).await;
        self.orphans.extend(rows);
    }

    /// `kill -9`, and a new start.
    pub async fn crash(&mut self) {
        self.kill().await;
        self.restart().await;
    }

    /// Moves the clock, the simulator's first, and waits until the daemon's has followed.
    pub async fn advance_to(&self, at: Timestamp) {
        self.clock.advance(at.since(self.now()));
        self.home.set_clock(self.now().as_micros());
        if self.process.is_none() {
            return;
        }
        let (seen, wanted) = (self.home.path("clock.seen"), self.now().as_micros());
        let give_up = Instant::now() + GIVE_UP;
        while std::fs::read_to_string(&seen).ok().and_then(|t| t.parse().ok()) != Some(wanted) {
            assert!(Instant::now() < give_up, "the daemon's clock stands:\n{}", self.log());
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until a state is reached, moving the clock whenever the daemon has nothing to do.
    pub async fn until(&self, what: &str, mut reached: impl AsyncFnMut(&World) -> bool) {
        let give_up = Instant::now() + GIVE_UP;
        while !reached(self).await {
            if Instant::now() >= give_up {
                panic!("not reached: {what}\n{}\n{}", self.shown().await, self.log());
            }
            // What was under way at the first look may have ended since: the clock moves only when
            // nothing was and the state is still another.
            let due = self.next_due().await;
            if due.is_some() && reached(self).await {
                return;
            }
            self.step(due, None).await;
        }
    }

    /// Lets so much time pass, job by job.
    pub async fn pass(&self, span: Span) {
        let end = self.now() + span;
        let give_up = Instant::now() + GIVE_UP;
        while !(self.now() >= end && self.next_due().await.is_some()) {
            assert!(Instant::now() < give_up, "time does not pass:\n{}", self.log());
            let due = self.next_due().await;
            self.step(due, Some(end)).await;
        }
    }

    /// Waits until nothing is due or running, without moving the clock.
    pub async fn idle(&self) {
        let give_up = Instant::now() + GIVE_UP;
        while self.next_due().await.is_none() {
            assert!(Instant::now() < give_up, "never idle:\n{}", self.log());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Moves the clock to what comes next, but not past `end`; while the daemon has something to do
    /// (`due` is none), waits a moment instead.
    async fn step(&self, due: Option<Timestamp>, end: Option<Timestamp>) {
        let Some(due) = due else {
            return sleep(Duration::from_millis(15)).await;
        };
        let every = self.sync_interval.as_micros();
        let slot_of = |at: Timestamp| Timestamp(at.as_micros().div_euclid(every) * every);
        let least = self.now() + Span(self.least_step.load(Ordering::SeqCst));
        let next = due.min(slot_of(self.now()) + self.sync_interval).max(least);
        let next = end.map_or(next, |end| next.min(end));
        if next <= self.now() {
            return;
        }
        let ticks = slot_of(next) > slot_of(self.now());
        self.advance_to(next).await;
        let give_up = Instant::now() + GIVE_UP;
        while ticks && self.last_slot().await < slot_of(next) {
            assert!(Instant::now() < give_up, "no tick:\n{}", self.log());
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(5)).await;
    }

    /// From now on the clock moves at least so far at once: for hours in which little happens.
    pub fn stride(&self, least: Span) {
        self.least_step.store(least.as_micros(), Ordering::SeqCst);
    }

    async fn last_slot(&self) -> Timestamp {
        let sql = "SELECT last_slot FROM schedules WHERE name = 'sync:s1688'";
        Timestamp(self.home.tables.try_number(sql).await.unwrap_or(0))
    }

    /// When the next job falls due; `None` while one is due or running. What a killed daemon was
    /// running is due when its lease ends.
    async fn next_due(&self) -> Option<Timestamp> {
        let sql = "SELECT id, lease_token, run_at, lease_until FROM jobs WHERE state <> 'dead'";
        let rows: Vec<(i64, i64, i64, Option<i64>)> =
            self.home.tables.try_rows(sql, &[]).await.ok()?;
        let mut next = Timestamp(i64::MAX);
        for (id, token, run_at, lease_until) in rows {
            let at = match lease_until {
                Some(until) if self.orphans.contains(&(id, token)) => until,
                Some(_) => return None,
                None => run_at,
            };
            next = next.min(Timestamp(at));
        }
        (next > self.now()).then_some(next)
    }

    pub fn log(&self) -> String {
        process::tail(&self.home)
    }

    /// Orders, purchases and jobs, for whoever reads a failure.
    async fn shown(&self) -> String {
        let sql = "SELECT o.id || ' ' || o.state || ' ' || coalesce(o.attention, '') || ' ' ||
                coalesce(p.id || ' ' || p.state || ' ' || coalesce(p.supplier_order_id, ''), '')
            FROM orders o LEFT JOIN purchase_orders p ON p.order_id = o.id LIMIT 40";
        let mut lines: Vec<(String,)> = self.home.rows(sql).await;
        let sql = "SELECT key || ' ' || state || ' ' || attempts || ' ' || run_at || ' ' ||
                coalesce(CAST(lease_until AS TEXT), '') || ' ' || coalesce(last_error, '')
            FROM jobs LIMIT 60";
        lines.extend(self.home.rows::<(String,)>(sql).await);
        let lines: Vec<String> = lines.into_iter().map(|(line,)| line).collect();
        format!("now {}\n{}", self.now().as_micros(), lines.join("\n"))
    }

    /// A call of the daemon: status and JSON.
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let api = &self.process.as_ref().expect("it runs").api;
        let mut request = api.request(method.parse().expect("a method"), path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.timeout(GIVE_UP).send().await.expect("an answer");
        let status = response.status().as_u16();
        let text = response.text().await.expect("a body");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("POST", path, Some(body)).await
    }

    /// A call with an `Idempotency-Key`.
    pub async fn post_keyed(&self, path: &str, key: &str, body: Value) -> (u16, Value) {
        let api = &self.process.as_ref().expect("it runs").api;
        let answer = api.post_keyed(path, key, &body).await;
        (answer.status, answer.body)
    }

    /// The sum of a counter's series.
    pub async fn metric(&self, name: &str) -> i64 {
        let (_, text) = self.call("GET", "/metrics", None).await;
        let text = text.as_str().expect("text").to_owned();
        let series = text.lines().filter(|l| l.starts_with(name));
        series.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    }

    /// Makes a SKU of one item of the supplier.
    pub async fn sku(&self, sku: &str, offer: &str, spec: Option<&str>) {
        let body =
            json!({ "title": sku, "class": "normal", "sources": [at_supplier(offer, spec)] });
        let (status, body) = self.call("PUT", &format!("/v1/skus/{sku}"), Some(body)).await;
        assert!(status < 300, "{body}");
    }

    /// Has the supplier's feed read and waits until it is.
    pub async fn sync(&self) {
        self.idle().await;
        // A reading of the same instant changes nothing.
        self.advance_to(self.now() + Span::secs(1)).await;
        let (status, body) = self.post("/v1/suppliers/s1688/sync", json!({})).await;
        assert!(status == 202 || status == 409, "{body}");
        self.idle().await;
    }

    /// The shoe of size 42 as `SHOE`, and its figure read.
    pub async fn with_shoe(self) -> World {
        self.sku("SHOE", SHOE, Some(SIZE_42)).await;
        self.sync().await;
        self
    }

    /// Makes a SKU of the supplier's item, after so many units of our own.
    pub async fn mixed_sku(&self, sku: &str, offer: &str, shelf: i64) {
        let body = json!({ "title": sku, "class": "normal", "sources": [
            { "source": "main", "kind": "warehouse", "buffer": 0 },
            { "source": "s1688", "kind": "supplier", "offer_id": offer, "min_quantity": 1,
                "pack_size": 1, "buffer": 0 },
        ] });
        let (status, body) = self.call("PUT", &format!("/v1/skus/{sku}"), Some(body)).await;
        assert!(status < 300, "{body}");
        let count = json!({ "source": "main", "delta": shelf, "reason": "count" });
        let path = format!("/v1/skus/{sku}/stock");
        let (status, body) = self.post_keyed(&path, sku, count).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Each offer as a SKU of the same name, and its figure read.
    pub async fn with_skus(self, offers: &[&str]) -> World {
        for offer in offers {
            self.sku(offer, offer, None).await;
        }
        self.sync().await;
        self
    }

    /// An order of lines (SKU, quantity) at 10.00 each, not yet posted.
    pub fn basket(&self, lines: &[(&str, i64)]) -> Value {
        let n = self.placed.fetch_add(1, Ordering::SeqCst);
        basket(&format!("W-{n}"), lines)
    }

    /// A basket with the money for it.
    pub fn paid_basket(&self, lines: &[(&str, i64)]) -> Value {
        let n = self.placed.fetch_add(1, Ordering::SeqCst);
        paid_basket(&format!("W-{n}"), lines)
    }

    /// Posts a basket; the order's id.
    pub async fn post_order(&self, basket: Value) -> String {
        let (status, body) = self.post("/v1/orders", basket).await;
        assert_eq!(status, 201, "{body}");
        body["id"].as_str().expect("an id").to_owned()
    }

    /// A paid order of one line.
    pub async fn buy(&self, sku: &str, quantity: i64) -> String {
        self.post_order(self.paid_basket(&[(sku, quantity)])).await
    }

    pub async fn order(&self, id: &str) -> Value {
        self.get(&format!("/v1/orders/{id}")).await
    }

    pub async fn state(&self, id: &str) -> String {
        self.order(id).await["state"].as_str().expect("text").to_owned()
    }

    /// Waits until an order is in a state.
    pub async fn until_state(&self, id: &str, state: &str) {
        let what = format!("{id} is {state}");
        self.until(&what, async |w| w.state(id).await == state).await;
    }

    /// Waits until the order's last purchase is in a state.
    pub async fn until_purchase(&self, id: &str, state: &str) {
        let what = format!("the purchase of {id} is {state}");
        self.until(&what, async |w| w.purchase(id).await["state"] == state).await;
    }

    /// The order's last purchase, or null.
    pub async fn purchase(&self, id: &str) -> Value {
        let order = self.order(id).await;
        order["purchase_orders"].as_array().and_then(|p| p.last().cloned()).unwrap_or(Value::Null)
    }

    /// The reference of an order's purchase.
    pub fn reference(order: &str, generation: u32) -> String {
        format!("{order}-s1688-{generation}")
    }

    /// The supplier's order under a reference; there must be one, open or not.
    pub fn upstream(&self, order: &str, generation: u32) -> u64 {
        let found = self.sim.orders_of(&World::reference(order, generation));
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].id
    }

    /// Waits until the simulator has had `more` calls than `before`.
    pub async fn until_called(&self, api: Api, before: u64) {
        self.until("a call", async |w| w.sim.calls(api) > before).await;
    }

    pub fn script(&self, api: Api, faults: &[Fault]) {
        for fault in faults {
            self.sim.script(api, fault.clone()).expect("a fault");
        }
    }

    /// From now on every call of `api` meets this fault; with `None` none does.
    pub fn always(&self, api: Api, fault: Option<Fault>) {
        let chances = fault.into_iter().map(|fault| Chance { chance: 1.0, fault }).collect();
        self.sim.change(|s| s.conduct_mut(api).chances = chances).expect("settings");
    }

    /// Each alert of a kind: subject and whether it is open, oldest first.
    pub async fn alerts(&self, kind: &str) -> Vec<(String, bool)> {
        let sql = "SELECT subject, closed_at IS NULL FROM alerts WHERE kind = $1 ORDER BY id";
        self.home.tables.rows(sql, &[kind]).await
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.home.number(sql).await
    }

    /// What an order's refunds come to, and how many there are.
    pub async fn refunded(&self, id: &str) -> (i64, i64) {
        let sql = "SELECT count(*), CAST(coalesce(sum(amount), 0) AS BIGINT) FROM refunds
            WHERE order_id = $1";
        self.home.tables.rows(sql, &[id]).await[0]
    }
}

/// A supplier's item as a SKU's source.
pub fn at_supplier(offer: &str, spec: Option<&str>) -> Value {
    json!({ "source": "s1688", "kind": "supplier", "offer_id": offer, "spec_id": spec,
        "cost": "10.00", "currency": "CNY", "min_quantity": 1, "pack_size": 1, "buffer": 0 })
}

/// An order of lines (SKU, quantity) at 10.00 each, with an address.
pub fn basket(external_id: &str, lines: &[(&str, i64)]) -> Value {
    let line = |(sku, quantity): &(&str, i64)| json!({ "sku": sku, "quantity": quantity, "unit_price": "10.00" });
    json!({
        "channel": "web", "external_id": external_id, "currency": "USD",
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
        "ship_to": { "name": "张三", "phone": "13800138000", "country": "CN", "province": "浙江省",
            "city": "杭州市", "district": "西湖区", "address": "文一西路 969 号" },
    })
}

/// A basket with the money for it.
pub fn paid_basket(external_id: &str, lines: &[(&str, i64)]) -> Value {
    let mut basket = basket(external_id, lines);
    let units: i64 = lines.iter().map(|(_, quantity)| quantity).sum();
    let id = format!("pay-{external_id}");
    basket["payment"] = json!({ "id": id, "amount": format!("{}.00", units * 10) });
    basket
}

/// The item of an offer without variants.
pub fn item(offer: &str) -> Item {
    Item { offer_id: offer.into(), spec_id: None }
}

pub fn shoe() -> Item {
    Item { offer_id: SHOE.into(), spec_id: Some(SIZE_42.into()) }
}
