//! Good books by hand, and each way to spoil them.

use serde_json::{Value, json};

use super::*;
use crate::demo::books::{Figures, Goods};
use crate::demo::shop::RefundView;

const LEVEL: &str = "s1688:61:";

fn order(id: &str, state: &str, paid: &str, lines: &Value, purchases: &Value) -> OrderView {
    let order = json!({
        "id": id, "external_id": format!("x-{id}"), "state": state, "paid": paid,
        "cancel_reason": null, "lines": lines, "purchase_orders": purchases, "timeline": [],
    });
    serde_json::from_value(order).expect("an order")
}

fn line(sku: &str, quantity: i64, cancelled: i64, shares: &[(&str, i64, &str)]) -> Value {
    let shares = shares.iter().map(|(kind, n, state)| {
        let source = if *kind == "warehouse" { "main" } else { "s1688" };
        json!({"source": source, "kind": kind, "quantity": n, "hold_state": state})
    });
    json!({
        "id": "l", "sku": sku, "quantity": quantity, "cancelled_quantity": cancelled,
        "shipped_quantity": 0, "allocations": shares.collect::<Vec<_>>(),
    })
}

fn visit(id: &str, lines: &[(&str, i64, i64)], captured: &[i64], repeated: u32) -> Visit {
    let captured = captured.iter().enumerate();
    Visit {
        external_id: format!("x-{id}"),
        lines: lines.iter().map(|(sku, n, cents)| ((*sku).to_owned(), *n, *cents)).collect(),
        shipping: 100,
        order: Some(id.to_owned()),
        accepted: 1,
        repeated,
        captured: captured.map(|(n, cents)| (format!("pay-{n}"), *cents)).collect(),
        ..Visit::default()
    }
}

fn refund(order: &str, amount: &str) -> RefundView {
    RefundView {
        id: format!("r-{order}"),
        order_id: order.into(),
        amount: amount.into(),
        state: "succeeded".into(),
    }
}

/// Order a: 2 mugs at 5.00 and 3 lamps at 7.00 and carriage of 1.00 make 32.00, paid; one mug was
/// cancelled, so 5.00 went back. Order b: a mug for 6.00, cancelled. Order c: a mug, never paid.
fn good() -> Books {
    let mugs = line("MUG", 2, 1, &[("warehouse", 1, "settled"), ("warehouse", 1, "reversed")]);
    let lamps = line("LAMP", 3, 0, &[("supplier", 3, "committed")]);
    let purchase = json!([{
        "supplier": "s1688", "reference": "a-s1688-1", "state": "paid", "attempts": 1,
        "supplier_orders": [{"id": "900", "role": "recorded"}],
        "lines": [{"offer_id": "61", "spec_id": null, "quantity": 3, "result": "placed"}],
    }]);
    let mug = |state| json!([line("MUG", 1, 0, &[("warehouse", 1, state)])]);
    let figures = |quantity, committed| Figures { quantity, held: 0, committed };
    let level = |id: &str, name: &str, shelf, shown| Level {
        id: id.into(),
        name: name.into(),
        shelf,
        shown,
        counted: shown,
    };
    Books {
        visits: vec![
            visit("a", &[("MUG", 2, 500), ("LAMP", 3, 700)], &[3_200], 1),
            visit("b", &[("MUG", 1, 500)], &[600], 0),
            visit("c", &[("MUG", 1, 500)], &[], 0),
        ],
        orders: vec![
            order("a", "shipped", "32.00", &json!([mugs, lamps]), &purchase),
            order("b", "cancelled", "6.00", &mug("reversed"), &json!([])),
            order("c", "expired", "0.00", &mug("released"), &json!([])),
        ],
        refunds: vec![refund("a", "5.00"), refund("b", "6.00")],
        levels: vec![
            level("main:MUG", "MUG", Some(1), figures(0, 0)),
            level(LEVEL, "LAMP", None, figures(3, 3)),
        ],
        ledger_entries: 9,
        goods: vec![Goods {
            level: LEVEL.into(),
            name: "LAMP".into(),
            had: 3,
            bought: 3,
            others: 1,
        }],
        upstream: vec![
            Upstream {
                id: "900".into(),
                reference: Some("a-s1688-1".into()),
                open: true,
                paid: true,
                units: [(LEVEL.to_owned(), 3)].into(),
            },
            Upstream {
                id: "901".into(),
                reference: Some("a-s1688-1".into()),
                ..Upstream::default()
            },
        ],
        ..Books::default()
    }
}

/// Spoils good books: exactly the checks that begin so must find it.
fn finds(spoil: impl FnOnce(&mut Books), expected: &[&str]) {
    let mut books = good();
    spoil(&mut books);
    let broken: Vec<Check> = all(&books).into_iter().filter(|c| !c.kept()).collect();
    let right = broken.len() == expected.len()
        && broken.iter().zip(expected).all(|(check, start)| check.about.starts_with(start));
    assert!(right, "expected {expected:?}, found {broken:#?}");
}

const SHELF: &str = "never oversold: no shelf";
const SUPPLY: &str = "never oversold: no more";
const BOUGHT: &str = "every confirmed unit";
const TWICE: &str = "nothing twice: no purchase";
const ENDS: &str = "every order found";
const GHOST: &str = "no ghost lock";
const ONCE: &str = "nothing twice: one order";
const THERE: &str = "nothing lost: every accepted";
const REFUNDS: &str = "nothing lost: every refund";
const CENT: &str = "every cent";
const JOBS: &str = "nothing lost: no job";
const LEDGER: &str = "explained";
const ANSWERS: &str = "every request";

#[test]
fn good_books_are_good() {
    finds(|_| {}, &[]);
    assert_eq!(oversold(&good()), 0);
}

#[test]
fn a_unit_too_many_is_found() {
    finds(|b| b.levels[0].shelf = Some(0), &[SHELF]);
    finds(|b| (b.levels[0].shown.quantity, b.levels[0].counted.quantity) = (1, 1), &[SHELF]);
    finds(|b| b.goods[0].had = 2, &[SUPPLY]);
    let mut books = good();
    (books.levels[0].shelf, books.goods[0].had) = (Some(0), 1);
    assert_eq!(oversold(&books), 1 + 2);
}

#[test]
fn what_is_promised_and_not_bought_or_bought_and_not_promised_is_found() {
    finds(|b| b.upstream[0].paid = false, &[BOUGHT]);
    finds(|b| b.upstream[0].units = [(LEVEL.to_owned(), 2)].into(), &[BOUGHT]);
    finds(|b| b.upstream[0].id = "902".into(), &[BOUGHT]);
    finds(|b| b.upstream[0].reference = None, &[BOUGHT, TWICE]); // no reference is left to look at
    finds(|b| b.upstream[1].open = true, &[BOUGHT, TWICE]);
    finds(|b| b.orders[0].lines[1].allocations[0].hold_state = "active".into(), &[BOUGHT]);
}

#[test]
fn what_is_left_open_is_found() {
    finds(|b| b.orders[1].state = "attention".into(), &[ENDS, CENT]);
    finds(|b| b.active_holds.push("a.1.1 of MUG".into()), &[GHOST]);
    finds(|b| (b.levels[1].shown.held, b.levels[1].counted.held) = (1, 1), &[GHOST]);
    finds(|b| b.dead_jobs.push("purchase:a-s1688-1".into()), &[JOBS]);
    finds(|b| b.refunds[0].state = "pending".into(), &[REFUNDS]);
}

#[test]
fn a_second_order_and_a_lost_one_are_found() {
    finds(|b| b.visits[0].accepted = 2, &[ONCE]);
    finds(|b| b.visits[0].strays.push("z".into()), &[ONCE]);
    finds(|b| b.orders[2].external_id = "x-b".into(), &[ONCE, THERE]);
    finds(|b| b.orders.push(order("d", "expired", "0.00", &json!([]), &json!([]))), &[ONCE]);
    finds(|b| drop(b.orders.pop()), &[THERE]);
    finds(|b| b.orders[2].lines[0].quantity = 2, &[THERE]);
    finds(|b| b.visits.iter_mut().for_each(|v| v.repeated = 0), &[ONCE]); // nothing to look at
}

#[test]
fn a_cent_is_found() {
    finds(|b| b.refunds[0].amount = "4.99".into(), &[CENT]);
    finds(|b| drop(b.refunds.pop()), &[CENT]);
    finds(|b| b.refunds.push(refund("c", "0.01")), &[CENT]);
    finds(|b| b.orders[0].paid = "31.99".into(), &[CENT]);
    finds(|b| b.visits[1].captured.push(("pay-9".into(), 600)), &[CENT]);
    finds(|b| b.orders[0].lines[0].cancelled_quantity = 2, &[CENT]);
}

#[test]
fn a_balance_without_its_entries_and_a_bad_answer_are_found() {
    finds(|b| b.levels[1].counted.committed = 2, &[LEDGER]);
    finds(|b| b.ledger_entries = 0, &[LEDGER]);
    finds(|b| b.visits[2].troubles.push("500".into()), &[ANSWERS]);
}
