//! One connection that is kept alive, asked one request at a time.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Target;

/// See the module; reconnects at the next request after a failure.
pub struct Client {
    target: Target,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub fn new(target: &Target) -> Client {
        Client { target: target.clone(), sender: None }
    }

    /// Sends a request and reads its whole answer.
    ///
    /// # Errors
    /// Why the connection could not be made, or broke.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        idempotency_key: Option<&str>,
        body: String,
    ) -> Result<(StatusCode, Bytes), String> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.target.host)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.target.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|e| e.to_string())?;
        let answered = self.send(request).await;
        if answered.is_err() {
            self.sender = None;
        }
        answered
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let sender = match &mut self.sender {
            Some(sender) => sender,
            none => none.insert(connect(&self.target).await?),
        };
        sender.ready().await.map_err(|e| e.to_string())?;
        let answer = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|e| e.to_string())?;
        Ok((status, body.to_bytes()))
    }
}

async fn connect(target: &Target) -> Result<SendRequest<Full<Bytes>>, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", target.address);
    let stream = TcpStream::connect(target.address).await.map_err(|e| failed(&e))?;
    stream.set_nodelay(true).map_err(|e| failed(&e))?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|e| failed(&e))?;
    tokio::spawn(connection);
    Ok(sender)
}
