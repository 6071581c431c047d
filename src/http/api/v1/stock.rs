//! `POST /v1/skus/{sku}/stock`: units found, lost or counted.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa::ToSchema;

use super::path_sku;
use crate::domain::command::{Command, StockChange};
use crate::domain::names::{SkuKey, SourceId};
use crate::domain::outcome::Outcome;
use crate::domain::stock::MAX_FIGURE;
use crate::engine::KeptAnswer;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Param, Report};
use crate::http::idempotency::{Call, Keep, Turn, answer, unexpected};
use crate::http::problem::{Problem, Problems};
use crate::http::view::stock::LevelView;

/// Either `delta`, or `set_to` (a shelf count).
#[derive(ToSchema)]
pub struct ChangeStock {
    /// A warehouse.
    #[schema(example = "main")]
    pub source: String,
    /// Not 0.
    pub delta: Option<i64>,
    #[schema(minimum = 0)]
    pub set_to: Option<i64>,
    /// With `set_to`: `409 version_conflict` when the level has another.
    pub if_version: Option<i64>,
    /// With `set_to`: cancel the newest unpaid orders where the count is below what is promised.
    pub release_newest: Option<bool>,
    #[schema(min_length = 1, max_length = 255)]
    pub reason: String,
}

/// Change a warehouse's stock by hand.
#[utoipa::path(post, path = "/v1/skus/{sku}/stock", tag = "stock",
    params(("sku" = String, Path),
        ("Idempotency-Key" = String, Header, description = "1 to 255 characters")),
    request_body = ChangeStock, responses((status = 200, body = LevelView), Problems))]
pub async fn change_stock(
    State(app): State<Shared>,
    Param(sku): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let sku = path_sku(&sku)?;
    let turn = Turn::begin(&app, call, &body, Keep::ForEver)?;
    let command = read(body.text(), sku)?;
    turn.act(command, level_answer).await
}

fn level_answer(outcome: &Outcome) -> KeptAnswer {
    match outcome {
        Outcome::Level(level, cancelled) => {
            answer(StatusCode::OK, &LevelView::new(level, cancelled))
        }
        _ => unexpected(),
    }
}

fn read(text: &str, sku: SkuKey) -> Result<Command, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let source = body.required("source").and_then(|v| v.text(1..=32));
    let reason = body.required("reason").and_then(|v| v.text(1..=255));
    let change = match (body.optional("delta"), body.optional("set_to")) {
        (Some(delta), None) => delta.integer(-MAX_FIGURE..=MAX_FIGURE).and_then(|delta| {
            if delta == 0 {
                body.fault("delta", "must not be 0");
            }
            Some(StockChange::Delta(delta)).filter(|_| delta != 0)
        }),
        (None, Some(to)) => {
            let to = to.integer(0..=MAX_FIGURE);
            let if_version = body.optional("if_version").and_then(|v| v.integer(0..=i64::MAX));
            let release_newest = body.optional("release_newest").and_then(|v| v.boolean());
            to.map(|to| StockChange::Set {
                to,
                if_version,
                release_newest: release_newest.unwrap_or(false),
            })
        }
        (Some(_), Some(_)) => {
            body.fault("set_to", "must not be given beside delta");
            None
        }
        (None, None) => {
            body.fault("delta", "is required, or set_to");
            None
        }
    };
    body.finish();
    let read = || {
        Some(Command::ChangeStock {
            sku,
            source: SourceId::from(source?),
            change: change?,
            reason: reason?,
        })
    };
    let command = read();
    report.finish(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> Result<StockChange, String> {
        match read(text, "A".into()) {
            Ok(Command::ChangeStock { change, .. }) => Ok(change),
            Ok(other) => panic!("{other:?}"),
            Err(problem) => {
                Err(problem.body()["errors"][0]["field"].as_str().unwrap_or_default().to_owned())
            }
        }
    }

    #[test]
    fn a_delta_or_a_count() {
        assert_eq!(
            change(r#"{"source":"main","delta":-2,"reason":"damaged"}"#),
            Ok(StockChange::Delta(-2))
        );
        assert_eq!(
            change(
                r#"{"source":"main","set_to":0,"if_version":7,"reason":"count","release_newest":true}"#
            ),
            Ok(StockChange::Set { to: 0, if_version: Some(7), release_newest: true })
        );
        assert_eq!(
            change(r#"{"source":"main","set_to":10,"reason":"count"}"#),
            Ok(StockChange::Set { to: 10, if_version: None, release_newest: false })
        );
    }

    #[test]
    fn neither_both_or_what_does_not_belong_together_is_refused() {
        for (text, field) in [
            (r#"{"source":"main","reason":"x"}"#, "delta"),
            (r#"{"source":"main","delta":1,"set_to":1,"reason":"x"}"#, "set_to"),
            (r#"{"source":"main","delta":0,"reason":"x"}"#, "delta"),
            (r#"{"source":"main","delta":1,"if_version":1,"reason":"x"}"#, "if_version"),
            (r#"{"source":"main","set_to":-1,"reason":"x"}"#, "set_to"),
            (r#"{"source":"main","set_to":1,"if_version":null,"reason":"x"}"#, "if_version"),
            (r#"{"source":"main","set_to":1.0,"reason":"x"}"#, "set_to"),
            (r#"{"source":"main","delta":1,"reason":""}"#, "reason"),
            (r#"{"delta":1,"reason":"x"}"#, "source"),
        ] {
            assert_eq!(change(text), Err(field.to_owned()), "{text}");
        }
    }
}
