//! C125, C126: numbers that are too large, too long or no numbers; bodies that are no JSON, or too
//! much of it. None of them is a 500, and none leaves anything behind.

use serde_json::{Value, json};

use super::api::order;
use super::daemon::{Daemon, Home};

/// An order of one line as text, with `quantity` and `price` as they are written.
fn written(quantity: &str, price: &str) -> String {
    format!(
        r#"{{"channel":"web","external_id":"o1","currency":"USD",
            "lines":[{{"sku":"W1","quantity":{quantity},"unit_price":{price}}}]}}"#
    )
}

async fn nothing_there(home: &Home, daemon: &Daemon<'_>) {
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 0);
    assert_eq!(daemon.figures("W1").await.1, 0);
    assert!(!home.log().contains("ERROR"), "{}", home.log());
}

#[tokio::test]
async fn c126_a_quantity_is_a_plain_integer() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 2_000_000).await;
    let long = "9".repeat(400);
    let quantities = [
        "0",
        "-1",
        "-0",
        "1.0",
        "1.5",
        "1e2",
        "1E2",
        "0.1e1",
        "1000001",
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        &long,
        "-9223372036854775809",
        "1e400",
        "\"3\"",
        "\"\"",
        "null",
        "true",
        "[]",
        "[1]",
        "{}",
        "{\"n\":1}",
    ];
    for quantity in quantities {
        let answer = daemon.post_text("/v1/orders", written(quantity, "\"10.00\"")).await;
        assert_eq!(answer.fields(), ["lines[0].quantity"], "{quantity}");
    }
    for quantity in ["NaN", "Infinity", "-", "+1", "01", "0x10", "1.", ".5", "1e", "--1", "1_000"] {
        let answer = daemon.post_text("/v1/orders", written(quantity, "\"10.00\"")).await;
        answer.refused(400, "malformed_request");
    }
    let mut bare = order("o1", &[("W1", 1)]);
    bare["lines"][0].as_object_mut().expect("a line").remove("quantity");
    assert_eq!(daemon.place(&bare).await.fields(), ["lines[0].quantity"]);
    nothing_there(&home, &daemon).await;
    for (id, quantity) in [("o2", 100_050), ("o3", 1_000_000), ("o4", 1)] {
        daemon.placed(id, "W1", quantity).await;
    }
    assert_eq!(daemon.figures("W1").await, (2_000_000, 1_100_051, 0, 899_949));
    home.check_books().await;
}

#[tokio::test]
async fn c126_prices_are_decimal_strings() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let long = format!("\"{}\"", "9".repeat(400));
    let prices = [
        "\"-0.01\"",
        "\"1.001\"",
        "\"1e3\"",
        "\"\"",
        "\" 1\"",
        "\"1 \"",
        "\"+1\"",
        "\"1,00\"",
        "\"1.\"",
        "\".5\"",
        "\"0x1\"",
        "\"NaN\"",
        "\"１\"",
        "\"1.0.0\"",
        &long,
        "\"92233720368547758.08\"",
        "19.99",
        "1",
        "null",
        "true",
        "[]",
        "{}",
    ];
    for price in prices {
        let answer = daemon.post_text("/v1/orders", written("1", price)).await;
        assert_eq!(answer.fields(), ["lines[0].unit_price"], "{price}");
    }
    nothing_there(&home, &daemon).await;
}

#[tokio::test]
async fn c125_sums_that_leave_their_range_are_refused() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1_000_000_000_000).await;
    // 2^63 − 1 cents is 92233720368547758.07.
    let most = "\"92233720368547758.07\"";
    daemon.post_text("/v1/orders", written("1", most)).await;
    for (quantity, price) in [("2", most), ("1000000", "\"92233720368547.76\"")] {
        let answer = daemon.post_text("/v1/orders", written(quantity, price)).await;
        let fields = answer.fields();
        assert!(fields.iter().all(|f| f.starts_with("lines")), "{fields:?}");
    }
    let line = |n: i64| json!({"sku": "W1", "quantity": n, "unit_price": "1999.00"});
    let with = |lines: Vec<Value>| json!({"channel": "web", "external_id": "many", "currency": "USD", "lines": lines});
    let thousand = with(vec![line(1_000_000); 1000]);
    assert_eq!(daemon.place(&thousand).await.fields(), ["lines"], "1 to 100 lines");
    assert_eq!(daemon.place(&with(vec![])).await.fields(), ["lines"]);
    assert_eq!(daemon.place(&with(vec![line(1); 101])).await.fields(), ["lines"]);
    let hundred = daemon.place(&with(vec![line(1_000_000); 100])).await;
    assert_eq!(hundred.status, 201, "{}", hundred.text);
    // 10^8 units at 1999.00.
    assert_eq!(hundred.body["total"], "199900000000.00");
    let mut shipping = order("o2", &[("W1", 1)]);
    shipping["shipping"] = json!("92233720368547758.07");
    let refused = daemon.place(&shipping).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    home.check_books().await;
}

/// The largest amounts that fit go all the way round; what would not fit is not taken.
#[tokio::test]
async fn c125_the_largest_amounts_come_back_whole() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let most = "92233720368547758.07";
    let quoted = format!("\"{most}\"");
    let placed = daemon.post_text("/v1/orders", written("1", &quoted)).await;
    assert_eq!((placed.status, &placed.body["total"]), (201, &json!(most)));
    let id = placed.id();
    assert_eq!(daemon.pay(&id, "p1", most).await.ok()["state"], "confirmed");
    for more in [most, "0.01"] {
        assert_eq!(daemon.pay(&id, "p2", more).await.fields(), ["amount"], "{more}");
    }
    let ended = daemon.cancel(&id).await.ok();
    assert_eq!((&ended["paid"], &ended["refunded"]), (&json!(most), &json!(most)));
    assert_eq!(ended["payments"].as_array().map(Vec::len), Some(1));
    home.check_books().await;
}

#[tokio::test]
async fn bodies_that_are_no_json_say_where() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    for (body, position) in [
        ("{", "line 1, column 1"),
        ("{\"channel\":\n  web}", "line 2, column 3"),
        ("{\"channel\":\"web\",}", "line 1, column 18"),
        ("{} {}", "line 1, column 4"),
        ("nul", "line 1, column 3"),
        ("{'a':1}", "line 1, column 2"),
        ("\u{feff}{}", "line 1, column 1"),
    ] {
        let problem = daemon.post_text("/v1/orders", body).await.refused(400, "malformed_request");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(position), "{body:?}: {detail}");
    }
    for body in ["[]", "1", "\"x\"", "null", "true"] {
        assert_eq!(daemon.post_text("/v1/orders", body).await.status, 422, "{body}");
    }
    let twice = daemon.post_text("/v1/orders", "{\"channel\":\"a\",\"channel\":\"b\"}").await;
    assert!(twice.fields().contains(&"channel".to_owned()));
    let none = daemon.post_text("/v1/orders", "").await.fields();
    assert_eq!(none, ["channel", "external_id", "currency", "lines"]);
    let mut unknown = order("o1", &[("W1", 1)]);
    unknown["lines"][0]["qty"] = json!(1);
    unknown["coupon"] = json!("X");
    let mut fields = daemon.place(&unknown).await.fields();
    fields.sort();
    assert_eq!(fields, ["coupon", "lines[0].qty"]);
    let bytes = daemon.request(reqwest::Method::POST, "/v1/orders").body(vec![b'{', 0xff, b'}']);
    super::api::Answer::of(bytes).await.refused(400, "malformed_request");
    nothing_there(&home, &daemon).await;
}

#[tokio::test]
async fn text_has_no_nul_and_a_length() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    for field in ["channel", "external_id"] {
        for wrong in ["", "a\u{0}b", &"x".repeat(256), &"é".repeat(256)] {
            let mut body = order("o1", &[("W1", 1)]);
            body[field] = json!(wrong);
            assert_eq!(daemon.place(&body).await.fields(), [field], "{wrong:?}");
        }
    }
    let lone = written("1", "\"1.00\"").replace("\"o1\"", "\"\\ud800\"");
    assert_eq!(daemon.post_text("/v1/orders", lone).await.fields(), ["external_id"]);
    for (field, value) in [
        ("customer", json!({"email": "a\u{0}"})),
        ("customer", json!("c-1")),
        ("ship_to", json!({"name": "a\u{0}"})),
        ("ship_to", json!([])),
        ("payment", json!({"id": "", "amount": "1.00"})),
        ("payment", json!({"id": "p", "amount": "0"})),
        ("payment", json!({"id": "p", "amount": "1.00", "paid_at": "yesterday"})),
        ("short_policy", json!("cancel")),
    ] {
        let mut body = order("o1", &[("W1", 1)]);
        body[field] = value;
        let fields = daemon.place(&body).await.fields();
        assert!(fields.iter().all(|f| f.starts_with(field)), "{field}: {fields:?}");
    }
    nothing_there(&home, &daemon).await;
    let mut odd = order("Ω\u{202e}\n' OR 1=1 --", &[("W1", 1)]);
    odd["channel"] = json!("é".repeat(255));
    let placed = daemon.place(&odd).await;
    assert_eq!((placed.status, &placed.body["external_id"]), (201, &odd["external_id"]));
}

/// Deep, wide and long bodies end in a refusal and leave the daemon standing.
#[tokio::test]
async fn bombs_do_not_go_off() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let nested = |open: &str, close: &str, depth: usize| open.repeat(depth) + &close.repeat(depth);
    let bombs = [
        nested("[", "]", 100_000),
        nested("{\"a\":", "}", 100).replace(":}", ":1}"),
        "[".repeat(500_000),
        nested("{\"a\":[", "]}", 50_000),
        format!("{{\"lines\":{}}}", nested("[", "]", 100_000)),
        format!("{{\"channel\":{}}}", nested("[", "]", 200_000)),
        format!("{{{}}}", vec!["\"k\":1"; 100_000].join(",")),
        format!("{{\"lines\":[{}]}}", vec!["{}"; 200_000].join(",")),
        format!("{{\"channel\":\"{}\"}}", "x".repeat(1_000_000)),
        format!("{{\"{}\":1}}", "k".repeat(1_000_000)),
    ];
    for (n, bomb) in bombs.into_iter().enumerate() {
        let answer = daemon.post_text("/v1/orders", bomb).await;
        assert!(matches!(answer.status, 400 | 422), "bomb {n}: {}", answer.status);
        answer.is_problem();
        assert!(answer.text.len() < 100_000, "bomb {n}: an answer of {}", answer.text.len());
    }
    nothing_there(&home, &daemon).await;
    daemon.placed("o1", "W1", 1).await;
}
