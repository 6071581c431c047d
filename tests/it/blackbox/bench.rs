//! `stockhold bench` against a daemon: what it says was placed is there.

use serde_json::Value;

use super::daemon::{DESK_KEY, Home};

async fn bench(home: &Home, url: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["bench", "--url", url, "--key", DESK_KEY, "--seconds", "1", "--json"];
    arguments.extend(more);
    let said = home.run(&arguments).await.ok();
    serde_json::from_str(&said).expect("one JSON object")
}

#[tokio::test]
async fn it_reports_what_was_placed_and_counts_a_stall_in_all_that_it_held_up() {
    let home = Home::new("").with_keys();
    let daemon = home.serve().await;
    let url = format!("http://{}", daemon.address());
    let closed = bench(&home, &url, &["--connections", "4", "--skus", "3", "--prepare"]).await;
    let placed = closed["statuses"]["201"].as_i64().expect("orders");
    assert!(placed > 0);
    assert_eq!(closed["statuses"].as_object().expect("statuses").len(), 1, "{closed}");
    assert_eq!(home.number("SELECT count(*) FROM orders").await, placed);
    let figures: Vec<i64> = [1, 2, 3].map(|_| 1_000_000_000).to_vec();
    let stored: Vec<(i64,)> = home.rows("SELECT quantity FROM levels ORDER BY id").await;
    assert_eq!(stored.into_iter().map(|(n,)| n).collect::<Vec<_>>(), figures);

    let read = bench(&home, &url, &["--what", "availability"]).await;
    assert!(read["statuses"]["200"].as_i64().expect("answers") > 0, "{read}");
    assert_eq!(home.number("SELECT count(*) FROM orders").await, placed, "it only reads");

    // Twenty requests are due in the second; the store is held up for longer than that, so the first
    // of them waited at least a half.
    let lock = home.tables.hold_up().await;
    let held_up = async {
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        lock.release().await;
    };
    let open = ["--rate", "20", "--connections", "1"];
    let (open, ()) = tokio::join!(bench(&home, &url, &open), held_up);
    assert_eq!(open["statuses"]["201"], 20, "{open}");
    assert!(open["latency_us"]["p50"].as_i64().expect("a latency") > 500_000, "{open}");
    home.check_books().await;
}

#[tokio::test]
async fn a_plan_that_makes_no_sense_is_refused() {
    let home = Home::new("");
    for (arguments, named) in [
        (&["bench", "--url", "https://localhost"][..], "--url"),
        (&["bench", "--url", "http://127.0.0.1:1", "--seconds", "0"], "--seconds"),
        (&["bench", "--url", "http://127.0.0.1:1", "--rate", "0"], "--rate"),
    ] {
        let said = home.run(arguments).await.refused();
        assert!(said.contains(named), "{said}");
    }
    let nobody = ["bench", "--url", "http://127.0.0.1:1", "--seconds", "0.1", "--connections", "1"];
    assert_eq!(home.run(&nobody).await.code, Some(1));
}
