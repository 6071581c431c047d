//! `alibaba.trade.getBuyerOrderList-1`: the pages on which a look-up rests. Source: the official
//! page; what its filters really do was measured by others.
//!
//! What must hold: a page says how many rows there are over all pages, or it is no answer.

use serde::Deserialize;

use super::Params;
use super::answer::{Verdict, read, unknown};
use super::order::{Trade, id, reference};
use super::scalar::{Scalar, text};
use crate::clock::Timestamp;
use crate::domain::supply::Fault;

/// Form fields of page `page` (from 1) of the orders that carry our reference. `isHis` is sent
/// although it is false; `bizTypes` never is, it hides newer kinds of orders.
pub fn params(reference: &str, page: u32, page_size: u32) -> Params {
    vec![
        ("outOrderId", reference.to_owned()),
        ("isHis", "false".to_owned()),
        ("page", page.to_string()),
        ("pageSize", page_size.to_string()),
    ]
}

#[derive(Deserialize)]
struct ListAnswer {
    result: Option<Vec<Trade>>,
    #[serde(rename = "totalRecord")]
    total_record: Option<Scalar>,
}

/// A row of the list: which order, whose reference, from when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub supplier_order_id: String,
    pub reference: Option<String>,
    pub created_at: Option<Timestamp>,
}

/// One page of the list, and how many rows there are over all pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub rows: Vec<Row>,
    pub total: usize,
}

/// Reads one page of the list of orders.
///
/// # Errors
/// [`Fault::Unknown`] when it states an error, does not state its total, or a row cannot be read.
pub fn page(body: &[u8]) -> Result<Page, Fault> {
    let verdict = Verdict::read(body)?;
    let error = verdict.code.as_deref().filter(|code| !matches!(*code, "0" | "200"));
    if verdict.success == Some(false) || error.is_some() {
        return Err(verdict.unknown("failed"));
    }
    let answer: ListAnswer = read(body)?;
    let total = answer.total_record.as_ref().and_then(Scalar::whole);
    let total = total.and_then(|n| usize::try_from(n).ok());
    let total = total
        .ok_or_else(|| unknown("unreadable", format!("totalRecord {:?}", answer.total_record)))?;
    let rows = answer.result.unwrap_or_default();
    Ok(Page { rows: rows.iter().map(row).collect::<Result<_, Fault>>()?, total })
}

fn row(trade: &Trade) -> Result<Row, Fault> {
    let base = trade.base_info.as_ref().ok_or_else(|| unknown("unreadable", "no baseInfo"))?;
    Ok(Row {
        supplier_order_id: id(base)?,
        reference: reference(trade),
        created_at: text(&base.create_time).and_then(|at| time(&at)),
    })
}

/// `20180614101942000+0800`.
fn time(text: &str) -> Option<Timestamp> {
    let at = chrono::DateTime::parse_from_str(text, "%Y%m%d%H%M%S%3f%z").ok()?;
    Some(Timestamp(at.timestamp_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suppliers::alibaba1688::wire::fixture;

    const ID: &str = "3657499272179232333";

    fn unknown_code<T: std::fmt::Debug>(got: Result<T, Fault>) -> String {
        match got {
            Err(Fault::Unknown { code, .. }) => code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn list_rows_carry_their_reference_wherever_it_stands() {
        let orders = page(&fixture("orders.json")).expect("a page");
        assert_eq!(orders.total, 635);
        let row = |id: &str, reference: Option<&str>, created: Option<&str>| Row {
            supplier_order_id: id.into(),
            reference: reference.map(Into::into),
            created_at: created.map(|t| Timestamp::parse_rfc3339(t).expect("a time")),
        };
        let want = vec![
            row(ID, Some("so-1001"), Some("2018-06-14T10:19:42+08:00")),
            row("3657499272179232334", Some("so-0999"), Some("2018-05-31T16:00:00Z")),
            row("58218860983545944", None, None),
        ];
        assert_eq!(orders.rows, want);
    }

    #[test]
    fn a_list_that_is_not_whole_is_unknown() {
        let none = Page { rows: vec![], total: 0 };
        assert_eq!(page(br#"{"totalRecord":0}"#), Ok(none.clone()));
        assert_eq!(page(br#"{"result":[],"totalRecord":"0","errorCode":"0"}"#), Ok(none));
        for (json, code) in [
            (r#"{"result":[]}"#, "unreadable"),
            (r#"{"result":[],"totalRecord":-1}"#, "unreadable"),
            (r#"{"result":[],"totalRecord":0,"errorCode":"500"}"#, "500"),
            (r#"{"result":[],"totalRecord":0,"success":false}"#, "failed"),
            (r#"{"result":[{}],"totalRecord":1}"#, "unreadable"),
            (r#"{"result":[{"baseInfo":{"id":1e18}}],"totalRecord":1}"#, "unreadable"),
        ] {
            assert_eq!(unknown_code(page(json.as_bytes())), code, "{json}");
        }
    }

    #[test]
    fn the_false_flag_is_sent_and_kinds_of_orders_are_not_named() {
        let want =
            [("outOrderId", "so-1001"), ("isHis", "false"), ("page", "2"), ("pageSize", "50")];
        assert_eq!(params("so-1001", 2, 50), want.map(|(k, v)| (k, v.to_owned())));
    }
}
