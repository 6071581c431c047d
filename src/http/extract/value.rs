//! One JSON value as something of ours: text, integer, money, time, a choice, a list.
//!
//! What must hold: an integer is judged by its text (`1.0`, `1e2` and 400 digits are refused, each
//! politely); no string has U+0000; every fault is reported with its path and gives `None`.

use std::ops::RangeInclusive;
use std::rc::Rc;

use serde_json::value::RawValue;
use unicode_normalization::UnicodeNormalization;

use super::json::{Object, Path, Report};
use crate::clock::Timestamp;
use crate::domain::money::{self, Currency};
use crate::domain::names::SkuKey;

/// The largest quantity of a line.
pub const MAX_QUANTITY: i64 = 1_000_000;

/// A member's or element's value with its path.
pub struct Value<'a> {
    path: Path,
    raw: &'a RawValue,
    report: &'a Report,
}

impl<'a> Value<'a> {
    pub(super) fn new(path: Path, raw: &'a RawValue, report: &'a Report) -> Value<'a> {
        Value { path, raw, report }
    }

    pub fn is_null(&self) -> bool {
        self.raw.get() == "null"
    }

    fn fault<T>(&self, message: impl Into<String>) -> Option<T> {
        self.report.add(self.path.to_string(), message);
        None
    }

    fn string(&self) -> Option<String> {
        if !self.raw.get().starts_with('"') {
            return self.fault("must be a string");
        }
        match serde_json::from_str::<String>(self.raw.get()) {
            Ok(text) if text.contains('\0') => self.fault("must not contain U+0000"),
            Ok(text) => Some(text),
            Err(_) => self.fault("must be valid Unicode"),
        }
    }

    /// A string of so many characters.
    pub fn text(&self, chars: RangeInclusive<usize>) -> Option<String> {
        let text = self.string()?;
        match check_length(&text, &chars) {
            Ok(()) => Some(text),
            Err(message) => self.fault(message),
        }
    }

    /// An id or a name given by another system: 1 to 255 characters.
    pub fn external_text(&self) -> Option<String> {
        let text = self.string()?;
        external_text(&text).map_or_else(|message| self.fault(message), |()| Some(text))
    }

    /// A SKU key, normalised.
    pub fn sku(&self) -> Option<SkuKey> {
        let text = self.string()?;
        sku_key(&text).map_or_else(|message| self.fault(message), Some)
    }

    /// An integer, judged by its text.
    pub fn integer(&self, range: RangeInclusive<i64>) -> Option<i64> {
        let text = self.raw.get();
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return self.fault("must be a JSON integer, without quotes, point or exponent");
        }
        match text.parse::<i64>() {
            Ok(n) if range.contains(&n) => Some(n),
            _ => {
                self.fault(format!("must be an integer from {} to {}", range.start(), range.end()))
            }
        }
    }

    /// Units of a line: 1 to 1000000.
    pub fn quantity(&self) -> Option<i64> {
        self.integer(1..=MAX_QUANTITY)
    }

    pub fn boolean(&self) -> Option<bool> {
        match self.raw.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.fault("must be true or false"),
        }
    }

    pub fn object(&self) -> Option<Object<'a>> {
        Object::read(Rc::new(self.path.clone()), self.raw, self.report)
    }

    /// The elements of an array of so many.
    pub fn array(&self, count: RangeInclusive<usize>) -> Option<Vec<Value<'a>>> {
        if !self.raw.get().starts_with('[') {
            return self.fault("must be an array");
        }
        let Ok(elements) = serde_json::from_str::<Vec<&'a RawValue>>(self.raw.get()) else {
            return self.fault("is not readable");
        };
        if !count.contains(&elements.len()) {
            return self.fault(format!("must have {} to {} elements", count.start(), count.end()));
        }
        let array = Rc::new(self.path.clone());
        let element = |(i, raw)| Value::new(Path::Element(Rc::clone(&array), i), raw, self.report);
        Some(elements.into_iter().enumerate().map(element).collect())
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, all: &[T], word: impl Fn(T) -> &'static str) -> Option<T> {
        let text = self.string()?;
        match all.iter().copied().find(|t| word(*t) == text) {
            Some(found) => Some(found),
            None => {
                let words: Vec<&str> = all.iter().map(|t| word(*t)).collect();
                self.fault(format!("must be one of {}", words.join(", ")))
            }
        }
    }

    /// RFC 3339, with any offset.
    pub fn time(&self) -> Option<Timestamp> {
        let text = self.string()?;
        Timestamp::parse_rfc3339(&text).map_or_else(|message| self.fault(message), Some)
    }

    pub fn currency(&self) -> Option<Currency> {
        let text = self.string()?;
        Currency::parse(&text).map_or_else(|e| self.fault(e.to_string()), Some)
    }

    /// A decimal string of 0 or more in minor units of the currency. Without a currency (its own
    /// fault is reported elsewhere) only the type is judged.
    pub fn amount(&self, currency: Option<Currency>) -> Option<i64> {
        let text = self.string()?;
        match money::parse_amount(&text, currency?) {
            Ok(units) => Some(units),
            Err(e) => self.fault(e.to_string()),
        }
    }

    /// Like [`Value::amount`], above 0.
    pub fn amount_above_zero(&self, currency: Option<Currency>) -> Option<i64> {
        match self.amount(currency)? {
            0 => self.fault("must be above 0"),
            units => Some(units),
        }
    }
}

fn check_length(text: &str, chars: &RangeInclusive<usize>) -> Result<(), String> {
    if chars.contains(&text.chars().count()) {
        Ok(())
    } else {
        Err(format!("must have {} to {} characters", chars.start(), chars.end()))
    }
}

/// An id or a name given by another system: 1 to 255 characters, without U+0000.
///
/// # Errors
/// What is wrong with it.
pub fn external_text(text: &str) -> Result<(), String> {
    check_length(text, &(1..=255))?;
    if text.contains('\0') {
        return Err("must not contain U+0000".into());
    }
    Ok(())
}

/// A SKU key: trimmed, Unicode NFC, 1 to 128 characters, no control characters.
///
/// # Errors
/// What is wrong with it.
pub fn sku_key(text: &str) -> Result<SkuKey, String> {
    let text = text.trim();
    // ASCII is in this form already.
    let key: String = if text.is_ascii() { text.to_owned() } else { text.nfc().collect() };
    if key.chars().any(char::is_control) {
        return Err("must not contain control characters".into());
    }
    check_length(&key, &(1..=128))?;
    Ok(SkuKey::from(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `{"v": <text>}`; gives the value, or the one fault's message.
    fn read<T>(text: &str, read: impl FnOnce(&Value<'_>) -> Option<T>) -> Result<T, String> {
        let report = Report::default();
        let body = format!("{{\"v\":{text}}}");
        let object = Object::of_body(&body, &report).map_err(|p| p.code.to_owned())?;
        let value = object.required("v").expect("there");
        let got = read(&value);
        object.finish();
        report.finish(got).map_err(|p| {
            let errors = p.body()["errors"].clone();
            assert_eq!(errors.as_array().map(Vec::len), Some(1));
            assert_eq!(errors[0]["field"], "v");
            errors[0]["message"].as_str().unwrap_or_default().to_owned()
        })
    }

    #[test]
    fn a_quantity_is_a_json_integer_from_one_to_a_million() {
        for (text, want) in [("1", 1), ("100050", 100_050), ("1000000", 1_000_000)] {
            assert_eq!(read(text, |v| v.quantity()), Ok(want));
        }
    }

    #[test]
    fn every_other_number_is_refused_by_its_text() {
        let long = "9".repeat(400);
        let range = "must be an integer from 1 to 1000000";
        let form = "must be a JSON integer, without quotes, point or exponent";
        for (text, message) in [
            ("0", range),
            ("-0", range),
            ("-1", range),
            ("1000001", range),
            ("2147483648", range),
            ("9223372036854775808", range),
            ("-9223372036854775809", range),
            (long.as_str(), range),
            ("1.0", form),
            ("1.5", form),
            ("1e2", form),
            ("1E400", form),
            ("\"3\"", form),
            ("null", form),
            ("true", form),
            ("[]", form),
            ("{}", form),
        ] {
            assert_eq!(read(text, |v| v.quantity()), Err(message.to_owned()), "{text}");
        }
        for text in ["NaN", "Infinity", "+1", "0x10", "01", ".5"] {
            assert_eq!(read(text, |v| v.quantity()), Err("malformed_request".to_owned()), "{text}");
        }
    }

    #[test]
    fn no_string_has_a_nul_or_half_a_character() {
        let nul = "must not contain U+0000".to_owned();
        assert_eq!(read("\"a\\u0000b\"", |v| v.text(0..=9)), Err(nul.clone()));
        assert_eq!(read("\"\\u0000\"", |v| v.sku()), Err(nul.clone()));
        assert_eq!(read("\"\\u0000\"", |v| v.time()), Err(nul));
        assert_eq!(read("\"\\ud800\"", |v| v.text(0..=9)), Err("must be valid Unicode".to_owned()));
        assert_eq!(read("\"\\ud83d\\ude00\"", |v| v.text(1..=1)), Ok("😀".to_owned()));
    }

    #[test]
    fn lengths_count_characters() {
        assert_eq!(read("\"鞋鞋\"", |v| v.text(2..=2)), Ok("鞋鞋".to_owned()));
        assert_eq!(
            read("\"\"", |v| v.external_text()),
            Err("must have 1 to 255 characters".to_owned())
        );
        let long = format!("\"{}\"", "é".repeat(256));
        assert_eq!(
            read(&long, |v| v.external_text()),
            Err("must have 1 to 255 characters".to_owned())
        );
        assert_eq!(read("3", |v| v.external_text()), Err("must be a string".to_owned()));
    }

    #[test]
    fn a_sku_key_is_trimmed_and_composed_and_keeps_its_case_and_zeros() {
        for (text, want) in [
            ("\"  01234 \"", "01234"),
            ("\"1234\"", "1234"),
            ("\"ab-1\"", "ab-1"),
            ("\"AB-1\"", "AB-1"),
            ("\"1E5\"", "1E5"),
            ("\"e\\u0301\"", "\u{e9}"),
            ("\"１２\"", "１２"),
            ("\"\\u3000鞋\\u00a0\"", "鞋"),
        ] {
            assert_eq!(read(text, |v| v.sku()), Ok(SkuKey::from(want)), "{text}");
        }
        let blank = "must have 1 to 128 characters".to_owned();
        assert_eq!(read("\"   \"", |v| v.sku()), Err(blank.clone()));
        assert_eq!(read(&format!("\"{}\"", "x".repeat(129)), |v| v.sku()), Err(blank));
        assert!(read(&format!("\"{}\"", "x".repeat(128)), |v| v.sku()).is_ok());
        assert_eq!(
            read("\"a\\tb\"", |v| v.sku()),
            Err("must not contain control characters".to_owned())
        );
    }

    #[test]
    fn money_has_its_currency_s_decimals_and_is_a_string() {
        let currency = |code: &str| Some(Currency::parse(code).expect("a currency"));
        assert_eq!(read("\"19.99\"", |v| v.amount(currency("USD"))), Ok(1999));
        assert_eq!(read("\"9899\"", |v| v.amount(currency("JPY"))), Ok(9899));
        assert_eq!(read("\"1.234\"", |v| v.amount(currency("KWD"))), Ok(1234));
        for (text, code) in [
            ("\"1.5\"", "JPY"),
            ("\"1.2345\"", "KWD"),
            ("\"0.001\"", "USD"),
            ("\"-1\"", "USD"),
            ("\"1e2\"", "USD"),
            ("\"\"", "USD"),
            ("19.99", "USD"),
            ("19", "USD"),
            ("null", "USD"),
            ("\"99999999999999999999\"", "USD"),
        ] {
            assert!(read(text, |v| v.amount(currency(code))).is_err(), "{text} {code}");
        }
        assert_eq!(
            read("\"0.00\"", |v| v.amount_above_zero(currency("USD"))),
            Err("must be above 0".to_owned())
        );
    }

    #[test]
    fn a_choice_names_what_there_is() {
        use crate::domain::sku::Class;
        let class = |v: &Value<'_>| v.choice(Class::ALL, Class::as_str);
        assert_eq!(read("\"hot\"", class), Ok(Class::Hot));
        assert_eq!(read("\"Hot\"", class), Err("must be one of normal, hot, flash".to_owned()));
    }

    #[test]
    fn an_array_is_bounded_and_its_elements_have_paths() {
        let report = Report::default();
        let object = Object::of_body(r#"{"lines":[{"n":0},7]}"#, &report).expect("read");
        let lines = object.required("lines").and_then(|v| v.array(1..=2)).expect("two");
        for line in &lines {
            if let Some(line) = line.object() {
                line.required("n").and_then(|n| n.quantity());
                line.finish();
            }
        }
        let errors = report.finish(Some(())).expect_err("two faults").body()["errors"].clone();
        assert_eq!(errors[0]["field"], "lines[0].n");
        assert_eq!(errors[1]["field"], "lines[1]");
        assert_eq!(errors[1]["message"], "must be an object");
        assert_eq!(
            read("[1,2,3]", |v| v.array(1..=2).map(|a| a.len())),
            Err("must have 1 to 2 elements".to_owned())
        );
        assert_eq!(
            read("[]", |v| v.array(1..=2).map(|a| a.len())),
            Err("must have 1 to 2 elements".to_owned())
        );
    }
}
