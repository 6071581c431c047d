//! A public 1688 client that no one here wrote signs calls that the simulator accepts and reads its
//! answers: `pip install open-1688`, whose core is the official Python SDK's.
//!
//! The interpreter that has it is named by `STOCKHOLD_TEST_PYTHON`; without one the test fails.

use std::process::Command;

use serde_json::Value;
use stockhold::clock::Clock;
use stockhold::suppliers::simulator::{Api, Settings, Simulator};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/suppliers/open1688.py");

/// What the client read from `host`.
fn run_client(host: String) -> Value {
    let python = std::env::var("STOCKHOLD_TEST_PYTHON").expect(
        "STOCKHOLD_TEST_PYTHON must name a Python interpreter that has open-1688 and requests: \
         python3 -m venv DIR && DIR/bin/pip install open-1688 requests, \
         then STOCKHOLD_TEST_PYTHON=DIR/bin/python (scripts/test does this)",
    );
    let app = Settings::default().gateway;
    let output = Command::new(&python)
        .args([SCRIPT, &host, &app.app_key, &app.app_secret, &app.access_token])
        .env("PYTHONUTF8", "1")
        .env_remove("http_proxy")
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap_or_else(|e| panic!("STOCKHOLD_TEST_PYTHON={python} cannot be started: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the client failed (open-1688 and requests there?): {errors}");
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_client_is_understood() {
    let simulator = Simulator::start(Settings::quiet(), Clock::System).await.unwrap();
    let host = simulator.address().to_string();
    let read = tokio::task::spawn_blocking(move || run_client(host)).await.unwrap();

    let sku = &read["product"]["productInfo"]["productSkuInfos"][0];
    assert_eq!(sku["specId"], "b266e0726506185beaf205cbae88530d");
    assert_eq!(sku["amountOnSale"], 40);

    // 2 × 128.00 + 4 × 9.90 + 8.00 carriage = 303.60 yuan.
    let created = &read["create"]["result"];
    assert_eq!(read["create"]["success"], true);
    assert_eq!(created["orderId"], "3657499272179232333");
    assert_eq!(created["totalSuccessAmount"], 30_360);
    assert_eq!(created["postFee"], 800);

    let view = &read["view"]["result"];
    assert_eq!(read["view"]["success"], "true");
    assert_eq!(view["baseInfo"]["id"], 3_657_499_272_179_232_333_u64);
    assert_eq!(view["baseInfo"]["idOfStr"], "3657499272179232333");
    assert_eq!(view["baseInfo"]["outOrderId"], "so-1001");
    assert_eq!(view["baseInfo"]["status"], "waitbuyerpay");
    assert_eq!(view["baseInfo"]["totalAmount"].to_string(), "303.6");
    assert_eq!(view["baseInfo"]["buyerFeedback"], "备注 & 带=号 +%2B");
    assert_eq!(view["baseInfo"]["receiverInfo"]["toFullName"], "张三");
    let lines: Vec<(u64, u64)> = view["productItems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["productID"].as_u64().unwrap(), line["quantity"].as_u64().unwrap()))
        .collect();
    assert_eq!(lines, [(610_947_572_360, 2), (554_456_348_334, 4)]);

    assert_eq!(read["list"]["totalRecord"], 1);
    assert_eq!(read["list"]["result"][0]["baseInfo"]["idOfStr"], 3_657_499_272_179_232_333_u64);
    assert_eq!(read["trace"]["errorCode"], "404");
    assert_eq!(read["addresses"]["result"]["receiveAddressItems"][0]["post"], "310000");
    assert_eq!(read["companies"]["result"][0]["companyNo"], "ZTO");
    assert_eq!(read["short"]["code"], "500_004");
    assert_eq!(read["bad_secret"][0], "gw.SignatureInvalid");
    let unauthorised = ["401", "Request need user authorized"];
    assert_eq!(read["bad_token"], serde_json::json!(unauthorised));

    // Nine calls were good, two were refused, and one order was made.
    let counts = simulator.counts();
    assert_eq!(counts.values().map(|count| count.refused).sum::<u64>(), 2);
    assert_eq!((simulator.calls(Api::Product), simulator.calls(Api::Create)), (3, 2));
    assert_eq!(simulator.orders().len(), 1);
}
