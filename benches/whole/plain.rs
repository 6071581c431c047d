//! A few requests by hand, where the head of an answer matters or a connection is to be kept.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::schemes::Failure;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: String,
}

/// Asks on a connection that is kept alive.
pub async fn ask(
    stream: &mut TcpStream,
    method: &str,
    path: &str,
    body: &str,
) -> Result<Answer, Failure> {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        stream.peer_addr()?,
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    let mut part = vec![0; 8_192];
    loop {
        let n = stream.read(&mut part).await?;
        if n == 0 {
            return Err(format!("the connection was closed after {text:?}").into());
        }
        text.push_str(&String::from_utf8_lossy(part.get(..n).unwrap_or_default()));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|l| l.split("\r\n").next());
        if body.len() >= length.and_then(|l| l.parse().ok()).unwrap_or(0) {
            let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
            return Ok(Answer { status, head, body: body.to_owned() });
        }
    }
}

/// Asks on a connection of its own, and insists on a 2xx.
pub async fn call(url: &str, method: &str, path: &str, body: &str) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await?;
    let answer = ask(&mut stream, method, path, body).await?;
    match answer.status {
        200..=299 => Ok(answer.body),
        _ => Err(format!("{method} {path}: {answer:?}").into()),
    }
}
