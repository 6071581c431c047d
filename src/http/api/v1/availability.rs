//! `GET /v1/skus/{sku}/availability`, `POST /v1/availability`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa::ToSchema;

use super::path_sku;
use crate::coordination::Definition;
use crate::domain::names::{LevelId, SkuKey};
use crate::domain::outcome::Refusal;
use crate::domain::stock::Level;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Param, Report};
use crate::http::idempotency::{Call, Keep, Turn, answer, plain, replayed};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::availability::AvailabilityView;
use crate::storage::reads::skus::{self, Loaded};

#[derive(ToSchema)]
pub struct QueryAvailability {
    #[schema(min_items = 1, max_items = 500)]
    pub skus: Vec<String>,
}

/// What can be sold of a SKU now.
#[utoipa::path(get, path = "/v1/skus/{sku}/availability", tag = "stock",
    params(("sku" = String, Path)),
    responses((status = 200, body = AvailabilityView), Problems))]
pub async fn get_availability(
    State(app): State<Shared>,
    Param(sku): Param<String>,
) -> Result<Json<AvailabilityView>, Problem> {
    let asked = path_sku(&sku)?;
    let found = load(&app, std::slice::from_ref(&asked)).await?;
    let loaded = found.get(&asked).ok_or_else(|| Problem::not_found("SKU"))?;
    let now = app.clock.now();
    Ok(Json(AvailabilityView::new(&app.policy, loaded, now)))
}

/// What can be sold of several SKUs now, in the order asked. It changes nothing and needs no
/// `Idempotency-Key`; under one, a repeat is told the figures of the first time.
#[utoipa::path(post, path = "/v1/availability", tag = "stock", request_body = QueryAvailability,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 200, body = List<AvailabilityView>), Problems))]
pub async fn query_availability(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    let asked = read(body.text())?;
    let found = load(&app, &asked).await?;
    let now = app.clock.now();
    let mut items = Vec::with_capacity(asked.len());
    let mut unknown = Vec::new();
    for sku in asked {
        match found.get(&sku) {
            Some(loaded) => items.push(AvailabilityView::new(&app.policy, loaded, now)),
            None => unknown.push(sku),
        }
    }
    if !unknown.is_empty() {
        return Err(Refusal::UnknownSku(unknown).into());
    }
    let told = answer(StatusCode::OK, &List { items, next_cursor: None });
    let Some(keep) = turn.keeping(&told) else { return Ok(plain(told)) };
    Ok(match app.operations.keep(keep).await? {
        Some(first) => replayed(plain(first)),
        None => plain(told),
    })
}

/// What is asked for, by the names asked for: as far as it is known, and else as it is stored.
async fn load(app: &Shared, asked: &[SkuKey]) -> Result<BTreeMap<SkuKey, Loaded>, Problem> {
    let calm = &app.coordination;
    let known = asked.iter().filter_map(|sku| Some((sku, calm.definition(sku)?)));
    let known: BTreeMap<&SkuKey, Arc<Definition>> = known.collect();
    let sources = known.values().flat_map(|definition| &definition.sku.sources);
    let levels = calm.levels(&sources.map(|source| source.level.clone()).collect()).await;
    let whole = known.into_iter().filter_map(|(sku, d)| Some((sku.clone(), whole(&d, &levels)?)));
    let mut found: BTreeMap<SkuKey, Loaded> = whole.collect();

    let missing = asked.iter().filter(|sku| !found.contains_key(*sku)).cloned();
    let missing: Vec<SkuKey> = missing.collect();
    if missing.is_empty() {
        return Ok(found);
    }
    let begun = calm.begin();
    let read = skus::load(&app.db, &missing).await?;
    let levels = read.values().flat_map(|loaded| &loaded.levels);
    let levels: BTreeMap<&LevelId, &Level> = levels.collect();
    let definitions = read.iter().map(|(asked, loaded)| {
        let Loaded { sku, suppliers, .. } = loaded;
        (asked.clone(), Definition { sku: sku.clone(), suppliers: suppliers.clone() })
    });
    calm.keep(begun, definitions.collect(), levels.into_values().cloned().collect()).await;
    found.extend(read);
    Ok(found)
}

/// A SKU with its levels; `None` unless all of them are known.
fn whole(definition: &Definition, levels: &BTreeMap<LevelId, Arc<Level>>) -> Option<Loaded> {
    let Definition { sku, suppliers } = definition;
    let levels = sku
        .sources
        .iter()
        .map(|source| Some((source.level.clone(), Level::clone(levels.get(&source.level)?))));
    Some(Loaded {
        sku: sku.clone(),
        levels: levels.collect::<Option<_>>()?,
        suppliers: suppliers.clone(),
    })
}

fn read(text: &str) -> Result<Vec<SkuKey>, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let skus = body.required("skus").and_then(|v| v.array(1..=500));
    let skus = skus.and_then(|skus| {
        let skus: Vec<_> = skus.iter().map(|v| v.sku()).collect();
        skus.into_iter().collect::<Option<Vec<_>>>()
    });
    body.finish();
    report.finish(skus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_to_five_hundred_skus_can_be_asked_for() {
        assert_eq!(read(r#"{"skus":["A"," B "]}"#), Ok(vec!["A".into(), "B".into()]));
        let problem = read(r#"{"skus":["A",7,""]}"#).expect_err("refused");
        assert_eq!(problem.body()["errors"][0]["field"], "skus[1]");
        assert_eq!(problem.body()["errors"][1]["field"], "skus[2]");
        let many = format!(r#"{{"skus":[{}]}}"#, vec!["\"A\""; 501].join(","));
        assert!(read(&many).is_err());
        assert!(read(r#"{"skus":[]}"#).is_err());
    }
}
