//! A SKU as it was put, and its stop switch.

use serde::Serialize;
use utoipa::ToSchema;

use super::{money, time};
use crate::domain::sku::{Pause, Paused, Sku, Source};

#[derive(Debug, Serialize, ToSchema)]
pub struct SkuView {
    pub sku: String,
    pub title: String,
    /// `normal`, `hot` or `flash`.
    pub class: &'static str,
    /// Absent members follow the settings.
    pub watermark: WatermarkView,
    /// In order of preference.
    pub sources: Vec<SourceView>,
    pub paused: PausedView,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WatermarkView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recover: Option<i64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SkuSourceView)]
pub struct SourceView {
    pub source: String,
    /// `warehouse` or `supplier`.
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_quantity: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack_size: Option<i64>,
    /// Units never sold; absent: the supplier's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<i64>,
}

/// The stop switch: null where it is not set.
#[derive(Debug, Serialize, ToSchema)]
pub struct PausedView {
    pub selling: Option<PauseView>,
    pub buying: Option<PauseView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PauseView {
    pub at: String,
    pub reason: String,
}

impl SkuView {
    pub fn new(sku: &Sku) -> SkuView {
        SkuView {
            sku: sku.key.to_string(),
            title: sku.title.clone(),
            class: sku.class.as_str(),
            watermark: WatermarkView { low: sku.watermark.low, recover: sku.watermark.recover },
            sources: sku.sources.iter().map(SourceView::new).collect(),
            paused: PausedView::new(&sku.paused),
        }
    }
}

impl SourceView {
    fn new(source: &Source) -> SourceView {
        let supplied = source.item.is_some();
        let currency = source.currency.clone();
        SourceView {
            source: source.source.to_string(),
            kind: source.kind.as_str(),
            offer_id: source.item.as_ref().map(|item| item.offer_id.clone()),
            spec_id: source.item.as_ref().and_then(|item| item.spec_id.clone()),
            cost: source.cost.map(|cost| money(cost, currency.as_deref().unwrap_or_default())),
            currency,
            min_quantity: supplied.then_some(source.min_quantity),
            pack_size: supplied.then_some(source.pack_size),
            buffer: source.buffer,
        }
    }
}

impl PausedView {
    pub fn new(paused: &Paused) -> PausedView {
        let view = |pause: &Option<Pause>| {
            pause
                .as_ref()
                .map(|pause| PauseView { at: time(pause.at), reason: pause.reason.clone() })
        };
        PausedView { selling: view(&paused.selling), buying: view(&paused.buying) }
    }
}
