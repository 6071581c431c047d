//! Who comes in the night: crowds, each after the same goods, and what their people do.
//!
//! What must hold: the same people every night, in the same order; every trouble of the story has
//! enough of them that it surely comes up. Money is in cents.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::clock::Span;

/// Of the order in which the kinds of a crowd come.
const SEED: u64 = 1688;
/// Carriage of every order, cents.
pub const SHIPPING: i64 = 450;
/// What the shop asks for a unit, cents.
const PRICES: [(&str, i64); 11] = [
    ("FLASH-CAM", 8_999),
    ("FLASH-TURN", 14_950),
    ("COAT-L", 12_901),
    ("MUG-01", 1_250),
    ("SHOE-42", 3_999),
    ("SHOE-43", 3_999),
    ("LAMP-01", 2_733),
    ("BAG-01", 1_590),
    ("TAPE-10", 333),
    ("CUP-RED", 701),
    ("CUP-GIFT", 999),
];

/// When and how somebody pays; minutes of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pays {
    /// The money is captured before the order is placed.
    WithOrder,
    /// So long after placing it.
    After(i64),
    Never,
    /// Once it has expired, and not before this minute of the night.
    Late(i64),
    /// As `After`, and then a second time with another payment.
    Twice(i64),
}

/// How a storefront submits one order more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    Not,
    /// Two requests at the same time.
    AtOnce,
    /// Again under the same `Idempotency-Key`, when the first is answered.
    Again,
    /// Again with another quantity, which must be refused.
    Changed,
}

/// One person with one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Customer {
    pub external_id: String,
    /// Since the beginning of the night, story time.
    pub comes_at: Span,
    /// SKU and units.
    pub lines: &'static [(&'static str, i64)],
    pub pays: Pays,
    pub repeats: Repeats,
    /// The payment's notice comes twice.
    pub notified_twice: bool,
    /// Cancels so many minutes after paying.
    pub cancels: Option<i64>,
    /// Takes what there is when a supplier is short of a line.
    pub keeps_rest: bool,
}

/// People who come for the same goods.
struct Crowd {
    name: &'static str,
    /// The first of them comes in this minute, the last `over` minutes later.
    from: i64,
    over: i64,
    lines: &'static [(&'static str, i64)],
    kinds: &'static [(usize, Pays)],
    cancels: Option<i64>,
    keeps_rest: bool,
}

const fn crowd(
    name: &'static str,
    (from, over): (i64, i64),
    lines: &'static [(&'static str, i64)],
    kinds: &'static [(usize, Pays)],
) -> Crowd {
    Crowd { name, from, over, lines, kinds, cancels: None, keeps_rest: false }
}

use Pays::{After, Late, Never, Twice, WithOrder};

/// The night's crowds. Of the first, the creates are lost (`night`).
const CROWDS: [Crowd; 20] = [
    crowd("early", (1, 1), &[("BAG-01", 1)], &[(6, WithOrder)]),
    // They hold every camera and let them go; the buyers take them; then the late ones pay.
    crowd("dreamer", (3, 0), &[("FLASH-CAM", 1)], &[(6, Never), (8, Late(22))]),
    crowd("camera", (10, 3), &[("FLASH-CAM", 1)], &[(30, WithOrder), (15, After(1))]),
    crowd(
        "turntable",
        (6, 8),
        &[("FLASH-TURN", 1)],
        &[(20, WithOrder), (10, After(1)), (15, Never)],
    ),
    crowd("turntable again", (24, 4), &[("FLASH-TURN", 1)], &[(10, WithOrder)]),
    crowd("coat", (4, 10), &[("COAT-L", 1)], &[(25, After(3)), (20, Never), (5, WithOrder)]),
    crowd("coat again", (29, 8), &[("COAT-L", 1)], &[(20, WithOrder), (5, After(1))]),
    crowd("mug", (5, 30), &[("MUG-01", 1)], &[(35, WithOrder), (30, After(4)), (5, Twice(2))]),
    crowd("mugs", (5, 5), &[("MUG-01", 3)], &[(5, Never), (6, Late(45))]),
    Crowd {
        cancels: Some(3),
        ..crowd("regret", (6, 20), &[("MUG-01", 2)], &[(6, WithOrder), (4, After(2))])
    },
    crowd("sneaker", (7, 12), &[("SHOE-42", 1)], &[(12, WithOrder), (14, After(3)), (6, Never)]),
    crowd("runner", (7, 12), &[("SHOE-43", 1)], &[(8, WithOrder), (8, After(3)), (4, Never)]),
    Crowd {
        keeps_rest: true,
        ..crowd("desk", (4, 1), &[("MUG-01", 1), ("LAMP-01", 1)], &[(4, WithOrder)])
    },
    crowd("lamp", (5, 2), &[("LAMP-01", 1)], &[(8, WithOrder), (4, After(2))]),
    crowd("too late", (20, 15), &[("LAMP-01", 1)], &[(6, WithOrder)]),
    crowd("bag", (9, 15), &[("BAG-01", 1)], &[(8, WithOrder), (4, After(5)), (3, Never)]),
    Crowd { cancels: Some(8), ..crowd("unsure", (9, 5), &[("BAG-01", 1)], &[(3, WithOrder)]) },
    crowd("tape", (10, 2), &[("TAPE-10", 4)], &[(6, WithOrder), (2, After(2))]),
    crowd("cup", (8, 6), &[("CUP-RED", 1)], &[(8, WithOrder), (6, After(3))]),
    crowd("gift", (8, 6), &[("CUP-GIFT", 1), ("MUG-01", 1)], &[(6, WithOrder), (4, Never)]),
];

/// What the shop asks for a unit, cents.
pub fn price(sku: &str) -> i64 {
    PRICES.iter().find(|(known, _)| *known == sku).map_or(0, |(_, price)| *price)
}

/// Everybody, in the order in which they come.
pub fn everybody() -> Vec<Customer> {
    let mut dice = StdRng::seed_from_u64(SEED);
    let mut people: Vec<Customer> = Vec::new();
    for crowd in &CROWDS {
        let mut kinds: Vec<Pays> =
            crowd.kinds.iter().flat_map(|(n, pays)| vec![*pays; *n]).collect();
        kinds.shuffle(&mut dice);
        let between = Span::minutes(crowd.over).times(1, i64::try_from(kinds.len()).unwrap_or(1));
        let mut comes_at = Span::minutes(crowd.from);
        for (pays, n) in kinds.into_iter().zip(1_usize..) {
            people.push(Customer {
                external_id: format!("{}-{n}", crowd.name.replace(' ', "-")),
                comes_at,
                lines: crowd.lines,
                pays,
                repeats: match (people.len() + 1) % 12 {
                    3 => Repeats::AtOnce,
                    6 => Repeats::Again,
                    9 => Repeats::Changed,
                    _ => Repeats::Not,
                },
                notified_twice: people.len().is_multiple_of(7),
                cancels: crowd.cancels,
                keeps_rest: crowd.keeps_rest,
            });
            comes_at = comes_at + between;
        }
    }
    people.sort_by_key(|person| person.comes_at);
    people
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn everybody_comes_every_night_with_an_order_of_their_own() {
        let people = everybody();
        assert_eq!(people, everybody());
        assert!(people.len() > 300, "{}", people.len());
        let ids: BTreeSet<&str> = people.iter().map(|p| p.external_id.as_str()).collect();
        assert_eq!(ids.len(), people.len());
        assert!(people.iter().flat_map(|p| p.lines).all(|(sku, _)| price(sku) > 0));
    }

    #[test]
    fn every_way_to_repeat_and_to_pay_is_there() {
        let people = everybody();
        for repeats in [Repeats::AtOnce, Repeats::Again, Repeats::Changed] {
            let some = people.iter().filter(|p| p.repeats == repeats).count();
            assert!(some >= 20, "{repeats:?}: {some}");
        }
        let late = people.iter().filter(|p| matches!(p.pays, Pays::Late(_))).count();
        let twice = people.iter().filter(|p| matches!(p.pays, Pays::Twice(_))).count();
        assert_eq!((late, twice), (14, 5));
    }
}
