//! One line of the catalogue, from cells to a [`Row`].
//!
//! What must hold: every cell that is filled is either used or told to be at fault; none is dropped.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use unicode_normalization::UnicodeNormalization;

use super::{Cost, Fault, MAIN_WAREHOUSE, Offer, Row, Shelf};
use crate::domain::money::{Currency, parse_amount};
use crate::domain::sku::Class;
use crate::settings::is_name;

/// The most units of a shelf.
const MAX_SHELF: i64 = 1_000_000_000_000;
/// The most units of an order's line, and of whatever is compared with one.
const MAX_UNITS: i64 = 1_000_000;
const MAX_SKU_CHARS: usize = 128;
const MAX_TEXT_CHARS: usize = 500;

/// The key of a SKU as it is stored and compared: trimmed, Unicode NFC, 1 to 128 characters, none of
/// them a control character. Case and leading zeros are kept.
///
/// # Errors
/// What is wrong with the text.
pub fn sku_key(text: &str) -> Result<String, String> {
    let key: String = text.trim().nfc().collect();
    match key.chars().count() {
        0 => Err("must not be empty".to_owned()),
        n if n > MAX_SKU_CHARS => Err(format!("has {n} characters; {MAX_SKU_CHARS} is the most")),
        _ if key.chars().any(char::is_control) => Err("has a control character".to_owned()),
        _ => Ok(key),
    }
}

/// Reads one record; `None` when any of it is at fault.
pub(super) fn row(
    line: u64,
    columns: &BTreeMap<&'static str, usize>,
    record: &csv::StringRecord,
    suppliers: &[&str],
    faults: &mut Vec<Fault>,
) -> Option<Row> {
    let before = faults.len();
    let mut cells = Cells { line, columns, record, faults };
    let sku = cells.read("sku", sku_key);
    if cells.get("sku").is_none() {
        cells.fault("sku", "must not be empty");
    }
    let row = Row {
        line,
        sku: sku.unwrap_or_default(),
        title: cells.read("title", title).unwrap_or_default(),
        class: cells.read("class", class).unwrap_or_default(),
        low_watermark: cells.number("low_watermark", 0..=MAX_UNITS),
        shelf: shelf(&mut cells, suppliers),
        offer: offer(&mut cells, suppliers),
    };
    if cells.get("warehouse").is_none()
        && cells.get("warehouse_quantity").is_none()
        && cells.get("supplier").is_none()
    {
        cells.fault("", "has neither a warehouse nor a supplier");
    }
    (faults.len() == before).then_some(row)
}

/// The cells of one line.
struct Cells<'a> {
    line: u64,
    columns: &'a BTreeMap<&'static str, usize>,
    record: &'a csv::StringRecord,
    faults: &'a mut Vec<Fault>,
}

impl Cells<'_> {
    /// A cell's trimmed text; `None` when it is blank or the file has no such column.
    fn get(&self, field: &str) -> Option<&str> {
        let cell = self.record.get(*self.columns.get(field)?)?.trim();
        (!cell.is_empty()).then_some(cell)
    }

    fn fault(&mut self, field: &str, message: impl Into<String>) {
        let (field, message) = (field.to_owned(), message.into());
        self.faults.push(Fault { line: self.line, field, message });
    }

    /// Reads a cell; `None` when it is blank or at fault.
    fn read<T>(&mut self, field: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        match read(self.get(field)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.fault(field, message);
                None
            }
        }
    }

    /// A whole number in ASCII digits.
    fn number(&mut self, field: &str, range: RangeInclusive<i64>) -> Option<i64> {
        self.read(field, |text| {
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse().ok().filter(|n| digits && range.contains(n));
            number.ok_or_else(|| {
                format!("`{text}` is not a whole number from {} to {}", range.start(), range.end())
            })
        })
    }
}

fn shelf(cells: &mut Cells<'_>, suppliers: &[&str]) -> Option<Shelf> {
    let quantity = cells.number("warehouse_quantity", 0..=MAX_SHELF);
    let name = cells.read("warehouse", |name| {
        if !is_name(name) {
            Err(format!("`{name}` must be 1 to 32 of a-z, 0-9, _ and -"))
        } else if suppliers.contains(&name) {
            Err(format!("`{name}` is a supplier, not a warehouse"))
        } else {
            Ok(name.to_owned())
        }
    });
    match (name, quantity) {
        (Some(warehouse), quantity) => Some(Shelf { warehouse, quantity }),
        (None, Some(_)) => Some(Shelf { warehouse: MAIN_WAREHOUSE.to_owned(), quantity }),
        (None, None) => None,
    }
}

fn offer(cells: &mut Cells<'_>, suppliers: &[&str]) -> Option<Offer> {
    const OF_AN_OFFER: [&str; 6] =
        ["offer_id", "spec_id", "supplier_cost", "supplier_currency", "min_quantity", "pack_size"];
    if cells.get("supplier").is_none() {
        for field in OF_AN_OFFER {
            if cells.get(field).is_some() {
                cells.fault(field, "is given, and there is no supplier");
            }
        }
        return None;
    }
    let supplier = cells.read("supplier", |id| {
        if suppliers.contains(&id) {
            Ok(id.to_owned())
        } else if suppliers.is_empty() {
            Err(format!("`{id}` is not configured; no supplier is"))
        } else {
            Err(format!("`{id}` is not configured; these are: {}", suppliers.join(", ")))
        }
    });
    if cells.get("offer_id").is_none() {
        cells.fault("offer_id", "is required where there is a supplier");
    }
    Some(Offer {
        supplier: supplier.unwrap_or_default(),
        offer_id: cells.read("offer_id", token).unwrap_or_default(),
        spec_id: cells.read("spec_id", token),
        cost: cost(cells),
        min_quantity: cells.number("min_quantity", 1..=MAX_UNITS).unwrap_or(1),
        pack_size: cells.number("pack_size", 1..=MAX_UNITS).unwrap_or(1),
    })
}

fn cost(cells: &mut Cells<'_>) -> Option<Cost> {
    match (cells.get("supplier_cost").is_some(), cells.get("supplier_currency").is_some()) {
        (false, false) => None,
        (true, false) => {
            cells.fault("supplier_currency", "is required where there is a supplier_cost");
            None
        }
        (false, true) => {
            cells.fault("supplier_cost", "is required where there is a supplier_currency");
            None
        }
        (true, true) => {
            let currency = cells.read("supplier_currency", |text| {
                Currency::parse(text).map_err(|e| e.to_string())
            })?;
            let amount = cells.read("supplier_cost", |text| {
                parse_amount(text, currency).map_err(|e| format!("`{text}`: {e}"))
            })?;
            Some(Cost { amount, currency })
        }
    }
}

fn class(text: &str) -> Result<Class, String> {
    Class::parse(text).ok_or_else(|| format!("`{text}` is not one of: normal, hot, flash"))
}

/// Text for people: line breaks and tabs may stand in it, other control characters may not.
fn title(text: &str) -> Result<String, String> {
    let wild = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    match text.chars().count() {
        n if n > MAX_TEXT_CHARS => Err(format!("has {n} characters; {MAX_TEXT_CHARS} is the most")),
        _ if text.chars().any(wild) => Err("has a control character".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// A supplier's id of something: no blanks, no control characters.
fn token(text: &str) -> Result<String, String> {
    if text.chars().count() > MAX_SKU_CHARS
        || text.chars().any(|c| c.is_control() || c.is_whitespace())
    {
        return Err(format!("must be at most {MAX_SKU_CHARS} characters without blanks"));
    }
    Ok(text.to_owned())
}
