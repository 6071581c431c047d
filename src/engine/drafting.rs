//! Group after group of new orders, each drafted while the one before it is written (see `known`), and
//! what is not known of them read meanwhile, without locks.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture};

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
    /// They ask for what is not known, and it is being read.
    asked: Vec<Pending>,
    reading: Option<BoxFuture<'static, storage::Result<(i64, World)>>>,
    /// They, too, ask for what is not known.
    unknown: Vec<Pending>,
}

impl Gathering {
    /// Everything that is not drafted.
    fn left(&mut self) -> Vec<Pending> {
        let Gathering { aside, asked, unknown, .. } = self;
        [aside, asked, unknown].into_iter().flat_map(std::mem::take).collect()
    }
}

impl Writer {
    /// Writes what can be decided on what is known; answers what is to be decided under locks.
    pub(super) async fn write_drafts(&mut self, draft: Draft, first: Vec<Pending>) -> Vec<Pending> {
        let mut now = Gathering {
            draft,
            aside: Vec::new(),
            asked: Vec::new(),
            reading: None,
            unknown: Vec::new(),
        };
        first.into_iter().for_each(|pending| self.take(&mut now, pending));
        while !self.store.is_lost() && !self.known.is_full() {
            if now.draft.is_empty() {
                self.read_unknown(&mut now);
                let Some(reading) = &mut now.reading else { break };
                let read = reading.await;
                self.found(&mut now, read);
            } else if !self.write_draft(&mut now).await {
                break;
            }
        }
        let mut left = std::mem::take(&mut now.draft.pending);
        left.append(&mut now.left());
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
                Some(read) = OptionFuture::from(now.reading.as_mut()) => self.found(now, read),
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
            && !now.draft.is_full(now.asked.len() + now.unknown.len())
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
        if now.reading.is_none() && !now.unknown.is_empty() {
            now.asked = std::mem::take(&mut now.unknown);
            now.reading = Some(reading(&self.db, &now.asked));
        }
    }

    fn found(&mut self, now: &mut Gathering, read: storage::Result<(i64, World)>) {
        now.reading = None;
        match read {
            Ok((catalogue, read)) => self.known.add_read(catalogue, read),
            Err(error) => tracing::debug!(%error, "what is not known could not be read"),
        }
        for pending in std::mem::take(&mut now.asked) {
            if self.known.knows(&pending.envelope) {
                self.take(now, pending);
            } else {
                now.aside.push(pending);
            }
        }
    }
}

/// Reads the SKUs that are asked for, with their levels.
fn reading(db: &Db, asked: &[Pending]) -> BoxFuture<'static, storage::Result<(i64, World)>> {
    let placements = asked.iter().filter_map(|pending| plain(&pending.envelope));
    let skus = placements.flat_map(|placement| &placement.lines).map(|line| line.sku.clone());
    let (db, skus) = (db.clone(), skus.collect::<BTreeSet<SkuKey>>());
    async move {
        db.read(move |tx| Box::pin(async move { storage::world::catalogue(tx, &skus).await })).await
    }
    .boxed()
}
