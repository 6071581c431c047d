//! Runs due jobs: claims them under leases, keeps the leases alive, and drains at the stop.
//!
//! What must hold: a job is run by one worker at a time, or the slower one's outcome is refused by
//! its token; one whose worker dies is taken over when its lease ends. Jobs are taken in lanes, so
//! that a supplier that hangs delays neither deadlines nor refunds. Leases are renewed before
//! anything new is claimed, so that a clock that jumps (a machine that slept, a test) does not rob a
//! runner of what it runs itself. How a job ends is `work`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Deps;
use super::held::Held;
use super::run::{Answer, Run, Stop};
use super::store::{self, Claimed, Finish};
use super::work::work;
use crate::clock::{Span, Timestamp};
use crate::domain::job::Job;
use crate::domain::names::SourceId;
use crate::engine::Fence;

/// What runs a job of any kind.
#[async_trait]
pub trait Handler: Send + Sync {
    /// # Errors
    /// See [`Stop`].
    async fn run(&self, run: &Run<'_>) -> Result<Answer, Stop>;
}

/// Kinds of jobs that share slots.
struct Lane {
    kinds: &'static [&'static str],
    slots: usize,
}

/// Our own affairs: quick and urgent.
const LANES: usize = 5;
const OWN: &[&str] = &["deadline", "sweep", "watermark", "prune", "alert"];
/// Calls to the shop's addresses.
const SHOP: &[&str] = &["refund", "tell"];
/// An answer about an item is waited for by all its orders: purchases, a job for each order, must not
/// stand before it.
const ITEMS: &[&str] = &["confirm"];
const PURCHASES: &[&str] = &["purchase", "recheck"];
/// A supplier's feed has a slot of its own: creates that hang must not make its figures stale.
const FEEDS: &[&str] = &["sync", "accept_feed"];
/// Jobs at once in each of the first two lanes, and of either kind for each supplier.
const SLOTS: usize = 4;
/// Jobs at once of either kind for all suppliers.
const SLOTS_SUPPLIERS: usize = 12;
/// A job whose supplier has no slot free is put off this long.
const PUT_OFF: Span = Span::secs(1);
/// Due jobs are looked for this often when nobody wakes us.
const POLL: Duration = Duration::from_millis(250);
/// A test's clock can jump at any time; and where a lane was filled, more may be due.
const POLL_SOON: Duration = Duration::from_millis(20);
/// How long running jobs may go on once the program stops.
const GRACE: Duration = Duration::from_secs(8);

/// Each supplier's.
type Slots = BTreeMap<SourceId, Arc<Semaphore>>;

/// Runs jobs until told to stop.
pub struct Runner {
    deps: Deps,
    handler: Arc<dyn Handler>,
    worker: String,
    wake: Arc<Notify>,
    lanes: [Lane; LANES],
    items: Slots,
    purchases: Slots,
    running: JoinSet<Fence>,
    /// Lane and lease of what runs. By the fence, and not by the job: one that was taken over from
    /// ourselves runs twice until the older run has noticed.
    held: BTreeMap<(i64, i64), (usize, Arc<Held>)>,
    beaten_at: Timestamp,
    grace: Duration,
    /// Cancelled when the grace is over.
    cut: CancellationToken,
}

impl Runner {
    /// `worker` names this process in the table; `wake` is notified when a job falls due now.
    pub fn new(deps: Deps, handler: Arc<dyn Handler>, worker: String, wake: Arc<Notify>) -> Runner {
        let slots = || -> Slots {
            deps.suppliers.keys().map(|id| (id.clone(), Arc::new(Semaphore::new(SLOTS)))).collect()
        };
        let (items, purchases) = (slots(), slots());
        let for_suppliers = (SLOTS * items.len().max(1)).min(SLOTS_SUPPLIERS);
        let lane = |kinds, slots| Lane { kinds, slots };
        Runner {
            lanes: [
                lane(OWN, SLOTS),
                lane(SHOP, SLOTS),
                lane(ITEMS, for_suppliers),
                lane(PURCHASES, for_suppliers),
                lane(FEEDS, items.len().clamp(1, SLOTS_SUPPLIERS)),
            ],
            beaten_at: deps.clock.now(),
            items,
            purchases,
            deps,
            handler,
            worker,
            wake,
            running: JoinSet::new(),
            held: BTreeMap::new(),
            grace: GRACE,
            cut: CancellationToken::new(),
        }
    }

    /// Lets running jobs go on for so long once the program stops.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Runner {
        self.grace = grace;
        self
    }

    /// Runs until `stopping`, then lets what runs finish, or hands it back when the grace is over.
    /// A store that cannot be reached is waited for.
    pub async fn run(mut self, stopping: CancellationToken) {
        while !stopping.is_cancelled() {
            self.beat().await;
            let more = self.claim().await;
            metrics::gauge!("stockhold_jobs_running").set(self.held.len() as f64);
            self.wait(&stopping, more).await;
        }
        self.drain().await;
    }

    /// Renews every lease, at a third of its length or when the clock jumped.
    async fn beat(&mut self) {
        let now = self.deps.clock.now();
        if now.since(self.beaten_at) < self.deps.lease.times(1, 3) {
            return;
        }
        self.beaten_at = now;
        let beats = self.held.values().map(|(_, held)| held.beat());
        futures::future::join_all(beats).await;
    }

    /// Claims as many due jobs as there are free slots; whether more may be due.
    async fn claim(&mut self) -> bool {
        match self.claim_lanes().await {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(error = %error, "no jobs could be claimed");
                false
            }
        }
    }

    async fn claim_lanes(&mut self) -> Result<bool, Stop> {
        let free: Vec<(usize, i64)> =
            (0..LANES).map(|lane| (lane, self.free(lane))).filter(|(_, free)| *free > 0).collect();
        if free.is_empty() || !store::any_due(&self.deps.db, &self.deps.clock).await? {
            return Ok(false);
        }
        let wanted =
            free.iter().filter_map(|(lane, free)| Some((self.lanes.get(*lane)?.kinds, *free)));
        let asked_at = self.deps.clock.now();
        let claimed = store::claim(&self.deps, &self.worker, wanted.collect()).await?;
        let mut more = false;
        for ((lane, free), jobs) in free.into_iter().zip(claimed) {
            more |= i64::try_from(jobs.len()).is_ok_and(|n| n >= free);
            for job in jobs {
                self.start(lane, job, asked_at).await;
            }
        }
        Ok(more)
    }

    fn free(&self, lane: usize) -> i64 {
        let taken = self.held.values().filter(|(l, _)| *l == lane).count();
        let slots = self.lanes.get(lane).map_or(0, |l| l.slots);
        i64::try_from(slots.saturating_sub(taken)).unwrap_or(0)
    }

    async fn start(&mut self, lane: usize, claimed: Claimed, asked_at: Timestamp) {
        let fence = Fence { job: claimed.id, token: claimed.token };
        let Ok(permit) = self.permit(&claimed.job) else {
            let later = Finish::Later(self.deps.clock.now() + PUT_OFF);
            let put_off = store::finish(&self.deps.db, fence, claimed.wakes, later).await;
            if let Err(error) = put_off {
                tracing::warn!(job.id = fence.job, error = %error, "job not put off");
            }
            return;
        };
        let held = Arc::new(Held::new(&self.deps, fence, asked_at));
        let run = (fence.job, fence.token);
        self.held.insert(run, (lane, Arc::clone(&held)));
        let (deps, handler) = (self.deps.clone(), Arc::clone(&self.handler));
        let cut = self.cut.clone();
        self.running.spawn(async move {
            work(deps, handler, claimed, held, cut).await;
            drop(permit);
            fence
        });
    }

    /// A slot at the job's supplier; `Ok(None)` when the job has none, `Err` when none is free.
    fn permit(&self, job: &Job) -> Result<Option<OwnedSemaphorePermit>, ()> {
        let slots = match job {
            Job::Confirm { level } => self.items.get(&level.source()),
            Job::Purchase { purchase } | Job::Recheck { purchase, .. } => {
                purchase.supplier().and_then(|id| self.purchases.get(&id))
            }
            _ => None,
        };
        let Some(slots) = slots else { return Ok(None) };
        Arc::clone(slots).try_acquire_owned().map(Some).map_err(drop)
    }

    /// Forgets the jobs that ended.
    fn reap(&mut self) {
        while let Some(ended) = self.running.try_join_next() {
            self.forget(ended);
        }
    }

    fn forget(&mut self, ended: Result<Fence, tokio::task::JoinError>) {
        match ended {
            Ok(run) => drop(self.held.remove(&(run.job, run.token))),
            // `work` catches its handler's panics; this one is ours. Its lease will end.
            Err(error) => {
                tracing::error!(error = %error, "a job's task died");
                self.held.retain(|_, (_, held)| Arc::strong_count(held) > 1);
            }
        }
    }

    /// Waits for the end of a job, a wake-up, or the next look.
    async fn wait(&mut self, stopping: &CancellationToken, more: bool) {
        let poll = if self.deps.clock.is_manual() || more { POLL_SOON } else { POLL };
        tokio::select! {
            () = stopping.cancelled() => {}
            () = self.wake.notified() => {}
            () = tokio::time::sleep(poll) => {}
            Some(ended) = self.running.join_next() => self.forget(ended),
        }
        self.reap();
    }

    /// Claims nothing more; what runs finishes, or is handed back.
    async fn drain(&mut self) {
        let over = tokio::time::sleep(self.grace);
        tokio::pin!(over);
        while !self.running.is_empty() {
            self.beat().await;
            tokio::select! {
                () = &mut over => break,
                () = tokio::time::sleep(POLL) => {}
                Some(ended) = self.running.join_next() => self.forget(ended),
            }
        }
        if !self.running.is_empty() {
            tracing::warn!(jobs = self.running.len(), "the grace is over: jobs handed back");
        }
        self.cut.cancel();
        while let Some(ended) = self.running.join_next().await {
            self.forget(ended);
        }
    }
}
