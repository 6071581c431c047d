//! `alibaba.trade.cancel-1`: closing an unpaid order. Source: the official page.
//!
//! What must hold: closed only where the answer says so and names no refusal.

use super::Params;
use super::answer::{Verdict, refused};
use crate::domain::supply::Fault;

/// Form fields that close an unpaid order.
pub fn params(supplier_order_id: &str) -> Params {
    vec![
        ("webSite", "1688".to_owned()),
        ("tradeID", supplier_order_id.to_owned()),
        ("cancelReason", "buyerCancel".to_owned()),
    ]
}

/// Reads the answer to a cancel.
///
/// # Errors
/// The documented refusals; [`Fault::Unknown`] for every other failure and for an answer that says
/// both yes and no.
pub fn cancelled(body: &[u8]) -> Result<(), Fault> {
    let verdict = Verdict::read(body)?;
    let fault = match verdict.code.as_deref() {
        Some("CLOSE_ORDER_TOO_FAST") => Some(Fault::TooSoon),
        Some(code @ ("ORDER_STATUS_ERROR" | "400_3" | "ORDER_NOT_EXIST")) => {
            Some(refused(code, &verdict.message))
        }
        _ => None,
    };
    match (verdict.success, fault) {
        (Some(true), None) => Ok(()),
        (Some(false), Some(fault)) => Err(fault),
        _ => Err(verdict.unknown("failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_code<T: std::fmt::Debug>(got: Result<T, Fault>) -> String {
        match got {
            Err(Fault::Unknown { code, .. }) => code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cancel_is_done_refused_too_soon_or_unknown() {
        let got = |json: &str| cancelled(json.as_bytes());
        assert_eq!(got(r#"{"success":true}"#), Ok(()));
        assert_eq!(got(r#"{"success":"true","errorMessage":"成功"}"#), Ok(()));
        let fast = r#"{"success":false,"errorCode":"CLOSE_ORDER_TOO_FAST","errorMessage":"x"}"#;
        assert_eq!(got(fast), Err(Fault::TooSoon));
        for code in ["ORDER_STATUS_ERROR", "400_3", "ORDER_NOT_EXIST"] {
            let json = format!(r#"{{"success":"false","errorCode":"{code}","errorMessage":"x"}}"#);
            assert_eq!(got(&json), Err(refused(code, "x")));
        }
        for (json, code) in [
            (r#"{"success":false,"errorCode":"SYSTEM_ERROR"}"#, "SYSTEM_ERROR"),
            (r#"{"success":false,"errorMessage":"ORDER_STATUS_ERROR"}"#, "failed"),
            (r#"{"success":true,"errorCode":"ORDER_STATUS_ERROR"}"#, "ORDER_STATUS_ERROR"),
            ("{}", "failed"),
            ("", "unreadable"),
        ] {
            assert_eq!(unknown_code(got(json)), code, "{json}");
        }
    }

    #[test]
    fn the_order_is_named_in_the_platforms_spelling() {
        let want = [
            ("webSite", "1688"),
            ("tradeID", "3657499272179232333"),
            ("cancelReason", "buyerCancel"),
        ];
        assert_eq!(params("3657499272179232333"), want.map(|(k, v)| (k, v.to_owned())));
    }
}
