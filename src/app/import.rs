//! `stock import` and `stock export`: catalogue rows to and from SKUs with their sources.
//!
//! What must hold: the whole file is checked before anything is applied; it is applied 500 rows at
//! a time, each batch whole, so that it is safe to run again after an interruption.

use crate::catalogue::{self, Cost, Offer, Row, Shelf};
use crate::domain::command::{Command, ImportRow};
use crate::domain::money::Currency;
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::outcome::{ImportReport, Outcome};
use crate::domain::sku::{Kind, Paused, Sku, Source, Watermark};
use crate::domain::stock::Level;
use crate::domain::supply::Item;
use crate::engine::{Engine, Reply};
use crate::storage::Db;
use crate::storage::reads::skus;

/// Rows applied in one transaction.
pub const BATCH: usize = 500;

/// A row as the SKU that it describes: our own warehouse first, then the supplier.
fn to_import(row: &Row) -> ImportRow {
    let key = SkuKey::from(row.sku.as_str());
    let mut sources = Vec::new();
    let mut quantities = Vec::new();
    if let Some(shelf) = &row.shelf {
        let source = SourceId::from(shelf.warehouse.as_str());
        quantities.extend(shelf.quantity.map(|n| (source.clone(), n)));
        sources.push(Source {
            level: LevelId::warehouse(&source, &key),
            source,
            kind: Kind::Warehouse,
            item: None,
            cost: None,
            currency: None,
            min_quantity: 1,
            pack_size: 1,
            buffer: None,
        });
    }
    if let Some(offer) = &row.offer {
        let source = SourceId::from(offer.supplier.as_str());
        let item = Item { offer_id: offer.offer_id.clone(), spec_id: offer.spec_id.clone() };
        sources.push(Source {
            level: LevelId::supplier(&source, &item),
            source,
            kind: Kind::Supplier,
            item: Some(item),
            cost: offer.cost.map(|c| c.amount),
            currency: offer.cost.map(|c| c.currency.code().to_owned()),
            min_quantity: offer.min_quantity,
            pack_size: offer.pack_size,
            buffer: None,
        });
    }
    let sku = Sku {
        key,
        title: row.title.clone(),
        class: row.class,
        watermark: Watermark { low: row.low_watermark, recover: None },
        sources,
        paused: Paused::default(),
    };
    ImportRow { line: row.line, sku, quantities }
}

/// Applies a checked file. `progress` is told after each batch how many rows are done.
///
/// # Errors
/// In words, with the number of rows that were applied before it.
pub async fn import(
    engine: &Engine,
    rows: &[Row],
    set_quantities: bool,
) -> Result<ImportReport, String> {
    let mut total = ImportReport::default();
    for (n, batch) in rows.chunks(BATCH).enumerate() {
        let rows = batch.iter().map(to_import).collect();
        let command = Command::Import { rows, set_quantities };
        let failed = |e: String| format!("after {} rows: {e}", n * BATCH);
        match engine.submit(command.into()).await {
            Ok(Reply::Outcome(Outcome::Imported(report))) => {
                total.created += report.created;
                total.updated += report.updated;
                total.unchanged += report.unchanged;
                total.differences.extend(report.differences);
                total.refused.extend(report.refused);
            }
            Ok(other) => return Err(failed(format!("unexpected answer: {other:?}"))),
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    Ok(total)
}

/// A SKU as a catalogue row; its first warehouse and its first supplier, which is all that the
/// format can say.
fn to_row(sku: &Sku, levels: &[Level]) -> Row {
    let of_kind = |kind: Kind| sku.sources.iter().find(|s| s.kind == kind);
    let shelf = of_kind(Kind::Warehouse).map(|s| Shelf {
        warehouse: s.source.to_string(),
        quantity: levels.iter().find(|l| l.id == s.level).map(|l| l.quantity),
    });
    let offer = of_kind(Kind::Supplier).and_then(|s| {
        let item = s.item.clone()?;
        let currency = s.currency.as_deref().and_then(|c| Currency::parse(c).ok());
        Some(Offer {
            supplier: s.source.to_string(),
            offer_id: item.offer_id,
            spec_id: item.spec_id,
            cost: s.cost.zip(currency).map(|(amount, currency)| Cost { amount, currency }),
            min_quantity: s.min_quantity,
            pack_size: s.pack_size,
        })
    });
    Row {
        line: 0,
        sku: sku.key.to_string(),
        title: sku.title.clone(),
        class: sku.class,
        low_watermark: sku.watermark.low,
        shelf,
        offer,
    }
}

/// Every SKU of the store as a catalogue row.
///
/// # Errors
/// The database's, in words.
pub async fn rows(db: &Db) -> Result<Vec<Row>, String> {
    let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
    let mut rows = Vec::new();
    let mut after: Option<SkuKey> = None;
    loop {
        let page = skus::list(db, after.as_ref(), limit).await.map_err(|e| e.to_string())?;
        let keys: Vec<SkuKey> = page.iter().take(BATCH).map(|sku| sku.key.clone()).collect();
        let loaded = skus::load(db, &keys).await.map_err(|e| e.to_string())?;
        let known = keys.iter().filter_map(|key| loaded.get(key));
        rows.extend(known.map(|l| {
            let levels: Vec<Level> = l.levels.values().cloned().collect();
            to_row(&l.sku, &levels)
        }));
        if page.len() <= BATCH {
            return Ok(rows);
        }
        after = keys.last().cloned();
    }
}

/// What an import did, for people.
pub fn report(report: &ImportReport, set_quantities: bool) -> String {
    let mut text = format!(
        "{} new, {} changed, {} unchanged\n",
        report.created, report.updated, report.unchanged
    );
    let done = if set_quantities { "corrected" } else { "left alone (--set-quantities)" };
    for (line, level, has, file) in &report.differences {
        text += &format!("line {line}: {level} has {has}, the file says {file}: {done}\n");
    }
    for (line, level, owes, file) in &report.refused {
        text += &format!("line {line}: {level} cannot be set to {file}: {owes} are held or sold\n");
    }
    text
}

/// Reads and checks a file's bytes; every fault is told.
///
/// # Errors
/// One line for each fault.
pub fn check(bytes: &[u8], suppliers: &[&str]) -> Result<Vec<Row>, String> {
    catalogue::read(bytes, suppliers).map_err(|refused| {
        let lines: Vec<String> = refused.0.iter().map(ToString::to_string).collect();
        format!("{}\nnothing was applied", lines.join("\n"))
    })
}
