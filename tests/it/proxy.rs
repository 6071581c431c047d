//! A TCP proxy that a test puts in front of a server (Redis, PostgreSQL) to make the way there bad:
//! slow, cut, refused, or silent.
//!
//! What must hold: bytes are passed on unchanged and in order; a change of the way counts at once, for
//! connections that are open too. It knows nothing of what it carries.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How the way to the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Everything is passed on at once.
    Open,
    /// What the server says arrives so much later; what it is told does not.
    Slow(Duration),
    /// Half open: connections are accepted and stay, what the client sends is swallowed, and what the
    /// server still says is lost.
    Silent,
    /// Open connections are reset, new ones are closed at once.
    Shut,
}

/// A proxy on a port of its own; ends when dropped, with its connections.
pub struct Proxy {
    address: SocketAddr,
    way: watch::Sender<Way>,
    /// Raised to reset what is open now.
    cuts: watch::Sender<u64>,
    accepted: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// In front of `server`, a host and a port.
    pub async fn before(server: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (way, cuts) = (watch::Sender::new(Way::Open), watch::Sender::new(0));
        let accepted = Arc::new(AtomicUsize::new(0));
        let line = Line { server: server.to_owned(), way: way.subscribe(), cuts: cuts.subscribe() };
        let count = Arc::clone(&accepted);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                // What is open when the proxy is dropped sees its channels close.
                tokio::spawn(line.clone().carry(client));
            }
        });
        Proxy { address, way, cuts, accepted, accepting }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `url` with this proxy's host and port instead of the server's.
    pub fn in_url(&self, url: &str) -> String {
        let mut url = url::Url::parse(url).expect("a URL");
        url.set_ip_host(self.address.ip()).expect("a host");
        url.set_port(Some(self.address.port())).expect("a port");
        url.into()
    }

    /// Makes the way so from now on.
    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Resets every connection that is open now; the way stays as it is.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Connections that were asked for so far, refused ones too.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What a connection needs to know.
#[derive(Clone)]
struct Line {
    server: String,
    way: watch::Receiver<Way>,
    cuts: watch::Receiver<u64>,
}

impl Line {
    async fn carry(mut self, client: TcpStream) {
        self.cuts.mark_unchanged();
        if *self.way.borrow() == Way::Shut {
            return;
        }
        let Ok(server) = TcpStream::connect(&self.server).await else {
            return;
        };
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
            // Closing sends a reset, as the end of a process or a cable does.
            let _ = stream.set_zero_linger();
        }
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let there = pass(from_client, to_server, self.way.clone(), false);
        let back = pass(from_server, to_client, self.way.clone(), true);
        let mut shut = self.way.clone();
        tokio::select! {
            _ = self.cuts.changed() => {}
            _ = shut.wait_for(|way| *way == Way::Shut) => {}
            _ = async { tokio::join!(there, back) } => {}
        }
    }
}

/// Passes bytes on until the sender closes; they wait out their delay without holding up the reading.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: watch::Receiver<Way>,
    delayed: bool,
) -> io::Result<()> {
    let (queue, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let reading = async move {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n = from.read(&mut buffer).await?;
            if n == 0 {
                return Ok::<(), io::Error>(());
            }
            let wait = match *way.borrow() {
                Way::Slow(by) if delayed => by,
                Way::Silent | Way::Shut => continue,
                _ => Duration::ZERO,
            };
            let _ = queue.send((Instant::now() + wait, buffer[..n].to_vec()));
        }
    };
    let writing = async move {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            to.write_all(&bytes).await?;
        }
        to.shutdown().await
    };
    let (read, written) = tokio::join!(reading, writing);
    read.and(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says back what it hears.
    async fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn said_back(stream: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(text).await?;
        let mut heard = vec![0; text.len()];
        stream.read_exact(&mut heard).await?;
        Ok(heard)
    }

    #[tokio::test]
    async fn bytes_pass_in_order_and_a_cut_ends_only_what_is_open() {
        let proxy = Proxy::before(&echo().await).await;
        let mut first = TcpStream::connect(proxy.address()).await.expect("connects");
        assert_eq!(said_back(&mut first, b"one").await.expect("answers"), b"one");
        proxy.set(Way::Slow(Duration::from_millis(20)));
        assert_eq!(said_back(&mut first, b"two").await.expect("answers"), b"two");
        proxy.cut();
        assert!(said_back(&mut first, b"three").await.is_err());
        let mut second = TcpStream::connect(proxy.address()).await.expect("connects");
        assert_eq!(said_back(&mut second, b"four").await.expect("answers"), b"four");
        assert_eq!(proxy.accepted(), 2);
    }

    #[tokio::test]
    async fn a_shut_way_ends_what_is_open_and_closes_what_comes() {
        let proxy = Proxy::before(&echo().await).await;
        let mut open = TcpStream::connect(proxy.address()).await.expect("connects");
        assert_eq!(said_back(&mut open, b"one").await.expect("answers"), b"one");
        proxy.set(Way::Shut);
        assert!(said_back(&mut open, b"two").await.is_err());
        let mut new = TcpStream::connect(proxy.address()).await.expect("is accepted");
        assert!(said_back(&mut new, b"three").await.is_err());
        proxy.set(Way::Open);
        let mut again = TcpStream::connect(proxy.address()).await.expect("connects");
        assert_eq!(said_back(&mut again, b"four").await.expect("answers"), b"four");
    }

    #[tokio::test]
    async fn a_silent_way_keeps_the_connection_and_swallows_what_is_said() {
        let proxy = Proxy::before(&echo().await).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("connects");
        assert_eq!(said_back(&mut stream, b"one").await.expect("answers"), b"one");
        proxy.set(Way::Silent);
        stream.write_all(b"lost").await.expect("is taken");
        // Long enough to have been swallowed; nothing rests on how long it takes.
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.set(Way::Open);
        assert_eq!(said_back(&mut stream, b"heard").await.expect("answers"), b"heard");
    }

    #[test]
    fn an_address_is_put_into_a_url() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let proxy = runtime.block_on(Proxy::before("127.0.0.1:1"));
        let port = proxy.address().port();
        let url = proxy.in_url("postgres://postgres@db.example:5432/shop?x=1");
        assert_eq!(url, format!("postgres://postgres@127.0.0.1:{port}/shop?x=1"));
        assert_eq!(proxy.in_url("redis://h/0"), format!("redis://127.0.0.1:{port}/0"));
    }
}
