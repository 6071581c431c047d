//! Orders that are decided on what the daemon knows, from the outside: whatever another has written
//! meanwhile stands, and decides.

use serde_json::json;

use super::api::{order, warehouse};
use super::daemon::{Daemon, Home, eventually};

/// Drafts that were written, and that were decided again under locks.
async fn drafts(daemon: &Daemon<'_>) -> (u64, u64) {
    (counted(daemon, "outcome=\"written\"").await, counted(daemon, "outcome=\"undone\"").await)
}

async fn counted(daemon: &Daemon<'_>, outcome: &str) -> u64 {
    let name = format!("stockhold_drafts_total{{{outcome}}} ");
    number(daemon, &name).await
}

async fn number(daemon: &Daemon<'_>, name: &str) -> u64 {
    let text = daemon.get("/metrics").await.text;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| value.parse().expect("a count"))
}

/// 200 units, without alerts: their commands are decided under locks, and what meets them with them.
async fn stocked(daemon: &Daemon<'_>, sku: &str) {
    let quiet = json!({"low": 0, "recover": 1});
    let body = json!({"title": sku, "watermark": quiet, "sources": [warehouse()]});
    daemon.sku(sku, &body).await;
    daemon.set_stock(sku, 200).await;
}

/// Places orders of one unit until one of them was a draft (one that meets a job's command in its group is
/// none); answers how many.
async fn drafting(daemon: &Daemon<'_>, name: &str, sku: &str) -> i64 {
    let (before, _) = drafts(daemon).await;
    for n in 1..=20 {
        daemon.placed(&format!("{name}-{n}"), sku, 1).await;
        if drafts(daemon).await.0 > before {
            return n;
        }
    }
    panic!("no draft");
}

#[tokio::test]
async fn what_another_wrote_meanwhile_stands() {
    let home = Home::new("");
    let daemon = home.serve().await;
    stocked(&daemon, "W1").await;
    let mut placed = drafting(&daemon, "a", "W1").await;
    // No figure, hence not the version either.
    home.tamper("UPDATE levels SET lock_token = 41, lock_owner = 'another'").await;
    placed += drafting(&daemon, "b", "W1").await;
    assert_eq!(home.number("SELECT lock_token FROM levels WHERE lock_owner = 'another'").await, 41);
    assert_eq!(home.number("SELECT held FROM levels").await, placed);
    // Another has sold what is left.
    let sold = format!("UPDATE levels SET quantity = {placed}, version = version + 1");
    home.tamper(&sold).await;
    daemon.place(&order("c", &[("W1", 1)])).await.refused(409, "insufficient_stock");
    home.tamper("UPDATE levels SET quantity = 200, version = version + 1").await;
    placed += drafting(&daemon, "d", "W1").await;
    assert_eq!(home.number("SELECT held FROM levels").await, placed);
    assert_eq!(home.number("SELECT count(*) FROM orders").await, placed);
    home.check_books().await;
}

#[tokio::test]
async fn a_stop_and_another_s_alias_count_at_once() {
    let home = Home::new("");
    let daemon = home.serve().await;
    stocked(&daemon, "W1").await;
    stocked(&daemon, "W2").await;
    daemon.post("/v1/skus/W1/aliases", &json!({"alias": "OLD"})).await.ok();
    let held = async |level: &str| {
        home.number(&format!("SELECT held FROM levels WHERE id = '{level}'")).await
    };
    let first = drafting(&daemon, "a", "OLD").await;
    home.tamper("UPDATE sku_aliases SET sku = 'W2'").await;
    let second = drafting(&daemon, "b", "OLD").await;
    assert_eq!((held("main:W1").await, held("main:W2").await), (first, second));
    let stop = "UPDATE skus SET selling_paused_at = 1, selling_paused_reason = 'recall'";
    home.tamper(stop).await;
    daemon.place(&order("c", &[("W2", 1)])).await.refused(409, "sku_paused");
    home.tamper("UPDATE skus SET selling_paused_at = NULL, selling_paused_reason = NULL").await;
    let third = drafting(&daemon, "d", "W2").await;
    assert_eq!(held("main:W2").await, second + third);
    home.check_books().await;
}

/// A SKU that nobody has asked for since the start is read, and drafted too.
#[tokio::test]
async fn what_is_not_known_is_read_without_locks() {
    let home = Home::new("");
    let daemon = home.serve().await;
    for n in 0..20 {
        stocked(&daemon, &format!("W{n}")).await;
    }
    daemon.stop().await;
    let daemon = home.serve().await;
    for n in 0..20 {
        daemon.placed(&format!("o{n}"), &format!("W{n}"), 3).await;
    }
    let (written, undone) = drafts(&daemon).await;
    assert!(written >= 15, "{written}: few of them have met a job's command");
    assert_eq!(undone, 0);
    assert_eq!(home.number("SELECT count(*) FROM levels WHERE held = 3").await, 20);
    // Many at once, of one that is known and of one that is not there.
    let lines: Vec<String> = (0..20).map(|n| format!("W{n}")).collect();
    let lines: Vec<(&str, i64)> = lines.iter().map(|sku| (sku.as_str(), 1)).collect();
    let answer = daemon.place(&order("all", &lines)).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    daemon.place(&order("none", &[("W0", 1), ("X", 1)])).await.refused(422, "unknown_sku");
    assert_eq!(home.number("SELECT count(*) FROM levels WHERE held = 4").await, 20);
    home.check_books().await;
}

/// What is not simply created is answered as ever: repeats, conflicts, and what is short.
#[tokio::test]
async fn what_is_not_created_is_decided_under_locks() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 5).await;
    let first = daemon.placed("o1", "W1", 2).await;
    let again = daemon.place(&order("o1", &[("W1", 2)])).await;
    assert_eq!((again.status, again.id()), (200, first));
    daemon.place(&order("o1", &[("W1", 3)])).await.refused(409, "external_id_conflict");
    daemon.place(&order("o2", &[("W1", 4)])).await.refused(409, "insufficient_stock");
    daemon.place(&order("o2", &[("W3", 1)])).await.refused(422, "unknown_sku");
    daemon.placed("o2", "W1", 3).await;
    assert_eq!(daemon.figures("W1").await, (5, 5, 0, 0));
    home.check_books().await;
}

/// While a draft waits for the store the next is decided on it. What another has written by then undoes
/// the one, and with it the other.
#[tokio::test]
async fn a_draft_on_one_that_is_undone_is_decided_again() {
    let home = Home::new("");
    let daemon = home.serve().await;
    stocked(&daemon, "W1").await;
    let mut placed = 0;
    // The first of them may meet a job's command, and is none then.
    for round in 1..=5 {
        placed += drafting(&daemon, &format!("o{round}"), "W1").await;
        let undone = drafts(&daemon).await.1;
        undo_two(&home, &daemon, round).await;
        placed += 21;
        assert_eq!(home.number("SELECT held FROM levels").await, placed);
        let lock = format!("SELECT lock_token FROM levels WHERE lock_owner = 'r{round}'");
        assert_eq!(home.number(&lock).await, round);
        home.check_books().await;
        if drafts(&daemon).await.1 > undone {
            return;
        }
    }
    panic!("nothing was undone");
}

/// One order that waits for the store, and behind it ten of two units, the same once more, and one that
/// asks for more than there is; then another's change.
async fn undo_two(home: &Home, daemon: &Daemon<'_>, round: i64) {
    let groups = number(daemon, "stockhold_group_commands_count ").await;
    let lock = home.tables.hold_up().await;
    let place = |name: String, quantity: i64| {
        let api = (**daemon).clone();
        let body = order(&format!("{name}-{round}"), &[("W1", quantity)]);
        tokio::spawn(async move { api.place(&body).await })
    };
    let mut placing = vec![place("a".into(), 1)];
    eventually("it is on its way", async || {
        number(daemon, "stockhold_group_commands_count ").await > groups
    })
    .await;
    placing.extend((0..20).map(|n| place(format!("b{}", n % 10), 2)));
    let short = place("c".into(), 250);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let change = format!("UPDATE levels SET lock_token = {round}, lock_owner = 'r{round}'");
    lock.release_with(&change).await;
    let mut statuses = Vec::new();
    for call in placing {
        statuses.push(call.await.expect("it ends").status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 10].as_slice(), &[201; 11]].concat());
    short.await.expect("it ends").refused(409, "insufficient_stock");
}
