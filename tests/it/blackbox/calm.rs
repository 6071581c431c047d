//! What keeps a shop calm, from the outside: orders sent twice, too many requests, figures shown from
//! a cache, and a Redis that comes and goes in the middle of it.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::api::{Answer, Api, order};
use super::daemon::{Daemon, Home, NOON, SECOND, SHOP_KEY, WALL_KEY, eventually, together};
use crate::coordination;
use crate::proxy::{Proxy, Way};

/// An order of one unit of `W1` by a customer.
fn by(customer: &str, external_id: &str) -> Value {
    let mut body = order(external_id, &[("W1", 1)]);
    body["customer"] = json!({ "id": customer });
    body
}

#[track_caller]
fn refused_as_duplicate(answer: Answer) -> u32 {
    let wait = answer.header("retry-after").parse().expect("whole seconds");
    answer.refused(429, "duplicate_submission");
    wait
}

#[tokio::test]
async fn the_same_order_under_another_external_id_is_refused_for_three_seconds() {
    // Redis would go by a clock of its own.
    let home = Home::new(&calmed_by("memory:", "")).with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    assert_eq!(daemon.place(&by("c-1", "o1")).await.status, 201);
    assert_eq!(refused_as_duplicate(daemon.place(&by("c-1", "o2")).await), 3);
    // A repeat of what is there is answered, and so is everybody else.
    assert_eq!(daemon.place(&by("c-1", "o1")).await.status, 200);
    assert_eq!(daemon.place(&by("c-2", "o3")).await.status, 201);
    assert_eq!(daemon.place(&order("o4", &[("W1", 1)])).await.status, 201);
    assert_eq!(daemon.place(&order("o5", &[("W1", 1)])).await.status, 201);
    let mut two = by("c-1", "o6");
    two["lines"][0]["quantity"] = json!(2);
    assert_eq!(daemon.place(&two).await.status, 201);

    daemon.time(NOON + 2 * SECOND + SECOND / 2).await;
    let mut paid = by("c-1", "o2");
    paid["payment"] = json!({"id": "p1", "amount": "10.00"});
    let answer = daemon.place(&paid).await;
    assert_eq!(answer.body["payment_recorded"], false);
    assert_eq!(refused_as_duplicate(answer), 1);
    daemon.time(NOON + 3 * SECOND).await;
    assert_eq!(daemon.place(&by("c-1", "o2")).await.status, 201);
    // The earlier one is still no duplicate of the later.
    assert_eq!(daemon.place(&by("c-1", "o1")).await.status, 200);
    // o1 to o6, of which o6 has two.
    assert_eq!(daemon.figures("W1").await, (10, 7, 0, 3));
    home.check_books().await;
}

#[tokio::test]
async fn of_two_at_once_one_is_accepted_and_what_was_refused_is_not_in_the_way() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 0).await;
    for external_id in ["o1", "o2"] {
        daemon.place(&by("c-1", external_id)).await.refused(409, "insufficient_stock");
    }
    daemon.set_stock("W1", 100).await;
    for round in 0..10 {
        let customer = format!("c-{round}");
        let answers = together((0..3).map(|n| {
            let (api, body) = ((*daemon).clone(), by(&customer, &format!("r{round}-{n}")));
            async move { api.place(&body).await }
        }))
        .await;
        let (accepted, others): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.status == 201);
        assert_eq!((accepted.len(), others.len()), (1, 2));
        for answer in others {
            refused_as_duplicate(answer);
        }
    }
    assert_eq!(daemon.figures("W1").await, (100, 10, 0, 90));
    home.check_books().await;
}

#[tokio::test]
async fn an_order_whose_caller_hung_up_is_remembered_too() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    let lock = home.tables.hold_up().await;
    let request = daemon.request(Method::POST, "/v1/orders").json(&by("c-1", "o1"));
    let given_up = Answer::try_of(request.timeout(Duration::from_secs(2))).await;
    assert!(given_up.is_err(), "{given_up:?}");
    let again = tokio::spawn({
        let api = (*daemon).clone();
        async move { api.place(&by("c-1", "o2")).await }
    });
    lock.release().await;
    refused_as_duplicate(again.await.expect("answered"));
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 1);
}

#[tokio::test]
async fn each_key_has_its_limit() {
    let limit = "[limits]\nrequests_per_second = 3";
    let home = Home::new(&calmed_by("memory:", limit)).with_keys().with_clock();
    let daemon = home.serve().await;
    let (shop, wall) = (daemon.speaking_as(Some(SHOP_KEY)), daemon.speaking_as(Some(WALL_KEY)));
    for _ in 0..3 {
        shop.get("/v1/skus").await.ok();
    }
    let over = shop.get("/v1/skus").await;
    assert_eq!(over.header("retry-after"), "1");
    over.refused(429, "rate_limited");
    shop.place(&by("c-1", "o1")).await.refused(429, "rate_limited");
    wall.get("/v1/skus").await.ok();
    for path in ["/healthz", "/readyz", "/metrics"] {
        for _ in 0..5 {
            assert_eq!(shop.get(path).await.status, 200, "{path}");
        }
    }
    let counted = shop.get("/metrics").await.text;
    assert!(counted.contains("\nstockhold_rate_limited_total 2\n"), "{counted}");
    // A third of a second later there is one more.
    daemon.time(NOON + SECOND / 3 + 1).await;
    shop.get("/v1/skus").await.ok();
    shop.get("/v1/skus").await.refused(429, "rate_limited");
    shop.speaking_as(None).get("/v1/skus").await.refused(401, "unauthorized");
}

#[tokio::test]
async fn what_was_done_is_shown_at_once_and_the_rest_from_the_cache() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    for n in 1..=5 {
        daemon.placed(&format!("o{n}"), "W1", 1).await;
        assert_eq!(daemon.figures("W1").await, (10, n, 0, 10 - n));
    }
    daemon.set_stock("W1", 20).await;
    assert_eq!(daemon.figures("W1").await, (20, 5, 0, 15));
    let path = "/v1/skus/W1/availability";
    let paused = async || daemon.get(path).await.ok()["paused"].clone();
    assert_eq!(paused().await, json!(false));
    let pause = json!({"what": "selling", "reason": "fault"});
    assert_eq!(daemon.post("/v1/skus/W1/pause", &pause).await.status, 200);
    assert_eq!(paused().await, json!(true));
    let buffered = json!({"title": "W1", "sources":
        [{"source": "main", "kind": "warehouse", "buffer": 4}]});
    daemon.sku("W1", &buffered).await;
    assert_eq!(daemon.figures("W1").await, (20, 5, 0, 11));

    // What another has written is seen when five seconds are over.
    home.tamper("UPDATE levels SET quantity = 30, version = version + 1").await;
    assert_eq!(daemon.figures("W1").await, (20, 5, 0, 11));
    daemon.time(NOON + 5 * SECOND).await;
    assert_eq!(daemon.figures("W1").await, (30, 5, 0, 21));
    let many = daemon.post("/v1/availability", &json!({"skus": ["W1", "W1"]})).await.ok();
    assert_eq!(many["items"][1]["sources"][0]["quantity"], 30);
    let unknown = daemon.post("/v1/availability", &json!({"skus": ["W1", "nope"]})).await;
    assert_eq!(unknown.refused(422, "unknown_sku")["skus"], json!(["nope"]));
    let counted = daemon.get("/metrics").await.text;
    assert!(counted.contains("stockhold_availability_cache_hits_total{from=\"process\"}"));
}

fn calmed_by(url: &str, more: &str) -> String {
    format!("{more}\n[coordination]\nurl = \"{url}\"")
}

async fn coordination(api: &Api) -> String {
    let answer = api.get("/readyz").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let checks = answer.body["checks"].as_array().expect("checks").clone();
    let check = checks.iter().find(|check| check["name"] == "coordination").expect("one");
    check["status"].as_str().expect("text").to_owned()
}

async fn becomes(api: &Api, status: &str) {
    eventually(status, async || coordination(api).await == status).await;
}

#[tokio::test]
async fn two_daemons_share_the_limit_of_a_key() {
    let url = coordination::redis(7);
    coordination::faults::empty(7).await;
    let settings = calmed_by(&url, "[limits]\nrequests_per_second = 1");
    let homes = [Home::new(&settings).with_keys(), Home::new(&settings).with_keys()];
    let (a, b) = (homes[0].serve().await, homes[1].serve().await);
    // On a busy machine Redis may be out of use for a moment, and each counts for itself.
    eventually("what one let in counts for the other", async || {
        becomes(&a, "ready").await;
        becomes(&b, "ready").await;
        // Both have waited long enough to be let in by themselves.
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        let (first, second) = (a.get("/v1/skus").await, b.get("/v1/skus").await);
        (first.status, second.code().as_str()) == (200, "rate_limited")
    })
    .await;
}

/// Places orders one after the other; each is answered.
async fn sells(daemon: &Daemon<'_>, name: &str, orders: i64) {
    for n in 0..orders {
        let answer = daemon.place(&by(&format!("{name}-{n}"), &format!("{name}-{n}"))).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        daemon.figures("W1").await;
    }
}

#[tokio::test]
async fn a_redis_that_comes_and_goes_costs_no_order() {
    let proxy = Proxy::before(&coordination::redis_server()).await;
    let url = proxy.in_url(&coordination::redis(8));
    let home = Home::new(&calmed_by(&url, "[limits]\nrequests_per_second = 100000"));
    let daemon = home.serve().await;
    becomes(&daemon, "ready").await;
    daemon.stocked("W1", 1_000).await;
    sells(&daemon, "before", 20).await;
    for (way, name) in [
        (Way::Shut, "stopped"),
        (Way::Slow(Duration::from_secs(2)), "slow"),
        (Way::Silent, "silent"),
    ] {
        proxy.set(way);
        sells(&daemon, name, 20).await;
        becomes(&daemon, "degraded").await;
        // Its own guard goes on.
        let twice = format!("twice-{name}");
        assert_eq!(daemon.place(&by(&twice, &twice)).await.status, 201);
        refused_as_duplicate(daemon.place(&by(&twice, &format!("{twice}-again"))).await);
        proxy.set(Way::Open);
        becomes(&daemon, "ready").await;
        sells(&daemon, &format!("after-{name}"), 20).await;
    }
    let emptying = tokio::spawn(async {
        for _ in 0..20 {
            coordination::faults::empty(8).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    sells(&daemon, "emptied", 60).await;
    emptying.await.expect("emptied");
    // 20, three times 20 + 1 + 20, and 60.
    assert_eq!(daemon.figures("W1").await, (1_000, 203, 0, 797));
    let degraded = daemon.get("/metrics").await.text;
    assert!(degraded.contains("stockhold_redis_failures_total "), "{degraded}");
    home.check_books().await;
}

#[tokio::test]
async fn a_daemon_starts_without_its_redis_and_tells_no_password() {
    let proxy = Proxy::before(&coordination::redis_server()).await;
    proxy.set(Way::Shut);
    let url = proxy.in_url("redis://:hush-hush@h/8");
    let home = Home::new(&calmed_by(&url, ""));
    let shown = home.run(&["check-config"]).await.ok();
    assert!(shown.contains("coordination.url = \"redis://127.0.0.1:"), "{shown}");
    let daemon = home.serve().await;
    assert_eq!(coordination(&daemon).await, "degraded");
    daemon.stocked("W1", 10).await;
    sells(&daemon, "alone", 5).await;
    assert_eq!(daemon.figures("W1").await, (10, 5, 0, 5));
    assert!(!(shown + &home.log()).contains("hush"));
}
