//! A shop for the jobs' tests: the engine on a real database, a supplier's feed and two channels in
//! the test's hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stockhold::alerts::{Channel, Error as ChannelError, Notice};
use stockhold::clock::{Clock, Span};
use stockhold::coordination::{Coordination, Options};
use stockhold::domain::alert::AlertKind;
use stockhold::domain::command::{Command, ImportRow, Placement, PlacementLine, StockChange};
use stockhold::domain::job::Job;
use stockhold::domain::names::{LevelId, OrderId, SourceId};
use stockhold::domain::order::{Order, ShortPolicy};
use stockhold::domain::outcome::Outcome;
use stockhold::domain::sku::{Class, Kind, Paused, Sku, Source, Watermark};
use stockhold::domain::stock::Level;
use stockhold::domain::supply::{
    Created, Fault, Figure, Item, Preview, PurchaseRequest, Reading, UpstreamOrder,
};
use stockhold::engine::{Engine, Envelope, Parts, Reply};
use stockhold::ids::Ids;
use stockhold::jobs::{Deps, Kinds, Runner};
use stockhold::refunds::Manual;
use stockhold::settings::Percent;
use stockhold::storage::alerts::Alert;
use stockhold::storage::jobs::JobInfo;
use stockhold::storage::{self, pages};
use stockhold::suppliers::Supplier;
use tokio::sync::Notify;

use super::{LEASE, Running, START, policy};
use crate::conformance::TestDb;
/// A supplier with a feed, set by the test.
pub struct Feed {
    clock: Clock,
    pub figures: Mutex<BTreeMap<String, Figure>>,
    pub down: Mutex<bool>,
}

#[async_trait]
impl Supplier for Feed {
    async fn feed(&self, items: &[Item]) -> Result<Vec<Reading>, Fault> {
        if *self.down.lock().expect("not poisoned") {
            return Err(unknown());
        }
        let figures = self.figures.lock().expect("not poisoned");
        let now = self.clock.now();
        let readings = items.iter().map(|item| Reading {
            item: item.clone(),
            figure: figures.get(&item.offer_id).cloned().unwrap_or(Figure::Missing),
            stated_at: None,
            sent_at: now,
            received_at: now,
        });
        Ok(readings.collect())
    }
    async fn ask(&self, _: &Item) -> Result<Reading, Fault> {
        Err(unknown())
    }
    async fn preview(&self, _: &PurchaseRequest) -> Result<Preview, Fault> {
        Err(unknown())
    }
    async fn create(&self, _: &PurchaseRequest) -> Result<Created, Fault> {
        Err(unknown())
    }
    async fn look_up(&self, _: &str) -> Result<Vec<UpstreamOrder>, Fault> {
        Err(unknown())
    }
    async fn order(&self, _: &str) -> Result<UpstreamOrder, Fault> {
        Err(unknown())
    }
    async fn cancel(&self, _: &str) -> Result<(), Fault> {
        Err(unknown())
    }
}

fn unknown() -> Fault {
    Fault::Unknown { code: "down".into(), message: "no answer".into(), retry_after: None }
}

/// A channel that fails as often as it is told to.
pub struct Told {
    name: &'static str,
    pub failing: Mutex<usize>,
    /// (id, event, kind)
    pub told: Mutex<Vec<(String, String, String)>>,
}

#[async_trait]
impl Channel for Told {
    fn name(&self) -> &str {
        self.name
    }
    async fn deliver(&self, notice: &Notice) -> Result<(), ChannelError> {
        let mut failing = self.failing.lock().expect("not poisoned");
        if *failing > 0 {
            *failing -= 1;
            return Err(ChannelError("answered 500".into()));
        }
        let told = (notice.id.clone(), notice.event.to_string(), notice.data.kind.clone());
        self.told.lock().expect("not poisoned").push(told);
        Ok(())
    }
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// Lets a test keep a channel that the program owns.
struct Shared(Arc<Told>);

#[async_trait]
impl Channel for Shared {
    fn name(&self) -> &str {
        self.0.name
    }
    async fn deliver(&self, notice: &Notice) -> Result<(), ChannelError> {
        self.0.deliver(notice).await
    }
    fn timeout(&self) -> Duration {
        self.0.timeout()
    }
}

/// The engine and the jobs, with a warehouse `main` and a supplier `s1`.
pub struct Shop {
    pub test: TestDb,
    pub clock: Clock,
    pub engine: Engine,
    pub deps: Deps,
    pub feed: Arc<Feed>,
    pub channels: [Arc<Told>; 2],
    running: Option<Running>,
}

impl Shop {
    pub fn on(test: TestDb) -> Shop {
        let clock = Clock::manual(START);
        let (engine, writer) = Engine::new(Parts {
            db: test.db.clone(),
            clock: clock.clone(),
            ids: Ids::seeded(1),
            policy: Arc::new(policy()),
            max_queued: 1_000,
            epoch: stockhold::storage::epochs::Epoch::first(),
            on_commit: Arc::new(|_| {}),
        });
        tokio::spawn(writer);
        let feed = Arc::new(Feed {
            clock: clock.clone(),
            figures: Mutex::default(),
            down: Mutex::new(false),
        });
        let channels = ["a", "b"]
            .map(|name| Arc::new(Told { name, failing: Mutex::new(0), told: Mutex::default() }));
        let supplier: Arc<dyn Supplier> = Arc::<Feed>::clone(&feed);
        let s1 = SourceId::from("s1");
        let deps = Deps {
            db: test.db.clone(),
            engine: Arc::new(engine.clone()),
            clock: clock.clone(),
            coordination: Coordination::memory(&clock, &Options::default()),
            policy: Arc::new(policy()),
            suppliers: Arc::new(BTreeMap::from([(s1.clone(), supplier)])),
            suspect_drop: Arc::new(BTreeMap::from([(s1, Percent(30))])),
            refunds: Arc::new(Manual),
            channels: channels
                .iter()
                .map(|c| -> Box<dyn Channel> { Box::new(Shared(Arc::clone(c))) })
                .collect(),
            lease: LEASE,
            max_attempts: 20,
            sweep_interval: Span::minutes(1),
        };
        Shop { test, clock, engine, deps, feed, channels, running: None }
    }

    /// Starts a runner of the program's own kinds, without schedules.
    pub fn run(&mut self) {
        let deps = self.deps.clone();
        let runner = Runner::new(deps, Arc::new(Kinds), "a".to_owned(), Arc::new(Notify::new()));
        self.running = Some(Running::start(runner));
    }

    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }

    pub async fn submit(&self, command: Command) -> Outcome {
        match self.engine.submit(Envelope::from(command)).await.expect("accepted") {
            Reply::Outcome(outcome) => outcome,
            Reply::Kept(kept) => panic!("{kept:?}"),
        }
    }

    pub async fn owe(&self, job: Job) {
        let request = stockhold::domain::job::JobRequest { job, run_at: self.clock.now() };
        let now = self.clock.now();
        let owed = self.test.db.transact(move |tx| {
            Box::pin(async move { storage::jobs::owe(tx, vec![request], now).await })
        });
        owed.await.expect("owed");
    }

    /// Owes a job and waits until all that is due is done.
    pub async fn do_now(&self, job: Job) {
        self.owe(job).await;
        self.settle().await;
    }

    /// Waits until no job is due or running.
    pub async fn settle(&self) {
        for _ in 0..1_000 {
            let now = self.clock.now();
            let busy = |job: &JobInfo| {
                job.state == "running" || (job.state == "ready" && job.run_at <= now)
            };
            if !self.jobs().await.iter().any(busy) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("still busy: {:?}", self.jobs().await);
    }

    pub async fn jobs(&self) -> Vec<JobInfo> {
        let read = self.test.db.read(|tx| {
            Box::pin(async move { storage::jobs::list(tx, None, None, None, 500).await })
        });
        read.await.expect("listed")
    }

    /// A SKU of which the warehouse has so many.
    pub async fn stock(&self, sku: &str, quantity: i64, watermark: Watermark) {
        let main = SourceId::from("main");
        let source = Source {
            source: main.clone(),
            kind: Kind::Warehouse,
            level: LevelId::warehouse(&main, &sku.into()),
            item: None,
            cost: None,
            currency: None,
            min_quantity: 1,
            pack_size: 1,
            buffer: None,
        };
        let row = ImportRow {
            line: 1,
            sku: self.sku(sku, source, watermark),
            quantities: vec![(main, quantity)],
        };
        self.submit(Command::Import { rows: vec![row], set_quantities: false }).await;
    }

    /// A SKU for each of the supplier's offers.
    pub async fn offers(&self, figures: Vec<(&str, Figure)>) {
        let s1 = SourceId::from("s1");
        for (offer, figure) in figures {
            let item = Item { offer_id: offer.into(), spec_id: None };
            let source = Source {
                source: s1.clone(),
                kind: Kind::Supplier,
                level: LevelId::supplier(&s1, &item),
                item: Some(item),
                cost: None,
                currency: None,
                min_quantity: 1,
                pack_size: 1,
                buffer: None,
            };
            let never = Watermark { low: Some(0), recover: Some(1) };
            let sku = self.sku(&format!("SKU-{offer}"), source, never);
            self.submit(Command::PutSku(Box::new(sku))).await;
            self.feed.figures.lock().expect("not poisoned").insert(offer.into(), figure);
        }
    }

    fn sku(&self, key: &str, source: Source, watermark: Watermark) -> Sku {
        Sku {
            key: key.into(),
            title: key.into(),
            class: Class::Normal,
            watermark,
            sources: vec![source],
            paused: Paused::default(),
        }
    }

    pub async fn count_to(&self, sku: &str, to: i64) {
        let change = StockChange::Set { to, if_version: None, release_newest: false };
        let command = Command::ChangeStock {
            sku: sku.into(),
            source: "main".into(),
            change,
            reason: "count".into(),
        };
        self.submit(command).await;
    }

    pub async fn place(&self, id: &str, sku: &str, quantity: i64) -> Order {
        let placement = Placement {
            id: id.into(),
            channel: "web".into(),
            external_id: id.into(),
            content_hash: id.into(),
            idempotency: None,
            currency: "USD".into(),
            lines: vec![PlacementLine { sku: sku.into(), quantity, unit_price: 1999 }],
            shipping: 0,
            discount: 0,
            customer: None,
            ship_to: None,
            payment: None,
            short_policy: ShortPolicy::CancelOrder,
        };
        match self.submit(Command::Place(Box::new(placement))).await {
            Outcome::Order { order, .. } => Order::clone(&order),
            other => panic!("{other:?}"),
        }
    }

    pub async fn order(&self, id: &str) -> Order {
        let id = OrderId::from(id);
        let read = self
            .test
            .db
            .read(move |tx| Box::pin(async move { storage::world::orders_by_id(tx, &[id]).await }));
        read.await.expect("read").pop().expect("there")
    }

    pub async fn levels(&self, source: &str) -> Vec<Level> {
        let source = SourceId::from(source);
        let read = self.test.db.read(move |tx| {
            Box::pin(async move { pages::levels_of(tx, &source, None, 100).await })
        });
        read.await.expect("read")
    }

    /// Every alert of a kind, oldest first.
    pub async fn alerts(&self, kind: AlertKind) -> Vec<Alert> {
        let read = self
            .test
            .db
            .read(|tx| Box::pin(async move { storage::alerts::list(tx, false, None, 100).await }));
        let mut alerts: Vec<Alert> = read.await.expect("read");
        alerts.retain(|alert| alert.kind == kind);
        alerts.reverse();
        alerts
    }

    /// What a channel was told of a kind.
    pub fn told(&self, channel: usize, kind: AlertKind) -> Vec<String> {
        let told = self.channels[channel].told.lock().expect("not poisoned");
        told.iter().filter(|t| t.2 == kind.as_str()).map(|t| t.1.clone()).collect()
    }
}
