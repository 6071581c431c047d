//! `GET /v1/skus/{sku}/availability`, `POST /v1/availability`.

use axum::Json;
use axum::extract::State;
use utoipa::ToSchema;

use super::path_sku;
use crate::domain::names::SkuKey;
use crate::domain::outcome::Refusal;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Param, Report};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::availability::AvailabilityView;
use crate::storage::reads::skus;

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
    let found = skus::load(&app.db, std::slice::from_ref(&asked)).await?;
    let loaded = found.get(&asked).ok_or_else(|| Problem::not_found("SKU"))?;
    let now = app.clock.now();
    Ok(Json(AvailabilityView::new(&app.policy, loaded, now)))
}

/// What can be sold of several SKUs now, in the order asked. It changes nothing, so an
/// `Idempotency-Key` means nothing to it: each request is answered with the figures of its time.
#[utoipa::path(post, path = "/v1/availability", tag = "stock", request_body = QueryAvailability,
    responses((status = 200, body = List<AvailabilityView>), Problems))]
pub async fn query_availability(
    State(app): State<Shared>,
    body: Body,
) -> Result<Json<List<AvailabilityView>>, Problem> {
    let asked = read(body.text())?;
    let found = skus::load(&app.db, &asked).await?;
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
    Ok(Json(List { items, next_cursor: None }))
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
