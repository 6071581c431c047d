//! The body as text, at most 1 MiB, and path parameters, with faults as problems.

use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header;
use axum::http::request::Parts;
use futures::StreamExt;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::http::problem::Problem;

/// No body is longer.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// A body must have arrived by then, so that a stuck caller cannot keep the daemon from stopping.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// So much of a body that is too large is read and forgotten before it is refused …
const DRAINED_BYTES: usize = 16 * 1024 * 1024;
/// … and for so long.
const DRAINED_FOR: Duration = Duration::from_secs(2);

/// A request's body: UTF-8 text of at most [`MAX_BODY_BYTES`].
pub struct Body(String);

impl Body {
    pub fn text(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the bytes as sent, in hex: two bodies are the same when their bytes are.
    pub fn hash(&self) -> String {
        hex::encode(Sha256::digest(self.0.as_bytes()))
    }

    #[cfg(test)]
    pub fn of(text: &str) -> Body {
        Body(text.to_owned())
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Body, Problem> {
        let declared = request
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        let waits = request.headers().contains_key(header::EXPECT);
        let mut stream = request.into_body().into_data_stream();
        let read = if declared.is_some_and(|n| n > MAX_BODY_BYTES as u64) {
            // Who waits for leave to send has sent nothing yet, and is not given it.
            if waits {
                return Err(Problem::too_large(MAX_BODY_BYTES));
            }
            None
        } else {
            tokio::time::timeout(BODY_TIMEOUT, collect(&mut stream))
                .await
                .map_err(|_| Problem::malformed("the body did not arrive in time"))??
        };
        let Some(bytes) = read else {
            let _ = tokio::time::timeout(DRAINED_FOR, drain(&mut stream)).await;
            return Err(Problem::too_large(MAX_BODY_BYTES));
        };
        String::from_utf8(bytes).map(Body).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Problem::malformed(format!("the body is not UTF-8 at byte {at}"))
        })
    }
}

/// The whole body, or `None` when it is too large.
async fn collect(stream: &mut BodyDataStream) -> Result<Option<Vec<u8>>, Problem> {
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Problem::malformed("the body ended early"))?;
        if bytes.len().saturating_add(chunk.len()) > MAX_BODY_BYTES {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// Reads on and forgets: most clients read no answer before they have written all, and would see a
/// broken pipe instead of it.
async fn drain(stream: &mut BodyDataStream) {
    let mut left = DRAINED_BYTES;
    while let Some(Ok(chunk)) = stream.next().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            return;
        }
    }
}

/// Path parameters; a fault in their encoding is a problem like any other.
pub struct Param<T>(pub T);

impl<T, S> FromRequestParts<S> for Param<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Param<T>, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Param(value)),
            Err(PathRejection::FailedToDeserializePathParams(e)) => {
                Err(Problem::malformed(format!("the path: {}", e.body_text())))
            }
            Err(e) => {
                tracing::error!(error = %e, "a handler's path parameters do not fit its route");
                Err(Problem::internal())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(body: axum::body::Body, length: Option<usize>) -> Result<Body, Problem> {
        let mut request = Request::builder();
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        Body::from_request(request.body(body).expect("a request"), &()).await
    }

    fn chunks(count: usize, size: usize) -> axum::body::Body {
        let stream = futures::stream::iter(
            (0..count).map(move |_| Ok::<_, std::io::Error>(vec![b' '; size])),
        );
        axum::body::Body::from_stream(stream)
    }

    #[tokio::test]
    async fn a_mebibyte_is_read_and_a_byte_more_is_not() {
        let full = read(chunks(16, 65_536), None).await.expect("read");
        assert_eq!(full.text().len(), 1_048_576);
        let problem = read(chunks(1_048_577, 1), None).await.err().expect("refused");
        assert_eq!(problem.code, "payload_too_large");
        assert_eq!(problem.status.as_u16(), 413);
        // By its declared length alone, though nothing arrives.
        let never = axum::body::Body::from_stream(futures::stream::pending::<
            Result<Vec<u8>, std::io::Error>,
        >());
        let problem = read(never, Some(1_048_577)).await.err().expect("refused");
        assert_eq!(problem.code, "payload_too_large");
    }

    #[tokio::test]
    async fn what_is_not_utf8_or_ends_early_is_malformed() {
        let problem = read(axum::body::Body::from(&b"{\"a\":\"\xff\"}"[..]), None)
            .await
            .err()
            .expect("refused");
        assert_eq!(problem.code, "malformed_request");
        assert!(problem.detail.contains("byte 6"), "{}", problem.detail);
        let torn = axum::body::Body::from_stream(futures::stream::iter([
            Ok(vec![b'{']),
            Err(std::io::Error::other("reset")),
        ]));
        assert_eq!(read(torn, None).await.err().expect("refused").code, "malformed_request");
    }

    #[test]
    fn a_hash_is_of_the_bytes() {
        // `printf '{}' | sha256sum`
        assert_eq!(
            Body::of("{}").hash(),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        assert_ne!(Body::of("{ }").hash(), Body::of("{}").hash());
    }
}
