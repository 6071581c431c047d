//! Money as whole minor units (`i64`) of a currency, and its decimal text.
//!
//! What must hold: text and units convert exactly in both directions, with integers alone; a text
//! that has more decimals than the currency, or does not fit, is refused and never rounded. Leaves
//! out sums and shares of amounts: those belong to the rules that make them.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// ISO 4217 list one (active codes), by the number of decimals. Left out are the codes without a
/// minor unit (metals, bond units, XDR, XSU, XUA, XTS, XXX): nothing is priced in them.
const CODES: [(u32, &str); 4] = [
    (0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
    (
        2,
        "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN \
         BZD CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP \
         GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT \
         LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN \
         NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE \
         SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES \
         WST XAD XCD XCG YER ZAR ZMW ZWG",
    ),
    (3, "BHD IQD JOD KWD LYD OMR TND"),
    (4, "CLF UYW"),
];

/// A currency of ISO 4217.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency {
    code: &'static str,
    decimals: u32,
}

/// Why a text is not an amount of a currency, or not a currency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not an ISO 4217 currency code such as USD")]
    Currency(String),
    #[error("must be a decimal number such as 19.99")]
    NotANumber,
    #[error("{currency} has {decimals} decimals at most", decimals = .currency.decimals)]
    TooManyDecimals { currency: Currency },
    #[error("is too large an amount")]
    TooLarge,
    #[error("must not be negative")]
    Negative,
}

impl Currency {
    /// Reads a code: three upper-case letters of ISO 4217.
    ///
    /// # Errors
    /// [`Error::Currency`] for anything else.
    pub fn parse(text: &str) -> Result<Currency, Error> {
        static ALL: LazyLock<HashMap<&str, Currency>> = LazyLock::new(|| {
            let codes = CODES.into_iter().flat_map(|(decimals, codes)| {
                codes.split(' ').map(move |code| (code, Currency { code, decimals }))
            });
            codes.collect()
        });
        ALL.get(text).copied().ok_or_else(|| Error::Currency(text.to_owned()))
    }

    /// The three letters.
    pub const fn code(self) -> &'static str {
        self.code
    }

    /// Digits after the point; a minor unit is 10 to the minus this.
    pub const fn decimals(self) -> u32 {
        self.decimals
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code)
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Currency, D::Error> {
        let text = String::deserialize(deserializer)?;
        Currency::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Reads a decimal text (`-`, digits, and a point followed by digits) as minor units. Fewer decimals
/// than the currency has are filled with zeros; a sign other than `-`, blanks, exponents, separators
/// of thousands and digits other than ASCII are refused.
///
/// # Errors
/// [`Error::NotANumber`], [`Error::TooManyDecimals`], [`Error::TooLarge`].
pub fn parse_minor(text: &str, currency: Currency) -> Result<i64, Error> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return Err(Error::NotANumber),
        Some(parts) => parts,
        None => (digits, ""),
    };
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(Error::NotANumber);
    }
    let missing = u32::try_from(fraction.len())
        .ok()
        .and_then(|given| currency.decimals.checked_sub(given))
        .ok_or(Error::TooManyDecimals { currency })?;
    let fill = std::iter::repeat_n(b'0', usize::try_from(missing).unwrap_or(0));
    whole
        .bytes()
        .chain(fraction.bytes())
        .chain(fill)
        .try_fold(0_i64, |units, digit| {
            let digit = i64::from(digit - b'0');
            // Below zero all along, so that the most negative amount can be read as well.
            units.checked_mul(10)?.checked_sub(digit)
        })
        .and_then(|units| if negative { Some(units) } else { units.checked_neg() })
        .ok_or(Error::TooLarge)
}

/// Like [`parse_minor`], for what cannot be below zero: prices, payments, refunds.
///
/// # Errors
/// Also [`Error::Negative`].
pub fn parse_amount(text: &str, currency: Currency) -> Result<i64, Error> {
    match parse_minor(text, currency)? {
        units if units < 0 => Err(Error::Negative),
        units => Ok(units),
    }
}

/// Writes minor units as decimal text with exactly the currency's decimals.
pub fn format_minor(units: i64, currency: Currency) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let one = 10_u64.pow(currency.decimals);
    let (whole, fraction) = (units.unsigned_abs() / one, units.unsigned_abs() % one);
    match usize::try_from(currency.decimals).unwrap_or(0) {
        0 => format!("{sign}{whole}"),
        width => format!("{sign}{whole}.{fraction:0>width$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str) -> Currency {
        Currency::parse(code).expect(code)
    }

    #[test]
    fn text_and_minor_units_convert_both_ways() {
        let cases = [
            ("JPY", "9899", 9_899),
            ("KWD", "1.234", 1_234),
            ("USD", "19.99", 1_999),
            ("USD", "0.00", 0),
            ("USD", "0.05", 5),
            ("USD", "-0.05", -5),
            ("CLF", "1.0001", 10_001),
            ("USD", "92233720368547758.07", i64::MAX),
            ("USD", "-92233720368547758.08", i64::MIN),
            ("JPY", "9223372036854775807", i64::MAX),
        ];
        for (code, text, units) in cases {
            assert_eq!(parse_minor(text, of(code)), Ok(units), "{text} {code}");
            assert_eq!(format_minor(units, of(code)), text, "{units} {code}");
        }
    }

    #[test]
    fn fewer_decimals_and_leading_zeros_mean_the_same_amount() {
        for (text, units) in [("5", 500), ("5.1", 510), ("005.10", 510), ("0", 0), ("-0", 0)] {
            assert_eq!(parse_minor(text, of("EUR")), Ok(units), "{text}");
        }
    }

    #[test]
    fn what_is_no_plain_decimal_number_is_refused() {
        let bad = [
            "", " ", "-", ".", "1.", ".5", "-.5", "1e3", "1E3", "١٩", "１９", " 1", "1 ", "+1",
            "--1", "1-", "1,5", "1_000", "1.2.3", "0x10", "NaN", "inf", "1\u{0}", "1\n", "$1",
            "−1",
        ];
        for text in bad {
            assert_eq!(parse_minor(text, of("USD")), Err(Error::NotANumber), "{text:?}");
        }
    }

    #[test]
    fn too_many_decimals_are_refused_even_when_they_are_zeros() {
        for (code, text) in [("JPY", "1.0"), ("USD", "19.990"), ("KWD", "1.2345"), ("JPY", "9.5")] {
            let currency = of(code);
            assert_eq!(
                parse_minor(text, currency),
                Err(Error::TooManyDecimals { currency }),
                "{text}"
            );
        }
        let error = parse_minor("1.234", of("USD")).expect_err("three").to_string();
        assert_eq!(error, "USD has 2 decimals at most");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let thirty = "123456789012345678901234567890";
        assert_eq!(parse_minor(thirty, of("JPY")), Err(Error::TooLarge));
        assert_eq!(parse_minor("92233720368547758.08", of("USD")), Err(Error::TooLarge));
        assert_eq!(parse_minor("-92233720368547758.09", of("USD")), Err(Error::TooLarge));
        assert_eq!(parse_minor(&"9".repeat(400), of("USD")), Err(Error::TooLarge));
        let zeros = "0".repeat(400) + "7";
        assert_eq!(parse_minor(&zeros, of("JPY")), Ok(7));
    }

    #[test]
    fn an_amount_is_not_negative() {
        assert_eq!(parse_amount("-0.01", of("USD")), Err(Error::Negative));
        assert_eq!(parse_amount("0.00", of("USD")), Ok(0));
        assert_eq!(parse_amount("x", of("USD")), Err(Error::NotANumber));
    }

    #[test]
    fn only_codes_of_the_list_are_currencies() {
        for bad in
            ["", "usd", "Usd", "ZZZ", "US", "USDX", "USD ", "XXX", "XAU", " ", "BIF CLP", "ＵＳＤ"]
        {
            assert_eq!(Currency::parse(bad), Err(Error::Currency(bad.to_owned())));
        }
        let decimals = [("JPY", 0), ("KRW", 0), ("CNY", 2), ("HUF", 2), ("BHD", 3), ("CLF", 4)];
        for (code, expected) in decimals {
            assert_eq!((of(code).code(), of(code).decimals()), (code, expected));
        }
    }

    #[test]
    fn the_list_has_no_slips() {
        let mut all: Vec<&str> = CODES.iter().flat_map(|(_, codes)| codes.split(' ')).collect();
        assert!(all.iter().all(|c| c.len() == 3 && c.bytes().all(|b| b.is_ascii_uppercase())));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a code is listed twice");
    }

    #[test]
    fn a_currency_is_its_code_on_the_wire() {
        assert_eq!(serde_json::to_string(&of("CNY")).expect("text"), "\"CNY\"");
        assert_eq!(serde_json::from_str::<Currency>("\"CNY\"").expect("a code"), of("CNY"));
        assert!(serde_json::from_str::<Currency>("\"CNX\"").is_err());
    }
}
