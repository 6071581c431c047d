//! The body as text, at most 1 MiB, and path parameters, with faults as problems.

use std::time::Duration;

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
        if declared.is_some_and(|n| n > MAX_BODY_BYTES as u64) {
            return Err(Problem::too_large(MAX_BODY_BYTES));
        }
        let bytes = tokio::time::timeout(BODY_TIMEOUT, collect(request.into_body()))
            .await
            .map_err(|_| Problem::malformed("the body did not arrive in time"))??;
        String::from_utf8(bytes).map(Body).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Problem::malformed(format!("the body is not UTF-8 at byte {at}"))
        })
    }
}

async fn collect(body: axum::body::Body) -> Result<Vec<u8>, Problem> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Problem::malformed("the body ended early"))?;
        if bytes.len().saturating_add(chunk.len()) > MAX_BODY_BYTES {
            return Err(Problem::too_large(MAX_BODY_BYTES));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
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
        // By its declared length alone, before anything arrived.
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
