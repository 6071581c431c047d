//! Group after group of new orders, each drafted while the one before it is written (see `known`), and
//! what is not known of them read meanwhile, without locks.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use super::known::{Draft, plain};
use super::queue::Pending;
use super::writer::Writer;
use crate::domain::names::SkuKey;
use crate::domain::world::World;
use crate::storage::{self, Db};

/// Placements on their way into a draft.
struct Gathering {
    draft: Draft,
    /// To be decided under locks, soon: nothing more is taken.
    aside: Vec<Pending>,
    /// What some ask for that is not known, being read.
    readings: FuturesUnordered<BoxFuture<'static, Read>>,
    /// So many wait for that.
    asked: usize,
    /// They, too, ask for what is not known.
    unknown: Vec<Pending>,
}

/// What was read for these.
type Read = (Vec<Pending>, storage::Result<(i64, World)>);

/// So many readings at once: the next need not wait for a slow one.
const READINGS: usize = 2;

impl Gathering {
    /// Everything that is not drafted. What is being read is waited for.
    async fn left(&mut self) -> Vec<Pending> {
        let Gathering { aside, readings, unknown, .. } = self;
        let mut left = std::mem::take(aside);
        left.append(unknown);
        while let Some((mut asked, _)) = readings.next().await {
            left.append(&mut asked);
        }
        left
    }
}

impl Writer {
    /// Writes what can be decided on what is known; answers what is to be decided under locks.
    pub(super) async fn write_drafts(&mut self, draft: Draft, first: Vec<Pending>) -> Vec<Pending> {
        let mut now = Gathering {
            draft,
            aside: Vec::new(),
            readings: FuturesUnordered::new(),
            asked: 0,
            unknown: Vec::new(),
        };
        first.into_iter().for_each(|pending| self.take(&mut now, pending));
        while !self.store.is_lost() && !self.known.is_full() {
            if now.draft.is_empty() {
                self.read_unknown(&mut now);
                let Some(read) = now.readings.next().await else { break };
                self.found(&mut now, read);
            } else if !self.write_draft(&mut now).await {
                break;
            }
        }
        let mut left = std::mem::take(&mut now.draft.pending);
        left.append(&mut now.left().await);
        left
    }

    /// Writes the draft, and gathers the next meanwhile. `false`: it came to nothing, and so does the
    /// next, which was decided on it.
    async fn write_draft(&mut self, now: &mut Gathering) -> bool {
        self.queue.drafted_is_taken();
        let mut draft = std::mem::replace(&mut now.draft, Draft::empty());
        let (group, replies) = self.group(std::mem::take(&mut draft.pending));
        let closed = self.known.close(draft, &self.policy, self.clock.now());
        let mut writing = pin!(group.write(closed, self));
        let written = loop {
            self.gather(now);
            tokio::select! {
                biased;
                written = &mut writing => break written,
                Some(read) = now.readings.next() => self.found(now, read),
                () = self.queue.arrived() => {}
            }
        };
        match written {
            Ok(decided) => {
                self.known.proved_right(&group.commands);
                self.answer(decided, replies);
                true
            }
            Err(error) => {
                self.known.proved_wrong();
                let error = match error {
                    storage::Error::Retry(_) | storage::Error::Poison(_) => None,
                    other => Some(other),
                };
                self.finish(group, replies, error).await;
                false
            }
        }
    }

    /// Drafts what has come in, unless something goes before it.
    fn gather(&mut self, now: &mut Gathering) {
        while now.aside.is_empty()
            && !now.draft.is_full(now.asked + now.unknown.len())
            && let Some(pending) = self.queue.draft_next()
        {
            self.take(now, pending);
        }
        self.read_unknown(now);
    }

    fn take(&mut self, now: &mut Gathering, pending: Pending) {
        if self.known.knows(&pending.envelope) {
            let at = self.clock.now();
            now.aside.extend(self.known.add(&mut now.draft, pending, &self.policy, at));
        } else {
            now.unknown.push(pending);
        }
    }

    fn read_unknown(&self, now: &mut Gathering) {
        if now.readings.len() < READINGS && !now.unknown.is_empty() {
            let asked = std::mem::take(&mut now.unknown);
            now.asked += asked.len();
            now.readings.push(reading(&self.db, asked));
        }
    }

    fn found(&mut self, now: &mut Gathering, (asked, read): Read) {
        now.asked -= asked.len();
        match read {
            Ok((catalogue, read)) => self.known.add_read(catalogue, read),
            Err(error) => tracing::debug!(%error, "what is not known could not be read"),
        }
        for pending in asked {
            if self.known.knows(&pending.envelope) {
                self.take(now, pending);
            } else {
                now.aside.push(pending);
            }
        }
    }
}

/// Reads the SKUs that are asked for, with their levels.
fn reading(db: &Db, asked: Vec<Pending>) -> BoxFuture<'static, Read> {
    let placements = asked.iter().filter_map(|pending| plain(&pending.envelope));
    let skus = placements.flat_map(|placement| &placement.lines).map(|line| line.sku.clone());
    let (db, skus) = (db.clone(), skus.collect::<BTreeSet<SkuKey>>());
    async move {
        let read =
            db.read(move |tx| Box::pin(async move { storage::world::catalogue(tx, &skus).await }));
        let read = read.await;
        (asked, read)
    }
    .boxed()
}
