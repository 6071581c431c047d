//! The simulator over real HTTP: transports, checks, envelopes and lag.

use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api, By, ReferenceIn, Settings, Sorting, sign};

use super::caller::{Caller, Params, SHOE, TAPE, pairs, tape, tape_order};

#[tokio::test]
async fn an_order_goes_its_whole_way_over_the_wire() {
    let caller = Caller::start(|_| {}).await;
    let (status, preview) = caller.call(Api::Preview, &tape_order("so-1", 4)).await;
    assert_eq!(status, 200);
    // 4 × 9.90 + 8.00 = 47.60 yuan.
    let only = &preview["orderPreviewResuslt"][0];
    assert_eq!((&only["sumPayment"], &only["sumCarriage"]), (&json!(4_760), &json!(800)));
    assert_eq!(only["cargoList"][0]["amount"].to_string(), "39.6");
    assert_eq!(only["cargoList"][0].get("quantity"), None);
    assert_eq!(caller.simulator.orders().len(), 0, "a preview has no effect");

    let (_, created) = caller.call(Api::Create, &tape_order("so-1", 4)).await;
    assert_eq!(created["result"]["orderId"], "3657499272179232333");
    assert_eq!(created["result"]["totalSuccessAmount"], 4_760);
    let id = 3_657_499_272_179_232_333;

    let view = caller.view(id).await;
    assert_eq!(view["baseInfo"]["status"], "waitbuyerpay");
    assert_eq!(view["baseInfo"]["createTime"], "20261130160000000+0800");
    assert_eq!(view["tradeTerms"][0]["payStatus"], "1");
    assert_eq!(view["productItems"][0].get("specId"), None);
    assert_eq!(view["nativeLogistics"]["logisticsItems"], json!([]));

    caller.clock.advance(Span::secs(90));
    caller.simulator.pay(id).unwrap();
    caller.simulator.ship(id).unwrap();
    let view = caller.view(id).await;
    assert_eq!(view["baseInfo"]["status"], "waitbuyerreceive");
    assert_eq!(view["baseInfo"]["payTime"], "20261130160130000+0800");
    assert_eq!(view["tradeTerms"][0]["payStatus"], "2");
    let parcel = &view["nativeLogistics"]["logisticsItems"][0];
    assert_eq!(parcel["logisticsBillNo"], "7272179232333");
    assert_eq!(parcel["subItemIds"], "3657499272179232333");
    assert_eq!(caller.simulator.stock(&tape()), 496);

    let cancel = pairs(&[
        ("webSite", "1688"),
        ("tradeID", "3657499272179232333"),
        ("cancelReason", "other"),
        ("remark", ""),
    ]);
    let (_, refused) = caller.call(Api::Cancel, &cancel).await;
    assert_eq!(refused["errorCode"], "ORDER_STATUS_ERROR");
    caller.simulator.close(id, By::Seller, "丢失").unwrap();
    let base = caller.view(id).await["baseInfo"].clone();
    assert_eq!(base["status"], "cancel");
    assert_eq!(base["closeOperateType"], "CLOSE_TRADE_BY_SELLER");
    assert_eq!(
        (base["refundPayment"].clone(), base["refund"].to_string()),
        (json!(4_760), "47.6".into())
    );
    assert_eq!(caller.simulator.stock(&tape()), 500);
}

#[tokio::test]
async fn an_unpaid_order_is_cancelled_when_it_is_old_enough() {
    let caller = Caller::start(|_| {}).await;
    let id = caller.order_tape("so-1", 2).await;
    let cancel = |id: u64| {
        pairs(&[("webSite", "1688"), ("tradeID", &id.to_string()), ("cancelReason", "buyerCancel")])
    };
    caller.clock.advance(Span::millis(9_999));
    let (status, early) = caller.call(Api::Cancel, &cancel(id)).await;
    assert_eq!((status, &early["errorCode"]), (200, &json!("CLOSE_ORDER_TOO_FAST")));
    caller.clock.advance(Span::millis(1));
    assert_eq!(caller.call(Api::Cancel, &cancel(id)).await.1, json!({ "success": true }));
    assert_eq!(caller.view(id).await["baseInfo"]["closeOperateType"], "CLOSE_TRADE_BY_BUYER");
    let (_, none) = caller.call(Api::Cancel, &cancel(7)).await;
    assert_eq!(none["errorCode"], "ORDER_NOT_EXIST");
}

#[tokio::test]
async fn the_list_is_paged_and_filtered_unless_it_ignores_the_filter() {
    let caller = Caller::start(|settings| {
        settings.trade.reference_shown_in = ReferenceIn::ExtAttributes;
    })
    .await;
    let mut ids = Vec::new();
    for number in 1..=5 {
        ids.push(caller.order_tape(&format!("so-{number}"), 2).await);
        caller.clock.advance(Span::secs(1));
    }
    let listed = async |params: &[(&str, &str)]| {
        let (_, answer) = caller.call(Api::List, &pairs(params)).await;
        let orders = answer["result"].as_array().unwrap().clone();
        let found: Vec<u64> =
            orders.iter().map(|order| order["baseInfo"]["id"].as_u64().unwrap()).collect();
        (answer["totalRecord"].as_u64().unwrap(), found, orders)
    };
    let (total, found, _) = listed(&[("page", "2"), ("pageSize", "2")]).await;
    assert_eq!((total, found), (5, vec![ids[2], ids[1]]));
    let (total, found, orders) = listed(&[("outOrderId", "so-4")]).await;
    assert_eq!((total, found), (1, vec![ids[3]]));
    assert_eq!(orders[0]["extAttributes"][0]["value"], "so-4");
    assert_eq!(orders[0]["baseInfo"].get("outOrderId"), None);
    assert_eq!(orders[0].get("nativeLogistics"), None);
    let (total, ..) = listed(&[("outOrderId", "so-9")]).await;
    assert_eq!(total, 0);
    let since = [("createStartTime", "20261130160003000+0800")];
    assert_eq!(listed(&since).await.1, [ids[4], ids[3]]);
    caller.simulator.change(|settings| settings.trade.list_ignores_reference = true).unwrap();
    assert_eq!(listed(&[("outOrderId", "so-9")]).await.0, 5);
}

#[tokio::test]
async fn every_transport_is_understood() {
    let caller = Caller::start(|_| {}).await;
    let params = pairs(&[("offerId", SHOE), ("_aop_datePattern", "yyyyMMddHHmmssSSSZ"), ("x", "")]);
    let signed = Caller::signed(Api::Product, &params);
    let url = caller.url(Api::Product);
    let by_query = caller.http.post(&url).query(&signed);
    let by_get = caller.http.get(&url).query(&signed);
    let parts: String = signed
        .iter()
        .filter(|(key, _)| key != "_aop_signature")
        .map(|(key, value)| {
            format!("--x\r\nContent-Disposition: form-data; name=\"{key}\"\r\n\r\n{value}\r\n")
        })
        .collect();
    let by_parts = caller
        .http
        .post(&url)
        .query(&[signed.last().unwrap()])
        .header("content-type", "multipart/form-data; boundary=x")
        .body(parts + "--x--\r\n");
    for request in [by_query, by_get, by_parts, caller.http.post(&url).form(&signed)] {
        let (status, answer) = caller.send(request).await;
        assert_eq!((status, &answer["success"]), (200, &json!(true)), "{answer}");
        assert_eq!(answer["productInfo"]["productID"], 610_947_572_360_u64);
    }
}

#[tokio::test]
async fn checks_come_in_the_platforms_order() {
    let caller = Caller::start(|settings| {
        settings.gateway.declined.insert(Api::Companies);
    })
    .await;
    let app = Settings::default().gateway;
    let error = async |path: &str, params: &Params| {
        let url = format!("{}/{path}", caller.simulator.gateway_url());
        let (status, answer) = caller.send(caller.http.post(url).form(params)).await;
        assert_eq!(answer["exception"], answer["error_message"]);
        (status, answer["error_code"].as_str().unwrap().to_owned())
    };
    let with = |path: &str, list: &[(&str, &str)]| {
        let mut params = pairs(list);
        let signature = sign(&app.app_secret, path, &params, Sorting::Joined);
        params.push(("_aop_signature".into(), signature));
        params
    };
    let product = Caller::path(Api::Product);
    let is = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(error("param2/1/a/b/7", &pairs(&[])).await, is(400, "gw.AppKeyNotFound"));
    assert_eq!(error("param2/1/a/b/1000000", &pairs(&[])).await, is(400, "gw.APIUnsupported"));
    assert_eq!(error(&product, &pairs(&[])).await, is(400, "gw.SignatureMissing"));
    let forged = pairs(&[("_aop_signature", "33E54F4F7B989E3E0E912D3FBD2F1A03CA7CCE88")]);
    assert_eq!(error(&product, &forged).await, is(400, "gw.SignatureInvalid"));
    assert_eq!(error(&product, &with(&product, &[])).await, is(401, "401"));
    let token = ("access_token", app.access_token.as_str());
    let companies = Caller::path(Api::Companies);
    assert_eq!(error(&companies, &with(&companies, &[])).await, is(401, "401"));
    assert_eq!(error(&companies, &with(&companies, &[token])).await, is(400, "gw.APIACLDecline"));
    assert_eq!(error(&product, &with(&product, &[token])).await, is(400, "gw.ParamMissing"));
    assert_eq!(caller.simulator.counts()[&Api::Product].refused, 4);
}

#[tokio::test]
async fn product_calls_are_late_and_preview_and_create_are_not() {
    let caller = Caller::start(|settings| {
        settings.conduct_mut(Api::Product).lag = Span::minutes(40);
    })
    .await;
    let told = async || {
        let (_, answer) = caller.call(Api::Product, &pairs(&[("offerId", TAPE)])).await;
        answer["productInfo"]["productSaleInfo"]["amountOnSale"].as_f64().unwrap()
    };
    assert_eq!(caller.simulator.other_buyer_takes(&tape(), 499), Ok(499));
    assert_eq!(told().await, 500.0);
    let (_, preview) = caller.call(Api::Preview, &tape_order("so-1", 2)).await;
    assert_eq!(preview["errorCode"], "500_004");
    assert_eq!(preview["errorMsg"], "商品[554456348334_null]库存不足，请核实库存后订购。");
    let (_, create) = caller.call(Api::Create, &tape_order("so-1", 2)).await;
    assert_eq!((&create["success"], &create["code"]), (&json!(false), &json!("500_004")));
    caller.clock.advance(Span::minutes(40) - Span::millis(1));
    assert_eq!(told().await, 500.0);
    caller.clock.advance(Span::millis(1));
    assert_eq!(told().await, 1.0);
    caller.simulator.change(|s| s.conduct_mut(Api::Product).frozen = true).unwrap();
    caller.simulator.set_stock(&tape(), 300).unwrap();
    caller.clock.advance(Span::hours(2));
    assert_eq!(told().await, 1.0, "a frozen feed stands still");
    caller.simulator.change(|s| s.conduct_mut(Api::Product).frozen = false).unwrap();
    assert_eq!(told().await, 300.0);
}

#[tokio::test]
async fn an_offer_off_the_site_says_so_and_cannot_be_ordered() {
    let caller = Caller::start(|_| {}).await;
    caller.simulator.set_offer_status(TAPE, "member expired").unwrap();
    let (_, product) = caller.call(Api::Product, &pairs(&[("offerId", TAPE)])).await;
    assert_eq!(product["productInfo"]["status"], "member expired");
    let (_, create) = caller.call(Api::Create, &tape_order("so-1", 2)).await;
    assert_eq!(create["code"], "500_001");
}

#[tokio::test]
async fn tokens_end_and_are_refreshed() {
    let caller = Caller::start(|settings| {
        settings.gateway.access_token_life = Some(Span::hours(10));
    })
    .await;
    let product = pairs(&[("offerId", SHOE)]);
    assert_eq!(caller.call(Api::Product, &product).await.0, 200);
    caller.clock.advance(Span::hours(10));
    assert_eq!(caller.call(Api::Product, &product).await.0, 401);
    let app = Settings::default().gateway;
    let refresh = |token: &str| {
        pairs(&[
            ("grant_type", "refresh_token"),
            ("client_id", &app.app_key),
            ("client_secret", &app.app_secret),
            ("refresh_token", token),
        ])
    };
    for protocol in ["http", "param2"] {
        let root = caller.simulator.gateway_url();
        let url = format!("{root}/{protocol}/1/system.oauth2/getToken/1000000");
        let (status, wrong) = caller.send(caller.http.post(&url).form(&refresh("x"))).await;
        assert_eq!((status, &wrong["error"]), (400, &json!("invalid_grant")));
        let good = refresh(&app.refresh_token);
        let (status, given) = caller.send(caller.http.post(&url).form(&good)).await;
        assert_eq!((status, &given["expires_in"]), (200, &json!("36000")));
        let token = given["access_token"].as_str().unwrap();
        let path = Caller::path(Api::Product);
        let mut params = pairs(&[("offerId", SHOE), ("access_token", token)]);
        let signature = sign(&app.app_secret, &path, &params, Sorting::Key);
        params.push(("_aop_signature".into(), signature));
        let request = caller.http.post(caller.url(Api::Product)).form(&params);
        assert_eq!(caller.send(request).await.0, 200);
    }
}

#[tokio::test]
async fn protocol_payment_takes_the_money_once() {
    let caller = Caller::start(|_| {}).await;
    let id = caller.order_tape("so-1", 4).await;
    let pay = |amount: i64| {
        let asked = json!({ "orderId": id, "payChannel": "alipay", "payAmount": amount });
        pairs(&[("tradeWithholdPreparePayParam", &asked.to_string())])
    };
    let (_, wrong) = caller.call(Api::Pay, &pay(1)).await;
    assert_eq!(wrong["result"]["success"], false);
    for _ in 0..2 {
        let (_, paid) = caller.call(Api::Pay, &pay(4_760)).await;
        assert_eq!(paid["result"]["result"]["paySuccess"], true);
    }
    assert_eq!(caller.simulator.units_bought(&tape()), 4);
    assert_eq!(caller.simulator.stock(&tape()), 496);
}

#[tokio::test]
async fn a_crowd_never_gets_more_than_there_is() {
    let caller = Caller::start(|settings| settings.offers[1].stock = 20).await;
    let orders = (0..30).map(|number| {
        let params = tape_order(&format!("so-{number}"), 2);
        let caller = &caller;
        async move {
            let (_, created) = caller.call(Api::Create, &params).await;
            let id: u64 = created["result"]["orderId"].as_str().unwrap().parse().unwrap();
            caller.simulator.pay(id).unwrap();
        }
    });
    futures::future::join_all(orders).await;
    let book = caller.simulator.book();
    let entry = book.iter().find(|entry| entry.item == tape()).unwrap();
    assert_eq!((entry.bought, entry.had_for_us, entry.account.stock), (20, 20, 0));
    let closed = caller.simulator.orders().iter().filter(|o| o.closed.is_some()).count();
    assert_eq!(closed, 20);
}

#[tokio::test]
async fn orders_can_be_read_late_too() {
    let caller = Caller::start(|settings| {
        settings.conduct_mut(Api::List).lag = Span::minutes(2);
        settings.conduct_mut(Api::View).lag = Span::minutes(1);
    })
    .await;
    let id = caller.order_tape("so-1", 2).await;
    let found = async || {
        let params = pairs(&[("outOrderId", "so-1")]);
        caller.call(Api::List, &params).await.1["totalRecord"].clone()
    };
    let status = async || caller.view(id).await["baseInfo"]["status"].clone();
    assert_eq!((found().await, status().await), (json!(0), json!(null)));
    caller.clock.advance(Span::minutes(1));
    caller.simulator.pay(id).unwrap();
    assert_eq!((found().await, status().await), (json!(0), json!("waitbuyerpay")));
    caller.clock.advance(Span::minutes(1));
    assert_eq!((found().await, status().await), (json!(1), json!("waitsellersend")));
}

#[tokio::test]
async fn jitter_is_drawn_within_its_bounds() {
    let caller = Caller::start(|settings| {
        let conduct = settings.conduct_mut(Api::Product);
        (conduct.lag, conduct.lag_jitter) = (Span::minutes(10), Span::minutes(30));
    })
    .await;
    // One unit fewer each minute: the figure tells how late the answer is.
    for _ in 0..60 {
        caller.clock.advance(Span::minutes(1));
        caller.simulator.other_buyer_takes(&tape(), 1).unwrap();
    }
    let mut lags = std::collections::BTreeSet::new();
    for _ in 0..40 {
        let (_, answer) = caller.call(Api::Product, &pairs(&[("offerId", TAPE)])).await;
        let told = answer["productInfo"]["productSaleInfo"]["amountOnSale"].as_f64().unwrap();
        lags.insert(told as i64 - 440);
    }
    assert!(lags.iter().all(|lag| (10..=40).contains(lag)), "{lags:?}");
    assert!(lags.len() > 10, "{lags:?}");
}
