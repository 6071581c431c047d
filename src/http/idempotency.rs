//! `Idempotency-Key`: one turn for each key at a time, and the first answer again to a repeat.
//!
//! What must hold: a key's scope is the API key's name, the path and the key; two bodies are the
//! same when their bytes are; an answer is kept in the transaction of its effect (by the engine),
//! and rendered by a pure function of the outcome and of the request's own `now`, so that what is
//! kept is what was sent. The key of a placement that made an order is a column of that order, and
//! its replay is the rules'; one that found its order there already is kept like any other.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::Shared;
use super::auth::Caller;
use super::extract::Body;
use super::operations::{Answered, Answering};
use super::problem::Problem;
use crate::clock::Timestamp;
use crate::domain::command::Command;
use crate::domain::outcome::Outcome;
use crate::engine::{Envelope, Idempotency, KeptAnswer, Reply};
use crate::storage::groups;

/// The header that names a request so that it can be repeated.
pub const KEY: &str = "idempotency-key";
/// Set on an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// (API key name, path, key)
type Scope = (String, String, String);

/// The keys whose first request is running in this process.
#[derive(Clone, Default)]
pub struct Running(Arc<Mutex<HashSet<Scope>>>);

/// Held while a key's request runs.
pub struct Held {
    scope: Scope,
    running: Running,
}

impl Running {
    /// `None` when the key's first request is still running.
    pub(super) fn hold(&self, scope: &Scope) -> Option<Held> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(scope.clone()).then(|| Held { scope: scope.clone(), running: self.clone() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut running = self.running.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.scope);
    }
}

/// Who calls, what path, and under which key.
pub struct Call {
    pub caller: Caller,
    path: String,
    key: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Call {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Call, Problem> {
        let Some(caller) = parts.extensions.get::<Caller>().cloned() else {
            tracing::error!("a handler was reached without a caller");
            return Err(Problem::internal());
        };
        let mut keys = parts.headers.get_all(KEY).iter();
        let key = keys.next().map(read_key).transpose()?;
        if keys.next().is_some() {
            return Err(Problem::invalid_field("Idempotency-Key", "is given twice"));
        }
        Ok(Call { caller, path: parts.uri.path().to_owned(), key })
    }
}

fn key_length() -> Problem {
    Problem::invalid_field("Idempotency-Key", "must have 1 to 255 characters")
}

fn read_key(value: &HeaderValue) -> Result<String, Problem> {
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::invalid_field("Idempotency-Key", "must be UTF-8"))?;
    if text.chars().count() > 255 {
        return Err(key_length());
    }
    Ok(text.to_owned())
}

/// How long an answer is kept, and whether there must be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// 24 hours, where a key is given.
    Day,
    /// For ever: it moves stock or money and has no id of its own, so a key must be given.
    ForEver,
}

/// A request's turn: from here on nobody else runs under its key in this process.
pub struct Turn {
    app: Shared,
    scope: Option<Scope>,
    body_hash: String,
    keep: Keep,
    /// When the request came; all its views are rendered as of then.
    pub now: Timestamp,
    pub caller: Caller,
    _held: Option<Held>,
}

impl Turn {
    /// # Errors
    /// `400 idempotency_key_required`, `409 request_in_progress`, or `422` for an empty key.
    pub fn begin(app: &Shared, call: Call, body: &Body, keep: Keep) -> Result<Turn, Problem> {
        let Call { caller, path, key } = call;
        match key.as_deref() {
            None | Some("") if keep == Keep::ForEver => return Err(Problem::key_required()),
            Some("") => return Err(key_length()),
            _ => {}
        }
        let scope = key.map(|key| (caller.name.to_string(), path, key));
        let held = match &scope {
            Some(scope) => Some(app.running.hold(scope).ok_or_else(Problem::in_progress)?),
            None => None,
        };
        Ok(Turn {
            app: app.clone(),
            body_hash: scope.as_ref().map(|_| body.hash()).unwrap_or_default(),
            scope,
            keep,
            now: app.clock.now(),
            caller,
            _held: held,
        })
    }

    /// A placement's own key, and the hash of its body.
    pub fn placement_key(&self) -> Option<(String, String)> {
        let (name, _, key) = self.scope.as_ref()?;
        Some((format!("{name}\n{key}"), self.body_hash.clone()))
    }

    /// What a placement under this turn's key is known by: the order's key and the kept answer's scope.
    pub fn placement_names(&self) -> Option<(String, groups::Scope)> {
        Some((self.placement_key()?.0, self.scope.clone()?))
    }

    /// What the engine needs to keep the answer, where `render` makes one.
    pub fn idempotency(
        &self,
        render: impl Fn(&Outcome) -> Option<KeptAnswer> + Send + Sync + 'static,
    ) -> Option<Idempotency> {
        Some(Idempotency {
            scope: self.scope.clone()?,
            body_hash: self.body_hash.clone(),
            for_ever: self.keep == Keep::ForEver,
            render: Arc::new(render),
        })
    }

    /// The answer to be kept, for an operation that is no command.
    pub fn keeping(&self, answer: &KeptAnswer) -> Option<groups::Keep> {
        let kept = groups::Kept {
            body_hash: self.body_hash.clone(),
            status: answer.status,
            body: answer.body.clone(),
        };
        Some(groups::Keep {
            scope: self.scope.clone()?,
            kept,
            for_ever: self.keep == Keep::ForEver,
        })
    }

    /// How an operation on something is answered: with its view.
    pub fn answering<T, V: Serialize>(
        &self,
        view: impl FnOnce(T) -> V + Send + 'static,
    ) -> Answering<T> {
        Answering {
            render: Box::new(|what| answer(StatusCode::OK, &view(what))),
            keep: self.keeping(&KeptAnswer { status: 0, body: String::new() }),
        }
    }

    /// Runs a command and answers with what `render` makes of its outcome, or with the first
    /// answer under the same key.
    ///
    /// # Errors
    /// Whatever the engine refuses or cannot do.
    pub async fn act(
        self,
        command: Command,
        render: impl Fn(&Outcome) -> KeptAnswer + Send + Sync + Clone + 'static,
    ) -> Result<Response, Problem> {
        let keep = render.clone();
        let idempotency = self.idempotency(move |outcome| Some(keep(outcome)));
        let envelope = Envelope { command, fence: None, idempotency };
        let reply = self.app.engine.submit(envelope).await?;
        Ok(respond(&reply, render))
    }
}

/// The answer to a reply: rendered, or as it was kept.
pub fn respond(reply: &Reply, render: impl Fn(&Outcome) -> KeptAnswer) -> Response {
    match reply {
        Reply::Outcome(outcome) => plain(render(outcome)),
        Reply::Kept(kept) => replayed(plain(kept.clone())),
    }
}

/// The answer of an operation.
pub fn answered(answered: Answered) -> Response {
    match answered {
        Answered::Now(answer) => plain(answer),
        Answered::Before(first) => replayed(plain(first)),
    }
}

/// Says that an answer was given before.
pub fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// An answer as it is sent.
pub fn plain(answer: KeptAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !status.is_success() {
        return Problem::internal().into_response();
    }
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], answer.body).into_response()
}

/// An answer of this status with a view as its body.
pub fn answer(status: StatusCode, view: &impl Serialize) -> KeptAnswer {
    match serde_json::to_string(view) {
        Ok(body) => KeptAnswer { status: status.as_u16(), body },
        Err(e) => {
            tracing::error!(error = %e, "a view cannot be written");
            unexpected()
        }
    }
}

/// A command ended in an outcome that its endpoint does not know: a fault of ours.
pub fn unexpected() -> KeptAnswer {
    KeptAnswer { status: 500, body: Problem::internal().body().to_string() }
}
