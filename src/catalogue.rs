//! The catalogue as a CSV file: what SKUs there are, and where each comes from. Reading is pure; what
//! an import changes is decided elsewhere.
//!
//! What must hold: a file is taken whole or not at all. Every line is checked first and every fault
//! told with its line and column, so that no half catalogue is imported and no fault hides another.
//! Keys stay text (`01234` is not `1234`), money stays exact, and two rows never become one SKU in
//! silence. What [`write_rows`] writes, [`read`] reads back as the same rows.
//!
//! The format: UTF-8, or UTF-16 with a byte-order mark; comma-separated; columns are found by name, in
//! any order; blank cells mean the default. Leaves out other encodings: such a file is refused.

mod line;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;

use crate::domain::money::{Currency, format_minor};
use crate::domain::sku::Class;

pub use line::sku_key;

/// The columns, in the order in which they are written. Only `sku` must be there.
pub const COLUMNS: [&str; 13] = [
    "sku",
    "title",
    "class",
    "low_watermark",
    "warehouse",
    "warehouse_quantity",
    "supplier",
    "offer_id",
    "spec_id",
    "supplier_cost",
    "supplier_currency",
    "min_quantity",
    "pack_size",
];

/// The own warehouse, where a quantity is given and no name.
pub const MAIN_WAREHOUSE: &str = "main";

/// One SKU. It has a shelf, an offer, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where it stands in the file, from 1; the header is line 1.
    pub line: u64,
    /// Trimmed, Unicode NFC, 1 to 128 characters, without control characters.
    pub sku: String,
    /// May be empty.
    pub title: String,
    pub class: Class,
    /// Units; `None` means the configured default.
    pub low_watermark: Option<i64>,
    pub shelf: Option<Shelf>,
    pub offer: Option<Offer>,
}

/// A place in an own warehouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    pub warehouse: String,
    /// Units counted; `None` when the file does not say.
    pub quantity: Option<i64>,
}

/// A supplier's item that the SKU can be bought as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The id of a configured supplier.
    pub supplier: String,
    pub offer_id: String,
    pub spec_id: Option<String>,
    pub cost: Option<Cost>,
    /// Units, 1 or more.
    pub min_quantity: i64,
    /// Units, 1 or more.
    pub pack_size: i64,
}

/// What one unit costs, in minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub amount: i64,
    pub currency: Currency,
}

/// One thing that is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: u64,
    /// The column, or empty when the whole line is meant.
    pub field: String,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(f, "line {}: {}", self.line, self.message),
            field => write!(f, "line {}, {field}: {}", self.line, self.message),
        }
    }
}

/// The file is refused; nothing of it is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the catalogue is refused:\n  {}", shown(.0))]
pub struct Refused(pub Vec<Fault>);

/// The first faults, one a line.
fn shown(faults: &[Fault]) -> String {
    const MOST: usize = 50;
    let mut lines: Vec<String> = faults.iter().take(MOST).map(Fault::to_string).collect();
    if let Some(more) = faults.len().checked_sub(MOST).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n  ")
}

/// Reads a whole catalogue. `suppliers` are the ids of those that are configured.
///
/// # Errors
/// All faults, in the order of the lines.
pub fn read(bytes: &[u8], suppliers: &[&str]) -> Result<Vec<Row>, Refused> {
    let whole = |message: String| Refused(vec![Fault { line: 1, field: String::new(), message }]);
    let text = decode(bytes).map_err(whole)?;
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut records = reader.records();
    let header = match records.next() {
        None => return Err(whole("the file is empty".to_owned())),
        Some(header) => header.map_err(|e| whole(e.to_string()))?,
    };
    let columns = columns(&header)?;
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for record in records {
        let record = record.map_err(|e| whole(e.to_string()))?;
        if record.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        let line = line_of(&text, &record);
        if record.len() == header.len() {
            rows.extend(line::row(line, &columns, &record, suppliers, &mut faults));
        } else {
            let message = format!("found {}, expected {}", counted(record.len()), header.len());
            faults.push(Fault { line, field: String::new(), message });
        }
    }
    report_twins(&rows, &mut faults);
    if faults.is_empty() {
        return Ok(rows);
    }
    faults.sort_by_key(|fault| fault.line);
    Err(Refused(faults))
}

/// Writes rows as a file that [`read`] takes.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write_rows(rows: &[Row], out: impl io::Write) -> Result<(), csv::Error> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    for row in rows {
        let (shelf, offer) = (row.shelf.as_ref(), row.offer.as_ref());
        let cost = offer.and_then(|o| o.cost);
        let number = |n: Option<i64>| n.map(|n| n.to_string()).unwrap_or_default();
        let text = |t: Option<&str>| t.unwrap_or_default().to_owned();
        writer.write_record([
            row.sku.clone(),
            row.title.clone(),
            row.class.as_str().to_owned(),
            number(row.low_watermark),
            text(shelf.map(|s| s.warehouse.as_str())),
            number(shelf.and_then(|s| s.quantity)),
            text(offer.map(|o| o.supplier.as_str())),
            text(offer.map(|o| o.offer_id.as_str())),
            text(offer.and_then(|o| o.spec_id.as_deref())),
            cost.map(|c| format_minor(c.amount, c.currency)).unwrap_or_default(),
            text(cost.map(|c| c.currency.code())),
            number(offer.map(|o| o.min_quantity)),
            number(offer.map(|o| o.pack_size)),
        ])?;
    }
    writer.flush()?;
    Ok(())
}

/// The text of the file, without its byte-order mark.
fn decode(bytes: &[u8]) -> Result<String, String> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect();
        match (text, rest) {
            (Ok(text), []) => Ok(text),
            _ => Err("the file begins as UTF-16 and is not; save it as UTF-8".to_owned()),
        }
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest),
        _ => utf8(bytes),
    }
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(e) => {
            let good = bytes.get(..e.valid_up_to()).unwrap_or_default();
            let line = good.iter().filter(|b| **b == b'\n').count() + 1;
            Err(format!("the file is not UTF-8 (first seen in line {line}); save it as UTF-8"))
        }
    }
}

/// Where each column stands.
fn columns(header: &csv::StringRecord) -> Result<BTreeMap<&'static str, usize>, Refused> {
    let mut faults = Vec::new();
    let mut fault = |field: &str, message: String| {
        faults.push(Fault { line: 1, field: field.to_owned(), message });
    };
    if header.len() == 1 {
        let expected = format!("found 1 column, expected {}", COLUMNS.len());
        fault("", format!("{expected} ({}), separated by commas", COLUMNS.join(",")));
        return Err(Refused(faults));
    }
    let mut columns = BTreeMap::new();
    for (position, cell) in header.iter().enumerate() {
        // A byte-order mark can also stand inside the quotes of the first name.
        let name = cell.trim_start_matches('\u{feff}').trim();
        match COLUMNS.into_iter().find(|known| *known == name) {
            None => fault(name, "is not a column of the catalogue".to_owned()),
            Some(known) if columns.insert(known, position).is_some() => {
                fault(name, "is a column twice".to_owned());
            }
            Some(_) => {}
        }
    }
    if !columns.contains_key("sku") {
        fault("sku", "is required, and there is no such column".to_owned());
    }
    if faults.is_empty() { Ok(columns) } else { Err(Refused(faults)) }
}

/// The line on which a record begins. The reader's own count is off after blank lines, which it
/// skips as part of the next record.
fn line_of(text: &str, record: &csv::StringRecord) -> u64 {
    let Some(position) = record.position() else {
        return 0;
    };
    let start = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let rest = text.as_bytes().get(start..).unwrap_or_default();
    let skipped = rest.iter().take_while(|b| matches!(b, b'\r' | b'\n')).filter(|b| **b == b'\n');
    position.line().saturating_add(u64::try_from(skipped.count()).unwrap_or(0))
}

/// Two rows of one SKU: the file does not say which is meant.
fn report_twins(rows: &[Row], faults: &mut Vec<Fault>) {
    let mut first: HashMap<&str, u64> = HashMap::new();
    for row in rows {
        if let Some(line) = first.get(row.sku.as_str()) {
            let message = format!("`{}` stands in line {line} already", row.sku);
            faults.push(Fault { line: row.line, field: "sku".to_owned(), message });
        } else {
            first.insert(&row.sku, row.line);
        }
    }
}

fn counted(columns: usize) -> String {
    if columns == 1 { "1 column".to_owned() } else { format!("{columns} columns") }
}
