//! C013 and the ends of things: a store that is missing, full, locked, newer or in use; overload; a
//! stop under load. What was answered 201 is there afterwards, and nothing else is promised.

use serde_json::json;

use super::api::{Answer, order};
use super::daemon::{Daemon, Home, eventually, signal};

/// Every order that was answered 201 is in the database with its hold.
async fn check_promised(home: &Home, answers: &[Option<Answer>]) {
    home.check_books().await;
    let stored: Vec<(String,)> = home.rows("SELECT id FROM orders").await;
    let stored: std::collections::BTreeSet<String> = stored.into_iter().map(|(id,)| id).collect();
    for answer in answers.iter().flatten().filter(|a| matches!(a.status, 200 | 201)) {
        assert!(stored.contains(&answer.id()), "answered and not there: {}", answer.text);
    }
}

/// Starts placing orders one after the other with so many callers, until the connection is gone.
fn load(daemon: &Daemon<'_>, callers: usize) -> Vec<tokio::task::JoinHandle<Vec<Option<Answer>>>> {
    (0..callers)
        .map(|caller| {
            let api = (**daemon).clone();
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for n in 0..10_000 {
                    let body = order(&format!("c{caller}-{n}"), &[("W1", 1)]);
                    let request = api.request(reqwest::Method::POST, "/v1/orders").json(&body);
                    let answer = Answer::try_of(request).await.ok();
                    let over = answer.is_none();
                    answers.push(answer);
                    if over {
                        break;
                    }
                }
                answers
            })
        })
        .collect()
}

async fn answers(
    callers: Vec<tokio::task::JoinHandle<Vec<Option<Answer>>>>,
) -> Vec<Option<Answer>> {
    let mut all = Vec::new();
    for caller in callers {
        all.extend(caller.await.expect("a caller ends"));
    }
    all
}

async fn some_orders(home: &Home, at_least: i64) {
    eventually("orders come in", async || {
        home.number("SELECT count(*) FROM orders").await >= at_least
    })
    .await;
}

#[tokio::test]
async fn a_stop_under_load_ends_well_and_keeps_what_it_promised() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1_000_000).await;
    let callers = load(&daemon, 12);
    some_orders(&home, 60).await;
    daemon.terminate();
    let answers = answers(callers).await;
    let status = daemon.ended().await;
    assert_eq!(status.code(), Some(0), "{}", home.log());
    let bad = answers.iter().flatten().filter(|a| !matches!(a.status, 201 | 503));
    assert_eq!(bad.map(|a| a.text.clone()).collect::<Vec<_>>(), Vec::<String>::new());
    check_promised(&home, &answers).await;
    // Nothing but what was answered: every request under way got its answer.
    let stored = home.number("SELECT count(*) FROM orders").await;
    let told = answers.iter().flatten().filter(|a| a.status == 201).count();
    assert_eq!(stored, i64::try_from(told).expect("small"));
}

#[tokio::test]
async fn a_kill_under_load_loses_nothing_that_was_answered() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1_000_000).await;
    let callers = load(&daemon, 12);
    some_orders(&home, 60).await;
    daemon.kill().await;
    let answers = answers(callers).await;
    check_promised(&home, &answers).await;
    let daemon = home.serve().await;
    check_promised(&home, &answers).await;
    let left = daemon.figures("W1").await;
    assert_eq!(left.1, home.number("SELECT count(*) FROM orders").await);
}

#[tokio::test]
async fn c013_a_newer_or_strange_schema_is_left_alone() {
    let home = Home::new("");
    home.run(&["migrate"]).await.ok();
    home.tamper(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         SELECT 9999, 'from the future', TRUE, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
    )
    .await;
    for arguments in [&["serve"][..], &["migrate"], &["stock", "export"]] {
        let said = home.run(arguments).await.refused();
        assert!(said.contains("newer") && said.contains("9999"), "{arguments:?}: {said}");
    }
    home.tamper("DELETE FROM _sqlx_migrations WHERE version = 9999").await;
    home.tamper(
        "UPDATE _sqlx_migrations SET checksum =
            (SELECT checksum FROM _sqlx_migrations WHERE version = 2) WHERE version = 1",
    )
    .await;
    let said = home.run(&["serve"]).await.refused();
    assert!(said.contains("another form"), "{said}");
}

/// A refusal to store is `503` with a hint, red readiness, and nothing taken.
pub async fn refuses(daemon: &Daemon<'_>, external_id: &str) {
    let mut body = order(external_id, &[("W1", 1)]);
    body["payment"] = json!({"id": external_id, "amount": "10.00"});
    let problem = daemon.place(&body).await.refused(503, "storage_unavailable");
    assert_eq!(problem["payment_recorded"], false);
}

pub async fn unavailable(daemon: &Daemon<'_>) -> bool {
    let ready = daemon.get("/readyz").await;
    ready.status == 503 && ready.body["status"] == "unavailable"
}

#[tokio::test]
async fn c013_a_table_that_is_gone_is_no_reason_to_sell() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    home.tamper("ALTER TABLE holds RENAME TO holds_gone").await;
    refuses(&daemon, "o1").await;
    eventually("readiness is red", async || unavailable(&daemon).await).await;
    assert_eq!(daemon.get("/healthz").await.status, 200, "the process itself is fine");
    home.tamper("ALTER TABLE holds_gone RENAME TO holds").await;
    eventually("it is back", async || daemon.get("/readyz").await.status == 200).await;
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 0);
    daemon.placed("o1", "W1", 1).await;
    home.check_books().await;
}

/// A queue of two while the store is held up: what does not fit is shed at once and leaves nothing;
/// money and cancels wait their turn.
#[tokio::test]
async fn placements_are_shed_and_payments_are_not() {
    let home = Home::new("[limits]\nmax_queued_commands = 2");
    let daemon = home.serve().await;
    daemon.stocked("W1", 1_000).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(daemon.placed(&format!("before-{n}"), "W1", 1).await);
    }
    let lock = home.tables.hold_up().await;
    let placing = (0..40).map(|n| {
        let api = (*daemon).clone();
        tokio::spawn(async move { api.place(&order(&format!("o{n}"), &[("W1", 1)])).await })
    });
    let placing: Vec<_> = placing.collect();
    // One is at the store and two wait, at the least; the rest is told at once.
    eventually("the rest is shed", async || {
        placing.iter().filter(|call| call.is_finished()).count() >= 30
    })
    .await;
    let paying = ids.iter().enumerate().map(|(n, id)| {
        let (api, id) = ((*daemon).clone(), id.clone());
        tokio::spawn(async move {
            if n % 2 == 0 { api.pay(&id, &id, "10.00").await } else { api.cancel(&id).await }
        })
    });
    let paying: Vec<_> = paying.collect();
    lock.release().await;
    let (mut taken, mut shed) = (0, Vec::new());
    for (n, call) in placing.into_iter().enumerate() {
        let answer = call.await.expect("it ends");
        if answer.status == 201 {
            taken += 1;
        } else {
            answer.refused(503, "overloaded");
            shed.push(format!("o{n}"));
        }
    }
    for call in paying {
        call.await.expect("it ends").ok();
    }
    assert!(taken >= 1, "what was queued is served");
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 10 + taken);
    assert_eq!(daemon.figures("W1").await, (1_000, taken, 5, 995 - taken));
    // A shed order can be placed with the same name.
    let again = daemon.place(&order(&shed[0], &[("W1", 1)])).await;
    assert_eq!(again.status, 201, "{}", again.text);
    home.check_books().await;
}

/// Two signals in a row end it at once, and what was promised is still there.
#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 10).await;
    daemon.placed("o1", "W1", 1).await;
    // A caller who never finishes its request would hold up a soft stop.
    let mut stuck = tokio::net::TcpStream::connect(daemon.address()).await.expect("connected");
    let head = b"POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{";
    tokio::io::AsyncWriteExt::write_all(&mut stuck, head).await.expect("sent");
    // Answered after it, so that it has surely been accepted.
    daemon.get("/healthz").await;
    signal(daemon.process(), "INT");
    eventually("it is stopping", async || home.log().contains("stopping")).await;
    signal(daemon.process(), "TERM");
    daemon.ended().await;
    let daemon = home.serve().await;
    assert_eq!(daemon.figures("W1").await, (10, 1, 0, 9));
    home.check_books().await;
}
