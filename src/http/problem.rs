//! Errors on the wire: RFC 9457 `application/problem+json` with a `code` of the contract.
//!
//! What must hold: every refusal of the core has exactly one code; a `503` with `Retry-After` says
//! that nothing was taken, `outcome_unknown` says that this is not known. Causes inside the daemon
//! are logged once, here, and never shown.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use crate::coordination::Wait;
use crate::domain::outcome::{FieldError, Refusal, Shortage};
use crate::domain::stock::Level;
use crate::engine;
use crate::storage;

/// An error answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub status: StatusCode,
    pub code: &'static str,
    pub title: &'static str,
    /// For people; not to be parsed.
    pub detail: String,
    /// Members that the code's row of the contract names.
    pub members: Map<String, Value>,
    /// Seconds, sent as `Retry-After`.
    pub retry_after: Option<u32>,
}

/// Seconds after which a caller may try again when the daemon was too busy or without its store.
const RETRY_AFTER_SECS: u32 = 1;

impl Problem {
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem {
            status,
            code,
            title,
            detail: detail.into(),
            members: Map::new(),
            retry_after: None,
        }
    }

    /// Adds a member.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Problem {
        self.members.insert(name.to_owned(), value);
        self
    }

    fn busy(code: &'static str, title: &'static str, detail: &str) -> Problem {
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, title, detail);
        problem.retry_after = Some(RETRY_AFTER_SECS);
        problem
    }

    fn conflict(code: &'static str, title: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, code, title, detail)
    }

    fn unprocessable(code: &'static str, title: &'static str, detail: String) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, title, detail)
    }

    pub fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "malformed_request",
            "The request cannot be read",
            detail,
        )
    }

    pub fn key_required() -> Problem {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "idempotency_key_required",
            "An Idempotency-Key is required",
            "This request moves stock or money and has no id of its own: send an Idempotency-Key \
             header of 1 to 255 characters, the same one when you repeat it.",
        )
    }

    pub fn unauthorized() -> Problem {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "A valid API key is required",
            "Send `Authorization: Bearer <key>`.",
        )
    }

    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "The API key's role does not allow this",
            detail,
        )
    }

    /// `what` as in "no such order".
    pub fn not_found(what: &str) -> Problem {
        Problem::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "Not found",
            format!("There is no such {what}."),
        )
    }

    /// The contract's table has no row for a method that a path does not take: nothing is there to
    /// be found under it. `Allow` names those that are.
    pub fn no_such_method() -> Problem {
        let detail = "The path does not take this method; see /openapi.json for what it takes.";
        Problem { detail: detail.to_owned(), ..Problem::not_found("method") }
    }

    pub fn too_large(limit: usize) -> Problem {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "payload_too_large",
            "The body is too large",
            format!("A body has at most {limit} bytes."),
        )
    }

    pub fn in_progress() -> Problem {
        Problem::conflict(
            "request_in_progress",
            "The first request with this key is still running",
            "Repeat it in a moment to get its answer.",
        )
    }

    pub fn already_running(detail: impl Into<String>) -> Problem {
        Problem::conflict("already_running", "Already running", detail)
    }

    pub fn invalid(errors: &[FieldError]) -> Problem {
        let detail = errors
            .iter()
            .map(|e| format!("{}: {}", e.field, e.message))
            .collect::<Vec<_>>()
            .join("; ");
        let list = errors.iter().map(|e| json!({"field": e.field, "message": e.message})).collect();
        Problem::unprocessable("validation_failed", "The request is not valid", detail)
            .with("errors", Value::Array(list))
    }

    fn too_many(code: &'static str, title: &'static str, detail: &str, wait: Wait) -> Problem {
        let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, code, title, detail);
        problem.retry_after = Some(wait.secs());
        problem
    }

    pub fn rate_limited(wait: Wait) -> Problem {
        Problem::too_many(
            "rate_limited",
            "Too many requests with this API key",
            "Nothing was taken; come again after `Retry-After`.",
            wait,
        )
    }

    pub fn duplicate_submission(wait: Wait) -> Problem {
        Problem::too_many(
            "duplicate_submission",
            "The customer has just ordered the same",
            "An order of this customer with these lines was accepted a moment ago under another \
             external id. Nothing was taken. If it is meant, send it again after `Retry-After`.",
            wait,
        )
    }

    /// One field that is at fault.
    pub fn invalid_field(field: &str, message: impl Into<String>) -> Problem {
        Problem::invalid(&[FieldError { field: field.to_owned(), message: message.into() }])
    }

    pub fn storage_unavailable() -> Problem {
        Problem::busy(
            "storage_unavailable",
            "The store cannot be reached",
            "Nothing was taken; try again.",
        )
    }

    /// A fault of ours; whoever makes one logs its cause.
    pub fn internal() -> Problem {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "Internal error",
            "The cause is in the log under this request's id.",
        )
    }

    /// Whether the daemon knows that the request changed nothing.
    pub fn nothing_taken(&self) -> bool {
        !matches!(self.code, "outcome_unknown" | "request_in_progress")
    }

    fn kind(&self) -> String {
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            "about:blank".to_owned()
        } else {
            format!("urn:stockhold:problem:{}", self.code)
        }
    }

    /// The answer's body.
    pub fn body(&self) -> Value {
        let mut body = self.members.clone();
        body.insert("type".into(), self.kind().into());
        body.insert("title".into(), self.title.into());
        body.insert("status".into(), self.status.as_u16().into());
        body.insert("detail".into(), self.detail.as_str().into());
        body.insert("code".into(), self.code.into());
        Value::Object(body)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(secs) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            // What is left of the body is not read.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(Code(self.code));
        response
    }
}

/// An error answer in the API document.
#[derive(utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    #[schema(rename = "type")]
    pub r#type: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    /// One of the contract's table; further members depend on it.
    pub code: String,
}

/// The error answers that every endpoint of `/v1` can give, for the API document.
pub struct Problems;

impl utoipa::IntoResponses for Problems {
    fn responses() -> std::collections::BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let rows = [
            ("400", "`malformed_request`, `idempotency_key_required`"),
            ("401", "`unauthorized`"),
            ("403", "`forbidden`"),
            ("404", "`not_found`; also a path that does not take the method"),
            (
                "409",
                "`insufficient_stock` (`shortages`), `stale_feed` (`skus`), `sku_paused` (`skus`), \
                 `external_id_conflict`, `payment_conflict`, `request_in_progress`, \
                 `order_state_conflict` (`state`), `version_conflict` (`current`), \
                 `quantity_below_held` (`current`, `holds`), `already_running`",
            ),
            ("413", "`payload_too_large`: over 1 MiB"),
            (
                "422",
                "`validation_failed` (`errors`), `unknown_sku` (`skus`), \
                 `idempotency_key_reused`, `quantity_exceeded`",
            ),
            (
                "429",
                "`duplicate_submission`, `rate_limited`: nothing was taken, come again after \
                 `Retry-After`",
            ),
            (
                "503",
                "`storage_unavailable`, `overloaded`: nothing was taken, try again after \
                 `Retry-After`; `outcome_unknown`: repeat with the same external id or key",
            ),
        ];
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        rows.into_iter()
            .map(|(status, codes)| {
                let response = ResponseBuilder::new()
                    .description(codes)
                    .content("application/problem+json", content.clone())
                    .build();
                (status.to_owned(), RefOr::T(response))
            })
            .collect()
    }
}

/// The code of an error answer, left beside it for the metrics.
#[derive(Clone, Copy, Debug)]
pub struct Code(pub &'static str);

impl From<engine::Error> for Problem {
    fn from(error: engine::Error) -> Problem {
        match error {
            engine::Error::Refused(refusal) => refusal.into(),
            engine::Error::Overloaded => Problem::busy(
                "overloaded",
                "Too many orders at once",
                "Nothing was taken; try again.",
            ),
            engine::Error::ShuttingDown => Problem::busy(
                "overloaded",
                "The daemon is stopping",
                "Nothing was taken; try again.",
            ),
            engine::Error::StorageUnavailable(cause) => {
                tracing::warn!(error = %cause, "a command found the store unavailable");
                Problem::storage_unavailable()
            }
            engine::Error::OutcomeUnknown => Problem::busy(
                "outcome_unknown",
                "Whether it was done is not known",
                "Repeat it with the same external id or Idempotency-Key.",
            ),
            engine::Error::Internal(cause) => {
                tracing::error!(error = %cause, "a command failed");
                Problem::internal()
            }
        }
    }
}

impl From<storage::Error> for Problem {
    /// Of a read, which changes nothing.
    fn from(error: storage::Error) -> Problem {
        match error {
            storage::Error::Poison(cause) => {
                tracing::error!(error = %cause, "a read failed");
                Problem::internal()
            }
            other => {
                tracing::warn!(error = %other, "a read found the store unavailable");
                Problem::storage_unavailable()
            }
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let detail = refusal.to_string();
        match refusal {
            Refusal::NotFound(what) => Problem::not_found(what),
            Refusal::InsufficientStock(shortages) => {
                Problem::conflict("insufficient_stock", "Not enough stock", detail)
                    .with("shortages", shortages.iter().map(shortage).collect::<Vec<_>>().into())
            }
            Refusal::StaleFeed(skus) => {
                let list: Vec<Value> = skus
                    .iter()
                    .map(|(sku, age)| {
                        json!({"sku": sku.as_str(), "age_seconds": age.map(|a| a.as_secs())})
                    })
                    .collect();
                Problem::conflict("stale_feed", "The supplier's figures are too old", detail)
                    .with("skus", list.into())
            }
            Refusal::SkuPaused(skus) => {
                Problem::conflict("sku_paused", "Selling is paused", detail)
                    .with("skus", names(&skus))
            }
            Refusal::ExternalIdConflict => Problem::conflict(
                "external_id_conflict",
                "The external id names another order",
                detail,
            ),
            Refusal::PaymentConflict(_) => Problem::conflict(
                "payment_conflict",
                "The payment id was recorded otherwise",
                detail,
            ),
            Refusal::OrderState(state, _) => state_conflict(state.as_str(), detail),
            Refusal::Conflict(state, _) => state_conflict(state, detail),
            // No caller of HTTP holds a lease; whoever did has lost it.
            Refusal::Fenced(_) => state_conflict("taken_over", detail),
            Refusal::VersionConflict(level) => {
                Problem::conflict("version_conflict", "The stock changed meanwhile", detail)
                    .with("current", figures(&level))
            }
            Refusal::BelowHeld { level, holds } => {
                Problem::conflict("quantity_below_held", "More is promised than that", detail)
                    .with("current", figures(&level))
                    .with("holds", holds.into())
            }
            Refusal::Invalid(errors) => Problem::invalid(&errors),
            Refusal::UnknownSku(skus) => {
                let detail = format!(
                    "unknown SKU: {}",
                    skus.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ")
                );
                Problem::unprocessable("unknown_sku", "Unknown SKU", detail)
                    .with("skus", names(&skus))
            }
            Refusal::KeyReused => Problem::unprocessable(
                "idempotency_key_reused",
                "The Idempotency-Key was used with another body",
                detail,
            ),
            Refusal::QuantityExceeded(_) => {
                Problem::unprocessable("quantity_exceeded", "More than is there", detail)
            }
            Refusal::Locked(_) => Problem::busy("overloaded", "The item is being decided", &detail),
        }
    }
}

fn state_conflict(state: &str, detail: String) -> Problem {
    Problem::conflict("order_state_conflict", "Its state does not allow this", detail)
        .with("state", state.into())
}

fn names(skus: &[crate::domain::names::SkuKey]) -> Value {
    skus.iter().map(|s| s.as_str()).collect::<Vec<_>>().into()
}

fn shortage(s: &Shortage) -> Value {
    json!({"sku": s.sku.as_str(), "requested": s.requested, "available": s.available})
}

/// A level's figures as they are now.
fn figures(level: &Level) -> Value {
    json!({
        "source": level.source.as_str(),
        "quantity": level.quantity,
        "held": level.held,
        "committed": level.committed,
        "version": level.version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Span, Timestamp};
    use crate::domain::names::{LevelId, SkuKey};
    use crate::domain::order::State;

    fn level() -> Box<Level> {
        let mut level = Level::empty(LevelId::from("main:A"), "main".into(), None);
        (level.quantity, level.held, level.committed, level.version) = (5, 2, 1, 9);
        Box::new(level)
    }

    /// (status, code) of each refusal, from the table of the contract.
    #[test]
    fn every_refusal_has_its_row_of_the_table() {
        let sku = SkuKey::from("A");
        let cases: Vec<(Refusal, u16, &str)> = vec![
            (Refusal::NotFound("order"), 404, "not_found"),
            (Refusal::InsufficientStock(vec![]), 409, "insufficient_stock"),
            (Refusal::StaleFeed(vec![]), 409, "stale_feed"),
            (Refusal::SkuPaused(vec![sku.clone()]), 409, "sku_paused"),
            (Refusal::ExternalIdConflict, 409, "external_id_conflict"),
            (Refusal::PaymentConflict("x".into()), 409, "payment_conflict"),
            (Refusal::OrderState(State::Shipped, "x".into()), 409, "order_state_conflict"),
            (Refusal::Conflict("succeeded", "x".into()), 409, "order_state_conflict"),
            (Refusal::VersionConflict(level()), 409, "version_conflict"),
            (
                Refusal::BelowHeld { level: level(), holds: vec!["o.1.1".into()] },
                409,
                "quantity_below_held",
            ),
            (Refusal::Invalid(vec![]), 422, "validation_failed"),
            (Refusal::UnknownSku(vec![sku]), 422, "unknown_sku"),
            (Refusal::KeyReused, 422, "idempotency_key_reused"),
            (Refusal::QuantityExceeded("x".into()), 422, "quantity_exceeded"),
            (Refusal::Fenced("x".into()), 409, "order_state_conflict"),
            (Refusal::Locked(Timestamp(0)), 503, "overloaded"),
        ];
        for (refusal, status, code) in cases {
            let problem = Problem::from(refusal.clone());
            assert_eq!((problem.status.as_u16(), problem.code), (status, code), "{refusal:?}");
        }
    }

    #[test]
    fn the_members_of_the_table_are_shown() {
        let shortage = Shortage { sku: "A".into(), requested: 3, available: 1 };
        let body = Problem::from(Refusal::InsufficientStock(vec![shortage])).body();
        assert_eq!(body["shortages"], json!([{"sku": "A", "requested": 3, "available": 1}]));
        assert_eq!(body["type"], "urn:stockhold:problem:insufficient_stock");
        assert_eq!(body["status"], 409);

        let stale =
            Refusal::StaleFeed(vec![("A".into(), Some(Span::secs(900))), ("B".into(), None)]);
        assert_eq!(
            Problem::from(stale).body()["skus"],
            json!([{"sku": "A", "age_seconds": 900}, {"sku": "B", "age_seconds": null}])
        );
        let state = Refusal::OrderState(State::Shipped, "too late".into());
        assert_eq!(Problem::from(state).body()["state"], "shipped");
        let other = Refusal::Conflict("placed", "the purchase is placed".into());
        assert_eq!(Problem::from(other).body()["state"], "placed");
        let held = Refusal::BelowHeld { level: level(), holds: vec!["o.1.1".into()] };
        let body = Problem::from(held).body();
        assert_eq!(body["holds"], json!(["o.1.1"]));
        assert_eq!(
            body["current"],
            json!({"source": "main", "quantity": 5, "held": 2, "committed": 1, "version": 9})
        );
        let invalid = Problem::from(Refusal::invalid("lines[0].quantity", "must be above 0"));
        assert_eq!(
            invalid.body()["errors"],
            json!([{"field": "lines[0].quantity", "message": "must be above 0"}])
        );
    }

    #[test]
    fn what_may_be_repeated_says_when_and_an_unknown_outcome_claims_nothing() {
        for error in [
            engine::Error::Overloaded,
            engine::Error::ShuttingDown,
            engine::Error::StorageUnavailable("gone".into()),
        ] {
            let problem = Problem::from(error);
            assert_eq!(problem.status.as_u16(), 503);
            assert_eq!(problem.retry_after, Some(1));
            assert!(problem.nothing_taken());
        }
        let unknown = Problem::from(engine::Error::OutcomeUnknown);
        assert_eq!(unknown.code, "outcome_unknown");
        assert!(!unknown.nothing_taken());
    }

    #[test]
    fn a_fault_of_ours_shows_no_cause() {
        let problem = Problem::from(engine::Error::Internal("table levels is gone".into()));
        assert_eq!(problem.status.as_u16(), 500);
        assert_eq!(problem.body()["type"], "about:blank");
        assert!(!problem.body().to_string().contains("levels"));
    }

    #[test]
    fn the_answer_is_problem_json_with_its_headers() {
        let response = Problem::from(engine::Error::Overloaded).into_response();
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert_eq!(response.headers()["retry-after"], "1");
        let response = Problem::unauthorized().into_response();
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
    }
}
