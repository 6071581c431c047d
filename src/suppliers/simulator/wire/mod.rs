//! The answers of each call, in the platform's envelopes, spelling, units and types of ids.
//!
//! What must hold: what has two forms on the wire (a number and its text twin) has both here;
//! misspelt names are the wire format. Money is fen inside and becomes decimal yuan only in text.

pub mod logistics;
pub mod orders;
pub mod product;
pub mod trade;

use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeZone};
use serde_json::{Number, Value, json};

use super::api::Api;
use crate::clock::Timestamp;

/// The platform's time zone, UTC+8.
const BEIJING_SECS: i32 = 8 * 3_600;

/// A refusal in the envelope of `api`; each call has its own.
pub fn refusal(api: Api, code: &str, message: &str) -> Value {
    match api {
        Api::Product | Api::Preview => {
            json!({ "success": false, "errorCode": code, "errorMsg": message })
        }
        Api::Create => json!({ "success": false, "code": code, "message": message }),
        Api::Pay => {
            json!({ "result": { "success": false, "code": code, "message": message } })
        }
        Api::View => json!({ "success": "false", "errorCode": code, "errorMessage": message }),
        Api::List => json!({ "errorCode": code, "errorMessage": message }),
        _ => json!({ "success": false, "errorCode": code, "errorMessage": message }),
    }
}

/// Fen as a JSON number of yuan: 12850 becomes `128.5`.
pub fn yuan(fen: i64) -> Value {
    let sign = if fen < 0 { "-" } else { "" };
    let (whole, rest) = (fen.unsigned_abs() / 100, fen.unsigned_abs() % 100);
    format!("{sign}{whole}.{rest:02}").parse::<Number>().map_or(Value::Null, Value::Number)
}

/// Decimal digits as a JSON number; text that is none stays text.
pub fn number(digits: &str) -> Value {
    digits.parse::<u64>().map_or_else(|_| digits.into(), Value::from)
}

/// `20180614101942000+0800`.
pub fn stamp(at: Timestamp) -> String {
    local(at).map_or_else(String::new, |t| t.format("%Y%m%d%H%M%S%3f%z").to_string())
}

/// `2018-06-14 10:19:42`, Beijing time.
pub fn plain_time(at: Timestamp) -> String {
    local(at).map_or_else(String::new, |t| t.format("%Y-%m-%d %H:%M:%S").to_string())
}

/// Reads either of the two forms.
pub fn read_time(text: &str) -> Option<Timestamp> {
    if let Ok(at) = DateTime::parse_from_str(text, "%Y%m%d%H%M%S%3f%z") {
        return Some(Timestamp(at.timestamp_micros()));
    }
    let plain = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").ok()?;
    let local = FixedOffset::east_opt(BEIJING_SECS)?.from_local_datetime(&plain).single()?;
    Some(Timestamp(local.timestamp_micros()))
}

fn local(at: Timestamp) -> Option<DateTime<FixedOffset>> {
    let utc = DateTime::from_timestamp_micros(at.as_micros())?;
    Some(utc.with_timezone(&FixedOffset::east_opt(BEIJING_SECS)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yuan_are_exact() {
        for (fen, text) in [(12_850, "128.5"), (990, "9.9"), (5, "0.05"), (-250, "-2.5")] {
            assert_eq!(yuan(fen).to_string(), text);
        }
        assert_eq!(yuan(4_400).to_string(), "44.0");
        assert_eq!(yuan(i64::from(i32::MAX)).to_string(), "21474836.47");
    }

    #[test]
    fn times_are_beijing_times_in_two_forms() {
        let at = Timestamp::parse_rfc3339("2018-06-14T02:19:42.007Z").unwrap();
        assert_eq!(stamp(at), "20180614101942007+0800");
        assert_eq!(plain_time(at), "2018-06-14 10:19:42");
        assert_eq!(read_time("20180614101942007+0800"), Some(at));
        let whole = Timestamp::parse_rfc3339("2018-06-14T02:19:42Z").unwrap();
        assert_eq!(read_time("2018-06-14 10:19:42"), Some(whole));
        assert_eq!(read_time("yesterday"), None);
    }
}
