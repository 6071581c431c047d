//! What is shown: one struct for each object of the contract, made from the core's types.
//!
//! What must hold: field names are the contract's; money is a decimal string in the currency of its
//! object, times are RFC 3339 UTC with milliseconds, ids are opaque strings. Views decide nothing:
//! what is a rule is in `domain::view`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::domain::money::{Currency, format_minor};
use crate::domain::names::OrderId;

pub mod availability;
pub mod order;
pub mod purchase;
pub mod refund;
pub mod sku;
pub mod stock;
pub mod supplier;
pub mod work;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T: ToSchema> {
    pub items: Vec<T>,
    /// For the next page; null on the last.
    pub next_cursor: Option<String>,
}

impl<T: ToSchema> List<T> {
    /// Of one element more than the page has room for, at most; `cursor` names the last shown.
    pub fn page<R>(
        mut rows: Vec<R>,
        limit: i64,
        cursor: impl Fn(&R) -> String,
        view: impl Fn(R) -> T,
    ) -> List<T> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| more).map(cursor);
        List { items: rows.into_iter().map(view).collect(), next_cursor }
    }
}

/// Minor units as a decimal string of their currency.
pub fn money(units: i64, currency: &str) -> String {
    amounts(currency)(units)
}

/// As [`money`], for many amounts of one currency.
pub fn amounts(currency: &str) -> impl Fn(i64) -> String {
    let currency = Currency::parse(currency).ok();
    // What was stored was a currency once; its amounts are still shown, in minor units.
    move |units| currency.map_or_else(|| units.to_string(), |known| format_minor(units, known))
}

pub fn time(at: Timestamp) -> String {
    at.rfc3339()
}

/// A line's id: `{order}.{line}`.
pub fn line_id(order: &OrderId, line: i64) -> String {
    format!("{order}.{line}")
}

/// The line number in a line's id, when it is one of this order.
pub fn line_no(order: &OrderId, id: &str) -> Option<i64> {
    let no = id.strip_prefix(order.as_str())?.strip_prefix('.')?;
    let line: i64 = no.parse().ok().filter(|n| *n > 0)?;
    (line.to_string() == no).then_some(line)
}

/// A hold's id: `{order}.{line}.{part}`.
pub fn hold_id(order: &OrderId, line: i64, part: i64) -> String {
    format!("{order}.{line}.{part}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_shown_with_its_currency_s_decimals() {
        assert_eq!(money(1999, "USD"), "19.99");
        assert_eq!(money(0, "USD"), "0.00");
        assert_eq!(money(9899, "JPY"), "9899");
        assert_eq!(money(1234, "KWD"), "1.234");
    }

    #[test]
    fn a_line_id_is_read_back_only_for_its_order() {
        let order = OrderId::from("01a");
        assert_eq!(line_no(&order, &line_id(&order, 12)), Some(12));
        for id in [
            "01a.0",
            "01a.-1",
            "01a.01",
            "01a.+1",
            "01a.",
            "01a",
            "01b.1",
            "01a.1.1",
            "1",
            "01a.99999999999999999999",
        ] {
            assert_eq!(line_no(&order, id), None, "{id}");
        }
    }

    #[test]
    fn a_page_shows_what_was_asked_for_and_where_the_next_starts() {
        let page = |rows: Vec<i64>| List::page(rows, 2, ToString::to_string, |n| format!("n{n}"));
        let full = page(vec![9, 8, 7]);
        assert_eq!(
            (full.items, full.next_cursor),
            (vec!["n9".to_owned(), "n8".into()], Some("8".into()))
        );
        assert_eq!(page(vec![9, 8]).next_cursor, None);
        assert_eq!(page(vec![]).next_cursor, None);
    }
}
