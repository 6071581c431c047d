//! For tests of the kinds: an engine that follows a script, a supplier and a provider that answer
//! from queues, and a lease that lasts. Each notes what it was asked, so that a test can compare the
//! whole conversation.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::run::{Core, Lease, Run, Stop};
use super::{Answer, Deps, Handler, Kinds};
use crate::clock::{Clock, Span, Timestamp};
use crate::coordination::{Coordination, Options};
use crate::domain::command::{Command, RefundAnswer};
use crate::domain::job::Job;
use crate::domain::names::{RefundId, SourceId};
use crate::domain::outcome::Outcome;
use crate::domain::policy::{Policy, Terms};
use crate::domain::supply::{
    Created, Fault, Figure, Item, Preview, PurchaseRequest, Reading, UpstreamOrder,
};
use crate::engine::{Committed, Envelope, Error, Fence, Reply};
use crate::refunds::{Provider, Request};
use crate::settings::Percent;
use crate::suppliers::Supplier;

/// Where all tests start.
pub const START: Timestamp = Timestamp::from_secs(1_800_000_000);
pub const FENCE: Fence = Fence { job: 7, token: 3 };

/// One thing that happened, in order: what was asked of whom.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Command(Command),
    Ask(Item),
    Feed(usize),
    Preview(String),
    Create(String),
    LookUp(String),
    Order(String),
    Cancel(String),
    Make(Request),
    RefundLookUp(RefundId),
}

/// Answers by script, and a record of the conversation.
#[derive(Default)]
pub struct Stage {
    pub said: Mutex<Vec<Said>>,
    pub outcomes: Mutex<VecDeque<Result<Outcome, Error>>>,
    pub asks: Mutex<VecDeque<Result<Reading, Fault>>>,
    pub feeds: Mutex<VecDeque<Result<Vec<Reading>, Fault>>>,
    pub previews: Mutex<VecDeque<Result<Preview, Fault>>>,
    pub creates: Mutex<VecDeque<Result<Created, Fault>>>,
    pub look_ups: Mutex<VecDeque<Result<Vec<UpstreamOrder>, Fault>>>,
    pub orders: Mutex<VecDeque<Result<UpstreamOrder, Fault>>>,
    pub cancels: Mutex<VecDeque<Result<(), Fault>>>,
    pub refunds: Mutex<VecDeque<RefundAnswer>>,
    /// Moved by that much at each question to the supplier.
    pub clock: Mutex<Option<(Clock, Span)>>,
}

fn next<T>(queue: &Mutex<VecDeque<T>>, what: &str) -> T {
    let mut queue = queue.lock().expect("not poisoned");
    queue.pop_front().unwrap_or_else(|| panic!("nothing scripted for {what}"))
}

impl Stage {
    pub fn say(&self, said: Said) {
        self.said.lock().expect("not poisoned").push(said);
        let outside =
            !matches!(self.said.lock().expect("not poisoned").last(), Some(Said::Command(_)));
        if let Some((clock, by)) = &*self.clock.lock().expect("not poisoned")
            && outside
        {
            clock.advance(*by);
        }
    }

    pub fn will(&self, outcome: Outcome) {
        self.outcomes.lock().expect("not poisoned").push_back(Ok(outcome));
    }

    pub fn said(&self) -> Vec<Said> {
        self.said.lock().expect("not poisoned").clone()
    }
}

#[async_trait]
impl Core for Stage {
    async fn submit(&self, envelope: Envelope) -> Result<Reply, Error> {
        assert_eq!(envelope.fence, Some(FENCE), "every command is fenced");
        self.say(Said::Command(envelope.command));
        next(&self.outcomes, "a command").map(Reply::Outcome)
    }
    fn commits(&self) -> broadcast::Receiver<Committed> {
        broadcast::channel(1).1
    }
}

#[async_trait]
impl Supplier for Stage {
    async fn feed(&self, items: &[Item]) -> Result<Vec<Reading>, Fault> {
        self.say(Said::Feed(items.len()));
        next(&self.feeds, "feed")
    }
    async fn ask(&self, item: &Item) -> Result<Reading, Fault> {
        self.say(Said::Ask(item.clone()));
        next(&self.asks, "ask")
    }
    async fn preview(&self, purchase: &PurchaseRequest) -> Result<Preview, Fault> {
        self.say(Said::Preview(purchase.reference.clone()));
        next(&self.previews, "preview")
    }
    async fn create(&self, purchase: &PurchaseRequest) -> Result<Created, Fault> {
        self.say(Said::Create(purchase.reference.clone()));
        next(&self.creates, "create")
    }
    async fn look_up(&self, reference: &str) -> Result<Vec<UpstreamOrder>, Fault> {
        self.say(Said::LookUp(reference.to_owned()));
        next(&self.look_ups, "look_up")
    }
    async fn order(&self, supplier_order_id: &str) -> Result<UpstreamOrder, Fault> {
        self.say(Said::Order(supplier_order_id.to_owned()));
        next(&self.orders, "order")
    }
    async fn cancel(&self, supplier_order_id: &str) -> Result<(), Fault> {
        self.say(Said::Cancel(supplier_order_id.to_owned()));
        next(&self.cancels, "cancel")
    }
}

#[async_trait]
impl Provider for Stage {
    async fn make(&self, request: &Request) -> RefundAnswer {
        self.say(Said::Make(request.clone()));
        next(&self.refunds, "make")
    }
    async fn look_up(&self, refund: &RefundId) -> RefundAnswer {
        self.say(Said::RefundLookUp(refund.clone()));
        next(&self.refunds, "refund look-up")
    }
    fn timeout(&self) -> Duration {
        Duration::from_secs(15)
    }
}

/// A lease that never ends.
pub struct Endless;

#[async_trait]
impl Lease for Endless {
    fn fence(&self) -> Fence {
        FENCE
    }
    async fn cover(&self, _: Span) -> Result<(), Stop> {
        Ok(())
    }
}

/// A lease that somebody else has.
pub struct Lost;

#[async_trait]
impl Lease for Lost {
    fn fence(&self) -> Fence {
        FENCE
    }
    async fn cover(&self, _: Span) -> Result<(), Stop> {
        Err(Stop::Retry("the lease was taken over".into()))
    }
}

/// A lease that covers so many calls, and that somebody else has then.
pub struct LostAfter(AtomicUsize);

impl LostAfter {
    pub fn covering(calls: usize) -> LostAfter {
        LostAfter(AtomicUsize::new(calls))
    }
}

#[async_trait]
impl Lease for LostAfter {
    fn fence(&self) -> Fence {
        FENCE
    }
    async fn cover(&self, span: Span) -> Result<(), Stop> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_ok() { Ok(()) } else { Lost.cover(span).await }
    }
}

pub fn policy() -> Policy {
    let suppliers = [("s1".into(), Terms::default())].into();
    Policy { refunds_by_provider: true, suppliers, ..Policy::default() }
}

pub fn item() -> Item {
    Item { offer_id: "61".into(), spec_id: None }
}

pub fn reading(figure: Figure, at: Timestamp) -> Reading {
    Reading { item: item(), figure, stated_at: None, sent_at: at, received_at: at }
}

pub fn unanswered() -> Fault {
    Fault::Unknown { code: "timeout".into(), message: "no answer".into(), retry_after: None }
}

/// For kinds that use no database.
fn no_db() -> crate::storage::Db {
    let options = crate::storage::Options::default();
    crate::storage::Db::open("sqlite:///nonexistent/none.db", &options).expect("opens lazily")
}

/// Everything that a job works with, on one stage, at [`START`].
pub fn deps(stage: &Arc<Stage>) -> Deps {
    let supplier: Arc<dyn Supplier> = Arc::<Stage>::clone(stage);
    Deps {
        db: no_db(),
        engine: Arc::<Stage>::clone(stage),
        clock: Clock::manual(START),
        coordination: Coordination::memory(&Clock::manual(START), &Options::default()),
        policy: Arc::new(policy()),
        suppliers: Arc::new(BTreeMap::from([(SourceId::from("s1"), supplier)])),
        suspect_drop: Arc::new(BTreeMap::from([(SourceId::from("s1"), Percent(30))])),
        refunds: Arc::<Stage>::clone(stage),
        channels: Arc::from(Vec::new()),
        lease: Span::secs(30),
        max_attempts: 20,
        sweep_interval: Span::minutes(1),
    }
}

/// Runs a job once under a lease.
pub async fn run_under(deps: &Deps, job: &Job, lease: &dyn Lease) -> Result<Answer, Stop> {
    Kinds.run(&Run { deps, job, lease }).await
}
