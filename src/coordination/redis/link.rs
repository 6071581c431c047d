//! The way to Redis: one connection, shared by all calls, and the judgement whether to use it.
//!
//! What must hold: a call takes at most the patience given, and none at all while Redis is known to be
//! away: the first failure closes the way for everybody, and only the watch opens it again, over a new
//! connection on which a write has been answered in time. (A connection whose other end has vanished
//! looks alive for many minutes: waiting for it to be repaired is what a connection manager would do.)

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, IntoConnectionInfo, RedisError,
    ScriptInvocation,
};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A new connection must stand, greetings included, within this.
const CONNECT: Duration = Duration::from_millis(500);
/// How often it is looked whether Redis is back.
const RETRY: Duration = Duration::from_millis(500);
/// How often it is looked whether Redis is still there when nobody asks it anything.
const LOOK: Duration = Duration::from_secs(1);
/// Written to see whether writes are taken; and how long it stays, in milliseconds.
const PROBE: (&str, u64) = ("stockhold:probe", 10_000);

/// A connection in use, or `None` while Redis is away; numbered, so that a late failure of an old one
/// is not held against a new one.
struct State {
    connection: Option<MultiplexedConnection>,
    number: u64,
    /// Redis's clock when it last told it, and when that reached us.
    time: Option<(Duration, Instant)>,
    /// Why it is away.
    why: String,
}

pub(super) struct Link {
    client: Client,
    config: AsyncConnectionConfig,
    patience: Duration,
    state: Mutex<State>,
    /// Told when the way was closed.
    closed: Notify,
}

impl Link {
    /// # Errors
    /// When the address cannot be understood.
    pub fn new(url: &str, patience: Duration) -> Result<Link, String> {
        // For rediss://, whose connections use the process's provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The error could repeat the address, and with it a password.
        let address = url.into_connection_info();
        let address =
            address.map_err(|_| "the address of Redis cannot be understood".to_owned())?;
        let address = address.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(address).map_err(|e| format!("Redis: {e}"))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(patience));
        metrics::gauge!("stockhold_coordination_degraded").set(1.0);
        Ok(Link {
            client,
            config,
            patience,
            state: Mutex::new(State {
                connection: None,
                number: 0,
                time: None,
                why: "it has not answered yet".to_owned(),
            }),
            closed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_up(&self) -> bool {
        self.state().connection.is_some()
    }

    /// Why Redis is not used; `None` while it is.
    pub fn trouble(&self) -> Option<String> {
        let state = self.state();
        state.connection.is_none().then(|| state.why.clone())
    }

    /// Runs a script; `None` when Redis does not answer in time.
    pub async fn invoke<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Option<T> {
        let (mut connection, number) = self.connection()?;
        let answer = timeout(self.patience, call.invoke_async(&mut connection)).await;
        self.judge(number, answer)
    }

    /// Runs a command; `None` when Redis does not answer in time.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let (mut connection, number) = self.connection()?;
        let answer = timeout(self.patience, command.query_async(&mut connection)).await;
        self.judge(number, answer)
    }

    fn connection(&self) -> Option<(MultiplexedConnection, u64)> {
        let state = self.state();
        Some((state.connection.clone()?, state.number))
    }

    fn judge<T>(
        &self,
        number: u64,
        answer: Result<Result<T, RedisError>, tokio::time::error::Elapsed>,
    ) -> Option<T> {
        let why = match answer {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} ms", self.patience.as_millis()),
        };
        metrics::counter!("stockhold_redis_failures_total").increment(1);
        let mut state = self.state();
        if state.number == number && state.connection.take().is_some() {
            state.why.clone_from(&why);
            drop(state);
            metrics::gauge!("stockhold_coordination_degraded").set(1.0);
            tracing::warn!(error = why, "Redis does not answer; going on without");
            self.closed.notify_one();
        }
        None
    }

    /// Looks whether Redis takes writes: over the connection in use, or over a new one.
    pub async fn look(&self) {
        if let Some((mut connection, number)) = self.connection() {
            let answer = timeout(self.patience, probe(&mut connection)).await;
            if let Some(time) = self.judge(number, answer) {
                self.state().time = Some((time, Instant::now()));
            }
            return;
        }
        match self.open().await {
            Ok((connection, time)) => {
                let mut state = self.state();
                state.connection = Some(connection);
                state.number = state.number.saturating_add(1);
                state.time = Some((time, Instant::now()));
                drop(state);
                metrics::gauge!("stockhold_coordination_degraded").set(0.0);
                tracing::info!("Redis answers");
            }
            Err(why) => {
                let before = std::mem::replace(&mut self.state().why, why.clone());
                if before != why {
                    tracing::warn!(error = why, "Redis cannot be used; going on without");
                }
            }
        }
    }

    /// A new connection on which a write was answered in time, and Redis's time.
    async fn open(&self) -> Result<(MultiplexedConnection, Duration), String> {
        let opened = self.client.get_multiplexed_async_connection_with_config(&self.config);
        let opened = timeout(CONNECT, opened).await.map_err(|_| "no connection in time")?;
        let mut connection = opened.map_err(|e| e.to_string())?;
        let answer = timeout(self.patience, probe(&mut connection)).await;
        let time = answer.map_err(|_| "no answer in time")?.map_err(|e| e.to_string())?;
        Ok((connection, time))
    }

    /// What Redis's clock showed at `instant`, since its epoch, or some milliseconds before that;
    /// never more.
    pub fn time_at(&self, instant: Instant) -> Option<Duration> {
        let (time, received) = self.state().time?;
        match instant.checked_duration_since(received) {
            Some(later) => time.checked_add(later),
            None => time.checked_sub(received.saturating_duration_since(instant)),
        }
    }

    /// Looks again and again, until `stopping`.
    pub async fn watch(&self, stopping: &CancellationToken) {
        loop {
            self.look().await;
            let pause = if self.is_up() { LOOK } else { RETRY };
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                // Closed just now: it is left alone for a moment before it is looked for.
                () = self.closed.notified() => tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(RETRY) => {}
                },
            }
        }
    }
}

/// Writes, and asks for the time.
async fn probe(connection: &mut MultiplexedConnection) -> Result<Duration, RedisError> {
    let (key, life) = PROBE;
    let mut both = redis::pipe();
    both.cmd("SET").arg(key).arg(1).arg("PX").arg(life).ignore().cmd("TIME");
    let ((secs, micros),): ((u64, u32),) = both.query_async(connection).await?;
    Ok(Duration::new(secs, micros.saturating_mul(1_000)))
}
