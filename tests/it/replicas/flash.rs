//! A flash sale at two replicas: a crowd of far more than there is, of which the database sees only
//! those with a chance, while not one unit more or less is sold than there is.
//!
//! What must hold: every request is answered `201`, or refused for want of stock; what was sold is read
//! from the tables. The crowd speaks plain HTTP over a connection for each caller, since a heavier client
//! would take the machine from the daemons.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::fleet::Fleet;
use crate::blackbox::api::order;
use crate::blackbox::daemon::{Daemon, Home, eventually};
use crate::coordination::faults::empty;
use crate::coordination::redis;
use crate::proxy::Way;

/// Callers at each replica.
const CALLERS: usize = 128;

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
    let mut stream = TcpStream::connect(&address).await.expect("connected");
    stream.set_nodelay(true).expect("no delay");
    loop {
        let n = tally.sent.fetch_add(1, Ordering::SeqCst);
        if n >= requests {
            return;
        }
        let body = order(&format!("crowd-{n}"), &[("W1", 1)]).to_string();
        let length = body.len();
        let request = format!(
            "POST /v1/orders HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let (head, body) = answer(&mut stream).await;
        let sold_out =
            || body.contains("\"insufficient_stock\"") && body.contains("\"available\":0");
        if head.starts_with("HTTP/1.1 201 ") {
            tally.sold.fetch_add(1, Ordering::SeqCst);
        } else {
            assert!(head.starts_with("HTTP/1.1 409 ") && sold_out(), "{head}{body}");
            tally.refused.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// An answer's head and body.
async fn answer(stream: &mut TcpStream) -> (String, String) {
    let mut text = String::new();
    let mut buffer = [0; 4_096];
    loop {
        let n = stream.read(&mut buffer).await.expect("an answer");
        assert!(n > 0, "the connection ended: {text}");
        text += std::str::from_utf8(&buffer[..n]).expect("text");
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("a length").parse().expect("a number");
        if body.len() >= length {
            return (head.to_owned(), body.to_owned());
        }
    }
}

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
    assert_eq!(sold(&fleet).await, (110, 110));
    let mut refused = 0;
    for daemon in &daemons {
        refused += counted(daemon, "stockhold_sold_out_refusals_total").await;
    }
    for daemon in daemons {
        daemon.stop().await;
    }
    fleet.homes[0].check_books().await;
    assert!(refused > REQUESTS / 2, "{refused} refused by a note");
    let transactions = u64::try_from(fleet.transactions().await).expect("a count");
    assert!(transactions < REQUESTS / 20, "{transactions} transactions");
}

/// Notes that are lost cost nobody a unit. Redis's database 6 is this test's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redis_emptied_and_then_gone_exactly_what_is_there_is_sold() {
    const REQUESTS: u64 = 12_000;
    let mut fleet = Fleet::of(2, "").await;
    let ways = fleet.to_redis.iter().map(|way| way.in_url(&redis(6)));
    let homes = std::mem::take(&mut fleet.homes).into_iter().zip(ways);
    let own = |(home, url): (Home, String)| home.with_variable("STOCKHOLD_COORDINATION__URL", &url);
    fleet.homes = homes.map(own).collect();
    let daemons = fleet.serve().await;
    daemons[0].stocked("W1", 40).await;
    let crowd = Crowd::at(&daemons, REQUESTS);
    crowd.answered(REQUESTS / 6).await;
    for _ in 0..5 {
        empty(6).await;
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
