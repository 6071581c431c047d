//! SKUs: their list, one of them, putting one, and aliases.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa::ToSchema;

use super::path_sku;
use crate::domain::command::Command;
use crate::domain::money::Currency;
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::outcome::Outcome;
use crate::domain::policy::Policy;
use crate::domain::sku::{Class, Kind, MAX_SOURCES, Paused, Sku, Source, Watermark};
use crate::domain::stock::MAX_FIGURE;
use crate::domain::supply::Item;
use crate::engine::{Envelope, KeptAnswer};
use crate::http::Shared;
use crate::http::extract::{Body, MAX_QUANTITY, Object, Page, Param, Query, Report, Value};
use crate::http::idempotency::{Call, Keep, Turn, answer, respond, unexpected};
use crate::http::problem::{Problem, Problems};
use crate::http::view::List;
use crate::http::view::sku::SkuView;
use crate::storage::reads::skus;

const LIST: &str = "skus";

#[derive(ToSchema)]
pub struct PutSku {
    #[schema(max_length = 255)]
    pub title: String,
    /// `normal` (default), `hot` or `flash`.
    pub class: Option<String>,
    /// Absent: the settings'.
    pub watermark: Option<WatermarkBody>,
    /// In order of preference, each source once.
    #[schema(min_items = 1, max_items = 5)]
    pub sources: Vec<SourceBody>,
}

#[derive(ToSchema)]
pub struct WatermarkBody {
    #[schema(minimum = 0)]
    pub low: Option<i64>,
    /// Must exceed `low`.
    #[schema(minimum = 0)]
    pub recover: Option<i64>,
}

#[derive(ToSchema)]
pub struct SourceBody {
    /// A warehouse, or a configured supplier.
    #[schema(pattern = "^[a-z0-9_-]{1,32}$")]
    pub source: String,
    /// `warehouse` or `supplier`.
    pub kind: String,
    /// Suppliers only, and required for them.
    #[schema(min_length = 1, max_length = 64)]
    pub offer_id: Option<String>,
    /// Suppliers only: the variant, where the offer has variants.
    #[schema(min_length = 1, max_length = 64)]
    pub spec_id: Option<String>,
    /// Suppliers only, per unit in `currency`.
    #[schema(example = "128.00")]
    pub cost: Option<String>,
    /// Suppliers only; absent: the supplier's.
    pub currency: Option<String>,
    /// Suppliers only; default 1.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub min_quantity: Option<i64>,
    /// Suppliers only; default 1.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub pack_size: Option<i64>,
    /// Units never sold; absent: the supplier's default, 0 for a warehouse.
    #[schema(minimum = 0)]
    pub buffer: Option<i64>,
}

#[derive(ToSchema)]
pub struct AddAlias {
    /// Another name of the SKU.
    #[schema(min_length = 1, max_length = 128)]
    pub alias: String,
}

/// SKUs by key, ascending.
#[utoipa::path(get, path = "/v1/skus", tag = "stock",
    params(("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "default 50"),
        ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<SkuView>), Problems))]
pub async fn list_skus(
    State(app): State<Shared>,
    query: Query,
) -> Result<Json<List<SkuView>>, Problem> {
    let page = query.page(LIST);
    query.finish()?;
    let after = page.parts::<1>()?.map(|[key]| SkuKey::from(key));
    let rows = skus::list(&app.db, after.as_ref(), page.limit).await?;
    Ok(Json(List::page(
        rows,
        page.limit,
        |sku| Page::cursor(LIST, &[sku.key.as_str()]),
        |sku| SkuView::new(&sku),
    )))
}

/// One SKU; an alias names its SKU.
#[utoipa::path(get, path = "/v1/skus/{sku}", tag = "stock", params(("sku" = String, Path)),
    responses((status = 200, body = SkuView), Problems))]
pub async fn get_sku(
    State(app): State<Shared>,
    Param(sku): Param<String>,
) -> Result<Json<SkuView>, Problem> {
    let sku =
        skus::find(&app.db, &path_sku(&sku)?).await?.ok_or_else(|| Problem::not_found("SKU"))?;
    Ok(Json(SkuView::new(&sku)))
}

/// Create a SKU, or replace what it is. Pauses stay.
#[utoipa::path(put, path = "/v1/skus/{sku}", tag = "stock", params(("sku" = String, Path)),
    request_body = PutSku, responses((status = 200, body = SkuView), Problems))]
pub async fn put_sku(
    State(app): State<Shared>,
    Param(sku): Param<String>,
    body: Body,
) -> Result<Response, Problem> {
    let key = path_sku(&sku)?;
    let sku = read_sku(body.text(), key, &app.policy)?;
    let command = Command::PutSku(Box::new(sku));
    let reply = app.engine.submit(Envelope::from(command)).await?;
    Ok(respond(&reply, sku_answer))
}

/// Give a SKU another name, by which orders and feeds may go on naming it.
#[utoipa::path(post, path = "/v1/skus/{sku}/aliases", tag = "stock",
    params(("sku" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = AddAlias, responses((status = 200, body = SkuView), Problems))]
pub async fn add_alias(
    State(app): State<Shared>,
    Param(sku): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    let sku = path_sku(&sku)?;
    let turn = Turn::begin(&app, call, &body, Keep::Day)?;
    let alias = read_alias(body.text())?;
    turn.act(Command::AddAlias { sku, alias }, sku_answer).await
}

fn read_alias(text: &str) -> Result<SkuKey, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let alias = body.required("alias").and_then(|v| v.sku());
    body.finish();
    report.finish(alias)
}

/// Shows the SKU that an outcome carries.
pub fn sku_answer(outcome: &Outcome) -> KeptAnswer {
    match outcome {
        Outcome::Sku(sku, _) => answer(StatusCode::OK, &SkuView::new(sku)),
        _ => unexpected(),
    }
}

fn read_sku(text: &str, key: SkuKey, policy: &Policy) -> Result<Sku, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let title = body.required("title").and_then(|v| v.text(0..=255));
    let class = match body.nullable("class") {
        Some(value) => value.choice(Class::ALL, Class::as_str),
        None => Some(Class::Normal),
    };
    let watermark = body.nullable("watermark").and_then(|v| read_watermark(&v));
    let sources = body.required("sources").and_then(|v| v.array(1..=MAX_SOURCES));
    let sources = sources.and_then(|sources| {
        let read: Vec<_> = sources.iter().map(|v| read_source(v, &key, policy)).collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    });
    let names: Vec<&SourceId> = sources.iter().flatten().map(|s| &s.source).collect();
    for (i, name) in names.iter().enumerate() {
        if names.iter().take(i).any(|other| other == name) {
            body.fault(&format!("sources[{i}].source"), "is given twice");
        }
    }
    body.finish();
    let read = || {
        Some(Sku {
            key,
            title: title?,
            class: class?,
            watermark: watermark.unwrap_or_default(),
            sources: sources?,
            paused: Paused::default(),
        })
    };
    let sku = read();
    report.finish(sku)
}

fn read_watermark(value: &Value<'_>) -> Option<Watermark> {
    let object = value.object()?;
    let figure = |name: &'static str| object.optional(name).and_then(|v| v.integer(0..=MAX_FIGURE));
    let (low, recover) = (figure("low"), figure("recover"));
    if let (Some(low), Some(recover)) = (low, recover)
        && recover <= low
    {
        object.fault("recover", "must exceed low");
    }
    object.finish();
    Some(Watermark { low, recover })
}

fn read_source(value: &Value<'_>, sku: &SkuKey, policy: &Policy) -> Option<Source> {
    let object = value.object()?;
    let name = object.required("source").and_then(|v| v.text(1..=32));
    let kind = object.required("kind").and_then(|v| v.choice(Kind::ALL, Kind::as_str));
    let buffer = object.optional("buffer").and_then(|v| v.integer(0..=MAX_FIGURE));
    let name = name.map(SourceId::from);
    if let (Some(name), Some(kind)) = (&name, kind) {
        check_source(&object, name, kind, policy);
    }
    let source = match (name, kind) {
        (Some(source), Some(Kind::Warehouse)) => Some(Source {
            level: LevelId::warehouse(&source, sku),
            source,
            kind: Kind::Warehouse,
            item: None,
            cost: None,
            currency: None,
            min_quantity: 1,
            pack_size: 1,
            buffer,
        }),
        (Some(source), Some(Kind::Supplier)) => read_supplied(&object, source, buffer, policy),
        _ => None,
    };
    object.finish();
    source
}

/// A warehouse has a name of its own; a supplier is one of the configured.
fn check_source(object: &Object<'_>, name: &SourceId, kind: Kind, policy: &Policy) {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    let known = policy.suppliers.contains_key(name);
    match kind {
        Kind::Supplier if !known => object.fault("source", "is not a configured supplier"),
        Kind::Warehouse if known => object.fault("source", "is a supplier, not a warehouse"),
        Kind::Warehouse if !name.as_str().bytes().all(plain) => {
            object.fault("source", "must have characters of a-z, 0-9, _ and - only");
        }
        _ => {}
    }
}

fn read_supplied(
    object: &Object<'_>,
    source: SourceId,
    buffer: Option<i64>,
    policy: &Policy,
) -> Option<Source> {
    // A colon separates the parts of a level's id.
    let id = |v: &Value<'_>| v.text(1..=64);
    let offer_id = object.required("offer_id").and_then(|v| id(&v));
    if offer_id.as_ref().is_some_and(|id| id.contains(':')) {
        object.fault("offer_id", "must not contain a colon");
    }
    let spec_id = object.nullable("spec_id").and_then(|v| id(&v));
    let currency = match object.nullable("currency") {
        Some(value) => value.currency(),
        None => {
            policy.suppliers.get(&source).and_then(|terms| Currency::parse(&terms.currency).ok())
        }
    };
    let cost = object.nullable("cost").and_then(|v| v.amount(currency));
    let units = |name: &'static str| match object.optional(name) {
        Some(value) => value.integer(1..=MAX_QUANTITY),
        None => Some(1),
    };
    let (min_quantity, pack_size) = (units("min_quantity"), units("pack_size"));
    let item = Item { offer_id: offer_id?, spec_id };
    Some(Source {
        level: LevelId::supplier(&source, &item),
        source,
        kind: Kind::Supplier,
        item: Some(item),
        cost,
        currency: currency.map(|c| c.code().to_owned()),
        min_quantity: min_quantity?,
        pack_size: pack_size?,
        buffer,
    })
}

#[cfg(test)]
#[path = "skus_tests.rs"]
mod tests;
