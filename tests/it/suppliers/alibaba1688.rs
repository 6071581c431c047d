//! The 1688 adapter over HTTP: what it sends, and that every answer that is not definite is
//! `Unknown` and is asked for once only.

use secrecy::ExposeSecret;
use stockhold::clock::Span;
use stockhold::domain::supply::{Created, Fault, Figure, Item, Preview, UpstreamState};
use stockhold::suppliers::Supplier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::ResponseTemplate;

use super::gate::*;

/// The endings of a create that leave its effect open: what the gateway answers, and our code.
fn endings() -> Vec<(&'static str, ResponseTemplate)> {
    let business = |body: &str| json(200, body);
    let acl = r#"{"error_code":"gw.APIACLDecline","error_message":"AppKey is not allowed(acl)"}"#;
    vec![
        ("http_500", ResponseTemplate::new(500)),
        ("http_502", ResponseTemplate::new(502).set_body_string("<html>Bad Gateway</html>")),
        ("http_503", ResponseTemplate::new(503)),
        ("http_500", json(500, fixture("create.json"))),
        ("http_400", json(400, r#"{"success":false,"code":"500_004"}"#)),
        ("http_302", ResponseTemplate::new(302).insert_header("location", "/elsewhere")),
        ("unreadable", ResponseTemplate::new(200).set_body_string("<html>busy</html>")),
        ("unreadable", ResponseTemplate::new(200)),
        ("unreadable", business(r#"{"success":true,"result":{"orderId":"36574"#)),
        ("gw.APIACLDecline", json(400, acl)),
        ("gw.APIACLDecline", json(200, acl)),
        ("403", json(403, r#"{"error_code":"403","error_message":"no right"}"#)),
        ("no_order_id", business(r#"{"success":true,"result":{}}"#)),
        (
            "no_order_id",
            business(r#"{"success":false,"message":"inventory service 0 nodes available"}"#),
        ),
        ("1602002", business(r#"{"success":false,"code":"1602002","message":"库存不足"}"#)),
    ]
}

#[tokio::test]
async fn an_open_ending_of_a_create_is_unknown_and_sent_once() {
    for (code, answer) in endings() {
        let gate = Gate::start().await;
        gate.answer(CREATE, answer);
        assert_eq!(unknown(gate.client().create(&purchase()).await), code);
        assert_eq!(gate.calls().await.len(), 1, "{code}: one call and no other");
    }
}

#[tokio::test]
async fn a_live_question_without_a_usable_answer_is_unknown() {
    for (_, answer) in endings() {
        let gate = Gate::start().await;
        gate.answer(OFFER, answer);
        unknown(gate.client().ask(&red()).await);
        assert_eq!(gate.calls().await.len(), 1);
    }
}

#[tokio::test]
async fn a_late_answer_is_a_time_out() {
    let gate = Gate::start().await;
    let late = json(200, fixture("create.json")).set_delay(std::time::Duration::from_secs(60));
    gate.answer(CREATE, late);
    let client = gate.client_with(|t| t.request_timeout = Span::millis(200));
    assert_eq!(unknown(client.create(&purchase()).await), "timeout");
    assert_eq!(gate.count(CREATE).await, 1);
}

/// Serves `answer` to each connection and closes it; says how many there were.
async fn torn(answer: &'static [u8]) -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let mut request = vec![0; 65536];
            let _ = socket.read(&mut request).await;
            let _ = socket.write_all(answer).await;
        }
    });
    (format!("http://{address}/openapi"), seen)
}

#[tokio::test]
async fn a_torn_or_dropped_answer_is_unknown_and_sent_once() {
    use stockhold::suppliers::alibaba1688::Alibaba1688;
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n\
        {\"success\":true,\"result\":{\"orderId\":\"3657499272179232333\"";
    for (code, answer) in [("torn", head.as_slice()), ("transport", b"".as_slice())] {
        let (gateway, seen) = torn(answer).await;
        let client = Alibaba1688::new(terms(&gateway)).expect("an adapter");
        assert_eq!(unknown(client.create(&purchase()).await), code);
        assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), 1);
    }
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        format!("http://{}/openapi", listener.local_addr().expect("an address"))
    };
    let client = Alibaba1688::new(terms(&closed)).expect("an adapter");
    assert_eq!(unknown(client.create(&purchase()).await), "connect");
    assert!(Alibaba1688::new(terms("ftp://x/openapi")).is_err());
    assert!(Alibaba1688::new(terms("gw.open.1688.com")).is_err());
}

#[tokio::test]
async fn a_throttled_call_says_when_to_come_again_if_it_was_told() {
    for status in [200, 400] {
        let gate = Gate::start().await;
        gate.answer(PREVIEW, json(status, fixture("throttled.json")));
        let want = Fault::Unknown {
            code: "gw.QosAppFrequencyLimit".into(),
            message: "App call exceeds limited frequency".into(),
            retry_after: None,
        };
        assert_eq!(gate.client().preview(&purchase()).await, Err(want));
        assert_eq!(gate.calls().await.len(), 1);
    }
    let gate = Gate::start().await;
    gate.answer(PREVIEW, json(429, "").insert_header("retry-after", "7"));
    let got = gate.client().preview(&purchase()).await;
    assert!(matches!(got, Err(Fault::Unknown { retry_after: Some(Span(7_000_000)), .. })));
}

#[tokio::test]
async fn a_call_whose_turn_comes_too_late_is_not_sent() {
    let gate = Gate::start().await;
    gate.json(OFFER, fixture("offer.json")).json(OFFER, fixture("offer.json"));
    let client = gate.client_with(|t| {
        t.max_requests_per_second = 1;
        t.request_timeout = Span::millis(500);
    });
    // Asked together: the first has its turn at once, the second a second later.
    let item = red();
    let (_, second) = futures::join!(client.ask(&item), client.ask(&item));
    assert_eq!(unknown(second), "not_sent");
    assert!(gate.count(OFFER).await <= 1);
}

#[tokio::test]
async fn an_expired_token_is_refreshed_once_and_the_call_repeated() {
    for refusal in [
        json(401, fixture("unauthorised.json")),
        json(200, fixture("unauthorised.json")),
        json(400, r#"{"error_code":401,"exception":"Request need user authorized"}"#),
        ResponseTemplate::new(401).set_body_string("<html>"),
    ] {
        let gate = Gate::start().await;
        gate.answer(CREATE, refusal).json(TOKEN, fixture("token.json"));
        gate.json(CREATE, fixture("create.json"));
        let client = gate.client();
        let mut tokens = client.tokens();
        let made = client.create(&purchase()).await.expect("made after the refresh");
        assert_eq!(made.supplier_order_id, ID);

        let calls = gate.calls().await;
        let apis: Vec<&str> = calls.iter().map(|c| c.api.as_str()).collect();
        assert_eq!(apis, [CREATE, TOKEN, CREATE]);
        assert_eq!(calls[0].form["access_token"], "tok-0001");
        assert_eq!(calls[2].form["access_token"], "tok-0002");
        assert_eq!(calls[0].form["outOrderId"], calls[2].form["outOrderId"]);
        let asked: Vec<(&str, &str)> =
            calls[1].form.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let want = [
            ("client_id", "1000000"),
            ("client_secret", SECRET),
            ("grant_type", "refresh_token"),
            ("refresh_token", "refresh-0001"),
        ];
        assert_eq!(asked, want, "not signed, no access token");
        let path = &gate.server.received_requests().await.expect("requests")[1];
        assert_eq!(path.url.path(), "/openapi/http/1/system.oauth2/getToken/1000000");

        assert!(tokens.has_changed().expect("the adapter lives"));
        let now = tokens.borrow_and_update().clone();
        assert_eq!(now.access.expose_secret(), "tok-0002");
        let kept = now.refresh.expect("the old refresh token is kept");
        assert_eq!(kept.expose_secret(), "refresh-0001");
    }
}

#[tokio::test]
async fn a_second_refusal_of_the_token_is_unknown() {
    let gate = Gate::start().await;
    gate.answer(CREATE, json(401, fixture("unauthorised.json")));
    gate.answer(CREATE, json(401, fixture("unauthorised.json")));
    gate.json(TOKEN, r#"{"access_token":"tok-0002","refresh_token":"refresh-0002"}"#);
    let client = gate.client();
    assert_eq!(unknown(client.create(&purchase()).await), "401");
    assert_eq!((gate.count(CREATE).await, gate.count(TOKEN).await), (2, 1));
    let kept = client.tokens().borrow().refresh.clone().expect("a refresh token");
    assert_eq!(kept.expose_secret(), "refresh-0002");
}

#[tokio::test]
async fn a_refresh_that_fails_is_unknown_and_not_asked_again_at_once() {
    let refusal = r#"{"error":"invalid_grant","error_description":"refresh-0001 expired"}"#;
    for answer in [json(400, refusal), json(200, refusal), ResponseTemplate::new(502)] {
        let gate = Gate::start().await;
        for _ in 0..2 {
            gate.answer(CREATE, json(401, fixture("unauthorised.json")));
        }
        gate.answer(TOKEN, answer);
        let client = gate.client();
        assert_eq!(unknown(client.create(&purchase()).await), "token_refresh");
        assert_eq!(unknown(client.create(&purchase()).await), "token_refresh");
        assert_eq!((gate.count(CREATE).await, gate.count(TOKEN).await), (2, 1));
        assert_eq!(client.tokens().borrow().access.expose_secret(), "tok-0001");
    }
    let gate = Gate::start().await;
    gate.answer(CREATE, json(401, fixture("unauthorised.json")));
    let client = gate.client_with(|t| t.refresh_token = None);
    assert_eq!(unknown(client.create(&purchase()).await), "token_refresh");
    assert_eq!(gate.calls().await.len(), 1);
}

#[tokio::test]
async fn calls_that_find_the_token_expired_together_share_one_refresh() {
    let gate = Gate::start().await;
    for _ in 0..3 {
        gate.answer(OFFER, json(401, fixture("unauthorised.json")));
    }
    gate.json(TOKEN, fixture("token.json"));
    for _ in 0..3 {
        gate.json(OFFER, fixture("offer.json"));
    }
    let (client, item) = (gate.client(), red());
    let all = futures::join!(client.ask(&item), client.ask(&item), client.ask(&item));
    for got in [all.0, all.1, all.2] {
        assert_eq!(got.map(|r| r.figure), Ok(Figure::Listed(17)));
    }
    assert_eq!(gate.count(TOKEN).await, 1);
}

fn of(api: &str, subject: &str) -> String {
    format!("{api} {subject}")
}

#[tokio::test]
async fn a_feed_asks_once_for_each_offer_and_answers_in_order() {
    let gate = Gate::start().await;
    gate.json(&of(OFFER, "554456348334"), fixture("offer.json"));
    gate.json(&of(OFFER, "612345678901"), fixture("offer-plain.json"));
    gate.answer(&of(OFFER, "7"), ResponseTemplate::new(502));
    let blue = Item { spec_id: Some("0b2c1d8f7a6e5d4c3b2a190817263544".into()), ..red() };
    let gone = Item { spec_id: Some("f".repeat(32)), ..red() };
    let failing = Item { offer_id: "7".into(), spec_id: None };
    let items = [plain(), failing, red(), gone, blue, red()];
    let readings = gate.client().feed(&items).await.expect("a feed");
    let figures: Vec<&Figure> = readings.iter().map(|r| &r.figure).collect();
    assert_eq!(*figures[0], Figure::Listed(12_345_678));
    assert!(matches!(figures[1], Figure::Unknown(why) if why.contains("http_502")), "{figures:?}");
    let rest = [Figure::Listed(17), Figure::Missing, Figure::Listed(0), Figure::Listed(17)];
    assert!(figures[2..].iter().copied().eq(rest.iter()), "{figures:?}");
    assert!(readings.iter().map(|r| &r.item).eq(items.iter()));
    assert!(readings.iter().all(|r| r.stated_at.is_none() && r.sent_at == NOW));
    assert_eq!(gate.count(OFFER).await, 3, "six items, three offers");
}

#[tokio::test]
async fn a_feed_of_which_nothing_could_be_had_is_no_feed() {
    let gate = Gate::start().await;
    gate.answer(OFFER, ResponseTemplate::new(502)).answer(OFFER, ResponseTemplate::new(502));
    assert_eq!(unknown(gate.client().feed(&[red(), plain()]).await), "http_502");
    assert_eq!(gate.client().feed(&[]).await, Ok(vec![]), "nothing was asked for");
    assert_eq!(gate.count(OFFER).await, 2);
}

#[tokio::test]
async fn a_preview_and_a_create_say_the_same_of_the_purchase() {
    let gate = Gate::start().await;
    gate.json(PREVIEW, fixture("preview.json")).json(CREATE, fixture("create.json"));
    let client = gate.client();
    assert_eq!(client.preview(&purchase()).await, Ok(Preview { total: 4400, orders: 1 }));
    let want = Created { supplier_order_id: ID.into(), total: Some(4400), left_out: vec![] };
    assert_eq!(client.create(&purchase()).await, Ok(want));
    let calls = gate.calls().await;
    let (preview, create) = (&calls[0].form, &calls[1].form);
    for key in ["flow", "addressParam", "cargoParamList"] {
        assert_eq!(preview[key], create[key]);
    }
    let cargo = format!(
        r#"[{{"offerId":554456348334,"specId":"{RED}","quantity":2}},{{"offerId":612345678901,"quantity":1}}]"#
    );
    assert_eq!(create["cargoParamList"], cargo);
    assert_eq!(create["outOrderId"], "so-1001");
    assert!(create["addressParam"].contains("网商路699号 & +%2B"));
    assert!(!preview.contains_key("outOrderId"));
}

#[tokio::test]
async fn an_order_id_keeps_its_digits_as_number_and_as_text() {
    for id in [ID.to_owned(), format!("\"{ID}\"")] {
        let gate = Gate::start().await;
        gate.json(CREATE, format!(r#"{{"success":true,"result":{{"orderId":{id}}}}}"#));
        let made = gate.client().create(&purchase()).await.expect("made");
        assert_eq!(made.supplier_order_id, ID);
    }
}

#[tokio::test]
async fn a_create_may_leave_lines_out() {
    let gate = Gate::start().await;
    gate.json(CREATE, fixture("create-partial.json"));
    let made = gate.client().create(&purchase()).await.expect("made");
    assert_eq!((made.supplier_order_id.as_str(), made.total), (ID, Some(215)));
    let [out] = made.left_out.as_slice() else { panic!("{:?}", made.left_out) };
    assert_eq!(out.item, red());
    assert!(matches!(&out.fault, Fault::OutOfStock { code, .. } if code == "500_004"));
}

#[tokio::test]
async fn only_recognised_codes_are_definite() {
    let refusal = |code: &str| format!(r#"{{"success":false,"code":"{code}","message":"x"}}"#);
    let out = |code: &str| Err(Fault::OutOfStock { code: code.into(), message: "x".into() });
    let no = |code: &str| Err(Fault::Refused { code: code.into(), message: "x".into() });
    let gate = Gate::start().await;
    let client = gate.client();
    gate.json(CREATE, refusal("500_004")).json(CREATE, refusal("500_001"));
    assert_eq!(client.create(&purchase()).await, out("500_004"));
    assert_eq!(client.create(&purchase()).await, no("500_001"));
    gate.json(PREVIEW, fixture("preview-short.json"));
    let short = client.preview(&purchase()).await;
    assert!(matches!(short, Err(Fault::OutOfStock { .. })), "{short:?}");
    let mut twice = purchase();
    twice.items.push(twice.items[0].clone());
    let refused = client.create(&twice).await;
    assert!(matches!(&refused, Err(Fault::Refused { code, .. }) if code == "duplicate_item"));
    assert_eq!(gate.calls().await.len(), 3, "the last was never sent");
}

#[tokio::test]
async fn an_order_is_read_and_closed() {
    let gate = Gate::start().await;
    gate.json(ORDER, fixture("order.json"));
    gate.json(CANCEL, r#"{"success":true}"#);
    gate.json(CANCEL, r#"{"success":false,"errorCode":"CLOSE_ORDER_TOO_FAST"}"#);
    gate.json(CANCEL, r#"{"success":"false","errorCode":"ORDER_STATUS_ERROR","errorMessage":"x"}"#);
    gate.answer(CANCEL, ResponseTemplate::new(502));
    let client = gate.client();
    let order = client.order(ID).await.expect("an order");
    assert_eq!((order.state, order.total), (UpstreamState::Shipped, Some(4410)));
    assert_eq!(client.cancel(ID).await, Ok(()));
    assert_eq!(client.cancel(ID).await, Err(Fault::TooSoon));
    let paid = client.cancel(ID).await;
    assert_eq!(
        paid,
        Err(Fault::Refused { code: "ORDER_STATUS_ERROR".into(), message: "x".into() })
    );
    assert_eq!(unknown(client.cancel(ID).await), "http_502");
    let calls = gate.calls().await;
    assert_eq!(calls[0].form["orderId"], ID);
    assert_eq!(calls[0].form["webSite"], "1688");
    assert_eq!((calls[1].form["tradeID"].as_str(), calls.len()), (ID, 5));
}
