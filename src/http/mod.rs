//! The HTTP interface: `/v1` by its contract, the probes, the metrics and the API document.
//!
//! What must hold: handlers read, submit and show; whatever happens in one, its caller gets an
//! answer with a request id. Only this folder knows axum.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpSocket};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use crate::clock::Clock;
use crate::coordination::Coordination;
use crate::domain::policy::Policy;
use crate::engine::{Chances, Engine};
use crate::ids::Ids;
use crate::storage::Db;

pub mod api;
pub mod auth;
mod extract;
pub mod health;
mod idempotency;
pub mod metrics;
pub mod operations;
pub mod problem;
mod request;
mod view;

use auth::Keys;
use health::Probe;
pub use idempotency::Running;
use operations::Operations;
use problem::{Problem, ProblemBody};

/// What handlers share.
pub struct App {
    pub engine: Engine,
    /// For reads alone.
    pub db: Db,
    pub policy: Arc<Policy>,
    pub clock: Clock,
    pub ids: Ids,
    pub keys: Keys,
    pub operations: Arc<dyn Operations>,
    pub coordination: Coordination,
    /// The readiness of everything but the store.
    pub probe: Probe,
    pub metrics: PrometheusHandle,
    /// The idempotency keys in use; start with `Running::default()`.
    pub running: Running,
    /// Looks up whether placements of what is sold out have a chance.
    pub chances: Chances,
}

/// As handlers are given it.
type Shared = Arc<App>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "stockhold",
        description = "Holds stock for orders. Errors are RFC 9457 problem documents with a `code`; \
            lists are cursor-paged; an `Idempotency-Key` names a request so that it can be repeated."
    ),
    components(schemas(ProblemBody)),
    security(("key" = []))
)]
struct Document;

fn documented() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
        .merge(api::v1::routes())
}

fn finished(mut document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    document
        .components
        .get_or_insert_default()
        .add_security_scheme("key", SecurityScheme::Http(bearer));
    document
}

/// The OpenAPI 3.1 document as JSON, the same that `/openapi.json` serves.
///
/// # Errors
/// When it cannot be written.
pub fn openapi() -> Result<String, serde_json::Error> {
    finished(documented().into_openapi()).to_pretty_json()
}

/// Everything that is served.
pub fn router(app: App) -> Router {
    routed(Arc::new(app))
}

fn routed(app: Shared) -> Router {
    let (router, document) = documented().split_for_parts();
    let document = finished(document);
    let served = document.clone();
    router
        .route("/openapi.json", get(|| async move { axum::Json(served) }))
        .merge(SwaggerUi::new("/docs").config(utoipa_swagger_ui::Config::from("/openapi.json")))
        .fallback(|| async { Problem::not_found("path") })
        .method_not_allowed_fallback(|| async { Problem::no_such_method() })
        .layer(middleware::from_fn_with_state(Arc::clone(&app), request::observe))
        .with_state(app)
}

/// Connections that may wait to be accepted (and no more than the system allows). Who finds no room asks
/// again after a second: a sale opens with a thousand at once.
const BACKLOG: u32 = 4096;

/// Listens on an address.
///
/// # Errors
/// The system's.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(cfg!(unix))?; // as `TcpListener::bind` does
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `shutdown` resolves: then nothing new is accepted, and requests under way finish.
///
/// # Errors
/// The listener's.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(shutdown).await
}

#[cfg(test)]
mod tests;
