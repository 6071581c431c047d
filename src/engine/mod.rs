//! The queue that groups commands into transactions. Commands that arrive while a commit is under
//! way form the next one; replies go out only after it.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{broadcast, oneshot};

use crate::clock::{Clock, Timestamp};
use crate::domain::availability::SoldOut;
use crate::domain::command::Command;
use crate::domain::names::{LevelId, SkuKey};
use crate::domain::outcome::{Outcome, Refusal};
use crate::domain::policy::Policy;
use crate::domain::sku::Sku;
use crate::domain::stock::Level;
use crate::domain::watermark;
use crate::ids::Ids;
use crate::storage::Db;
use crate::storage::epochs::Epoch;

mod chances;
mod drafting;
mod group;
mod known;
mod queue;
mod sold_out;
mod store;
mod writer;

pub use chances::Chances;
pub use queue::{MAX_COMMANDS, MAX_LEVELS};

/// Whose outcome a command brings: refused when the job's lease has another token by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub job: i64,
    pub token: i64,
}

/// An answer as it is kept under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    pub status: u16,
    /// JSON text.
    pub body: String,
}

/// Turns an outcome into the answer to keep; given by whoever knows the wire (HTTP). `None`: the
/// outcome keeps its key itself, as an order keeps that of the placement that made it.
pub type Render = Arc<dyn Fn(&Outcome) -> Option<KeptAnswer> + Send + Sync>;

/// An `Idempotency-Key`.
#[derive(Clone)]
pub struct Idempotency {
    /// Name of the API key, path, key.
    pub scope: (String, String, String),
    pub body_hash: String,
    /// Kept for ever (refunds and stock movements), or 24 h.
    pub for_ever: bool,
    pub render: Render,
}

/// A command with what surrounds it.
#[derive(Clone)]
pub struct Envelope {
    pub command: Command,
    pub fence: Option<Fence>,
    pub idempotency: Option<Idempotency>,
}

impl From<Command> for Envelope {
    fn from(command: Command) -> Envelope {
        Envelope { command, fence: None, idempotency: None }
    }
}

/// What a committed command ended in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Outcome(Outcome),
    /// The first answer under the same idempotency key.
    Kept(KeptAnswer),
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The rules refused it; nothing was changed by it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The queue is full and this was a placement; nothing was taken.
    #[error("overloaded")]
    Overloaded,
    /// The store cannot be reached or refuses to write; nothing was taken.
    #[error("storage unavailable: {0}")]
    StorageUnavailable(String),
    /// The commit's fate could not be learnt: repeat with the same external id or key.
    #[error("outcome unknown")]
    OutcomeUnknown,
    /// The engine is shutting down; nothing was taken.
    #[error("shutting down")]
    ShuttingDown,
    /// This command alone trips the store: a fault of ours, logged with its cause.
    #[error("internal: {0}")]
    Internal(String),
}

/// What a committed group touched, for those who follow (job runner, watermark).
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// Levels whose figures changed.
    pub levels: Vec<Moved>,
    /// The earliest job owed.
    pub next_job: Option<Timestamp>,
}

/// A level whose figures a group changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub level: LevelId,
    /// The SKU of which it alone still leaves enough (`domain::watermark::plenty`).
    pub plenty: Option<SkuKey>,
}

impl Moved {
    /// `sku` finds what is loaded of SKUs by their keys.
    fn now<'a>(level: &Level, sku: impl FnOnce(&str) -> Option<&'a Sku>, policy: &Policy) -> Moved {
        Moved { level: level.id.clone(), plenty: watermark::plenty(sku, level, policy) }
    }
}

/// What a group changed of what availability is made of, as it left it, and what it found sold out:
/// for caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// In whatever they were changed.
    pub levels: Vec<Arc<Level>>,
    /// SKUs, aliases or stop switches were changed.
    pub catalogue: bool,
    /// What placements of the group were refused and nothing is left of at its end, by the names
    /// asked for.
    pub sold_out: Vec<SoldOut>,
    /// When the levels were read under their locks; what is `sold_out` was so then.
    pub read_at: Option<Instant>,
}

/// Told of every group that ended (also of one that changed nothing) before its replies go out and
/// before anybody else; must be quick.
pub type OnCommit = Arc<dyn Fn(&Touched) + Send + Sync>;

/// The engine's handle; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    queue: Arc<queue::Queue>,
    committed: broadcast::Sender<Committed>,
}

/// What the engine runs with.
pub struct Parts {
    pub db: Db,
    pub clock: Clock,
    pub ids: Ids,
    pub policy: Arc<Policy>,
    /// Placements that may wait; beyond, they are shed (`limits.max_queued_commands`).
    pub max_queued: usize,
    /// The store's life. After a restore from a backup what is older may have been done outside
    /// without it knowing, and is looked up before it is done.
    pub epoch: Epoch,
    pub on_commit: OnCommit,
}

impl Engine {
    /// The handle, and the writer to be run as a task until [`Engine::close`]. It ends with an error,
    /// in words, when the store was restored from a backup under it.
    pub fn new(parts: Parts) -> (Engine, impl Future<Output = Result<(), &'static str>> + Send) {
        let queue = Arc::new(queue::Queue::new(parts.max_queued));
        let (committed, _) = broadcast::channel(1024);
        let writer = writer::Writer {
            db: parts.db,
            clock: parts.clock,
            ids: parts.ids,
            policy: parts.policy,
            queue: Arc::clone(&queue),
            committed: committed.clone(),
            store: store::Store::of(&parts.epoch),
            known: known::Known::default(),
            on_commit: parts.on_commit,
        };
        (Engine { queue, committed }, writer.run())
    }

    /// Runs a command; answers after its group has committed.
    ///
    /// # Errors
    /// [`Error`]; with any but `OutcomeUnknown` nothing was changed.
    pub async fn submit(&self, envelope: Envelope) -> Result<Reply, Error> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(queue::Pending { envelope, reply }).await?;
        answer.await.unwrap_or(Err(Error::OutcomeUnknown))
    }

    /// What each committed group touched. A follower that lags behind misses some and must look
    /// for itself.
    pub fn subscribe(&self) -> broadcast::Receiver<Committed> {
        self.committed.subscribe()
    }

    /// Commands that wait now.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Takes no more commands; those queued still run, then the writer ends.
    pub fn close(&self) {
        self.queue.close();
    }
}
