//! One group, one transaction: load what it names, decide each command in turn, save the changes,
//! commit. Each command has its own outcome; a refused one leaves nothing behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::known::{Basis, Closed};
use super::sold_out::sold_out;
use super::store::Store;
use super::writer::Writer;
use super::{Committed, Envelope, Error, Idempotency, KeptAnswer, Moved, Reply, Touched};
use crate::clock::{Clock, Timestamp};
use crate::domain::command::Needs;
use crate::domain::decide::decide;
use crate::domain::outcome::{Ask, Refusal, Stop};
use crate::domain::policy::Policy;
use crate::domain::world::World;
use crate::storage::groups::{self, Begun, Keep, Kept, Scope};
use crate::storage::world::{Loaded, Placed};
use crate::storage::{self, Tx};

/// What each command of a group ended in, in order.
pub(super) type Results = Vec<Result<Reply, Error>>;

/// A group that was decided, as it was handed to the commit.
#[derive(Default)]
pub(super) struct Decided {
    /// As the store has it with the group's id.
    pub begun_at: Timestamp,
    pub results: Results,
    pub committed: Committed,
    pub touched: Touched,
    /// What was read under locks, as the group left it, and how often the catalogue had been changed.
    pub read: Option<(i64, World)>,
}

/// Why a transaction was given up.
enum Abort {
    Storage(storage::Error),
    /// Decide again with more loaded: (command, what it asks for).
    More(Vec<(usize, Ask)>),
    /// Nothing was changed: there is nothing to commit.
    Unchanged(Box<Decided>),
    /// The group id was there already: committed before.
    Committed,
    /// The store was put back to an earlier state.
    Restored,
}

impl From<storage::Error> for Abort {
    fn from(error: storage::Error) -> Abort {
        Abort::Storage(error)
    }
}

/// A group under way, over all its attempts.
pub(super) struct Group {
    pub id: String,
    pub commands: Arc<Vec<Envelope>>,
    /// What commands asked for in addition.
    more: Needs,
    /// Commands that asked for the same twice: a fault of ours, answered without deciding.
    stuck: BTreeSet<usize>,
    /// What the last attempt had decided when it went to the commit.
    stash: Arc<Stash>,
}

impl Group {
    pub(super) fn new(id: String, commands: Arc<Vec<Envelope>>) -> Group {
        Group {
            id,
            commands,
            more: Needs::default(),
            stuck: BTreeSet::new(),
            stash: Arc::default(),
        }
    }

    /// Runs the group once: to a commit, or to an error that tells what to do.
    ///
    /// # Errors
    /// The database's.
    pub(super) async fn run(&mut self, writer: &Writer) -> Result<Decided, storage::Error> {
        loop {
            let attempt = Attempt {
                opening: self.opening(writer),
                commands: Arc::clone(&self.commands),
                more: self.more.clone(),
                stuck: self.stuck.clone(),
                stash: Arc::clone(&self.stash),
                policy: Arc::clone(&writer.policy),
            };
            let run = writer.db.transact(move |tx| Box::pin(async move { attempt.run(tx).await }));
            match run.await {
                Ok(()) | Err(Abort::Committed) => {
                    let decided = take(&self.stash);
                    writer.store.committed(&self.id, decided.begun_at);
                    return Ok(decided);
                }
                Err(Abort::Unchanged(decided)) => return Ok(*decided),
                Err(Abort::Storage(error)) => return Err(error),
                Err(Abort::Restored) => return Err(writer.store.lose()),
                Err(Abort::More(asks)) => self.widen(asks),
            }
        }
    }

    /// Writes a draft of the group. Nothing of it is borrowed: others are drafted meanwhile.
    ///
    /// # Errors
    /// The database's; `Retry` and `Poison` mean that it is to be decided under locks.
    pub(super) fn write(
        &self,
        draft: Result<Closed, storage::Error>,
        writer: &Writer,
    ) -> impl Future<Output = Result<Decided, storage::Error>> + 'static {
        let (db, store) = (writer.db.clone(), writer.store.clone());
        let (id, opening) = (self.id.clone(), self.opening(writer));
        let (stash, stashed) = (Arc::clone(&self.stash), Arc::clone(&self.stash));
        async move {
            let Closed { decided, placed, basis } = draft?;
            let run = db.transact(move |tx| {
                Box::pin(async move {
                    let begun = opening.write(tx, placed, basis).await?;
                    put(&stash, Decided { begun_at: begun.at, ..decided });
                    Ok(())
                })
            });
            match run.await {
                Ok(()) => {
                    let decided = take(&stashed);
                    store.committed(&id, decided.begun_at);
                    Ok(decided)
                }
                Err(Abort::Storage(error)) => Err(error),
                Err(Abort::Restored) => Err(store.lose()),
                Err(Abort::More(_) | Abort::Unchanged(_) | Abort::Committed) => {
                    Err(storage::Error::Retry("a draft is only written, and once".into()))
                }
            }
        }
    }

    fn opening(&self, writer: &Writer) -> Opening {
        Opening { id: self.id.clone(), store: writer.store.clone(), clock: writer.clock.clone() }
    }

    /// Loads what is asked for the next time. A command is stuck only if it was given what it asks
    /// for before: that another asks for the same in this attempt is not its fault.
    fn widen(&mut self, asks: Vec<(usize, Ask)>) {
        let before = self.more.clone();
        for (command, ask) in asks {
            let mut wider = before.clone();
            extend(&mut wider, &ask);
            if wider == before {
                self.stuck.insert(command);
            }
            extend(&mut self.more, &ask);
        }
    }
}

fn extend(needs: &mut Needs, ask: &Ask) {
    match ask {
        Ask::Overdue(levels) => needs.overdue.extend(levels.iter().cloned()),
        Ask::Unbought(levels) => needs.unbought.extend(levels.iter().cloned()),
        Ask::Counted(level) => {
            needs.counted.insert(level.clone());
        }
        Ask::Recount(level) => {
            needs.recount.insert(level.clone());
        }
    }
}

/// One attempt at a group, owned by its transaction's task.
struct Attempt {
    opening: Opening,
    commands: Arc<Vec<Envelope>>,
    more: Needs,
    stuck: BTreeSet<usize>,
    stash: Arc<Stash>,
    policy: Arc<Policy>,
}

impl Attempt {
    async fn run(self, tx: &mut Tx) -> Result<(), Abort> {
        let begun = self.opening.begin(tx).await?;
        let started = begun.at;
        let mut needs = self.more.clone();
        self.commands.iter().for_each(|e| needs.add(&e.command));
        let fences: Vec<(i64, i64)> =
            self.commands.iter().filter_map(|e| e.fence).map(|f| (f.job, f.token)).collect();
        let scopes = self.commands.iter().filter_map(|e| e.idempotency.as_ref());
        let scopes = scopes.map(|i| i.scope.clone()).collect();
        let loaded = storage::world::load(tx, &needs, started).await?;
        let Loaded { mut world, before, server_time } = loaded;
        let read_at = Some(Instant::now());
        let valid = storage::jobs::fences(tx, &fences).await?;
        let own_time = tx.own_time(&self.opening.clock);
        let now = own_time.or(server_time).unwrap_or(started);
        world.restored_at = self.opening.store.restored_at;
        let kept = groups::kept(tx, &scopes, now).await?;
        let mut deciding = Deciding { kept, new: Vec::new(), asks: Vec::new() };
        let mut results: Results = Vec::with_capacity(self.commands.len());
        for (i, envelope) in self.commands.iter().enumerate() {
            let fenced = envelope.fence.is_some_and(|f| !valid.contains(&(f.job, f.token)));
            results.push(if self.stuck.contains(&i) {
                Err(Error::Internal("a stock level's figures do not allow it".into()))
            } else if fenced {
                Err(Refusal::Fenced("the job has another owner".into()).into())
            } else {
                deciding.one(i, envelope, &mut world, &self.policy, now)
            });
        }
        if !deciding.asks.is_empty() {
            return Err(Abort::More(deciding.asks));
        }
        let sold_out = sold_out(&self.commands, &results, &world, &self.policy, now);
        if deciding.new.is_empty() && before.is_same(&world) {
            let touched = Touched { sold_out, read_at, ..Touched::default() };
            let decided = Decided { results, touched, ..Decided::default() };
            return Err(Abort::Unchanged(Box::new(decided)));
        }
        let saved = storage::world::save(tx, &before, &mut world, now).await?;
        groups::keep(tx, deciding.new, now).await?;
        let touched = Touched {
            levels: before.changed_levels(&world).cloned().collect(),
            catalogue: before.has_other_catalogue(&world),
            sold_out,
            read_at,
        };
        let moved = saved.levels.iter().filter_map(|id| world.levels.get(id));
        let levels = moved
            .map(|level| {
                let sku = |key: &str| world.skus.get(key).map(Arc::as_ref);
                Moved::now(level, sku, &self.policy)
            })
            .collect();
        let committed = Committed { levels, next_job: saved.next_job };
        let read = Some((begun.catalogue, world));
        put(&self.stash, Decided { begun_at: started, results, committed, touched, read });
        Ok(())
    }
}

type Stash = Mutex<Option<Decided>>;

fn put(stash: &Stash, decided: Decided) {
    *stash.lock().unwrap_or_else(PoisonError::into_inner) = Some(decided);
}

fn take(stash: &Stash) -> Decided {
    stash.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
}

/// How every group's transaction begins.
struct Opening {
    id: String,
    store: Store,
    clock: Clock,
}

impl Opening {
    fn of(&self, tx: &Tx) -> groups::Opening {
        let (now, after) = (tx.own_time(&self.clock), self.store.last_group(&self.clock));
        groups::Opening { id: self.id.clone(), now, after }
    }

    async fn begin(&self, tx: &mut Tx) -> Result<Begun, Abort> {
        let opening = self.of(tx);
        let followed = opening.after.is_some();
        self.checked(followed, opening.begin(tx).await?)
    }

    /// With all that a draft writes.
    async fn write(&self, tx: &mut Tx, placed: Placed, basis: Basis) -> Result<Begun, Abort> {
        let opening = self.of(tx);
        let followed = opening.after.is_some();
        let begun = self.checked(followed, placed.write(tx, opening).await?)?;
        if basis.holds(begun.at, begun.catalogue) {
            return Ok(begun);
        }
        Err(storage::Error::Retry("what it was decided on is not so any more".into()).into())
    }

    fn checked(&self, followed: bool, begun: Option<Begun>) -> Result<Begun, Abort> {
        let Some(begun) = begun else { return Err(Abort::Committed) };
        if begun.life != self.store.life || (followed && !begun.followed) {
            return Err(Abort::Restored);
        }
        Ok(begun)
    }
}

struct Deciding {
    kept: BTreeMap<Scope, Kept>,
    new: Vec<Keep>,
    asks: Vec<(usize, Ask)>,
}

impl Deciding {
    fn one(
        &mut self,
        index: usize,
        envelope: &Envelope,
        world: &mut World,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<Reply, Error> {
        if let Some(answer) = self.answered_before(envelope.idempotency.as_ref())? {
            return Ok(Reply::Kept(answer));
        }
        match decide(world, policy, now, &envelope.command) {
            Ok(outcome) => {
                if let Some(idempotency) = &envelope.idempotency
                    && let Some(answer) = (idempotency.render)(&outcome)
                {
                    self.keep(idempotency, answer);
                }
                Ok(Reply::Outcome(outcome))
            }
            Err(Stop::Refused(refusal)) => Err(refusal.into()),
            Err(Stop::More(ask)) => {
                self.asks.push((index, ask));
                Err(Error::Internal("to be decided again".into()))
            }
        }
    }

    fn answered_before(&self, asked: Option<&Idempotency>) -> Result<Option<KeptAnswer>, Refusal> {
        let Some(asked) = asked else { return Ok(None) };
        match self.kept.get(&asked.scope) {
            None => Ok(None),
            Some(kept) if kept.body_hash == asked.body_hash => {
                Ok(Some(KeptAnswer { status: kept.status, body: kept.body.clone() }))
            }
            Some(_) => Err(Refusal::KeyReused),
        }
    }

    fn keep(&mut self, idempotency: &Idempotency, answer: KeptAnswer) {
        let scope = idempotency.scope.clone();
        let kept = Kept {
            body_hash: idempotency.body_hash.clone(),
            status: answer.status,
            body: answer.body,
        };
        self.kept.insert(scope.clone(), kept.clone());
        self.new.push(Keep { scope, kept, for_ever: idempotency.for_ever });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_that_asks_again_for_what_it_was_given_is_stuck() {
        let mut group = Group::new("g".into(), Arc::default());
        let overdue = |level: &str| Ask::Overdue([level.into()].into());
        group.widen(vec![(0, overdue("main:A")), (1, overdue("main:A")), (2, overdue("main:B"))]);
        assert_eq!(group.stuck, BTreeSet::new());
        assert_eq!(group.more.overdue, ["main:A".into(), "main:B".into()].into());
        group.widen(vec![(1, overdue("main:B")), (3, Ask::Recount("main:A".into()))]);
        assert_eq!(group.stuck, [1].into());
        assert_eq!(group.more.recount, ["main:A".into()].into());
    }
}
