//! How lengths of time and shares are written in the configuration.
//!
//! What must hold: one number, one unit, nothing else; a number that does not fit is an error and
//! never wraps. Leaves out which values make sense for a key.

use crate::clock::Span;

/// Units of a duration, largest first, in microseconds.
const UNITS: [(&str, i64); 5] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
];

/// A share of a whole, in whole percent, 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u8);

/// Reads `250ms`, `90s`, `5m`, `2h`, `1d`.
pub(super) fn span(text: &str) -> Result<Span, String> {
    let wrong = || format!("`{text}` is not a duration such as 250ms, 90s, 5m, 2h or 1d");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, micros) = UNITS
        .into_iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(wrong)?;
    if number.is_empty() {
        return Err(wrong());
    }
    let number: Option<i64> = number.parse().ok();
    number
        .and_then(|n| n.checked_mul(micros))
        .map(Span::micros)
        .ok_or_else(|| format!("`{text}` is too long a time"))
}

/// Writes a span as [`span`] reads it, in the largest unit that fits exactly.
pub(super) fn span_text(span: Span) -> String {
    let micros = span.as_micros();
    let fits = UNITS
        .into_iter()
        .find(|(_, unit)| micros != 0 && micros % unit == 0);
    match fits {
        Some((name, unit)) => format!("{}{name}", micros / unit),
        None => format!("{}ms", micros / 1_000),
    }
}

/// Reads `30%`.
pub(super) fn percent(text: &str) -> Result<Percent, String> {
    let number = text
        .strip_suffix('%')
        .filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    number
        .and_then(|n| n.parse().ok())
        .filter(|n| *n <= 100)
        .map(Percent)
        .ok_or_else(|| format!("`{text}` is not a whole percentage such as 30%, at most 100%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_number_and_one_unit() {
        assert_eq!(span("250ms"), Ok(Span(250_000)));
        assert_eq!(span("90s"), Ok(Span(90_000_000)));
        assert_eq!(span("5m"), Ok(Span(300_000_000)));
        assert_eq!(span("2h"), Ok(Span(7_200_000_000)));
        assert_eq!(span("1d"), Ok(Span(86_400_000_000)));
        assert_eq!(span("0s"), Ok(Span(0)));
        for bad in [
            "", "5", "m", "-5m", "+5m", "5 m", " 5m", "5m ", "1.5h", "1h30m", "5M", "5min", "٥m",
            "5w",
        ] {
            let error = span(bad).expect_err(bad);
            assert!(error.contains("is not a duration"), "{bad}: {error}");
        }
        for long in ["999999999999d", "99999999999999999999999999s"] {
            assert_eq!(span(long), Err(format!("`{long}` is too long a time")));
        }
    }

    #[test]
    fn a_span_is_written_in_the_largest_exact_unit() {
        for text in ["250ms", "90s", "5m", "2h", "1d", "25h", "0ms"] {
            assert_eq!(span_text(span(text).expect(text)), text);
        }
        assert_eq!(span_text(span("120s").expect("120s")), "2m");
    }

    #[test]
    fn percentages_are_whole_and_at_most_a_hundred() {
        assert_eq!(percent("30%"), Ok(Percent(30)));
        assert_eq!(percent("0%"), Ok(Percent(0)));
        assert_eq!(percent("100%"), Ok(Percent(100)));
        for bad in [
            "", "%", "30", "101%", "-1%", "+1%", "1.5%", "30 %", "300%", "٣%",
        ] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
