//! What an order's units are worth, and what of the captured money is owed back.
//!
//! A discount is spread over the units by largest remainder, in line order, when placed; it is a
//! pure function of the order as placed and therefore not stored. Shipping goes back with the last
//! unit that will not ship. All amounts are minor units of the order's currency.

use super::order::{Line, Order, State};

/// Goods at list price.
///
/// # Errors
/// `None` on overflow.
pub fn gross<'a>(lines: impl Iterator<Item = (&'a i64, &'a i64)>) -> Option<i64> {
    lines
        .map(|(quantity, price)| quantity.checked_mul(*price))
        .try_fold(0i64, |sum, line| sum.checked_add(line?))
}

/// Each line's discount for its first `k` units is `k × base + min(k, extra)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    base: i64,
    extra: i64,
}

fn spread(lines: &[Line], discount: i64) -> Vec<Spread> {
    let total: i128 = lines.iter().map(|l| i128::from(l.quantity) * i128::from(l.unit_price)).sum();
    if total <= 0 || discount <= 0 {
        return vec![Spread { base: 0, extra: 0 }; lines.len()];
    }
    let discount = i128::from(discount);
    let per_unit = |l: &Line| {
        let exact = discount * i128::from(l.unit_price);
        (exact.div_euclid(total), exact.rem_euclid(total))
    };
    let narrow = |n: i128| i64::try_from(n).unwrap_or(i64::MAX);
    let given: i128 = lines.iter().map(|l| per_unit(l).0 * i128::from(l.quantity)).sum();
    let mut left = discount - given;
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(lines.get(i).map_or(0, |l| per_unit(l).1)));
    let mut spreads: Vec<Spread> =
        lines.iter().map(|l| Spread { base: narrow(per_unit(l).0), extra: 0 }).collect();
    for i in order {
        if let (Some(line), Some(s)) = (lines.get(i), spreads.get_mut(i)) {
            let extra = left.min(i128::from(line.quantity)).max(0);
            s.extra = narrow(extra);
            left -= extra;
        }
    }
    spreads
}

/// What the first `kept` units of each line are worth, discount taken off.
fn value(order: &Order, kept: impl Fn(&Line) -> i64) -> i64 {
    let spreads = spread(&order.lines, order.discount);
    order.lines.iter().zip(spreads).fold(0i64, |sum, (line, s)| {
        let k = kept(line).clamp(0, line.quantity);
        let off = k.saturating_mul(s.base).saturating_add(k.min(s.extra));
        sum.saturating_add(k.saturating_mul(line.unit_price).saturating_sub(off))
    })
}

/// What the customer owes for the order as it stands: units that are or will be with him, and
/// shipping while there is any.
pub fn owed(order: &Order) -> i64 {
    let ended = matches!(order.state, State::Cancelled | State::Expired);
    if ended { worth(order, |line| line.shipped) } else { price(order) }
}

/// What the units that were not cancelled cost, with shipping, whatever became of the order.
pub fn price(order: &Order) -> i64 {
    worth(order, Line::kept)
}

fn worth(order: &Order, kept: impl Fn(&Line) -> i64) -> i64 {
    if order.lines.iter().all(|line| kept(line) <= 0) {
        return 0;
    }
    // A discount larger than the goods eats into the shipping.
    let free = order.lines.iter().all(|line| line.unit_price == 0);
    let shipping = order.shipping.saturating_sub(if free { order.discount } else { 0 });
    value(order, kept).saturating_add(shipping).max(0)
}

/// Captured money that counts for the order: all but what the rules gave back. A refund by ops is
/// a gift: the order is as paid as before it.
pub fn paid(order: &Order) -> i64 {
    let by_rule = order.refunds.iter().filter(|r| !r.is_by_ops());
    let back = by_rule.fold(0i64, |sum, r| sum.saturating_add(r.amount));
    order.captured().saturating_sub(back)
}

/// Captured money that is neither owed for units nor on its way back; never more than is left.
pub fn due_back(order: &Order) -> i64 {
    let left = order.captured().saturating_sub(order.refunded());
    paid(order).saturating_sub(owed(order)).min(left).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(no: i64, quantity: i64, unit_price: i64) -> Line {
        Line { no, sku: "S".into(), quantity, unit_price, cancelled: 0, shipped: 0, returned: 0 }
    }

    #[test]
    fn a_discount_is_spread_by_largest_remainder_in_line_order() {
        // 100 off 3 × 100 and 1 × 700 of 1000: exactly 10 a unit, 70 for the last.
        let even = spread(&[line(1, 3, 100), line(2, 1, 700)], 100);
        assert_eq!(even, [Spread { base: 10, extra: 0 }, Spread { base: 70, extra: 0 }]);
        // 10 off 3 × 100: 3.33 each; one unit takes the odd one.
        assert_eq!(spread(&[line(1, 3, 100)], 10), [Spread { base: 3, extra: 1 }]);
        // 1 off two equal lines: the first line in order takes it.
        let first = spread(&[line(1, 1, 50), line(2, 1, 50)], 1);
        assert_eq!(first, [Spread { base: 0, extra: 1 }, Spread { base: 0, extra: 0 }]);
    }

    #[test]
    fn every_unit_given_back_one_by_one_sums_to_what_was_paid() {
        // C064: 10 × 23.90 less 25 % = 179.25 (discount 59.75).
        let lines = [line(1, 10, 2390)];
        let s = spread(&lines, 5975)[0];
        let worth = |k: i64| k * 2390 - (k * s.base + k.min(s.extra));
        assert_eq!(worth(10), 17_925);
        let one_by_one: i64 = (0..10).map(|k| worth(10 - k) - worth(9 - k)).sum();
        assert_eq!(one_by_one, 17_925);
    }

    #[test]
    fn sums_that_overflow_are_none() {
        assert_eq!(gross([(&i64::MAX, &2)].into_iter()), None);
        assert_eq!(gross([(&2, &i64::MAX), (&1, &1)].into_iter()), None);
        assert_eq!(gross([(&3, &1999)].into_iter()), Some(5997));
    }
}
