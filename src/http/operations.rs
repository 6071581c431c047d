//! What ops may start by hand that is neither a command nor a read: a sync, a dead job, an alert
//! that was seen. Given by whoever owns the jobs; HTTP itself writes nothing.

use async_trait::async_trait;

use super::problem::Problem;
use crate::domain::names::SourceId;
use crate::domain::outcome::Refusal;
use crate::engine::KeptAnswer;
use crate::storage::alerts::Alert;
use crate::storage::groups::Keep;
use crate::storage::jobs::JobInfo;

/// See the module. Each is harmless when repeated.
#[async_trait]
pub trait Operations: Send + Sync {
    /// Owes a sync of a configured supplier, now. `accept_suspect`: take the next feed by hand even
    /// if it looks suspect. `keep`: the answer to be kept under an `Idempotency-Key`; where one is
    /// kept there already, nothing is owed and that one is given.
    ///
    /// # Errors
    /// [`Refused::AlreadyRunning`] while one is under way; [`Refused::KeyReused`].
    async fn sync(
        &self,
        supplier: &SourceId,
        accept_suspect: bool,
        keep: Option<Keep>,
    ) -> Result<Option<KeptAnswer>, Refused>;

    /// Makes a dead job ready again; one that is not dead is left alone. Answers with the job as it
    /// then is.
    ///
    /// # Errors
    /// [`Refused::NotFound`] when there is none; [`Refused::KeyReused`].
    async fn retry_job(&self, id: i64, answering: Answering<JobInfo>) -> Result<Answered, Refused>;

    /// Notes that ops have seen an alert; the first time counts. Answers with the alert.
    ///
    /// # Errors
    /// [`Refused::NotFound`] when there is none; [`Refused::KeyReused`].
    async fn acknowledge_alert(
        &self,
        id: i64,
        answering: Answering<Alert>,
    ) -> Result<Answered, Refused>;

    /// Keeps the answer to a question under its key, or gives the one that is kept there.
    ///
    /// # Errors
    /// [`Refused::KeyReused`].
    async fn keep(&self, answer: Keep) -> Result<Option<KeptAnswer>, Refused>;
}

/// How an operation is answered, within the transaction of its effect.
pub struct Answering<T> {
    pub render: Box<dyn FnOnce(T) -> KeptAnswer + Send>,
    /// The key that it is kept under, with an answer still to be made.
    pub keep: Option<Keep>,
}

/// An operation's answer.
pub enum Answered {
    Now(KeptAnswer),
    /// Before, under the same key.
    Before(KeptAnswer),
}

/// Why an operation did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("already running: {0}")]
    AlreadyRunning(String),
    /// The idempotency key was used with another body.
    #[error("the idempotency key was used with another body")]
    KeyReused,
    /// The store cannot be reached. Nothing was changed.
    #[error("storage unavailable: {0}")]
    StorageUnavailable(String),
    /// A fault of ours.
    #[error("internal: {0}")]
    Internal(String),
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        match refused {
            Refused::NotFound(what) => Problem::not_found(what),
            Refused::KeyReused => Refusal::KeyReused.into(),
            Refused::AlreadyRunning(detail) => Problem::already_running(detail),
            Refused::StorageUnavailable(cause) => {
                tracing::warn!(error = %cause, "an operation found the store unavailable");
                Problem::storage_unavailable()
            }
            Refused::Internal(cause) => {
                tracing::error!(error = %cause, "an operation failed");
                Problem::internal()
            }
        }
    }
}
