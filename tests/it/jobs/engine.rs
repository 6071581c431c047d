//! The jobs on the engine and a real database: deadlines, syncs, watermarks, alerts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stockhold::alerts::{Channel, Error as ChannelError, Notice};
use stockhold::clock::{Clock, Span};
use stockhold::domain::alert::AlertKind;
use stockhold::domain::command::{Command, ImportRow, Placement, PlacementLine, StockChange};
use stockhold::domain::job::Job;
use stockhold::domain::names::{LevelId, OrderId, SkuKey, SourceId};
use stockhold::domain::order::{Order, ShortPolicy, State};
use stockhold::domain::outcome::Outcome;
use stockhold::domain::sku::{Class, Kind, Paused, Sku, Source, Watermark};
use stockhold::domain::stock::{Level, Listing};
use stockhold::domain::supply::{
    Created, Fault, Figure, Item, Preview, PurchaseRequest, Reading, UpstreamOrder,
};
use stockhold::engine::{Engine, Envelope, Parts, Reply};
use stockhold::ids::Ids;
use stockhold::jobs::{self, Deps, Kinds, Runner};
use stockhold::refunds::Manual;
use stockhold::settings::Percent;
use stockhold::storage::alerts::Alert;
use stockhold::storage::jobs::JobInfo;
use stockhold::storage::{self, pages};
use stockhold::suppliers::Supplier;
use tokio::sync::Notify;

use super::{LEASE, Running, START, policy};
use crate::conformance::{TestDb, on_both};

on_both!(
    an_unpaid_order_is_ended_by_the_job_of_its_second,
    the_sweep_ends_what_a_lost_deadline_job_did_not,
    one_bad_order_stops_no_other_and_is_told_once,
    a_whole_feed_is_believed,
    a_suspect_feed_changes_nothing_alerts_once_and_can_be_accepted,
    a_feed_that_cannot_be_had_is_read_again_soon,
    an_outage_is_one_alert_until_the_figures_are_fresh_again,
    a_swinging_stock_makes_three_events_and_the_same_figure_none,
    an_alert_that_stays_open_is_repeated_once_a_day,
    a_dead_job_is_told_until_it_is_retried,
    a_channel_that_fails_is_tried_again_alone,
    stock_that_runs_dry_is_seen_after_the_commit_without_a_schedule,
    each_supplier_is_synced_at_the_start_whatever_the_slots_say,
    the_levels_of_skus_are_found_by_page_and_by_level,
);

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
            look_up_first: false,
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
            Outcome::Order { order, .. } => *order,
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

fn none() -> Watermark {
    Watermark { low: Some(0), recover: Some(1) }
}

async fn an_unpaid_order_is_ended_by_the_job_of_its_second(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 3, none()).await;
    shop.run();
    shop.place("o1", "SHOE", 2).await;
    assert_eq!(shop.levels("main").await[0].held, 2);
    shop.clock.advance(Span::minutes(30) - Span::micros(1));
    shop.settle().await;
    assert_eq!(shop.order("o1").await.state, State::PendingPayment);
    shop.clock.advance(Span::micros(1));
    shop.settle().await;
    assert_eq!(shop.order("o1").await.state, State::Expired);
    assert_eq!(shop.levels("main").await[0].held, 0);
    shop.stop().await;
}

async fn the_sweep_ends_what_a_lost_deadline_job_did_not(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 3, none()).await;
    shop.place("o1", "SHOE", 2).await;
    shop.place("o2", "SHOE", 1).await;
    assert_eq!(shop.test.run("DELETE FROM jobs").await, Ok(1));
    shop.clock.advance(Span::hours(1));
    shop.run();
    shop.do_now(Job::Sweep).await;
    assert_eq!(shop.order("o1").await.state, State::Expired);
    assert_eq!(shop.order("o2").await.state, State::Expired);
    assert_eq!(shop.levels("main").await[0].held, 0);
    shop.stop().await;
}

async fn one_bad_order_stops_no_other_and_is_told_once(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 10, none()).await;
    for id in ["o1", "o2", "o3"] {
        shop.place(id, "SHOE", 1).await;
    }
    let spoil = "UPDATE orders SET customer = '{' WHERE id = 'o2'";
    assert_eq!(shop.test.run(spoil).await, Ok(1));
    shop.run();
    shop.clock.advance(Span::minutes(31));
    shop.settle().await;
    assert_eq!(shop.order("o1").await.state, State::Expired);
    assert_eq!(shop.order("o3").await.state, State::Expired);
    assert_eq!(shop.levels("main").await[0].held, 1);

    shop.do_now(Job::Sweep).await;
    assert_eq!(shop.alerts(AlertKind::ReleaseFailing).await, [], "only for a minute so far");
    for _ in 0..3 {
        shop.clock.advance(Span::minutes(2));
        shop.do_now(Job::Sweep).await;
    }
    let failing = shop.alerts(AlertKind::ReleaseFailing).await;
    assert_eq!(failing.len(), 1);
    assert_eq!(failing[0].detail, "1 orders are past their deadline and cannot be ended: o2");

    let mend = "UPDATE orders SET customer = NULL WHERE id = 'o2'";
    assert_eq!(shop.test.run(mend).await, Ok(1));
    shop.do_now(Job::Sweep).await;
    assert_eq!(shop.order("o2").await.state, State::Expired);
    assert!(shop.alerts(AlertKind::ReleaseFailing).await[0].closed_at.is_some());
    shop.stop().await;
}

const OFFERS: [&str; 10] = ["11", "12", "13", "14", "15", "16", "17", "18", "19", "20"];

async fn believed(shop: &Shop) -> Vec<(i64, Listing)> {
    shop.levels("s1").await.into_iter().map(|l| (l.quantity, l.listing)).collect()
}

async fn a_whole_feed_is_believed(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.feed.figures.lock().expect("ok").insert("12".into(), Figure::Listed(0));
    shop.feed.figures.lock().expect("ok").insert("13".into(), Figure::Missing);
    shop.feed.figures.lock().expect("ok").insert("14".into(), Figure::Unknown("torn".into()));
    shop.run();
    shop.do_now(Job::Sync { supplier: "s1".into() }).await;
    let believed = believed(&shop).await;
    assert_eq!(
        believed[..4],
        [(5, Listing::Listed), (0, Listing::Listed), (0, Listing::Missing), (0, Listing::Unread)]
    );
    assert_eq!(shop.alerts(AlertKind::FeedSuspect).await, []);
    shop.stop().await;
}

async fn a_suspect_feed_changes_nothing_alerts_once_and_can_be_accepted(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.run();
    let sync = Job::Sync { supplier: "s1".into() };
    shop.do_now(sync.clone()).await;
    for gone in ["11", "12", "13", "14"] {
        shop.feed.figures.lock().expect("ok").remove(gone);
    }
    for _ in 0..3 {
        shop.clock.advance(Span::minutes(10));
        shop.do_now(sync.clone()).await;
        assert_eq!(believed(&shop).await, [(5, Listing::Listed); 10]);
    }
    let alerts = shop.alerts(AlertKind::FeedSuspect).await;
    assert_eq!(alerts.len(), 1);
    assert_eq!(
        alerts[0].detail,
        "4 of 10 listed items are gone, more than 30 %; 6 listed, 4 missing, 0 unknown"
    );
    assert!(alerts[0].closed_at.is_none());

    shop.do_now(Job::AcceptFeed { supplier: "s1".into() }).await;
    let missing = believed(&shop).await.iter().filter(|l| l.1 == Listing::Missing).count();
    assert_eq!(missing, 4);
    assert!(shop.alerts(AlertKind::FeedSuspect).await[0].closed_at.is_some());

    // From here on the six are the whole feed.
    shop.clock.advance(Span::minutes(10));
    shop.do_now(sync).await;
    assert_eq!(shop.alerts(AlertKind::FeedSuspect).await.len(), 1);
    shop.stop().await;
}

async fn a_feed_that_cannot_be_had_is_read_again_soon(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(vec![("11", Figure::Listed(5))]).await;
    *shop.feed.down.lock().expect("ok") = true;
    shop.run();
    let sync = Job::Sync { supplier: "s1".into() };
    shop.do_now(sync.clone()).await;
    assert_eq!(shop.alerts(AlertKind::FeedSuspect).await.len(), 1);
    let again = shop.jobs().await.into_iter().find(|j| j.key == sync.key()).expect("there");
    // A fifth of ten minutes, but at most one.
    assert_eq!(again.run_at.since(shop.clock.now()), Span::minutes(1));

    *shop.feed.down.lock().expect("ok") = false;
    shop.clock.advance(Span::minutes(1));
    shop.settle().await;
    assert_eq!(believed(&shop).await, [(5, Listing::Listed)]);
    assert!(shop.alerts(AlertKind::FeedSuspect).await[0].closed_at.is_some());
    shop.stop().await;
}

async fn an_outage_is_one_alert_until_the_figures_are_fresh_again(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.run();
    let sync = Job::Sync { supplier: "s1".into() };
    shop.do_now(sync.clone()).await;
    // Fresh until L + 1.2 × I = 13 minutes after the as_of, which is a minute before the reading.
    shop.clock.advance(Span::minutes(12));
    shop.do_now(Job::Watermark).await;
    assert_eq!(shop.alerts(AlertKind::FeedStale).await, []);
    for _ in 0..3 {
        shop.clock.advance(Span::minutes(10));
        shop.do_now(Job::Watermark).await;
    }
    let stale = shop.alerts(AlertKind::FeedStale).await;
    assert_eq!(stale.len(), 1);
    assert_eq!(stale[0].subject, "s1");
    assert!(stale[0].detail.starts_with("10 of 10 items"), "{}", stale[0].detail);
    shop.do_now(sync).await;
    assert!(shop.alerts(AlertKind::FeedStale).await[0].closed_at.is_some());
    assert_eq!(shop.told(0, AlertKind::FeedStale), ["opened", "closed"]);
    shop.stop().await;
}

async fn a_swinging_stock_makes_three_events_and_the_same_figure_none(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 10, Watermark { low: Some(6), recover: Some(8) }).await;
    shop.run();
    for left in [6, 5, 6, 4, 6, 5, 6, 8, 5] {
        shop.clock.advance(Span::minutes(10));
        shop.count_to("SHOE", left).await;
        shop.do_now(Job::Watermark).await;
    }
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened", "closed", "opened"]);
    let opened = shop.alerts(AlertKind::LowStock).await;
    let times: Vec<i64> = opened.iter().map(|a| a.opened_at.since(START).as_secs() / 600).collect();
    assert_eq!(times, [2, 9], "at the first 5 and at the last");

    for _ in 0..20 {
        shop.count_to("SHOE", 5).await;
        shop.do_now(Job::Watermark).await;
    }
    assert_eq!(shop.told(0, AlertKind::LowStock).len(), 3);
    shop.stop().await;
}

async fn an_alert_that_stays_open_is_repeated_once_a_day(test: TestDb) {
    let mut shop = Shop::on(test);
    shop.stock("SHOE", 2, Watermark { low: Some(5), recover: Some(8) }).await;
    shop.run();
    for _ in 0..49 {
        shop.do_now(Job::Watermark).await;
        shop.clock.advance(Span::hours(1));
    }
    // Opened at hour 0; hours 24 and 48 fall into the 49 looks.
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened", "reminder", "reminder"]);
    let ids: std::collections::BTreeSet<String> = {
        let told = shop.channels[0].told.lock().expect("ok");
        told.iter().map(|t| t.0.clone()).collect()
    };
    assert_eq!(ids.len(), 3, "{ids:?}");
    shop.stop().await;
}

async fn a_dead_job_is_told_until_it_is_retried(test: TestDb) {
    let mut shop = Shop::on(test);
    let gone = Job::Recheck { purchase: "o1-gone-1".into(), lost_at: START, step: 0 };
    shop.run();
    shop.do_now(gone.clone()).await;
    // Another was parked by its payload, before any handler saw it.
    shop.owe(Job::Refund { refund: "r1".into() }).await;
    let spoil = "UPDATE jobs SET state = 'dead', payload = '{}' WHERE kind = 'refund'";
    shop.stop().await;
    shop.test.run(spoil).await.expect("spoilt");
    assert_eq!(shop.alerts(AlertKind::JobDead).await.len(), 1);
    shop.run();
    shop.do_now(Job::Watermark).await;
    let open = shop.alerts(AlertKind::JobDead).await;
    let open: Vec<(&str, bool)> =
        open.iter().map(|a| (a.subject.as_str(), a.closed_at.is_none())).collect();
    assert_eq!(open, [(gone.key().as_str(), true), ("refund:r1", true)]);

    shop.test.run("DELETE FROM jobs WHERE state = 'dead'").await.expect("deleted");
    shop.do_now(Job::Watermark).await;
    let open = shop.alerts(AlertKind::JobDead).await;
    assert!(open.iter().all(|alert| alert.closed_at.is_some()), "{open:?}");
    shop.stop().await;
}

async fn a_channel_that_fails_is_tried_again_alone(test: TestDb) {
    let mut shop = Shop::on(test);
    *shop.channels[1].failing.lock().expect("ok") = 2;
    shop.stock("SHOE", 2, Watermark { low: Some(5), recover: Some(8) }).await;
    shop.run();
    shop.do_now(Job::Watermark).await;
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened"]);
    assert_eq!(shop.told(1, AlertKind::LowStock), Vec::<String>::new());
    let waiting = shop.jobs().await.into_iter().find(|j| j.kind == "tell").expect("there");
    assert_eq!(waiting.last_error.as_deref(), Some("b: answered 500"));
    for _ in 0..2 {
        shop.clock.advance(Span::secs(10));
        shop.settle().await;
    }
    assert_eq!(shop.told(0, AlertKind::LowStock), ["opened"]);
    assert_eq!(shop.told(1, AlertKind::LowStock), ["opened"]);
    shop.stop().await;
}

async fn stock_that_runs_dry_is_seen_after_the_commit_without_a_schedule(test: TestDb) {
    let shop = Shop::on(test);
    shop.stock("SHOE", 10, Watermark { low: Some(5), recover: Some(8) }).await;
    let stopping = tokio_util::sync::CancellationToken::new();
    let tasks = jobs::tasks(&shop.deps, "a".to_owned(), &stopping);
    let tasks: Vec<_> = tasks.into_iter().map(|(_, task)| tokio::spawn(task)).collect();
    // The first round of every schedule.
    tokio::time::sleep(Duration::from_millis(50)).await;
    shop.settle().await;
    // The clock stands still: no slot is due any more.
    shop.place("o1", "SHOE", 6).await;
    let mut told = Vec::new();
    for _ in 0..1_000 {
        told = shop.told(0, AlertKind::LowStock);
        if !told.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(told, ["opened"]);
    assert_eq!(shop.alerts(AlertKind::LowStock).await[0].detail, "4 left, below 5");
    stopping.cancel();
    for task in tasks {
        task.await.expect("joins").expect("ends well");
    }
}

async fn each_supplier_is_synced_at_the_start_whatever_the_slots_say(test: TestDb) {
    let shop = Shop::on(test);
    shop.offers(vec![("11", Figure::Listed(5))]).await;
    // This slot was ticked before the restart.
    let mut before = jobs::schedule::Ticker::new(shop.deps.clone());
    before.tick().await;
    assert!(shop.test.run("DELETE FROM jobs").await.expect("deleted") > 0);
    let stopping = tokio_util::sync::CancellationToken::new();
    let tasks = jobs::tasks(&shop.deps, "a".to_owned(), &stopping);
    let tasks: Vec<_> = tasks.into_iter().map(|(_, task)| tokio::spawn(task)).collect();
    for _ in 0..1_000 {
        if believed(&shop).await == [(5, Listing::Listed)] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(believed(&shop).await, [(5, Listing::Listed)]);
    stopping.cancel();
    for task in tasks {
        task.await.expect("joins").expect("ends well");
    }
}

async fn the_levels_of_skus_are_found_by_page_and_by_level(test: TestDb) {
    let shop = Shop::on(test);
    shop.offers(OFFERS.map(|o| (o, Figure::Listed(5))).to_vec()).await;
    shop.stock("SHOE", 4, none()).await;
    let keys = async |after: Option<&str>, limit| -> Vec<String> {
        let after = after.map(SkuKey::from);
        let read = shop
            .test
            .db
            .read(move |tx| Box::pin(async move { pages::skus(tx, after.as_ref(), limit).await }));
        let page: Vec<(Sku, Vec<Level>)> = read.await.expect("read");
        assert!(page.iter().all(|(sku, levels)| levels.len() == 1 && sku.sources.len() == 1));
        page.into_iter().map(|(sku, _)| sku.key.to_string()).collect()
    };
    assert_eq!(keys(None, 2).await, ["SHOE", "SKU-11"]);
    assert_eq!(keys(Some("SKU-19"), 5).await, ["SKU-20"]);
    assert_eq!(keys(Some("SKU-20"), 5).await, Vec::<String>::new());

    let read = shop.test.db.read(|tx| {
        Box::pin(async move {
            pages::skus_of_levels(tx, &["s1:12:".into(), "main:SHOE".into(), "x:y:".into()]).await
        })
    });
    let found: Vec<(Sku, Vec<Level>)> = read.await.expect("read");
    let found: Vec<(&str, i64)> =
        found.iter().map(|(sku, levels)| (sku.key.as_str(), levels[0].quantity)).collect();
    assert_eq!(found, [("SHOE", 4), ("SKU-12", 0)]);
}
