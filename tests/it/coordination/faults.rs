//! Redis stopped, slow, silent, cut and emptied: each process goes on, within a bounded time, and
//! returns to Redis when it answers again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use stockhold::clock::{Clock, Span};
use stockhold::coordination::{Coordination, Holder, Options, Submission};
use stockhold::domain::names::LevelId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::{connected, level, placement, redis, redis_server, some_scope};
use crate::blackbox::daemon::eventually;
use crate::proxy::{Proxy, Way};

/// As the program runs it, behind a proxy; watched until dropped.
struct Replica {
    calm: Coordination,
    proxy: Proxy,
    stopping: CancellationToken,
}

impl Replica {
    async fn start(number: u8) -> Replica {
        let proxy = Proxy::before(&redis_server()).await;
        let options = Options { requests_per_second: 3, scope: some_scope(), ..Options::default() };
        let url = proxy.in_url(&redis(number));
        let calm = Coordination::redis(&url, &Clock::System, &options).expect("an address");
        let stopping = CancellationToken::new();
        tokio::spawn(calm.clone().run(stopping.clone()));
        let replica = Replica { calm, proxy, stopping };
        replica.recovers().await;
        replica
    }

    async fn recovers(&self) {
        eventually("Redis is used", async || self.calm.condition().is_none()).await;
    }

    async fn notices(&self) {
        eventually("it is degraded", async || self.calm.condition().is_some()).await;
    }

    /// Everything that it does, again and again: it works, and takes no longer than a call that was
    /// under way when Redis went, whatever is asked afterwards.
    async fn goes_on(&self) {
        let started = Instant::now();
        let key: Arc<str> = format!("key-{:x}", rand::random::<u64>()).into();
        let admitted = {
            let mut admitted = 0;
            for _ in 0..50 {
                admitted += u32::from(self.calm.admit(&key).await.is_ok());
            }
            admitted
        };
        assert!(admitted >= 3, "the limit is kept in the process: {admitted}");
        let customer = format!("c-{:x}", rand::random::<u64>());
        let submission =
            |external_id| Submission::of(&placement(external_id, &customer)).expect("a customer");
        self.calm.submit(submission("W-1")).await.accepted().await;
        let known = self.calm.submit(submission("W-2")).await.duplicate_for;
        assert!(known.is_some() || started.elapsed() > Duration::from_secs(3));
        let item = LevelId::from("s1:61:");
        for _ in 0..50 {
            // A key that could not be given back is its successor's: tokens only rise.
            static TOKEN: AtomicI64 = AtomicI64::new(1);
            let token = TOKEN.fetch_add(1, Ordering::SeqCst);
            let holder = Holder { owner: "a".into(), job: 1, token };
            assert_eq!(self.calm.lock_item(&item, &holder, Span::minutes(12)).await, Ok(()));
            self.calm.unlock_item(&item, &holder).await;
        }
        let begun = self.calm.begin();
        self.calm.keep(begun, Vec::new(), vec![level("main:A", 1)]).await;
        self.calm.levels(&["main:A".into(), "main:B".into()].into()).await;
        // Two hundred calls that each waited for a slow answer would take minutes.
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

async fn lost_and_found(way: Way) {
    let replica = Replica::start(0).await;
    replica.goes_on().await;
    replica.proxy.set(way);
    replica.goes_on().await;
    replica.notices().await;
    replica.goes_on().await;
    replica.proxy.set(Way::Open);
    replica.recovers().await;
    replica.goes_on().await;
}

#[tokio::test]
async fn a_stopped_redis_is_done_without() {
    lost_and_found(Way::Shut).await;
}

#[tokio::test]
async fn a_slow_redis_is_done_without() {
    lost_and_found(Way::Slow(Duration::from_secs(2))).await;
}

#[tokio::test]
async fn a_silent_redis_is_done_without() {
    lost_and_found(Way::Silent).await;
}

#[tokio::test]
async fn a_cut_connection_is_made_anew() {
    let replica = Replica::start(0).await;
    let before = replica.proxy.accepted();
    replica.proxy.cut();
    replica.goes_on().await;
    eventually("it connects again", async || replica.proxy.accepted() > before).await;
    replica.recovers().await;
}

#[tokio::test]
async fn while_nobody_asks_a_loss_is_noticed_all_the_same() {
    let replica = Replica::start(0).await;
    replica.proxy.set(Way::Silent);
    replica.notices().await;
}

#[tokio::test]
async fn it_starts_without_redis_and_finds_it_later() {
    let proxy = Proxy::before(&redis_server()).await;
    proxy.set(Way::Shut);
    let options = Options { scope: some_scope(), ..Options::default() };
    let url = proxy.in_url(&redis(0));
    let calm = Coordination::redis(&url, &Clock::System, &options).expect("an address");
    calm.connect().await;
    let told = calm.condition().expect("degraded");
    assert!(told.starts_with("Redis is not used, each process is on its own: "), "{told}");
    let stopping = CancellationToken::new();
    let watching = tokio::spawn(calm.clone().run(stopping.clone()));
    proxy.set(Way::Open);
    eventually("Redis is used", async || calm.condition().is_none()).await;
    stopping.cancel();
    watching.await.expect("it ends");
}

/// Database 9 is this test's own.
#[tokio::test]
async fn an_emptied_redis_refuses_nobody() {
    let patience = Duration::from_secs(20);
    let options = Options { scope: some_scope(), patience, ..Options::default() };
    let (a, b) = (connected(9, &options).await, connected(9, &options).await);
    let item = LevelId::from("s1:61:");
    let ttl = Span::minutes(12);
    let holder = |owner: &str| Holder { owner: owner.into(), job: 1, token: 1 };
    assert_eq!(a.lock_item(&item, &holder("a"), ttl).await, Ok(()));
    assert!(b.lock_item(&item, &holder("b"), ttl).await.is_err());
    a.keep(a.begin(), Vec::new(), vec![level("main:A", 3)]).await;
    empty(9).await;
    // The database decides between the two; what A gives back is not B's.
    assert_eq!(b.lock_item(&item, &holder("b"), ttl).await, Ok(()));
    a.unlock_item(&item, &holder("a")).await;
    assert!(a.lock_item(&item, &holder("c"), ttl).await.is_err());
    assert!(b.levels(&["main:A".into()].into()).await.is_empty());
    b.keep(b.begin(), Vec::new(), vec![level("main:A", 4)]).await;
    assert_eq!((a.condition(), b.condition()), (None, None));
}

/// Empties one of the server's databases, and its scripts.
pub async fn empty(number: u8) {
    let mut server = tokio::net::TcpStream::connect(redis_server()).await.expect("Redis is there");
    let commands = format!("SELECT {number}\r\nFLUSHDB\r\nSCRIPT FLUSH\r\n");
    server.write_all(commands.as_bytes()).await.expect("it is told");
    let mut said = [0; 15];
    server.read_exact(&mut said).await.expect("it answers");
    assert_eq!(&said, b"+OK\r\n+OK\r\n+OK\r\n");
}
