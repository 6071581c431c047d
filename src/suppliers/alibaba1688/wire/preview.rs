//! `alibaba.createOrder.preview-1`: the supplier's last word before a purchase. Source: the official
//! page.
//!
//! What must hold: a recognised code refuses wherever it stands (top, order, cargo line); a preview
//! without a readable total is unknown. Totals are fen already.

use serde::Deserialize;

use super::answer::{Verdict, purchase_refusal, read, unknown};
use super::scalar::{Scalar, text};
use crate::domain::supply::{Fault, Preview};

#[derive(Deserialize)]
struct PreviewAnswer {
    #[serde(rename = "orderPreviewResuslt")]
    orders: Option<Vec<PreviewOrder>>,
}

#[derive(Deserialize)]
struct PreviewOrder {
    status: Option<Scalar>,
    #[serde(rename = "sumPayment")]
    sum_payment: Option<Scalar>,
    #[serde(rename = "resultCode")]
    result_code: Option<Scalar>,
    message: Option<Scalar>,
    #[serde(rename = "cargoList")]
    cargo_list: Option<Vec<PreviewCargo>>,
}

#[derive(Deserialize)]
struct PreviewCargo {
    #[serde(rename = "resultCode")]
    result_code: Option<Scalar>,
    message: Option<Scalar>,
}

/// Reads a preview.
///
/// # Errors
/// A recognised code at the top, on an order or on a cargo line is that refusal; every other
/// failure, and a total that cannot be read, is [`Fault::Unknown`].
pub fn preview(body: &[u8]) -> Result<Preview, Fault> {
    let verdict = Verdict::read(body)?;
    let top = verdict.code.as_deref().and_then(|code| purchase_refusal(code, &verdict.message));
    if let Some(fault) = top {
        return Err(fault);
    }
    let answer: PreviewAnswer = read(body)?;
    let orders = answer.orders.unwrap_or_default();
    if let Some(fault) = orders.iter().find_map(refusal_in) {
        return Err(fault);
    }
    if verdict.success != Some(true) || orders.is_empty() {
        return Err(verdict.unknown("no_preview"));
    }
    let mut total = 0_i64;
    for order in &orders {
        if order.status.as_ref().and_then(Scalar::truth) == Some(false) {
            let code = text(&order.result_code).unwrap_or_else(|| "preview_failed".into());
            return Err(unknown(code, text(&order.message).unwrap_or_default()));
        }
        let fen = order.sum_payment.as_ref().and_then(Scalar::whole).filter(|fen| *fen >= 0);
        let sum = fen.and_then(|fen| total.checked_add(fen));
        total = sum
            .ok_or_else(|| unknown("unreadable", format!("sumPayment {:?}", order.sum_payment)))?;
    }
    Ok(Preview { total, orders: u32::try_from(orders.len()).unwrap_or(u32::MAX) })
}

fn refusal_in(order: &PreviewOrder) -> Option<Fault> {
    let own = (&order.result_code, &order.message);
    let cargo = order.cargo_list.iter().flatten().map(|c| (&c.result_code, &c.message));
    std::iter::once(own)
        .chain(cargo)
        .find_map(|(code, said)| purchase_refusal(&text(code)?, &text(said).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suppliers::alibaba1688::wire::answer::kind_and_code as code_of;
    use crate::suppliers::alibaba1688::wire::fixture;

    fn preview_fault(json: &str) -> (&'static str, String) {
        code_of(&preview(json.as_bytes()).expect_err(json))
    }

    #[test]
    fn a_preview_adds_up_its_orders() {
        let one = preview(&fixture("preview.json"));
        assert_eq!(one, Ok(Preview { total: 4400, orders: 1 }));
        let two = r#"{"success":"true","orderPreviewResuslt":[{"status":true,"sumPayment":4400},
            {"status":true,"sumPayment":"1250"}]}"#;
        assert_eq!(preview(two.as_bytes()), Ok(Preview { total: 5650, orders: 2 }));
    }

    #[test]
    fn a_preview_is_refused_by_a_code_wherever_it_stands() {
        let stock = ("out_of_stock", "500_004".to_owned());
        assert_eq!(code_of(&preview(&fixture("preview-short.json")).expect_err("short")), stock);
        for json in [
            r#"{"success":false,"orderPreviewResuslt":[{"status":false,"resultCode":"500_004"}]}"#,
            r#"{"success":true,"orderPreviewResuslt":[{"status":true,"sumPayment":1,"cargoList":
                [{"offerId":1},{"offerId":2,"resultCode":"500_004","message":"x"}]}]}"#,
        ] {
            assert_eq!(preview_fault(json), stock, "{json}");
        }
        let below = r#"{"success":false,"errorCode":"500_005","errorMsg":"x"}"#;
        assert_eq!(preview_fault(below), ("refused", "500_005".into()));
    }

    #[test]
    fn a_preview_that_is_not_understood_is_unknown() {
        for (json, code) in [
            (r#"{"success":false,"errorCode":"500","errorMsg":"库存不足"}"#, "500"),
            (r#"{"success":false,"errorMsg":"inventory service 0 nodes available"}"#, "no_preview"),
            (r#"{"success":true,"orderPreviewResuslt":[]}"#, "no_preview"),
            (r#"{"success":true}"#, "no_preview"),
            (r#"{"orderPreviewResuslt":[{"sumPayment":1}]}"#, "no_preview"),
            (
                r#"{"success":true,"orderPreviewResuslt":[{"status":false,"sumPayment":1}]}"#,
                "preview_failed",
            ),
            (r#"{"success":true,"orderPreviewResuslt":[{"status":true}]}"#, "unreadable"),
            (r#"{"success":true,"orderPreviewResuslt":[{"sumPayment":44.5}]}"#, "unreadable"),
            (r#"{"success":true,"orderPreviewResuslt":[{"sumPayment":-1}]}"#, "unreadable"),
            (
                r#"{"success":true,"orderPreviewResuslt":[{"sumPayment":9223372036854775807},{"sumPayment":1}]}"#,
                "unreadable",
            ),
            (r#"{"success":true,"orderPreviewResuslt":[{"sumPay"#, "unreadable"),
        ] {
            assert_eq!(preview_fault(json), ("unknown", code.to_owned()), "{json}");
        }
    }
}
