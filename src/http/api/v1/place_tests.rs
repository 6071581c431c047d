//! Placements read and refused: cases C125 and C126, and every rule of the contract.

use super::*;
use serde_json::Value as Json;

/// A placement with some members replaced; `null` takes one away.
fn body(changes: Json) -> String {
    let mut body = json!({
        "channel": "web", "external_id": "W-1001", "currency": "USD",
        "lines": [{"sku": "SHOE-42", "quantity": 1, "unit_price": "19.99"}],
        "shipping": "4.00", "discount": "0.00",
        "customer": {"id": "c-17", "email": "a@example.com"},
        "ship_to": {"name": "N", "phone": "1", "country": "CN", "province": "P", "city": "C",
            "district": "D", "address": "A", "postcode": "3"},
        "payment": {"id": "pay-1", "amount": "23.99"},
        "short_policy": "cancel_lines"
    });
    let object = body.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Json::Null => object.remove(name),
            value => object.insert(name.clone(), value.clone()),
        };
    }
    body.to_string()
}

fn placed(changes: Json) -> Placement {
    read(&body(changes), OrderId::from("o")).expect("a placement")
}

/// The fields at fault.
fn faults(text: &str) -> Vec<String> {
    let problem = read(text, OrderId::from("o")).expect_err("refused");
    assert_eq!((problem.status.as_u16(), problem.code), (422, "validation_failed"));
    let errors = problem.body()["errors"].clone();
    let fields = errors.as_array().expect("a list").iter();
    fields.map(|e| e["field"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A placement of one line with this text as its quantity.
fn with_quantity(text: &str) -> String {
    body(json!({"lines": [{"sku": "A", "quantity": 424_242, "unit_price": "1.00"}]}))
        .replace("424242", text)
}

#[test]
fn a_whole_placement_is_read_in_minor_units() {
    let placement = placed(json!({}));
    assert_eq!(
        placement.lines,
        [PlacementLine { sku: "SHOE-42".into(), quantity: 1, unit_price: 1999 }]
    );
    assert_eq!((placement.shipping, placement.discount), (400, 0));
    assert_eq!(placement.short_policy, ShortPolicy::CancelLines);
    let payment = placement.payment.expect("a payment");
    assert_eq!((payment.id.as_str(), payment.amount, payment.currency), ("pay-1", 2399, None));
    assert_eq!(placement.ship_to.map(|a| a.postcode), Some("3".to_owned()));
    assert_eq!(placement.customer.and_then(|c| c.email), Some("a@example.com".to_owned()));
}

#[test]
fn what_may_be_absent_may_be_absent() {
    let placement = placed(json!({"shipping": null, "discount": null, "customer": null,
        "ship_to": null, "payment": null, "short_policy": null}));
    assert_eq!((placement.shipping, placement.discount), (0, 0));
    assert_eq!(placement.short_policy, ShortPolicy::CancelOrder);
    assert_eq!((placement.customer, placement.ship_to), (None, None));
    assert_eq!(placement.payment, None);
    let text =
        body(json!({"payment": null})).replace("\"shipping\"", "\"payment\":null,\"shipping\"");
    assert!(read(&text, OrderId::from("o")).is_ok());
}

#[test]
fn quantities_of_case_c126() {
    assert!(read(&with_quantity("100050"), OrderId::from("o")).is_ok());
    let long = "7".repeat(400);
    let many = [long.as_str(), "-1", "0", "1.0", "1.5", "\"3\"", "null", "1e2", "2147483647"];
    for text in many {
        assert_eq!(faults(&with_quantity(text)), ["lines[0].quantity"], "{text}");
    }
    let problem = read(&with_quantity("NaN"), OrderId::from("o")).expect_err("refused");
    assert_eq!((problem.status.as_u16(), problem.code), (400, "malformed_request"));
}

#[test]
fn totals_of_case_c125_never_overflow() {
    // 2^63 - 1 minor units is the most that can be written.
    let line = |quantity, price| json!({"sku": "A", "quantity": quantity, "unit_price": price});
    let fits =
        json!({"lines": [line(1, "92233720368547758.07")], "shipping": null, "payment": null});
    assert!(read(&body(fits), OrderId::from("o")).is_ok());
    for lines in [
        json!([line(2, "92233720368547758.07")]),
        json!([line(1, "92233720368547758.07"), line(1, "0.01")]),
        json!([line(1_000_000, "99999999999999.99")]),
        json!(vec![line(1_000_000, "9999999999.99"); 100]),
    ] {
        assert_eq!(faults(&body(json!({"lines": lines}))), ["lines"]);
    }
    assert_eq!(
        faults(&body(json!({"lines": [line(1, "18005602416630841984")]}))),
        ["lines[0].unit_price"]
    );
    assert_eq!(faults(&body(json!({"lines": vec![line(1, "1.00"); 101]}))), ["lines"]);
    assert_eq!(faults(&body(json!({"lines": []}))), ["lines"]);
}

#[test]
fn a_discount_is_at_most_lines_and_shipping() {
    assert!(read(&body(json!({"discount": "23.99"})), OrderId::from("o")).is_ok());
    assert_eq!(faults(&body(json!({"discount": "24.00"}))), ["discount"]);
    assert_eq!(faults(&body(json!({"discount": "-1.00"}))), ["discount"]);
}

#[test]
fn money_follows_its_currency() {
    let yen = |price: &str| {
        body(json!({"currency": "JPY", "shipping": null, "discount": null, "payment": null,
            "lines": [{"sku": "A", "quantity": 1, "unit_price": price}]}))
    };
    assert!(read(&yen("9899"), OrderId::from("o")).is_ok());
    assert_eq!(faults(&yen("98.99")), ["lines[0].unit_price"]);
    // An unknown currency is one fault, not one for each amount.
    assert_eq!(faults(&body(json!({"currency": "usd"}))), ["currency"]);
    assert_eq!(faults(&body(json!({"shipping": 4}))), ["shipping"]);
    assert_eq!(
        faults(&body(json!({"payment": {"id": "p", "amount": "0.00"}}))),
        ["payment.amount"]
    );
}

#[test]
fn all_faults_are_told_at_once_with_their_paths() {
    let text = body(json!({"channel": null, "external_id": "", "colour": "red",
        "lines": [{"sku": " ", "quantity": 0, "unit_price": "x"},
            {"sku": "B", "quantity": 1, "unit_price": "1", "note": ""}],
        "customer": {"id": "\u{0}", "phone": "1"}, "ship_to": {}, "payment": {},
        "short_policy": "later"}));
    let mut found = faults(&text);
    found.sort();
    assert_eq!(
        found,
        [
            "channel",
            "colour",
            "customer.id",
            "customer.phone",
            "external_id",
            "lines[0].quantity",
            "lines[0].sku",
            "lines[0].unit_price",
            "lines[1].note",
            "payment.amount",
            "payment.id",
            "ship_to",
            "short_policy",
        ]
    );
}

#[test]
fn the_content_is_currency_lines_shipping_discount_and_address_as_understood() {
    let hash = |changes| placed(changes).content_hash;
    let same = hash(json!({}));
    assert_eq!(hash(json!({"customer": null, "payment": null, "short_policy": null})), same);
    assert_eq!(hash(json!({"shipping": "4", "discount": null})), same);
    let padded = json!({"lines": [{"sku": " SHOE-42 ", "quantity": 1, "unit_price": "19.99"}]});
    assert_eq!(hash(padded), same);
    for other in [
        json!({"currency": "EUR"}),
        json!({"shipping": "4.01"}),
        json!({"discount": "0.01"}),
        json!({"ship_to": null}),
        json!({"lines": [{"sku": "SHOE-42", "quantity": 2, "unit_price": "19.99"}]}),
        json!({"lines": [{"sku": "shoe-42", "quantity": 1, "unit_price": "19.99"}]}),
    ] {
        assert_ne!(hash(other.clone()), same, "{other}");
    }
}

#[test]
fn a_refused_payment_is_said_not_to_be_recorded_when_that_is_known() {
    let noted = |problem: Problem, text: &str| {
        note_payment(problem, &Body::of(text)).members.get("payment_recorded").cloned()
    };
    let refused = || Problem::not_found("x");
    assert_eq!(noted(refused(), &body(json!({}))), Some(json!(false)));
    assert_eq!(noted(refused(), &body(json!({"payment": null}))), None);
    assert_eq!(noted(refused(), "{"), None);
    let unknown = Problem::from(crate::engine::Error::OutcomeUnknown);
    assert_eq!(noted(unknown, &body(json!({}))), None);
    assert_eq!(noted(Problem::in_progress(), &body(json!({}))), None);
}

#[test]
fn only_a_placement_of_one_sku_can_be_refused_by_a_note() {
    let of = |skus: &[&str]| {
        let line = |sku: &&str| json!({"sku": sku, "quantity": 1, "unit_price": "1.00"});
        let lines: Vec<Json> = skus.iter().map(line).collect();
        let placement = placed(json!({"lines": lines, "discount": null, "payment": null}));
        only_sku(&placement).map(|sku| sku.as_str().to_owned())
    };
    assert_eq!(of(&["A"]).as_deref(), Some("A"));
    assert_eq!(of(&["A", " A "]).as_deref(), Some("A"));
    assert_eq!(of(&["A", "B"]), None);
}
