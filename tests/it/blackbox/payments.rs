//! Money in and out: payments in all their forms, cancels with their refunds (amounts worked out
//! by hand), refunds by ops.

use reqwest::Method;
use serde_json::{Value, json};

use super::api::{Answer, order, text};
use super::daemon::{DESK_KEY, Home, SHOP_KEY};

/// `(amount, state, reason)` of each refund of an order.
fn refunds(order: &Value) -> Vec<(String, String, String)> {
    let all = order["refunds"].as_array().expect("refunds").iter();
    all.map(|r| (text(&r["amount"]), text(&r["state"]), text(&r["reason"]))).collect()
}

fn sum(order: &Value) -> (String, String) {
    (text(&order["paid"]), text(&order["refunded"]))
}

fn money(paid: &str, refunded: &str) -> (String, String) {
    (paid.to_owned(), refunded.to_owned())
}

#[tokio::test]
async fn a_part_payment_waits_for_the_rest_and_excess_goes_back() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let id = daemon.placed("o1", "W1", 3).await;
    let part = daemon.pay(&id, "p1", "10.00").await.ok();
    assert_eq!(
        (text(&part["state"]), sum(&part)),
        ("pending_payment".into(), money("10.00", "0.00"))
    );
    assert_eq!(part["expires_at"], daemon.order(&id).await["expires_at"]);
    let again = daemon.pay(&id, "p1", "10.00").await.ok();
    assert_eq!(again["payments"].as_array().map(Vec::len), Some(1), "told twice, taken once");
    let full = daemon.pay(&id, "p2", "25.50").await.ok();
    assert_eq!((text(&full["state"]), sum(&full)), ("confirmed".into(), money("35.50", "5.50")));
    assert_eq!(refunds(&full).len(), 1);
    assert_eq!(full["refunds"][0]["payment_id"], "p2", "the newest payment gives it back");
    // A payment for a paid order goes back whole.
    let more = daemon.pay(&id, "p3", "7.00").await.ok();
    assert_eq!((text(&more["state"]), sum(&more)), ("confirmed".into(), money("42.50", "12.50")));
    assert_eq!(more["refunds"][1]["payment_id"], "p3");
    let events: Vec<String> = more["timeline"]
        .as_array()
        .expect("a timeline")
        .iter()
        .map(|e| text(&e["event"]))
        .filter(|e| e.starts_with("order_"))
        .collect();
    assert_eq!(events, ["order_placed", "order_paid", "order_confirmed"]);
    home.check_books().await;
}

#[tokio::test]
async fn what_a_payment_id_stands_for_does_not_change() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let (a, b) = (daemon.placed("a", "W1", 1).await, daemon.placed("b", "W1", 1).await);
    let mut elsewhere = order("a", &[("W1", 1)]);
    elsewhere["channel"] = json!("app");
    let elsewhere = daemon.place(&elsewhere).await.id();
    daemon.pay(&a, "p1", "10.00").await.ok();
    daemon.pay(&a, "p1", "9.99").await.refused(409, "payment_conflict");
    daemon.pay(&b, "p1", "10.00").await.refused(409, "payment_conflict");
    let under_way = json!({"id": "p1", "status": "in_progress"});
    let path = format!("/v1/orders/{b}/payments");
    daemon.post(&path, &under_way).await.refused(409, "payment_conflict");
    // Another channel has ids of its own.
    assert_eq!(daemon.pay(&elsewhere, "p1", "10.00").await.ok()["state"], "confirmed");
    // The same amount written otherwise is the same amount.
    daemon.pay(&a, "p1", "10").await.ok();
    let currency = json!({"id": "p2", "amount": "10.00", "currency": "EUR"});
    assert_eq!(daemon.post(&path, &currency).await.fields(), ["currency"]);
    let yen = json!({"id": "p2", "amount": "10.00", "currency": "JPY"});
    assert_eq!(daemon.post(&path, &yen).await.fields(), ["amount"], "JPY has no decimals");
    assert_eq!(daemon.state(&b).await, "pending_payment");
    // A placement with a payment that another order has: refused, and the money is the caller's.
    let mut paid = order("c", &[("W1", 1)]);
    paid["payment"] = json!({"id": "p1", "amount": "10.00"});
    let refused = daemon.place(&paid).await.refused(409, "payment_conflict");
    assert_eq!(refused["payment_recorded"], false);
    assert_eq!(daemon.list("/v1/orders?external_id=c", 5).await, Vec::<Value>::new());
    daemon.pay("no-such-order", "p9", "1.00").await.refused(404, "not_found");
    home.check_books().await;
}

#[tokio::test]
async fn orders_that_cost_nothing_are_paid_at_once() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let mut free = order("o1", &[("W1", 2)]);
    free["shipping"] = json!("4.00");
    free["discount"] = json!("24.00");
    let placed = daemon.place(&free).await;
    assert_eq!((placed.status, &placed.body["state"]), (201, &json!("confirmed")));
    assert_eq!(placed.body["total"], "0.00");
    let mut beyond = order("o2", &[("W1", 2)]);
    beyond["discount"] = json!("20.01");
    assert_eq!(daemon.place(&beyond).await.fields(), ["discount"]);
    let cancelled = daemon.cancel(&placed.id()).await.ok();
    assert_eq!((text(&cancelled["state"]), refunds(&cancelled)), ("cancelled".into(), vec![]));
    home.check_books().await;
}

/// Three lines with a discount of 10.00 and shipping of 4.00, cut piece by piece. Goods are
/// 3 × 10.00 + 2 × 5.00 + 1 × 19.99 = 59.99; with shipping and discount 53.99.
///
/// The discount of 1000 cents over units by largest remainder: 1000 × 1000 / 5999 = 166 remainder
/// 4166 (of 5999) for each of line 1; 1000 × 500 / 5999 = 83 rem. 2083 for each of line 2;
/// 1000 × 1999 / 5999 = 333 rem. 1333 for line 3. Given: 498 + 166 + 333 = 997; the 3 left go to
/// line 1, one each. So units are worth 10.00 − 1.67 = 8.33, 5.00 − 0.83 = 4.17, 19.99 − 3.33 =
/// 16.66, and 3 × 8.33 + 2 × 4.17 + 16.66 = 49.99.
#[tokio::test]
async fn a_discount_is_given_back_by_the_unit_and_shipping_with_the_last() {
    let home = Home::new("");
    let daemon = home.serve().await;
    for sku in ["A", "B", "C"] {
        daemon.stocked(sku, 10).await;
    }
    let mut body = order("o1", &[("A", 3), ("B", 2), ("C", 1)]);
    body["lines"][1]["unit_price"] = json!("5.00");
    body["lines"][2]["unit_price"] = json!("19.99");
    body["shipping"] = json!("4.00");
    body["discount"] = json!("10.00");
    body["payment"] = json!({"id": "p1", "amount": "53.99"});
    let placed = daemon.place(&body).await;
    assert_eq!(
        (&placed.body["total"], &placed.body["state"]),
        (&json!("53.99"), &json!("confirmed"))
    );
    let id = placed.id();
    let cut = async |line: usize, quantity: i64| {
        let path = format!("/v1/orders/{id}/lines/{id}.{line}/cancel");
        daemon.post(&path, &json!({"quantity": quantity})).await.ok()
    };
    assert_eq!(sum(&cut(1, 1).await).1, "8.33");
    assert_eq!(sum(&cut(2, 2).await).1, "16.67", "8.33 + 2 × 4.17");
    assert_eq!(sum(&cut(3, 1).await).1, "33.33", "16.67 + 16.66");
    assert_eq!(daemon.figures("A").await, (10, 0, 2, 8));
    assert_eq!(daemon.figures("B").await, (10, 0, 0, 10));
    let too_many = json!({"quantity": 3});
    let path = format!("/v1/orders/{id}/lines/{id}.1/cancel");
    daemon.post(&path, &too_many).await.refused(422, "quantity_exceeded");
    // The last unit that will not ship takes the shipping with it.
    let last = cut(1, 2).await;
    assert_eq!((text(&last["state"]), sum(&last)), ("cancelled".into(), money("53.99", "53.99")));
    assert_eq!(refunds(&last).len(), 4);
    assert_eq!(last["cancel_reason"], "customer");
    assert_eq!(daemon.figures("A").await, (10, 0, 0, 10));
    home.check_books().await;
}

#[tokio::test]
async fn cancelling_gives_back_what_was_paid_and_what_was_held() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let unpaid = daemon.placed("o1", "W1", 2).await;
    let ended = daemon.cancel(&unpaid).await.ok();
    assert_eq!((text(&ended["state"]), refunds(&ended)), ("cancelled".into(), vec![]));
    assert_eq!(ended["lines"][0]["cancelled_quantity"], 2);
    assert_eq!(ended["lines"][0]["allocations"][0]["hold_state"], "released");
    let part = daemon.placed("o2", "W1", 2).await;
    daemon.pay(&part, "p1", "5.00").await.ok();
    let ended = daemon.cancel(&part).await.ok();
    assert_eq!(sum(&ended), money("5.00", "5.00"));
    let paid = daemon.placed("o3", "W1", 2).await;
    daemon.pay(&paid, "p2", "12.00").await.ok();
    daemon.pay(&paid, "p3", "8.00").await.ok();
    let ended = daemon.cancel(&paid).await.ok();
    assert_eq!(sum(&ended), money("20.00", "20.00"));
    let back: Vec<String> = refunds(&ended).into_iter().map(|(amount, ..)| amount).collect();
    assert_eq!(back, ["8.00", "12.00"], "one for each payment, the newest first");
    assert_eq!(ended["lines"][0]["allocations"][0]["hold_state"], "reversed");
    assert_eq!(daemon.figures("W1").await, (10, 0, 0, 10));
    // An unpaid order of which a line is cut needs less to be paid.
    let smaller = daemon.placed("o4", "W1", 3).await;
    daemon.pay(&smaller, "p4", "20.00").await.ok();
    let path = format!("/v1/orders/{smaller}/lines/{smaller}.1/cancel");
    let cut = daemon.post(&path, &json!({"quantity": 1})).await.ok();
    assert_eq!((text(&cut["state"]), sum(&cut)), ("confirmed".into(), money("20.00", "0.00")));
    home.check_books().await;
}

/// C032: what has left is not cancelled; what has not goes back alone.
#[tokio::test]
async fn c032_after_shipping_a_cancel_is_refused_or_ends_the_rest() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 100).await;
    let whole = daemon.placed("o1", "W1", 5).await;
    daemon.pay(&whole, "p1", "50.00").await.ok();
    daemon.ship(&whole, &[(1, 5)]).await.ok();
    let refused = daemon.cancel(&whole).await.refused(409, "order_state_conflict");
    assert_eq!(refused["state"], "shipped");
    assert_eq!(daemon.figures("W1").await, (95, 0, 0, 95));
    let mut body = order("o2", &[("W1", 5)]);
    body["shipping"] = json!("4.00");
    body["payment"] = json!({"id": "p2", "amount": "54.00"});
    let part = daemon.place(&body).await.id();
    let shipped = daemon.ship(&part, &[(1, 2)]).await.ok();
    assert_eq!(shipped["state"], "confirmed", "three are still to leave");
    let rest = daemon.cancel(&part).await.ok();
    assert_eq!((text(&rest["state"]), sum(&rest)), ("shipped".into(), money("54.00", "30.00")));
    let line = &rest["lines"][0];
    assert_eq!((&line["shipped_quantity"], &line["cancelled_quantity"]), (&json!(2), &json!(3)));
    assert_eq!(daemon.figures("W1").await, (93, 0, 0, 93));
    daemon.cancel(&part).await.refused(409, "order_state_conflict");
    home.check_books().await;
}

#[tokio::test]
async fn refunds_by_ops_have_an_amount_a_reason_and_an_end() {
    let home = Home::new("").with_keys();
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let id = daemon.placed("o1", "W1", 2).await;
    let path = format!("/v1/orders/{id}/refunds");
    let ask = |amount: &str| json!({"amount": amount, "reason": "scratched"});
    daemon.post(&path, &ask("1.00")).await.refused(422, "quantity_exceeded");
    daemon.pay(&id, "p1", "12.00").await.ok();
    daemon.pay(&id, "p2", "8.00").await.ok();
    let shop = daemon.speaking_as(Some(SHOP_KEY));
    shop.post(&path, &ask("1.00")).await.refused(403, "forbidden");
    for amount in ["0.00", "-1.00", "1.001", "1e2", "", " 1.00"] {
        assert_eq!(daemon.post(&path, &ask(amount)).await.fields(), ["amount"], "{amount}");
    }
    let first = daemon.post(&path, &ask("10.00")).await.ok();
    let back: Vec<_> = refunds(&first).into_iter().map(|(amount, ..)| amount).collect();
    assert_eq!(back, ["8.00", "2.00"], "newest payment first");
    daemon.post(&path, &ask("10.01")).await.refused(422, "quantity_exceeded");
    let refund = text(&first["refunds"][0]["id"]);
    let resolve = |refund: &str| format!("/v1/refunds/{refund}/resolve");
    let not_made = json!({"outcome": "not_made"});
    assert_eq!(daemon.post(&resolve(&refund), &not_made).await.ok()["state"], "pending");
    let made = json!({"outcome": "succeeded", "reference": "bank-7"});
    for _ in 0..2 {
        let done = daemon.post(&resolve(&refund), &made).await.ok();
        assert_eq!((&done["state"], &done["amount"]), (&json!("succeeded"), &json!("8.00")));
    }
    let other = json!({"outcome": "succeeded", "reference": "bank-8"});
    let retry = format!("/v1/refunds/{refund}/retry");
    for (path, body) in
        [(resolve(&refund), &other), (resolve(&refund), &not_made), (retry, &json!({}))]
    {
        let refused = daemon.post(&path, body).await.refused(409, "order_state_conflict");
        assert_eq!(refused["state"], "succeeded");
    }
    daemon.post(&resolve("none"), &made).await.refused(404, "not_found");
    let open = daemon.list("/v1/refunds?state=pending", 1).await;
    assert_eq!(open.len(), 1);
    assert_eq!((&open[0]["amount"], &open[0]["payment_id"]), (&json!("2.00"), &json!("p1")));
    // Then the order is cancelled: what is left, and not a cent more.
    let ended = daemon.cancel(&id).await.ok();
    assert_eq!(sum(&ended), money("20.00", "20.00"));
    assert_eq!(daemon.speaking_as(Some(DESK_KEY)).list("/v1/refunds", 2).await.len(), 3);
    home.check_books().await;
}

/// What ops gave is a gift: it neither eats later excess nor keeps an order from being paid.
#[tokio::test]
async fn a_gift_by_ops_lessens_neither_excess_nor_what_was_paid() {
    let home = Home::new("").with_keys();
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let give = async |id: &str| {
        let body = json!({"amount": "4.00", "reason": "scratched"});
        daemon.post(&format!("/v1/orders/{id}/refunds"), &body).await.ok();
    };
    let paid = daemon.placed("o1", "W1", 2).await;
    daemon.pay(&paid, "p1", "20.00").await.ok();
    give(&paid).await;
    // 3.00 too much: back at once, beside the 4.00.
    let more = daemon.pay(&paid, "p2", "3.00").await.ok();
    assert_eq!((text(&more["state"]), sum(&more)), ("confirmed".into(), money("23.00", "7.00")));
    let pending = daemon.placed("o2", "W1", 2).await;
    daemon.pay(&pending, "p3", "15.00").await.ok();
    give(&pending).await;
    let whole = daemon.pay(&pending, "p4", "5.00").await.ok();
    assert_eq!((text(&whole["state"]), sum(&whole)), ("confirmed".into(), money("20.00", "4.00")));
    home.check_books().await;
}

/// Parallel payments of one order: each id once, the sum exact, the excess given back.
#[tokio::test]
async fn payments_in_parallel_are_each_counted_once() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let id = daemon.placed("o1", "W1", 3).await;
    let calls = (0..40).map(|n| {
        let (api, id) = ((*daemon).clone(), id.clone());
        async move { api.pay(&id, &format!("p{}", n % 10), "5.00").await.status }
    });
    let statuses = super::daemon::together(calls).await;
    assert_eq!(statuses, vec![200; 40]);
    let end = daemon.order(&id).await;
    assert_eq!((text(&end["state"]), sum(&end)), ("confirmed".into(), money("50.00", "20.00")));
    assert_eq!(end["payments"].as_array().map(Vec::len), Some(10));
    home.check_books().await;
}

/// Cancel races payment: either the money goes back or the order stands; never both, never none.
#[tokio::test]
async fn cancel_races_payment() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 100).await;
    for n in 0..25 {
        let id = daemon.placed(&format!("o{n}"), "W1", 1).await;
        let payment = format!("p{n}");
        let (paid, ended) = tokio::join!(daemon.pay(&id, &payment, "10.00"), daemon.cancel(&id));
        paid.ok();
        ended.ok();
        let end = daemon.order(&id).await;
        assert_eq!((text(&end["state"]), sum(&end)), ("cancelled".into(), money("10.00", "10.00")));
    }
    assert_eq!(daemon.figures("W1").await, (100, 0, 0, 100));
    home.check_books().await;
}

/// Currencies without decimals and with three.
#[tokio::test]
async fn amounts_have_their_currency_s_decimals() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 100).await;
    for (currency, price, total, wrong) in
        [("JPY", "1999", "3998", "1999.0"), ("KWD", "1.234", "2.468", "1.2345")]
    {
        let mut body = order(currency, &[("W1", 2)]);
        body["currency"] = json!(currency);
        body["lines"][0]["unit_price"] = json!(wrong);
        assert_eq!(daemon.place(&body).await.fields(), ["lines[0].unit_price"]);
        body["lines"][0]["unit_price"] = json!(price);
        let placed = daemon.place(&body).await;
        assert_eq!(placed.body["total"], total, "{}", placed.text);
        let paid = daemon.pay(&placed.id(), currency, total).await.ok();
        assert_eq!((&paid["state"], &paid["paid"]), (&json!("confirmed"), &json!(total)));
    }
    for currency in ["usd", "XXX", "US", "USDX", "", "ZZZ"] {
        let mut body = order("o9", &[("W1", 1)]);
        body["currency"] = json!(currency);
        assert_eq!(daemon.place(&body).await.fields(), ["currency"], "{currency}");
    }
    let get = daemon.request(Method::GET, "/v1/orders?external_id=o9");
    assert_eq!(Answer::of(get).await.ok()["items"], json!([]));
}

/// What is still to be paid follows what is cancelled and what was paid; the total is what was placed.
#[tokio::test]
async fn what_is_due_follows_the_order() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let id = daemon.placed("o1", "W1", 3).await;
    let due = async || {
        let order = daemon.order(&id).await;
        (text(&order["total"]), text(&order["due"]))
    };
    let is = |total: &str, due: &str| (total.to_owned(), due.to_owned());
    assert_eq!(due().await, is("30.00", "30.00"));
    let path = format!("/v1/orders/{id}/lines/{id}.1/cancel");
    daemon.post(&path, &json!({"quantity": 1})).await.ok();
    assert_eq!(due().await, is("30.00", "20.00"));
    daemon.pay(&id, "p1", "5.00").await.ok();
    assert_eq!(due().await, is("30.00", "15.00"));
    let paid = daemon.pay(&id, "p2", "15.00").await.ok();
    assert_eq!((text(&paid["state"]), text(&paid["due"])), is("confirmed", "0.00"));
}
