//! Connections that can be cut from within a handler, before the answer or in its middle.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Who called, and the knife for the connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    cut: CancellationToken,
}

impl Peer {
    /// Ends the connection at once, whatever is under way on it.
    pub fn cut(&self) {
        self.cut.cancel();
    }
}

/// A listener whose connections know their [`Peer`].
#[derive(Debug)]
pub struct Listener(pub TcpListener);

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.0).await;
        let _ = stream.set_nodelay(true);
        let cut = CancellationToken::new();
        let cancelled = Box::pin(cut.clone().cancelled_owned());
        (Connection { stream, cancelled }, Peer { address, cut })
    }

    fn local_addr(&self) -> Result<Peer> {
        Ok(Peer { address: self.0.local_addr()?, cut: CancellationToken::new() })
    }
}

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Peer {
        stream.remote_addr().clone()
    }
}

/// A TCP stream that fails once it is cut.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn check(&mut self, cx: &mut Context<'_>) -> Result<()> {
        match self.cancelled.as_mut().poll(cx) {
            Poll::Ready(()) => Err(std::io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
