//! The error shapes of the platform, brought into one: the gateway's `error_code`, and the seven or
//! so business shapes (`success` + `errorCode`/`code` + `errorMsg`/`errorMessage`/`erroMsg`/
//! `errorInfo`/`message`, flat or inside `result`, `errMsg` alone).
//!
//! What must hold: only exact codes mean something; what is not recognised is [`Fault::Unknown`];
//! a message is carried for people, cut short, and never matched.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::scalar::Scalar;
use crate::domain::supply::Fault;

/// The gateway's code for *too many calls*; nothing was done.
pub const THROTTLED: &str = "gw.QosAppFrequencyLimit";
/// The gateway's code for a token that is absent, wrong or expired; nothing was done.
pub const UNAUTHORISED: &str = "401";
/// The gateway's code for an absent parameter; nothing was done.
pub const PARAM_MISSING: &str = "gw.ParamMissing";

const MESSAGE_CHARS: usize = 300;

/// A fault that is not a definite answer.
pub fn unknown(code: impl Into<String>, message: impl AsRef<str>) -> Fault {
    Fault::Unknown { code: code.into(), message: shortened(message.as_ref()), retry_after: None }
}

/// A definite refusal that is not about stock.
pub fn refused(code: impl Into<String>, message: impl AsRef<str>) -> Fault {
    Fault::Refused { code: code.into(), message: shortened(message.as_ref()) }
}

/// The first few hundred characters, for a log or a page.
pub fn shortened(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS).collect()
}

/// Reads a whole body, a JSON object, as `T`.
///
/// # Errors
/// [`Fault::Unknown`] when it is not JSON, torn, or of another shape.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    let start = String::from_utf8_lossy(body.get(..200).unwrap_or(body));
    if !start.trim_start().starts_with('{') {
        return Err(unknown("unreadable", format!("not a JSON object: {start}")));
    }
    serde_json::from_slice(body).map_err(|e| unknown("unreadable", format!("{e}: {start}")))
}

/// What the gateway itself says instead of passing the call on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayError {
    pub code: String,
    pub message: String,
}

impl GatewayError {
    /// The gateway's error in `body`, whatever the HTTP status. An answer that also carries a
    /// `result` is not one: the call was passed on.
    pub fn find(body: &[u8]) -> Option<GatewayError> {
        #[derive(Deserialize)]
        struct Shape {
            error_code: Option<Scalar>,
            error_message: Option<Scalar>,
            exception: Option<Scalar>,
            result: Option<IgnoredAny>,
        }
        let shape: Shape = read(body).ok()?;
        let code = shape.error_code?.text()?;
        let said = |s: Option<Scalar>| s.and_then(|s| s.text());
        let message = said(shape.error_message).or_else(|| said(shape.exception));
        shape.result.is_none().then(|| GatewayError { code, message: message.unwrap_or_default() })
    }
}

/// What an API says of its own success, in whichever of its shapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Nothing where the answer does not say, or says something else than true or false.
    pub success: Option<bool>,
    pub code: Option<String>,
    pub message: String,
}

#[derive(Deserialize)]
struct VerdictShape {
    success: Option<Scalar>,
    #[serde(rename = "errorCode")]
    error_code: Option<Scalar>,
    code: Option<Scalar>,
    #[serde(rename = "errorMsg")]
    error_msg: Option<Scalar>,
    #[serde(rename = "errorMessage")]
    error_message: Option<Scalar>,
    #[serde(rename = "erroMsg")]
    erro_msg: Option<Scalar>,
    #[serde(rename = "errorInfo")]
    error_info: Option<Scalar>,
    #[serde(rename = "errMsg")]
    err_msg: Option<Scalar>,
    message: Option<Scalar>,
    result: Option<Box<RawValue>>,
}

impl Verdict {
    /// Reads the verdict of a body; one inside `result` counts where the top level has none.
    ///
    /// # Errors
    /// [`Fault::Unknown`] when the body is not a JSON object.
    pub fn read(body: &[u8]) -> Result<Verdict, Fault> {
        let shape: VerdictShape = read(body)?;
        let inner = shape.result.as_ref().map(|raw| raw.get().to_owned());
        let verdict = Verdict::from(shape);
        if verdict.success.is_some() || verdict.code.is_some() {
            return Ok(verdict);
        }
        let inner = inner.and_then(|text| read::<VerdictShape>(text.as_bytes()).ok());
        Ok(match inner.map(Verdict::from) {
            Some(nested) if nested.success.is_some() => nested,
            _ => verdict,
        })
    }

    /// The verdict as a fault that is not definite.
    pub fn unknown(&self, otherwise: &str) -> Fault {
        unknown(self.code.as_deref().unwrap_or(otherwise), &self.message)
    }
}

impl From<VerdictShape> for Verdict {
    fn from(shape: VerdictShape) -> Verdict {
        let text = |s: Option<Scalar>| s.and_then(|s| s.text());
        let messages = [
            shape.error_msg,
            shape.error_message,
            shape.erro_msg,
            shape.error_info,
            shape.err_msg,
            shape.message,
        ];
        Verdict {
            success: shape.success.and_then(|s| s.truth()),
            code: text(shape.error_code).or_else(|| text(shape.code)),
            message: messages.into_iter().find_map(text).unwrap_or_default(),
        }
    }
}

/// A recognised refusal of a purchase or its preview (documented for the preview; the create call
/// uses the same validator, as far as is known). Nothing was made.
pub fn purchase_refusal(code: &str, message: &str) -> Option<Fault> {
    match code {
        "500_004" => Some(Fault::OutOfStock { code: code.to_owned(), message: shortened(message) }),
        "500_001" | "500_002" | "500_003" | "500_005" | "500_006" | "500_007" | "500_008"
        | "500_009" => Some(refused(code, message)),
        _ => None,
    }
}

/// A fault by name and code, for the tests of this folder.
#[cfg(test)]
pub(crate) fn kind_and_code(fault: &Fault) -> (&'static str, String) {
    match fault {
        Fault::Unknown { code, .. } => ("unknown", code.clone()),
        Fault::OutOfStock { code, .. } => ("out_of_stock", code.clone()),
        Fault::Refused { code, .. } => ("refused", code.clone()),
        Fault::TooSoon => ("too_soon", String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(json: &str) -> (Option<bool>, Option<String>, String) {
        let v = Verdict::read(json.as_bytes()).expect("an object");
        (v.success, v.code, v.message)
    }

    #[test]
    fn every_business_shape_gives_one_verdict() {
        let want = (Some(false), Some("500_4".to_owned()), "no".to_owned());
        for json in [
            r#"{"success":false,"errorCode":"500_4","errorMsg":"no"}"#,
            r#"{"success":"false","errorCode":"500_4","errorMessage":"no"}"#,
            r#"{"success":false,"errorCode":"500_4","erroMsg":"no"}"#,
            r#"{"success":false,"code":"500_4","message":"no"}"#,
            r#"{"result":{"success":false,"code":"500_4","message":"no","result":null}}"#,
            r#"{"result":{"success":"false","errorCode":"500_4","errorInfo":"no"}}"#,
        ] {
            assert_eq!(verdict(json), want, "{json}");
        }
        assert_eq!(verdict(r#"{"errMsg":"no"}"#), (None, None, "no".to_owned()));
        assert_eq!(verdict(r#"{"success":false,"code":400}"#).1.as_deref(), Some("400"));
        assert_eq!(verdict(r#"{"result":[{"success":false}]}"#), (None, None, String::new()));
        assert_eq!(verdict(r#"{"success":"perhaps"}"#).0, None);
    }

    #[test]
    fn a_body_that_is_no_object_is_unknown() {
        for body in ["", "<html>502</html>", "[1]", "{\"success\":tru", "{} x", "null"] {
            let got = Verdict::read(body.as_bytes());
            assert!(matches!(got, Err(Fault::Unknown { ref code, .. }) if code == "unreadable"));
        }
    }

    #[test]
    fn the_gateway_speaks_for_itself_only_when_nothing_was_passed_on() {
        let body = r#"{"error_message":"SLA bill has no usage left",
            "exception":"SLA bill has no usage left","error_code":"gw.NoUsageLeftError"}"#;
        let found = GatewayError::find(body.as_bytes()).expect("a gateway error");
        assert_eq!(found.code, "gw.NoUsageLeftError");
        assert_eq!(found.message, "SLA bill has no usage left");
        let number = GatewayError::find(br#"{"error_code":401,"exception":"x"}"#);
        assert_eq!(number.map(|g| (g.code, g.message)), Some(("401".into(), "x".into())));
        for none in [
            r#"{"success":true}"#,
            r#"{"error_code":""}"#,
            r#"{"error_code":"401","result":{"orderId":"1"}}"#,
            "not json",
        ] {
            assert_eq!(GatewayError::find(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn only_exact_codes_refuse_a_purchase() {
        let stock = purchase_refusal("500_004", "库存不足");
        assert!(matches!(stock, Some(Fault::OutOfStock { ref code, .. }) if code == "500_004"));
        for n in [1, 2, 3, 5, 6, 7, 8, 9] {
            let code = format!("500_00{n}");
            let got = purchase_refusal(&code, "x");
            assert_eq!(got, Some(Fault::Refused { code, message: "x".into() }));
        }
        for code in ["500", "500_4", "500_0040", "500_010", "gw.500_004", "STOCK", "", " 500_004"] {
            assert_eq!(purchase_refusal(code, "库存不足"), None, "{code}");
        }
    }

    #[test]
    fn messages_are_cut_at_a_character() {
        assert_eq!(shortened(&"库".repeat(500)).chars().count(), 300);
    }
}
