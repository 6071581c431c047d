//! A flash sale at two replicas: a crowd of far more than there is, of which the database sees only
//! those with a chance, while not one unit more or less is sold than there is.
//!
//! What must hold: every request is answered `201`, or refused for want of stock; what was sold is read
//! from the tables. The crowd speaks plain HTTP over a connection for each caller, since a heavier client
//! would take the machine from the daemons.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::fleet::Fleet;
use crate::blackbox::api::order;
use crate::blackbox::daemon::{Daemon, eventually};
use crate::coordination::faults::empty;
use crate::proxy::Way;

/// Callers at each replica.
const CALLERS: usize = 64;

/// What became of the crowd's requests so far.
#[derive(Default)]
struct Tally {
    /// Requests sent; names the next.
    sent: AtomicU64,
    sold: AtomicU64,
    refused: AtomicU64,
}

impl Tally {
    fn of(count: &AtomicU64) -> u64 {
        count.load(Ordering::SeqCst)
    }

    fn answered(&self) -> u64 {
        Tally::of(&self.sold) + Tally::of(&self.refused)
    }
}

/// A crowd that wants one unit of `W1` each, until so many requests were sent.
struct Crowd {
    tally: Arc<Tally>,
    callers: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn at(daemons: &[Daemon<'_>], requests: u64) -> Crowd {
        let tally = Arc::<Tally>::default();
        let addresses = daemons.iter().map(|daemon| daemon.address().to_owned());
        let addresses: Vec<String> = addresses.collect();
        let callers = (0..CALLERS * addresses.len()).map(|n| {
            let address = addresses[n % addresses.len()].clone();
            tokio::spawn(call(address, Arc::clone(&tally), requests))
        });
        Crowd { callers: callers.collect(), tally }
    }

    /// Waits until so many were answered.
    async fn answered(&self, requests: u64) {
        let what = format!("{requests} answers");
        eventually(&what, async || self.tally.answered() >= requests).await;
    }

    /// How many were sold, when all were answered.
    async fn ended(self) -> u64 {
        for caller in self.callers {
            caller.await.expect("a caller ends");
        }
        Tally::of(&self.tally.sold)
    }
}

/// One caller after the other over one connection.
async fn call(address: String, tally: Arc<Tally>, requests: u64) {
    let mut sender = connect(&address).await;
    loop {
        let n = tally.sent.fetch_add(1, Ordering::SeqCst);
        if n >= requests {
            return;
        }
        let body = order(&format!("crowd-{n}"), &[("W1", 1)]).to_string();
        let request = Request::post("/v1/orders")
            .header(header::HOST, &address)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        sender.ready().await.expect("the connection is kept");
        let answer = sender.send_request(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.expect("a body").to_bytes();
        let is_refusal = || {
            let body: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
            body["code"] == "insufficient_stock" && body["shortages"][0]["available"] == 0
        };
        match status {
            201 => tally.sold.fetch_add(1, Ordering::SeqCst),
            409 if is_refusal() => tally.refused.fetch_add(1, Ordering::SeqCst),
            _ => panic!("{status} {}", String::from_utf8_lossy(&text)),
        };
    }
}

async fn connect(address: &str) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.expect("connected");
    stream.set_nodelay(true).expect("no delay");
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    sender
}

/// Transactions that the server has counted in this database. Sessions tell theirs within seconds, and
/// at the latest when they end.
const TRANSACTIONS: &str = "SELECT xact_commit + xact_rollback FROM pg_stat_database
    WHERE datname = current_database()";

/// Units held, by the orders and by the level.
async fn sold(fleet: &Fleet) -> (i64, i64) {
    let orders = fleet.tables.number("SELECT count(*) FROM orders").await;
    let held = fleet.tables.number("SELECT held FROM levels").await;
    (orders, held)
}

/// A counter of a daemon, over all its labels.
async fn counted(daemon: &Daemon<'_>, name: &str) -> u64 {
    let text = daemon.get("/metrics").await.text;
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_thousand_the_database_sees_those_with_a_chance() {
    const REQUESTS: u64 = 100_000;
    let fleet = Fleet::of(2, "").await;
    let daemons = fleet.serve().await;
    daemons[0].stocked("W1", 100).await;
    let started = Instant::now();
    let crowd = Crowd::at(&daemons, REQUESTS);
    crowd.answered(REQUESTS / 2).await;
    assert_eq!(sold(&fleet).await, (100, 100));
    assert_eq!(Tally::of(&crowd.tally.sold), 100);
    // Ten are put on the shelf, at one of the two.
    daemons[1].set_stock("W1", 110).await;
    let given = Instant::now();
    eventually("they are sold", async || Tally::of(&crowd.tally.sold) == 110).await;
    assert!(given.elapsed() < Duration::from_secs(2), "{:?}", given.elapsed());
    assert!(crowd.tally.answered() < REQUESTS, "while the crowd was there");
    assert_eq!(crowd.ended().await, 110);
    eprintln!("took {:?}", started.elapsed());
    assert_eq!(sold(&fleet).await, (110, 110));
    let mut refused = 0;
    for daemon in &daemons {
        refused += counted(daemon, "stockhold_sold_out_refusals_total").await;
        eprintln!(
            "{}",
            daemon
                .get("/metrics")
                .await
                .text
                .lines()
                .filter(|l| l.contains("sold_out") || l.contains("group_commands_count"))
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
    for daemon in daemons {
        daemon.stop().await;
    }
    fleet.homes[0].check_books().await;
    // All sessions have ended: their figures are there.
    let transactions = u64::try_from(fleet.tables.number(TRANSACTIONS).await).expect("a count");
    eprintln!("{transactions} transactions, {refused} by a note");
    assert!(transactions < REQUESTS / 20, "{transactions} transactions");
    assert!(refused > REQUESTS * 95 / 100, "{refused} refused by a note");
}

/// Notes that are lost cost nobody a unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redis_emptied_and_then_gone_exactly_what_is_there_is_sold() {
    const REQUESTS: u64 = 12_000;
    let fleet = Fleet::of(2, "").await;
    let daemons = fleet.serve().await;
    daemons[0].stocked("W1", 40).await;
    let crowd = Crowd::at(&daemons, REQUESTS);
    crowd.answered(REQUESTS / 6).await;
    for _ in 0..5 {
        empty(0).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    daemons[0].set_stock("W1", 45).await;
    crowd.answered(REQUESTS / 3).await;
    fleet.to_redis.iter().for_each(|way| way.set(Way::Shut));
    daemons[1].set_stock("W1", 50).await;
    crowd.answered(REQUESTS / 2).await;
    fleet.to_redis[0].set(Way::Silent);
    fleet.to_redis[1].set(Way::Open);
    crowd.answered(REQUESTS * 2 / 3).await;
    daemons[0].set_stock("W1", 60).await;
    let sold_here = crowd.ended().await;
    // Whoever came last may have come before the note's second was over.
    let mut later = 0;
    eventually("every unit is sold", async || {
        later += 1;
        daemons[later % 2].place(&order(&format!("later-{later}"), &[("W1", 1)])).await;
        sold(&fleet).await == (60, 60)
    })
    .await;
    assert!(sold_here <= 60);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let one_more = daemons[0].place(&order("one-more", &[("W1", 1)])).await;
    one_more.refused(409, "insufficient_stock");
    for daemon in daemons {
        daemon.stop().await;
    }
    assert_eq!(sold(&fleet).await, (60, 60));
    fleet.homes[0].check_books().await;
}
