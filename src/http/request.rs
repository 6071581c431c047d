//! What surrounds every request: its id, its name in the log, its caller, its metrics, and that a panic is an
//! answer. One layer for all of it: each costs as much as reading the request.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use super::Shared;
use super::auth::{self, Caller};
use super::problem::{Code, Problem};
use crate::telemetry;

/// Names a request in its answer and in the logs.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers a request under its id, whatever happens in it; every line that is logged meanwhile names it.
pub async fn observe(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = given_id(&request).unwrap_or_else(|| app.ids.next(app.clock.now()));
    let header = HeaderValue::from_str(&id);
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("unmatched", MatchedPath::as_str);
    let caller = app.keys.caller(request.headers());
    let named = telemetry::Request {
        id,
        method: method.to_string(),
        route: route.to_owned(),
        key: caller.as_ref().map(|caller| Arc::clone(&caller.name)),
    };
    let answering = answer(&app, caller, request, next, started);
    let (mut response, code) = telemetry::REQUEST.scope(named, answering).await;
    if let Ok(id) = header {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    let status = response.status().as_u16();
    super::metrics::record(method.as_str(), route, status, code, started.elapsed());
    response
}

/// The answer, with its problem's code.
async fn answer(
    app: &Shared,
    caller: Option<Caller>,
    mut request: Request,
    next: Next,
    started: Instant,
) -> (Response, &'static str) {
    let answering = async {
        match auth::check(app, caller, &mut request).await {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    let caught = AssertUnwindSafe(answering).catch_unwind().await;
    let response = caught.unwrap_or_else(|panic| panicked(panic.as_ref()));
    let code = response.extensions().get::<Code>().map_or("", |code| code.0);
    tracing::debug!(
        "http.status" = response.status().as_u16(),
        "problem.code" = code,
        "duration.micros" = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        "answered"
    );
    (response, code)
}

/// The caller's id, when it is short and harmless in a log.
fn given_id(request: &Request) -> Option<String> {
    let text = request.headers().get(REQUEST_ID)?.to_str().ok()?;
    let sane = (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:/+=@".contains(&b));
    sane.then(|| text.to_owned())
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Response {
    let message = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    tracing::error!(panic = %message, "a handler panicked");
    Problem::internal().into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sane_id_of_the_caller_is_kept() {
        let id = |value: &'static [u8]| {
            let mut request = Request::builder().body(axum::body::Body::empty()).expect("one");
            let value = HeaderValue::from_bytes(value).expect("a value");
            request.headers_mut().insert(REQUEST_ID, value);
            given_id(&request)
        };
        assert_eq!(id(b"req-1.a:b/c"), Some("req-1.a:b/c".to_owned()));
        assert_eq!(id(b""), None);
        assert_eq!(id(b"a b"), None);
        assert_eq!(id(b"a\"b"), None);
        assert_eq!(id(b"\xe9"), None);
        assert_eq!(id(&[b'x'; 129]), None);
        assert!(id(&[b'x'; 128]).is_some());
    }
}
