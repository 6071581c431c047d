//! C120, C121: a low watermark alerts once, whatever swings about it, and each channel is told.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::api::{text, warehouse};
use super::daemon::{Daemon, HOUR, Home, MINUTE, NOON, eventually};

async fn receiver(status: u16) -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(status);
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    server
}

fn channels(urls: &[String]) -> String {
    let one =
        |url: &String| format!("[[alerts.channels]]\ntype = \"webhook\"\nurl = \"{url}/a\"\n");
    urls.iter().map(one).collect()
}

/// `(type, subject)` of each distinct notice that a receiver was sent, by its id.
async fn told(server: &MockServer) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let requests = server.received_requests().await.unwrap_or_default();
    let bodies = requests.iter().map(|r| serde_json::from_slice::<Value>(&r.body).expect("JSON"));
    let mut notices = Vec::new();
    // A clock that jumps by minutes makes schedules late: told as well, and of no interest here.
    for body in bodies.filter(|body| body["data"]["kind"] == "low_stock") {
        let notice = (text(&body["type"]), text(&body["data"]["subject"]));
        if seen.insert((notice.clone(), text(&body["timestamp"]))) {
            notices.push(notice);
        }
    }
    notices
}

/// The text of each telling that `W1` runs low, as it was sent.
async fn opened(server: &MockServer) -> Vec<String> {
    let requests = server.received_requests().await.unwrap_or_default();
    let texts = requests.into_iter().map(|r| String::from_utf8(r.body).expect("UTF-8"));
    texts.filter(|text| text.contains("low_stock") && text.contains("alert.opened")).collect()
}

fn notice(event: &str) -> (String, String) {
    (format!("alert.{event}"), "W1".to_owned())
}

async fn alerts(daemon: &Daemon<'_>) -> Vec<Value> {
    let all = daemon.list("/v1/alerts", 50).await;
    all.into_iter().filter(|a| a["kind"] == "low_stock").collect()
}

/// Counts the shelf and waits until the watermark was judged again: the first run that ends after
/// the count may have begun before it, the second has not.
async fn count(home: &Home, daemon: &Daemon<'_>, now: &mut i64, to: i64) {
    daemon.set_stock("W1", to).await;
    for _ in 0..2 {
        *now += 5 * MINUTE;
        daemon.time(*now).await;
        let at = *now;
        eventually("the watermark is judged", async || {
            let ran = "SELECT coalesce(max(last_finished_at), 0) FROM schedules
                WHERE name = 'watermark'";
            home.number(ran).await >= at
        })
        .await;
    }
}

/// A home in whose store `W1` stands with nine on the shelf before anybody watches.
async fn nine_on_the_shelf(settings: &str) -> Home {
    let home = Home::new(settings).with_clock();
    std::fs::write(home.path("c.csv"), "sku,warehouse_quantity\nW1,9\n").expect("written");
    home.run(&["stock", "import", "c.csv"]).await.ok();
    home
}

async fn watched(daemon: &Daemon<'_>) {
    let body = json!({"title": "W1", "watermark": {"low": 6, "recover": 8},
        "sources": [warehouse()]});
    daemon.put("/v1/skus/W1", &body).await.ok();
}

#[tokio::test]
async fn c121_a_figure_that_swings_alerts_three_times_and_not_eight() {
    let server = receiver(200).await;
    let home = nine_on_the_shelf(&channels(&[server.uri()])).await;
    let daemon = home.serve().await;
    watched(&daemon).await;
    let mut now = NOON;
    let mut events = Vec::new();
    for figure in [6, 5, 6, 4, 6, 5, 6, 8, 5] {
        count(&home, &daemon, &mut now, figure).await;
        let all = alerts(&daemon).await;
        let closed = all.iter().filter(|a| a["state"] == "closed").count();
        events.push((figure, all.len(), closed));
    }
    let expected = [
        (6, 0, 0),
        (5, 1, 0),
        (6, 1, 0),
        (4, 1, 0),
        (6, 1, 0),
        (5, 1, 0),
        (6, 1, 0),
        (8, 1, 1),
        (5, 2, 1),
    ];
    assert_eq!(events, expected);
    let three = [notice("opened"), notice("closed"), notice("opened")];
    eventually("all three are told", async || told(&server).await.len() >= 3).await;
    assert_eq!(told(&server).await, three);
}

#[tokio::test]
async fn c120_the_same_figure_is_not_told_again_before_a_day() {
    let server = receiver(200).await;
    let home = nine_on_the_shelf(&channels(&[server.uri()])).await;
    let daemon = home.serve().await;
    watched(&daemon).await;
    let mut now = NOON;
    count(&home, &daemon, &mut now, 2).await;
    let opened = alerts(&daemon).await;
    assert_eq!(opened.len(), 1);
    assert!(text(&opened[0]["detail"]).contains('2'), "{opened:?}");
    let since = NOON + 10 * MINUTE;
    for n in 0..20 {
        count(&home, &daemon, &mut now, 2 + n % 2).await;
    }
    assert_eq!(alerts(&daemon).await.len(), 1);
    assert_eq!(told(&server).await, [notice("opened")]);
    // Once a day there is a reminder.
    now = since + 24 * HOUR;
    daemon.time(now).await;
    eventually("it is reminded of", async || told(&server).await.len() >= 2).await;
    count(&home, &daemon, &mut now, 2).await;
    let both = [notice("opened"), notice("reminder")];
    assert_eq!(told(&server).await, both);
    let id = text(&opened[0]["id"]);
    let path = format!("/v1/alerts/{id}/acknowledge");
    let first = daemon.post(&path, &json!({})).await.ok();
    assert!(first["acknowledged_at"].is_string() && first["state"] == "open");
    assert_eq!(daemon.post(&path, &json!({})).await.ok(), first, "the first time counts");
    daemon.post("/v1/alerts/999/acknowledge", &json!({})).await.refused(404, "not_found");
    // What was seen is not reminded of.
    now += 25 * HOUR;
    for _ in 0..3 {
        count(&home, &daemon, &mut now, 2).await;
    }
    assert_eq!(told(&server).await, both);
}

/// Orders that take the last units alert as a count does; what they give back closes it.
#[tokio::test]
async fn orders_move_the_watermark_too() {
    let home = nine_on_the_shelf("").await;
    let daemon = home.serve().await;
    watched(&daemon).await;
    let id = daemon.placed("o1", "W1", 4).await;
    eventually("it opens", async || {
        alerts(&daemon).await.iter().filter(|a| a["state"] == "open").count() == 1
    })
    .await;
    daemon.cancel(&id).await.ok();
    eventually("it closes", async || alerts(&daemon).await.iter().all(|a| a["state"] == "closed"))
        .await;
    assert_eq!(alerts(&daemon).await.len(), 1);
}

/// One channel that fails is tried again by itself; the other is told once.
#[tokio::test]
async fn a_channel_that_fails_is_tried_again_alone() {
    let (good, bad) = (receiver(200).await, receiver(500).await);
    let home = nine_on_the_shelf(&channels(&[good.uri(), bad.uri()])).await;
    let daemon = home.serve().await;
    watched(&daemon).await;
    daemon.set_stock("W1", 2).await;
    // The good one's telling is done with: a clock that jumps over its lease would repeat it.
    eventually("both are tried", async || {
        let left = "SELECT count(*) FROM jobs WHERE kind = 'tell' AND key LIKE '%webhook-1'";
        told(&good).await.len() == 1 && told(&bad).await.len() == 1 && home.number(left).await == 0
    })
    .await;
    let mut now = NOON;
    eventually("it is tried again", async || {
        now += MINUTE;
        daemon.time(now).await;
        opened(&bad).await.len() >= 3
    })
    .await;
    let texts: BTreeSet<String> = opened(&bad).await.into_iter().collect();
    assert_eq!(texts.len(), 1, "each time the same");
    assert_eq!(opened(&good).await.len(), 1);
    let metrics = daemon.get("/metrics").await.text;
    assert!(metrics.contains("stockhold_alert_delivery_failed_total"), "{metrics}");
}
