//! Lengths of time as text in settings and in `/sim` bodies: `250ms`, `90s`, `5m`, `2h`, `1d`.
//!
//! What must hold: text and value round-trip exactly to the millisecond; a bare number, a negative
//! length and an unknown unit are refused. `never` is a value only where a field may be absent.

use serde::{Deserialize, Deserializer, Serializer, de};

use crate::clock::Span;

const UNITS: [(&str, i64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads `90s`.
///
/// # Errors
/// When the text is not a whole number followed by `ms`, `s`, `m`, `h` or `d`, or is too long.
pub fn parse(text: &str) -> Result<Span, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("`{text}` is not a length of time such as 250ms, 90s, 5m, 2h or 1d");
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let micros =
        number.checked_mul(*millis).and_then(|n| n.checked_mul(1_000)).ok_or_else(wrong)?;
    Ok(Span(micros))
}

/// Writes a length in the largest unit that divides it: `90s`, not `1.5m`.
pub fn text(span: Span) -> String {
    let millis = span.as_micros() / 1_000;
    UNITS
        .iter()
        .rev()
        .find(|(_, unit)| millis != 0 && millis % unit == 0)
        .map_or_else(|| "0s".to_owned(), |(name, unit)| format!("{}{name}", millis / unit))
}

/// `#[serde(with = "length")]`.
///
/// # Errors
/// Only those of the serializer.
pub fn serialize<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text(*span))
}

/// `#[serde(with = "length")]`.
///
/// # Errors
/// When the value is not text that [`parse`] reads.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    let written = String::deserialize(from)?;
    parse(&written).map_err(de::Error::custom)
}

/// `#[serde(with = "length::or_never")]`: a length, or the text `never`.
pub mod or_never {
    use super::{Deserialize, Deserializer, Serializer, Span, de};

    /// # Errors
    /// Only those of the serializer.
    pub fn serialize<S: Serializer>(span: &Option<Span>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&span.map_or_else(|| "never".to_owned(), super::text))
    }

    /// # Errors
    /// When the value is neither `never` nor a length.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
        let written = String::deserialize(from)?;
        if written == "never" {
            return Ok(None);
        }
        super::parse(&written).map(Some).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_lengths() {
        for (written, micros) in
            [("250ms", 250_000), ("90s", 90_000_000), ("5m", 300_000_000), ("1d", 86_400_000_000)]
        {
            assert_eq!(parse(written), Ok(Span(micros)));
            assert_eq!(text(Span(micros)), written);
        }
        assert_eq!(text(Span::ZERO), "0s");
        assert_eq!(text(Span::secs(120)), "2m");
    }

    #[test]
    fn refuses_what_is_not_a_length() {
        for wrong in ["", "5", "s", "-5s", "5 s", "1.5m", "5w", "9223372036854775807d"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
