//! Plays the jobs on simulated time, step by step, as workers would: each call to a supplier takes
//! a while, workers die between any two steps, and one that lost its lease may still hand in the
//! answer that it was waiting for. After every command the promises are checked.

use std::collections::{BTreeMap, BTreeSet};

use stockhold::clock::{Span, Timestamp};
use stockhold::domain::command::{Command, RefundAnswer};
use stockhold::domain::job::Job;
use stockhold::domain::names::{LevelId, OrderId, PurchaseId, RefundId, SourceId};
use stockhold::domain::outcome::{Outcome, PurchaseStep, RefundStep, Refusal};
use stockhold::domain::policy::Policy;
use stockhold::domain::supply::{Fault, Item, PurchaseRequest, Reading};

use super::audit::Audit;
use super::dice::Dice;
use super::memory::Store;
use super::shop::{Fate, Shop, silence};

const LEASE: Span = Span::secs(30);
const TIMEOUT: Span = Span::secs(10);
/// Steps of a purchase in one run.
const ROUNDS: usize = 8;

/// How often (in a hundred) something goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub silent: u32,
    pub lost: u32,
    pub not_made: u32,
    pub late: u32,
    pub refused: u32,
    pub left_out: u32,
    pub dies: u32,
    pub zombie: u32,
    pub refunds: u32,
}

type Answer = Result<Outcome, Refusal>;

#[derive(Clone, Debug)]
enum Stage {
    Start,
    /// Create now, unless the claim has run out.
    Create {
        attempt: i64,
        request: PurchaseRequest,
        until: Timestamp,
    },
    Poll {
        token: i64,
        answer: Result<Reading, Fault>,
        left: Vec<(PurchaseId, String)>,
    },
    Say(Command),
}

#[derive(Clone, Debug)]
struct Task {
    job: Job,
    stage: Stage,
    rounds: usize,
    /// Its lease is lost: another runs the job, and this one only hands in an answer.
    zombie: bool,
}

enum Flow {
    Later(Timestamp, Stage),
    End(Option<Timestamp>),
}

/// The refund provider: one refund for each id, whatever is asked twice.
#[derive(Clone, Debug, Default)]
pub struct Provider {
    pub made: BTreeMap<RefundId, i64>,
}

pub struct Sim {
    pub now: Timestamp,
    pub store: Store,
    pub shops: BTreeMap<SourceId, Shop>,
    pub policy: Policy,
    pub faults: Faults,
    pub dice: Dice,
    pub audit: Audit,
    pub provider: Provider,
    pub sync_every: Span,
    /// Every answer of a saga is handed in once more, to a copy that must not change by it.
    pub twice: bool,
    next_sync: BTreeMap<SourceId, Timestamp>,
    tasks: BTreeMap<(Timestamp, u64), Task>,
    running: BTreeSet<String>,
    count: u64,
    pub steps: u64,
}

impl Sim {
    pub fn new(policy: Policy, shops: BTreeMap<SourceId, Shop>, now: Timestamp, dice: Dice) -> Sim {
        let next_sync = shops.keys().map(|s| (s.clone(), now)).collect();
        Sim {
            now,
            store: Store::default(),
            shops,
            policy,
            faults: Faults::default(),
            dice,
            audit: Audit::default(),
            provider: Provider::default(),
            sync_every: Span::minutes(10),
            twice: false,
            next_sync,
            tasks: BTreeMap::new(),
            running: BTreeSet::new(),
            count: 0,
            steps: 0,
        }
    }

    /// One command, and the promises after it.
    pub fn submit(&mut self, command: &Command) -> Answer {
        self.submit_group(std::slice::from_ref(command)).remove(0)
    }

    /// Several commands in one transaction, and the promises after it.
    pub fn submit_group(&mut self, commands: &[Command]) -> Vec<Answer> {
        self.steps += commands.len() as u64;
        let now = self.now;
        self.shops.values_mut().for_each(|s| s.live(now));
        let answers = self.store.run_group(&self.policy, now, commands);
        if self.twice {
            let done = commands.iter().zip(&answers).filter(|(c, a)| a.is_ok() && is_answer(c));
            // A wish to poll first is no decision yet.
            let done = done.filter(|(_, a)| !matches!(a, Ok(Outcome::PollFirst(_))));
            done.for_each(|(c, _)| same_twice(&self.store, &self.policy, now, c));
        }
        self.audit.after(&self.store, &self.shops, now, commands, &answers);
        answers
    }

    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    pub fn run_until(&mut self, until: Timestamp) {
        while let Some((at, next)) = self.next_event().filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            match next {
                Next::Task(key) => {
                    if let Some(task) = self.tasks.remove(&key) {
                        self.work(task);
                    }
                }
                Next::Job(key) => {
                    if let Some((job, _)) = self.store.jobs.remove(&key) {
                        self.running.insert(key);
                        self.work(Task { job, stage: Stage::Start, rounds: 0, zombie: false });
                    }
                }
                Next::Sync(supplier) => self.sync(&supplier),
            }
            self.audit.idle(&self.store, &self.running, self.now + LEASE);
        }
        self.now = self.now.max(until);
        let now = self.now;
        self.shops.values_mut().for_each(|s| s.live(now));
    }

    fn next_event(&self) -> Option<(Timestamp, Next)> {
        let task = self.tasks.keys().next().map(|k| (k.0, Next::Task(*k)));
        let free = self.store.jobs.iter().filter(|(key, _)| !self.running.contains(*key));
        let job = free.min_by_key(|(_, (_, at))| *at);
        let job = job.map(|(key, (_, at))| (*at, Next::Job(key.clone())));
        let sync = self.next_sync.iter().min_by_key(|(_, at)| **at);
        let sync = sync.map(|(s, at)| (*at, Next::Sync(s.clone())));
        [task, job, sync].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn work(&mut self, mut task: Task) {
        let key = task.job.key();
        if !task.zombie && self.dice.percent(self.faults.dies) {
            self.running.remove(&key);
            return self.store.owe(task.job, self.now + LEASE);
        }
        let answers = matches!(task.stage, Stage::Say(_));
        if answers && !task.zombie && self.dice.percent(self.faults.zombie) {
            self.running.remove(&key);
            self.store.owe(task.job.clone(), self.now + LEASE);
            task.zombie = true;
            let late = self.dice.span(Span::secs(1), Span::minutes(4));
            return self.later(self.now + late, task);
        }
        let flow = match &task.stage {
            Stage::Start => self.start(&task.job),
            Stage::Create { attempt, request, until } => {
                self.create(&task.job, *attempt, request, *until)
            }
            Stage::Poll { token, answer, left } => self.poll(&task.job, *token, answer, left),
            Stage::Say(command) => self.say(&task.job, command, &mut task.rounds),
        };
        match flow {
            Flow::Later(at, stage) if !task.zombie => {
                task.stage = stage;
                self.later(at, task);
            }
            Flow::End(again) if !task.zombie => {
                self.running.remove(&key);
                if let Some(at) = again {
                    self.store.owe(task.job, at);
                }
            }
            _ => {}
        }
    }

    fn later(&mut self, at: Timestamp, task: Task) {
        self.count += 1;
        self.tasks.insert((at, self.count), task);
    }

    fn start(&mut self, job: &Job) -> Flow {
        match job {
            Job::Deadline { .. } => self.deadline(),
            Job::Confirm { level } => self.lock(level),
            Job::Purchase { purchase } => self.claim(purchase),
            Job::Recheck { purchase, lost_at, step } => {
                let late = Some((*lost_at, *step));
                self.look_up(purchase, late)
            }
            Job::Refund { refund } => self.refund(refund),
            _ => Flow::End(None),
        }
    }

    fn deadline(&mut self) -> Flow {
        let now = self.now;
        let past = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        let due: Vec<OrderId> = self
            .store
            .orders
            .values()
            .filter(|o| {
                past(o.deadline_at)
                    || o.purchases.iter().any(|p| past(p.deadline_at))
                    || o.refunds.iter().any(|r| past(r.deadline_at))
            })
            .map(|o| o.id.clone())
            .collect();
        let due: Vec<Command> = due.into_iter().map(|order| Command::Due { order }).collect();
        if self.dice.percent(50) {
            self.submit_group(&due);
        } else {
            due.iter().for_each(|command| drop(self.submit(command)));
        }
        Flow::End(None)
    }

    fn wait(&mut self) -> Timestamp {
        self.now + self.dice.span(Span::millis(20), Span::secs(3))
    }

    fn silent(&mut self) -> bool {
        self.dice.percent(self.faults.silent)
    }

    fn shop(&mut self, level: &LevelId) -> (SourceId, Item) {
        let l = &self.store.levels[level];
        (l.source.clone(), l.item.clone().expect("a supplier's level"))
    }

    fn lock(&mut self, level: &LevelId) -> Flow {
        let owner = Job::Confirm { level: level.clone() }.key();
        match self.submit(&Command::LockItem { level: level.clone(), owner }) {
            Ok(Outcome::Locked { token, .. }) => {
                let (at, answer) = self.ask(level);
                let judge = judge(level, token, answer, false);
                Flow::Later(at, Stage::Say(judge))
            }
            Ok(Outcome::Again(at)) => Flow::End(at),
            Err(Refusal::Locked(until)) => Flow::End(Some(until)),
            other => panic!("locking {level}: {other:?}"),
        }
    }

    fn ask(&mut self, level: &LevelId) -> (Timestamp, Result<Reading, Fault>) {
        let (source, item) = self.shop(level);
        let (sent, now) = (self.now, self.now);
        if self.silent() {
            return (now + TIMEOUT, Err(silence()));
        }
        let received = self.wait();
        let reading = self.shops[&source].reading(&item, sent, now, received);
        (received, Ok(reading))
    }

    fn poll(
        &mut self,
        job: &Job,
        token: i64,
        answer: &Result<Reading, Fault>,
        left: &[(PurchaseId, String)],
    ) -> Flow {
        let Job::Confirm { level } = job else { return Flow::End(None) };
        let Some(((purchase, id), rest)) = left.split_first() else {
            let old = answer.as_ref().is_ok_and(|r| self.now.since(r.sent_at) > Span::secs(50));
            let (at, answer) = if old { self.ask(level) } else { (self.now, answer.clone()) };
            return Flow::Later(at, Stage::Say(judge(level, token, answer, true)));
        };
        let supplier = self.supplier_of(purchase);
        let read = if self.silent() { Err(silence()) } else { self.shops[&supplier].order(id) };
        let _ = self.submit(&Command::Polled {
            purchase: purchase.clone(),
            sent_at: self.now,
            answer: read,
        });
        let at = self.wait();
        Flow::Later(at, Stage::Poll { token, answer: answer.clone(), left: rest.to_vec() })
    }

    fn supplier_of(&self, purchase: &PurchaseId) -> SourceId {
        let order = self.store.order_of_purchase(purchase).expect("a purchase of an order");
        order.purchase(purchase).expect("its own").supplier.clone()
    }

    fn claim(&mut self, purchase: &PurchaseId) -> Flow {
        let busy_for = TIMEOUT.times(3, 1);
        let until = self.now + busy_for;
        let claim = Command::ClaimPurchase { purchase: purchase.clone(), busy_for };
        let step = match self.submit(&claim) {
            Ok(Outcome::Step(step)) => step,
            other => panic!("claiming {purchase}: {other:?}"),
        };
        let supplier = self.supplier_of(purchase);
        let at = self.wait();
        let id = purchase.clone();
        let said = match step {
            PurchaseStep::Place { attempt, request } => {
                let previewed = if self.silent() {
                    Err(silence())
                } else {
                    self.shops.get_mut(&supplier).expect("a shop").preview(&request)
                };
                match previewed {
                    Ok(()) => return Flow::Later(at, Stage::Create { attempt, request, until }),
                    Err(fault) => {
                        let answer = Err(fault);
                        Command::Placed { purchase: id, attempt, sent: false, answer }
                    }
                }
            }
            PurchaseStep::LookUp { .. } => return self.look_up(purchase, None),
            PurchaseStep::Poll { supplier_order_id } => {
                let shop = &self.shops[&supplier];
                let read = shop.order(&supplier_order_id);
                let answer = if self.silent() { Err(silence()) } else { read };
                Command::Polled { purchase: id, sent_at: self.now, answer }
            }
            PurchaseStep::Cancel { supplier_order_id } => {
                // The answer may be lost after the effect.
                let now = self.now;
                let shop = self.shops.get_mut(&supplier).expect("a shop");
                let done = shop.cancel(now, &supplier_order_id);
                let answer = if self.silent() { Err(silence()) } else { done };
                Command::CancelAnswered { purchase: id, supplier_order_id, answer }
            }
            PurchaseStep::Wait(at) => return Flow::End(Some(at)),
            PurchaseStep::Done => return Flow::End(None),
        };
        Flow::Later(at, Stage::Say(said))
    }

    fn fate(&mut self) -> Fate {
        let f = self.faults;
        let mut roll = self.dice.between(0, 99) as u32;
        for (rate, fate) in [
            (f.lost, Fate::Lost),
            (f.not_made, Fate::NotMade),
            (f.late, Fate::Late(Span::ZERO)),
            (f.refused, Fate::Refused),
            (f.left_out, Fate::LeftOut),
        ] {
            if roll < rate {
                let late = self.dice.span(Span::secs(30), Span::minutes(40));
                return if fate == Fate::Late(Span::ZERO) { Fate::Late(late) } else { fate };
            }
            roll -= rate;
        }
        Fate::Answered
    }

    fn create(
        &mut self,
        job: &Job,
        attempt: i64,
        request: &PurchaseRequest,
        until: Timestamp,
    ) -> Flow {
        let Job::Purchase { purchase } = job else { return Flow::End(None) };
        let id = purchase.clone();
        if self.now + TIMEOUT > until {
            let answer = Err(silence());
            let said = Command::Placed { purchase: id, attempt, sent: false, answer };
            return Flow::Later(self.now, Stage::Say(said));
        }
        let (fate, supplier, now) = (self.fate(), self.supplier_of(purchase), self.now);
        let answer = self.shops.get_mut(&supplier).expect("a shop").create(now, request, fate);
        let at = if answer.is_ok() { self.wait() } else { self.now + TIMEOUT };
        let said = Command::Placed { purchase: id, attempt, sent: true, answer };
        Flow::Later(at, Stage::Say(said))
    }

    fn look_up(&mut self, purchase: &PurchaseId, late: Option<(Timestamp, usize)>) -> Flow {
        let (supplier, now) = (self.supplier_of(purchase), self.now);
        self.shops.values_mut().for_each(|s| s.live(now));
        let found = self.shops[&supplier].look_up(purchase.as_str());
        let answer = if self.silent() { Err(silence()) } else { Ok(found) };
        let at = self.wait();
        Flow::Later(at, Stage::Say(Command::LookedUp { purchase: purchase.clone(), late, answer }))
    }

    fn refund(&mut self, refund: &RefundId) -> Flow {
        let step = match self.submit(&Command::ClaimRefund { refund: refund.clone() }) {
            Ok(Outcome::RefundStep { step, .. }) => step,
            other => panic!("claiming {refund}: {other:?}"),
        };
        let trouble = self.dice.percent(self.faults.refunds);
        let answer = match step {
            RefundStep::Done => return Flow::End(None),
            RefundStep::Make { .. } if trouble && self.dice.percent(30) => {
                RefundAnswer::Refused { message: "closed account".into() }
            }
            RefundStep::Make { amount } => {
                let arrives = !trouble || self.dice.percent(50);
                if arrives {
                    let made = *self.provider.made.entry(refund.clone()).or_insert(amount);
                    assert_eq!(made, amount, "a refund was asked for with two amounts");
                }
                if trouble { unknown() } else { RefundAnswer::Succeeded { reference: None } }
            }
            RefundStep::LookUp if trouble => unknown(),
            RefundStep::LookUp if self.provider.made.contains_key(refund) => {
                RefundAnswer::Succeeded { reference: None }
            }
            RefundStep::LookUp => RefundAnswer::NotMade,
        };
        let at = self.wait();
        Flow::Later(at, Stage::Say(Command::RefundAnswered { refund: refund.clone(), answer }))
    }

    /// Hands an answer in and goes on as it says.
    fn say(&mut self, job: &Job, command: &Command, rounds: &mut usize) -> Flow {
        match self.submit(command) {
            Ok(Outcome::PollFirst(left)) => {
                let Command::JudgeItem { token, answer, .. } = command else {
                    panic!("only a judgement polls first: {command:?}");
                };
                Flow::Later(self.now, Stage::Poll { token: *token, answer: answer.clone(), left })
            }
            Ok(Outcome::Again(Some(at))) if at <= self.now && *rounds < ROUNDS => {
                *rounds += 1;
                match job {
                    Job::Purchase { .. } => Flow::Later(self.now, Stage::Start),
                    _ => Flow::End(Some(at)),
                }
            }
            Ok(Outcome::Again(Some(at))) => Flow::End(Some(at.max(self.now + Span::secs(1)))),
            Ok(Outcome::Again(None) | Outcome::Done) => Flow::End(None),
            Err(Refusal::Fenced(_)) => Flow::End(None),
            other => panic!("{command:?} was answered {other:?}"),
        }
    }

    fn sync(&mut self, supplier: &SourceId) {
        let (now, every) = (self.now, self.sync_every);
        self.next_sync.insert(supplier.clone(), now + every);
        if self.silent() {
            return;
        }
        let received = self.wait();
        let shop = &self.shops[supplier];
        let levels = self.store.levels.values().filter(|l| &l.source == supplier);
        let readings = levels.filter_map(|l| {
            let item = l.item.as_ref()?;
            Some((l.id.clone(), shop.reading(item, now, now, received)))
        });
        let readings: Vec<_> = readings.collect();
        let supplier = supplier.clone();
        if !readings.is_empty() {
            let command = Command::Readings { supplier, readings, feed: true };
            let _ = self.submit(&command);
        }
    }
}

enum Next {
    Task((Timestamp, u64)),
    Job(String),
    Sync(SourceId),
}

fn judge(level: &LevelId, token: i64, answer: Result<Reading, Fault>, polled: bool) -> Command {
    Command::JudgeItem { level: level.clone(), token, answer, polled }
}

fn unknown() -> RefundAnswer {
    RefundAnswer::Unknown { message: "no answer".into() }
}

/// A step of a saga that is handed in at its end. (What was not answered at all may be noted again.)
fn is_answer(command: &Command) -> bool {
    match command {
        Command::JudgeItem { .. }
        | Command::Placed { .. }
        | Command::RefundAnswered { .. }
        | Command::Due { .. }
        | Command::Readings { .. } => true,
        Command::LookedUp { answer, .. } => answer.is_ok(),
        Command::Polled { answer, .. } => answer.is_ok(),
        Command::CancelAnswered { answer, .. } => !matches!(answer, Err(Fault::Unknown { .. })),
        _ => false,
    }
}

/// The same answer once more is refused, or leaves everything as it is.
fn same_twice(once: &Store, policy: &Policy, now: Timestamp, command: &Command) {
    let mut twice = once.clone();
    let _ = twice.run(policy, now, command);
    assert_eq!(once.orders, twice.orders, "handed in twice: {command:?}");
    assert_eq!(once.levels, twice.levels, "handed in twice: {command:?}");
    assert_eq!(once.ledger, twice.ledger, "handed in twice: {command:?}");
    assert_eq!(once.alerts, twice.alerts, "handed in twice: {command:?}");
    let keys = |s: &Store| s.jobs.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(once), keys(&twice), "handed in twice: {command:?}");
}
