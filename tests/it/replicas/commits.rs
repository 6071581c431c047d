//! The connection dies exactly while a transaction commits. The daemon then does not know whether it
//! did; the same group under the same id finds out, even while the old backend is still at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::fleet::host_of;
use crate::blackbox::api::{Answer, Api, order};
use crate::blackbox::daemon::{Home, together};
use crate::blackbox::tables::Tables;

/// What happens to the connection at a COMMIT.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The server never hears it, and rolls back when the connection ends.
    Unheard,
    /// The server commits; the answer is lost.
    Unanswered,
    /// The connection is gone; the server hears it, and commits, a while later.
    Late,
}

const CUTS: [Cut; 3] = [Cut::Unheard, Cut::Unanswered, Cut::Late];
/// A simple query as the client sends it: tag, length, text, zero.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
const BEGIN_WRITE: &[u8] = b"Q\0\0\0\x0aBEGIN\0";
const BEGIN_READ: &[u8] = b"Q\0\0\0\x34BEGIN ISOLATION";

/// Stands before the server and cuts connections at commits of writes.
struct Cutter {
    url: String,
    left: Arc<AtomicI64>,
}

impl Cutter {
    async fn before(url: &str) -> Cutter {
        let server = host_of(url);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut through = url::Url::parse(url).expect("a url");
        through.set_port(Some(listener.local_addr().expect("an address").port())).expect("a port");
        let left = Arc::new(AtomicI64::new(0));
        let (budget, commits) = (Arc::clone(&left), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (budget, commits) = (Arc::clone(&budget), Arc::clone(&commits));
                let server = TcpStream::connect(&server).await.expect("the server");
                tokio::spawn(carry(client, server, budget, commits));
            }
        });
        Cutter { url: through.into(), left }
    }

    /// From now on cuts every third commit, in each way in turn, until so many are cut.
    fn cut(&self, commits: i64) {
        self.left.store(commits, Ordering::SeqCst);
    }

    fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst).max(0)
    }
}

fn ends_with_commit(sent: &[u8]) -> bool {
    sent.ends_with(COMMIT)
}

fn contains(sent: &[u8], part: &[u8]) -> bool {
    sent.windows(part.len()).any(|window| window == part)
}

async fn carry(
    client: TcpStream,
    server: TcpStream,
    budget: Arc<AtomicI64>,
    commits: Arc<AtomicUsize>,
) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("no delay");
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut buffer = vec![0; 256 * 1024];
    let mut writes = false;
    loop {
        let n = match from_client.read(&mut buffer).await {
            Ok(n) if n > 0 => n,
            _ => break,
        };
        let sent = &buffer[..n];
        if contains(sent, BEGIN_WRITE) {
            writes = true;
        } else if contains(sent, BEGIN_READ) {
            writes = false;
        }
        if writes && ends_with_commit(sent) {
            let nth = commits.fetch_add(1, Ordering::SeqCst);
            if nth % 3 == 2 && budget.fetch_sub(1, Ordering::SeqCst) > 0 {
                let sent = sent.to_vec();
                answers.abort();
                let _ = answers.await;
                drop(from_client);
                match CUTS[(nth / 3) % CUTS.len()] {
                    Cut::Unheard => {}
                    Cut::Unanswered => {
                        let _ = to_server.write_all(&sent).await;
                        // Whoever closes at once with an answer unread resets the connection.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Cut::Late => {
                        tokio::time::sleep(Duration::from_millis(150)).await;
                        let _ = to_server.write_all(&sent).await;
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
                return;
            }
        }
        if to_server.write_all(sent).await.is_err() {
            break;
        }
    }
    drop(to_server);
    let _ = answers.await;
}

/// Repeats until it is answered for good; `(status, body)` of that, and how often it was told to.
async fn insist(api: &Api, path: &str, key: &str, body: &serde_json::Value) -> (Answer, usize) {
    for told in 0..200 {
        let request = api.request(reqwest::Method::POST, path).json(body);
        let answer = Answer::try_of(request.header("idempotency-key", key)).await;
        let answer = answer.expect("an answer");
        if answer.status != 503 {
            return (answer, told);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never answered: {path} {body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_commits_are_cut_and_nothing_is_lost_or_done_twice() {
    let tables = Arc::new(Tables::server());
    let cutter = Cutter::before(&tables.url()).await;
    let home = Home::on(&tables, "").with_storage(cutter.url.clone());
    let daemon = home.serve().await;
    daemon.stocked("W1", 100_000).await;
    cutter.cut(100);
    let mut orders = 0;
    while cutter.left() > 0 {
        let round = orders;
        let placed = together((0..8).map(|n| {
            let api = (*daemon).clone();
            let name = format!("o{}", round + n);
            async move {
                let (placed, _) =
                    insist(&api, "/v1/orders", &name, &order(&name, &[("W1", 1)])).await;
                assert!(matches!(placed.status, 200 | 201), "{}", placed.text);
                let id = placed.id();
                if n % 2 == 0 {
                    let pay = json!({"id": name, "amount": "10.00", "currency": "USD"});
                    let path = format!("/v1/orders/{id}/payments");
                    let (paid, _) = insist(&api, &path, &format!("pay-{name}"), &pay).await;
                    assert!(matches!(paid.status, 200 | 201), "{}", paid.text);
                }
                id
            }
        }))
        .await;
        orders += placed.len();
        assert!(orders < 4_000, "the cuts are not met: {} left", cutter.left());
    }
    daemon.stop().await;
    let n = i64::try_from(orders).expect("small");
    assert_eq!(tables.number("SELECT count(*) FROM orders").await, n);
    assert_eq!(tables.number("SELECT count(*) FROM holds").await, n);
    assert_eq!(tables.number("SELECT count(*) FROM payments").await, n / 2);
    assert_eq!(
        tables.number("SELECT count(*) FROM ledger WHERE event = 'placed'").await,
        n,
        "each unit was held once"
    );
    let figures: Vec<(i64, i64, i64)> =
        tables.rows("SELECT quantity, held, committed FROM levels", &[]).await;
    assert_eq!(figures, [(100_000, n - n / 2, n / 2)]);
    home.check_books().await;
}
