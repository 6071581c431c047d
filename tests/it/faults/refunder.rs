//! The shop's own endpoints as a server of the test's: one that makes refunds and can lose its
//! answers, and one that hears alerts and can refuse to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};

/// Makes what it is asked for every time it is asked: making one twice is the caller's fault.
#[derive(Clone, Default)]
pub struct Refunder {
    made: Arc<Mutex<BTreeMap<String, u32>>>,
    amounts: Arc<Mutex<BTreeMap<String, String>>>,
    /// Asked so often.
    pub asked: Arc<AtomicU32>,
    /// Answered `says` so often.
    pub refused: Arc<AtomicU32>,
    /// Answers get lost after the effect.
    pub loses: Arc<AtomicBool>,
    /// Every n-th answer gets lost; 0 is none.
    pub loses_every: Arc<AtomicU32>,
    /// Makes nothing and answers 500; a look-up says so.
    pub fails: Arc<AtomicBool>,
    /// Answers this status to everything and does nothing; 0 is as usual.
    pub says: Arc<AtomicU16>,
    url: String,
}

async fn make(State(refunder): State<Refunder>, body: axum::Json<Value>) -> (StatusCode, String) {
    if let Some(refusal) = refunder.refusal() {
        return refusal;
    }
    if refunder.fails.load(Ordering::SeqCst) {
        refunder.refused.fetch_add(1, Ordering::SeqCst);
        return (StatusCode::INTERNAL_SERVER_ERROR, "broken".into());
    }
    let id = body["refund_id"].as_str().expect("an id").to_owned();
    let amount = body["amount"].as_str().expect("an amount").to_owned();
    *refunder.made.lock().expect("ok").entry(id.clone()).or_default() += 1;
    refunder.amounts.lock().expect("ok").insert(id, amount);
    let n = refunder.asked.fetch_add(1, Ordering::SeqCst) + 1;
    if refunder.loses.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_secs(120)).await;
    }
    let every = refunder.loses_every.load(Ordering::SeqCst);
    if every > 0 && n % every == 0 {
        return (StatusCode::BAD_GATEWAY, "lost".into());
    }
    (StatusCode::OK, json!({ "status": "succeeded", "reference": "r" }).to_string())
}

async fn look_up(State(refunder): State<Refunder>, Path(id): Path<String>) -> (StatusCode, String) {
    if let Some(refusal) = refunder.refusal() {
        return refusal;
    }
    if refunder.made.lock().expect("ok").contains_key(&id) {
        return (StatusCode::OK, json!({ "status": "succeeded", "reference": "r" }).to_string());
    }
    (StatusCode::NOT_FOUND, String::new())
}

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

impl Refunder {
    fn refusal(&self) -> Option<(StatusCode, String)> {
        let status = StatusCode::from_u16(self.says.load(Ordering::SeqCst)).ok()?;
        self.refused.fetch_add(1, Ordering::SeqCst);
        Some((status, "not now".into()))
    }

    pub async fn start() -> Refunder {
        let refunder = Refunder::default();
        let router = Router::new()
            .route("/refunds", post(make))
            .route("/refunds/{id}", get(look_up))
            .with_state(refunder.clone());
        let url = format!("{}/refunds", serve(router).await);
        Refunder { url, ..refunder }
    }

    /// The configuration that names it.
    pub fn keys(&self) -> String {
        format!(
            "[refunds]\nprovider = \"webhook\"\nurl = \"{}\"\n\
            secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n",
            self.url
        )
    }

    /// How often each refund was made.
    pub fn made(&self) -> BTreeMap<String, u32> {
        self.made.lock().expect("ok").clone()
    }

    /// What was paid back in all, in cents.
    pub fn paid_back(&self) -> i64 {
        let amounts = self.amounts.lock().expect("ok");
        let cents = |text: &String| text.replace('.', "").parse::<i64>().expect("digits");
        amounts.values().map(cents).sum()
    }
}

/// Hears alerts: each (id, type, kind, detail) that it was told, and whether it answered 500.
#[derive(Clone, Default)]
pub struct Listener {
    pub heard: Arc<Mutex<Vec<Heard>>>,
    pub refuses: Arc<AtomicBool>,
    url: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub id: String,
    pub event: String,
    pub kind: String,
    pub detail: String,
    pub refused: bool,
}

async fn hear(
    State(listener): State<Listener>,
    headers: HeaderMap,
    body: axum::Json<Value>,
) -> StatusCode {
    let refused = listener.refuses.load(Ordering::SeqCst);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    listener.heard.lock().expect("ok").push(Heard {
        id: id.to_owned(),
        event: text(&body["type"]),
        kind: text(&body["data"]["kind"]),
        detail: text(&body["data"]["detail"]),
        refused,
    });
    if refused { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }
}

impl Listener {
    pub async fn start() -> Listener {
        let listener = Listener::default();
        let router = Router::new().route("/alerts", post(hear)).with_state(listener.clone());
        let url = format!("{}/alerts", serve(router).await);
        Listener { url, ..listener }
    }

    /// The configuration that names it.
    pub fn keys(&self) -> String {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let channel = format!("type = \"webhook\", url = \"{}\", secret = \"{secret}\"", self.url);
        format!("[alerts]\nchannels = [{{ {channel} }}]\n")
    }

    /// What it heard of one kind.
    pub fn of(&self, kind: &str) -> Vec<Heard> {
        let heard = self.heard.lock().expect("ok");
        heard.iter().filter(|h| h.kind == kind).cloned().collect()
    }
}
