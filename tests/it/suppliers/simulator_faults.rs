//! The simulator's faults over real HTTP: what the caller sees, and what has happened nevertheless.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use stockhold::clock::{Clock, Span};
use stockhold::suppliers::simulator::{self, Api, Chance, Fault, Repeated, Settings};

use super::caller::{Caller, Params, SHOE, pairs, tape_order};

/// How long these callers wait before they give up.
const PATIENCE: Duration = Duration::from_millis(150);

/// A create that meets `fault`: what the caller saw.
async fn create(caller: &Caller, fault: Fault, params: &Params) -> Result<String, reqwest::Error> {
    caller.simulator.script(Api::Create, fault).unwrap();
    let response = caller.request(Api::Create, params).timeout(PATIENCE).send().await?;
    let response = response.error_for_status()?;
    response.text().await
}

#[tokio::test]
async fn an_answer_is_lost_with_or_without_its_effect() {
    let caller = Caller::start(|_| {}).await;
    for (index, effect) in [true, false].into_iter().enumerate() {
        let faults = [
            Fault::NeverAnswer { effect },
            Fault::Cut { effect },
            Fault::Torn { effect },
            Fault::Http { status: 502, effect },
        ];
        for (number, fault) in faults.into_iter().enumerate() {
            let reference = format!("so-{index}-{number}");
            let seen = create(&caller, fault.clone(), &tape_order(&reference, 2)).await;
            assert!(seen.is_err(), "{fault:?}: {seen:?}");
            let made = caller.simulator.orders_of(&reference).len();
            assert_eq!(made, usize::from(effect), "{fault:?}");
        }
        let garbage = Fault::Garbage { effect };
        let seen = create(&caller, garbage, &tape_order("garbage", 2)).await.unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&seen).is_err());
    }
    assert_eq!(caller.simulator.orders().len(), 5);
    let counts = &caller.simulator.counts()[&Api::Create];
    assert_eq!((counts.calls, counts.faults["torn"]), (10, 2));
}

#[tokio::test]
async fn how_the_connection_ends_can_be_told_apart() {
    let caller = Caller::start(|_| {}).await;
    let never = create(&caller, Fault::TIMED_OUT, &tape_order("a", 2)).await.unwrap_err();
    assert!(never.is_timeout());
    let cut = create(&caller, Fault::Cut { effect: false }, &tape_order("b", 2)).await.unwrap_err();
    assert!(cut.is_request() && !cut.is_timeout(), "{cut:?}");
    // Torn: the head has come, with status 200, and the body ends early.
    caller.simulator.script(Api::Create, Fault::Torn { effect: true }).unwrap();
    let response = caller.request(Api::Create, &tape_order("c", 2)).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert!(response.bytes().await.is_err());
}

#[tokio::test]
async fn a_create_lands_after_its_caller_has_given_up() {
    let caller = Caller::start(|_| {}).await;
    let late = Fault::Late { after: Span::secs(30) };
    let seen = create(&caller, late, &tape_order("so-1", 2)).await;
    assert!(seen.unwrap_err().is_timeout());
    let list = pairs(&[("outOrderId", "so-1")]);
    caller.clock.advance(Span::millis(29_999));
    assert_eq!(caller.call(Api::List, &list).await.1["totalRecord"], 0);
    caller.clock.advance(Span::millis(1));
    assert_eq!(caller.call(Api::List, &list).await.1["totalRecord"], 1);
}

#[tokio::test]
async fn a_repeated_create_is_one_order_or_two() {
    let caller = Caller::start(|_| {}).await;
    let lost = create(&caller, Fault::LOST, &tape_order("so-1", 2)).await;
    assert!(lost.is_err());
    let (_, again) = caller.call(Api::Create, &tape_order("so-1", 2)).await;
    assert_eq!(again["result"]["orderId"], "3657499272179232333");
    caller.simulator.change(|s| s.trade.repeated_reference = Repeated::SecondOrder).unwrap();
    let (_, second) = caller.call(Api::Create, &tape_order("so-1", 2)).await;
    assert_eq!(second["result"]["orderId"], "3657499272179233342");
}

#[tokio::test]
async fn errors_come_in_each_calls_own_envelope() {
    let caller = Caller::start(|_| {}).await;
    let order = tape_order("so-1", 2);
    let offer = pairs(&[("offerId", SHOE)]);
    let view = pairs(&[("webSite", "1688"), ("orderId", "1")]);
    let answer = async |api: Api, fault: Fault, params: &Params| {
        caller.simulator.script(api, fault).unwrap();
        caller.call(api, params).await
    };
    let (status, throttled) = answer(Api::Product, Fault::throttled(), &offer).await;
    assert_eq!((status, &throttled["error_code"]), (400, &json!("gw.QosAppFrequencyLimit")));
    let (status, unknown) = answer(Api::Product, Fault::unknown_error(), &offer).await;
    assert_eq!((status, &unknown["success"]), (200, &json!(false)));
    assert_eq!(unknown["errorMsg"], "inventory service 0 nodes available");
    let (_, short) = answer(Api::Create, Fault::out_of_stock(), &order).await;
    assert_eq!((&short["success"], &short["code"]), (&json!(false), &json!("500_004")));
    let (_, short) = answer(Api::Preview, Fault::out_of_stock(), &order).await;
    assert_eq!((&short["success"], &short["errorCode"]), (&json!(false), &json!("500_004")));
    let (_, refused) = answer(Api::View, Fault::unknown_error(), &view).await;
    assert_eq!(
        (&refused["success"], &refused["errorCode"]),
        (&json!("false"), &json!("SYSTEM_ERROR"))
    );
    assert_eq!(caller.simulator.orders().len(), 0);
    // A refusal can be a lie: the order is there.
    let lie =
        Fault::Refuse { code: "SYSTEM_ERROR".into(), message: "timeout".into(), effect: true };
    let (_, refused) = answer(Api::Create, lie, &tape_order("lie", 2)).await;
    assert_eq!(refused["success"], false);
    assert_eq!(caller.simulator.orders_of("lie").len(), 1);
    // The scripts are used up.
    assert_eq!(caller.call(Api::Create, &order).await.1["success"], true);
}

#[tokio::test]
async fn calls_are_limited_by_the_second() {
    let caller = Caller::start(|settings| {
        settings.gateway.calls_per_second = 3;
        settings.conduct_mut(Api::Product).calls_per_second = 2;
    })
    .await;
    let offer = pairs(&[("offerId", SHOE)]);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(caller.call(Api::Product, &offer).await.0);
    }
    assert_eq!(statuses, [200, 200, 400]);
    let (status, refused) = caller.call(Api::Companies, &Vec::new()).await;
    assert_eq!((status, &refused["error_code"]), (400, &json!("gw.QosAppFrequencyLimit")));
    caller.clock.advance(Span::secs(1));
    assert_eq!(caller.call(Api::Product, &offer).await.0, 200);
}

#[tokio::test]
async fn faults_come_by_chance_and_can_be_switched_off() {
    let caller = Caller::start(|settings| {
        let fault = Fault::Http { status: 503, effect: false };
        settings.chances = vec![Chance { chance: 1.0, fault }];
    })
    .await;
    let offer = pairs(&[("offerId", SHOE)]);
    let response = caller.request(Api::Product, &offer).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 503);
    caller.simulator.change(|settings| settings.chances.clear()).unwrap();
    assert_eq!(caller.call(Api::Product, &offer).await.0, 200);
}

#[tokio::test]
async fn stopping_ends_calls_that_hang() {
    let caller = Caller::start(|_| {}).await;
    caller.simulator.script(Api::Create, Fault::LOST).unwrap();
    let hanging = tokio::spawn(caller.request(Api::Create, &tape_order("so-1", 2)).send());
    while caller.simulator.orders().is_empty() {
        tokio::task::yield_now().await;
    }
    caller.simulator.stop().await.unwrap();
    let seen = hanging.await.unwrap().unwrap_err();
    assert!(!seen.is_timeout(), "{seen:?}");
    assert!(caller.request(Api::Create, &tape_order("so-2", 2)).send().await.is_err());
}

#[tokio::test]
async fn it_runs_until_told_to_end_and_says_why_it_cannot() {
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let quiet = Settings::quiet;
    assert!(simulator::run(quiet(), free, Clock::System, std::future::ready(())).await.is_ok());
    let caller = Caller::start(|_| {}).await;
    let taken = caller.simulator.address();
    let ended = simulator::run(quiet(), taken, Clock::System, std::future::pending()).await;
    let text = ended.unwrap_err().to_string();
    assert!(text.contains(&format!("cannot listen on {taken}")), "{text}");
    let missing = Some("/nowhere/simulator.toml".into());
    let text = simulator::serve_cli(missing, Some(free)).await.unwrap_err().to_string();
    assert!(text.contains("/nowhere/simulator.toml"), "{text}");
}
