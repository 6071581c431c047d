//! A JSON scalar kept as it was written, because 1688 sends one field as a number here and as text
//! there, and order ids have 19 digits.
//!
//! What must hold: no value passes through a float; an id is digits and nothing else; a sum of
//! money or a count that is not exact in its unit is unreadable, not rounded.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A number's own digits, a text's content, a flag, or something that is no scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    Number(String),
    Text(String),
    Flag(bool),
    /// An object, an array, or `null` inside a list.
    Other,
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'"') => {
                Scalar::Text(serde_json::from_str(text).map_err(serde::de::Error::custom)?)
            }
            Some(b't') => Scalar::Flag(true),
            Some(b'f') => Scalar::Flag(false),
            Some(b'-' | b'0'..=b'9') => Scalar::Number(text.to_owned()),
            _ => Scalar::Other,
        })
    }
}

impl Scalar {
    /// The digits of an id: a number or a text of 1 to 20 decimal digits that is not zero.
    pub fn id(&self) -> Option<String> {
        let digits = self.digits()?;
        let exact = digits.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit());
        (exact && digits.bytes().any(|b| b != b'0')).then(|| digits.to_owned())
    }

    /// Nothing was meant: blank text, or a zero where an id belongs.
    pub fn is_blank(&self) -> bool {
        match self {
            Scalar::Text(t) => t.trim().is_empty(),
            Scalar::Number(n) => n == "0",
            _ => false,
        }
    }

    /// Content as text (a code may come as `400` or `"400"`); nothing for blank text.
    pub fn text(&self) -> Option<String> {
        match self {
            Scalar::Text(t) if t.trim().is_empty() => None,
            Scalar::Text(t) => Some(t.trim().to_owned()),
            Scalar::Number(n) => Some(n.clone()),
            Scalar::Flag(f) => Some(f.to_string()),
            Scalar::Other => None,
        }
    }

    /// `true`, `"true"`, `false` or `"false"`.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Scalar::Flag(f) => Some(*f),
            Scalar::Text(t) if t.trim().eq_ignore_ascii_case("true") => Some(true),
            Scalar::Text(t) if t.trim().eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }

    /// A whole number, however written (`12`, `"12"`, `12.0`, `1.2E1`).
    pub fn whole(&self) -> Option<i64> {
        exact(self.digits()?, 0)
    }

    /// Yuan, as fen; nothing where it is not a whole number of fen.
    pub fn yuan_as_fen(&self) -> Option<i64> {
        exact(self.digits()?, 2)
    }

    fn digits(&self) -> Option<&str> {
        match self {
            Scalar::Number(n) => Some(n),
            Scalar::Text(t) => Some(t.trim()),
            _ => None,
        }
    }
}

/// The text of a field that may be absent.
pub fn text(field: &Option<Scalar>) -> Option<String> {
    field.as_ref().and_then(Scalar::text)
}

/// `text × 10^places`, where that is a whole number that fits.
fn exact(text: &str, places: i64) -> Option<i64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, e.parse::<i64>().ok().filter(|e| e.abs() <= 400)?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let mut digits = format!("{whole}{fraction}");
    if whole.is_empty() || fraction.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut shift = exponent + places - i64::try_from(fraction.len()).ok()?;
    while shift < 0 && digits.ends_with('0') {
        digits.pop();
        shift += 1;
    }
    if digits.is_empty() {
        return Some(0);
    }
    let value = digits.parse::<i64>().ok()?;
    let value = match u32::try_from(shift) {
        _ if value == 0 => 0,
        Ok(up) => value.checked_mul(10_i64.checked_pow(up)?)?,
        Err(_) => return None, // a fraction is left
    };
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Scalar {
        serde_json::from_str(json).expect("a JSON value")
    }

    #[test]
    fn ids_are_exact_whether_number_or_text() {
        for json in ["3657499272179232333", "\"3657499272179232333\"", "\" 3657499272179232333 \""]
        {
            assert_eq!(read(json).id().as_deref(), Some("3657499272179232333"), "{json}");
        }
        // 2^63 and 2^64 - 1: beyond i64, still exact.
        assert_eq!(read("9223372036854775808").id().as_deref(), Some("9223372036854775808"));
        assert_eq!(read("18446744073709551615").id().as_deref(), Some("18446744073709551615"));
    }

    #[test]
    fn what_is_not_plainly_digits_is_no_id() {
        for json in [
            "3.657499272179232E18",
            "3657499272179232333.0",
            "-5",
            "\"-5\"",
            "\"36574x\"",
            "\"\"",
            "0",
            "true",
            "[1]",
            "{}",
            "\"３６５\"",
            "123456789012345678901",
        ] {
            assert_eq!(read(json).id(), None, "{json}");
        }
    }

    #[test]
    fn yuan_become_fen_exactly_or_not_at_all() {
        for (json, fen) in [
            ("36.1", Some(3610)),
            ("\"36.10\"", Some(3610)),
            ("0.29", Some(29)),  // 0.29 × 100 in floats is 28.999999999999996
            ("1.15", Some(115)), // 114.99999999999999
            ("4.35", Some(435)), // 434.99999999999994
            ("44", Some(4400)),
            ("1.0E7", Some(1_000_000_000)),
            ("1.234E1", Some(1234)),
            ("-0.5", Some(-50)),
            ("36.300000000000004", None),
            ("0.001", None),
            ("92233720368547758.07", Some(i64::MAX)),
            ("92233720368547758.08", None),
            ("1e400", None),
            ("1e401", None),
            ("\"\"", None),
            ("\"1.\"", None),
            ("\".5\"", None),
            ("\"+5\"", None),
            ("\"1,000\"", None),
            ("null", None),
        ] {
            assert_eq!(read(json).yuan_as_fen(), fen, "{json}");
        }
    }

    #[test]
    fn whole_numbers_may_be_written_as_doubles() {
        for (json, n) in [
            ("5000.0", Some(5000)),
            ("1.2345678E7", Some(12_345_678)),
            ("\"7\"", Some(7)),
            ("0.0", Some(0)),
            ("-0", Some(0)),
            ("0e-300", Some(0)),
            ("-3", Some(-3)),
            ("1.5", None),
            ("1e-1", None),
            ("1e19", None),
            ("true", None),
        ] {
            assert_eq!(read(json).whole(), n, "{json}");
        }
    }

    #[test]
    fn a_flag_may_be_text() {
        assert_eq!(read("true").truth(), Some(true));
        assert_eq!(read("\"true\"").truth(), Some(true));
        assert_eq!(read("\"False\"").truth(), Some(false));
        assert_eq!(read("1").truth(), None);
        assert_eq!(read("\"ok\"").truth(), None);
    }

    proptest::proptest! {
        #[test]
        fn yuan_agree_with_a_decimal_library(
            text in "-?[0-9]{1,12}(\\.[0-9]{1,4})?(e[+-]?[0-3])?"
        ) {
            use rust_decimal::Decimal;
            let exact = Decimal::from_scientific(&text).or_else(|_| text.parse::<Decimal>());
            let fen = exact.expect("a decimal") * Decimal::from(100);
            let want = fen.is_integer().then(|| i64::try_from(fen).expect("it fits"));
            proptest::prop_assert_eq!(Scalar::Text(text).yuan_as_fen(), want);
        }

        #[test]
        fn no_text_is_read_as_more_than_it_says(text in "\\PC{0,24}") {
            let scalar = Scalar::Text(text.clone());
            if let Some(id) = scalar.id() {
                proptest::prop_assert_eq!(id, text.trim());
            }
            let _ = (scalar.whole(), scalar.yuan_as_fen(), scalar.truth());
        }
    }
}
