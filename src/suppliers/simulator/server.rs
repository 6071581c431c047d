//! The simulator as a program: its HTTP server, and the handle by which tests hold it.
//!
//! What must hold: a call's effect does not depend on whether its caller still waits; stopping ends
//! calls that would hang. The gateway is behind one lock, held for no longer than a decision.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::connection::{Listener, Peer};
use super::gateway::{Act, Gateway, Plan, Reply};
use super::settings::{self, Settings};
use super::{control, transport};
use crate::clock::{Clock, Timestamp};

/// Why the simulator does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the server ended: {0}")]
    Serve(#[source] std::io::Error),
}

/// What handlers share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    gateway: Arc<Mutex<Gateway>>,
    clock: Clock,
    stop: CancellationToken,
}

impl Shared {
    /// Does one thing to the gateway, at the clock's time.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Gateway, Timestamp) -> T) -> T {
        let mut gateway: MutexGuard<'_, Gateway> =
            self.gateway.lock().unwrap_or_else(PoisonError::into_inner);
        // The time is read under the lock, so that it never goes back between two calls.
        let now = self.clock.now();
        let now = gateway.shop.settle(now);
        act(&mut gateway, now)
    }
}

/// The simulator.
#[derive(Debug)]
pub struct Simulator;

/// A running simulator. Clones hold the same one; it stops when the last is dropped.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Shared,
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    server: Mutex<Option<JoinHandle<Result<(), Error>>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Simulator {
    /// Starts one on `settings.listen`, which may be port 0.
    ///
    /// # Errors
    /// When the settings cannot be simulated or the address cannot be had.
    pub async fn start(settings: Settings, clock: Clock) -> Result<Handle, Error> {
        settings.validate()?;
        let wanted = settings.listen;
        let failed = |source| Error::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stop = CancellationToken::new();
        let gateway = Gateway::new(settings, clock.now());
        let shared = Shared { gateway: Arc::new(Mutex::new(gateway)), clock, stop: stop.clone() };
        let router = router(shared.clone());
        let ended = stop.clone().cancelled_owned();
        let server = tokio::spawn(async move {
            let service = router.into_make_service_with_connect_info::<Peer>();
            let serving = axum::serve(Listener(listener), service).with_graceful_shutdown(ended);
            serving.await.map_err(Error::Serve)
        });
        let server = Mutex::new(Some(server));
        Ok(Handle { shared, running: Arc::new(Running { address, stop, server }) })
    }
}

impl Handle {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// What a client calls the gateway: `http://127.0.0.1:PORT/openapi`.
    pub fn gateway_url(&self) -> String {
        format!("http://{}/openapi", self.running.address)
    }

    /// Stops it and waits until its calls have ended.
    ///
    /// # Errors
    /// When the server had ended with an error.
    pub async fn stop(&self) -> Result<(), Error> {
        self.running.stop.cancel();
        let server = {
            let mut slot = self.running.server.lock().unwrap_or_else(PoisonError::into_inner);
            slot.take()
        };
        match server {
            Some(server) => server.await.unwrap_or(Ok(())),
            None => Ok(()),
        }
    }
}

/// Runs a simulator on `listen` until `shutdown`.
///
/// # Errors
/// As [`Simulator::start`], and when the server ends with an error.
pub async fn run(
    settings: Settings,
    listen: SocketAddr,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let handle = Simulator::start(Settings { listen, ..settings }, clock).await?;
    announce(&handle);
    shutdown.await;
    handle.stop().await
}

/// `stockhold simulate-supplier`: reads the settings (the example's without a file), listens on
/// `listen` or the settings' address, and runs until SIGINT or SIGTERM.
///
/// # Errors
/// As [`run`], and when the settings cannot be read.
pub async fn serve_cli(path: Option<PathBuf>, listen: Option<SocketAddr>) -> Result<(), Error> {
    let settings = path.as_deref().map_or_else(|| Ok(Settings::default()), Settings::load)?;
    let listen = listen.unwrap_or(settings.listen);
    run(settings, listen, Clock::System, signalled()).await
}

async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminated) => {
            tokio::select! { _ = interrupted => {}, _ = terminated.recv() => {} }
        }
        Err(_) => {
            let _ = interrupted.await;
        }
    }
}

fn announce(handle: &Handle) {
    let (gateway, app) =
        (handle.gateway_url(), handle.shared.with(|g, _| g.settings().gateway.app_key.clone()));
    tracing::info!(simulator.gateway = gateway, simulator.app_key = app, "simulator listens");
    println!("1688 simulator: gateway = \"{gateway}\", app_key = \"{app}\"");
    println!("by hand: curl http://{}/sim/book", handle.address());
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/openapi/{*call}", get(call).post(call))
        .nest("/sim", control::router(shared.clone()))
        .with_state(shared)
}

async fn call(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    let plan = match transport::read(request).await {
        Ok(call) => shared.with(|gateway, now| gateway.answer(&call, now)),
        Err(why) => {
            let code = "gw.APIUnsupported";
            let body = json!({ "error_code": code, "error_message": why, "exception": why });
            return respond(Reply::json(400, &body));
        }
    };
    carry_out(plan, &shared, &peer).await
}

async fn carry_out(plan: Plan, shared: &Shared, peer: &Peer) -> Response {
    wait(plan.delay.to_std(), shared).await;
    match plan.act {
        Act::Answer(reply) => respond(reply),
        Act::Hang(long) => {
            wait(long.to_std(), shared).await;
            peer.cut();
            ().into_response()
        }
        Act::Cut => {
            peer.cut();
            ().into_response()
        }
        Act::Torn(reply) => torn(&reply, peer.clone()),
    }
}

async fn wait(long: Duration, shared: &Shared) {
    if !long.is_zero() {
        tokio::select! { () = tokio::time::sleep(long) => {}, () = shared.stop.cancelled() => {} }
    }
}

fn respond(reply: Reply) -> Response {
    let status = axum::http::StatusCode::from_u16(reply.status)
        .unwrap_or(axum::http::StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, reply.content_type)], reply.body).into_response()
}

/// Promises the whole body, sends half, and cuts when that is out.
fn torn(reply: &Reply, peer: Peer) -> Response {
    let whole = Bytes::from(reply.body.clone());
    let length = whole.len();
    let half = whole.slice(..length / 2);
    let cut = stream::once(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        peer.cut();
        Ok::<Bytes, Infallible>(Bytes::new())
    });
    let body = stream::once(async move { Ok(half) }).chain(cut).chain(stream::pending());
    let headers = [
        (header::CONTENT_TYPE, reply.content_type.to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
    ];
    (headers, Body::from_stream(body)).into_response()
}
