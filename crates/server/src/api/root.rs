//! Routes without a token: health, descriptions, and a page for browsers.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use protocol::{CoordinatorRole, Health, PROTOCOL_VERSION};

use crate::app::App;
use crate::auth::MetricsReader;
use crate::build;
use crate::exposition;
use crate::json_response::Json;
use crate::problem::Problem;
use crate::web;

/// A store that takes longer to read one document is not ready.
const READY_WITHIN: Duration = Duration::from_secs(3);

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "root", responses((status = 200, description = "It is", body = Health)))]
pub(crate) async fn healthz(State(app): State<App>) -> Json<Health> {
    Json(health(&app))
}

/// Whether the store answers, is intact and accepts writes.
#[utoipa::path(
    get, path = "/readyz", tag = "root", responses((status = 200, description = "It does", body = Health), (status = 503, description = "Not ready: the problem has the reason")),
)]
pub(crate) async fn readyz(State(app): State<App>) -> Result<Json<Health>, Problem> {
    if let Some(reason) = app.coordinator.not_ready() {
        return Err(reason.into());
    }
    app.coordinator.lead()?;
    match tokio::time::timeout(READY_WITHIN, app.coordinator.ping_store()).await {
        Ok(Ok(_)) => Ok(Json(health(&app))),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Problem::timed_out()),
    }
}

fn health(app: &App) -> Health {
    let (version, generation) = (build::VERSION.to_owned(), app.coordinator.generation());
    let role = app.leader.as_ref().map(|_| CoordinatorRole::Leader);
    let term = app.leader.as_ref().map(|leader| leader.term);
    Health { status: "ok".to_owned(), version, protocol: PROTOCOL_VERSION, generation, role, term }
}

/// Metrics in the Prometheus text format. Needs a token unless the server is reachable only from this machine.
#[utoipa::path(
    get, path = "/metrics", tag = "root",
    responses((status = 200, description = "In the text format", body = String, content_type = "text/plain")),
)]
pub(crate) async fn metrics(State(app): State<App>, MetricsReader(who): MetricsReader) -> Result<Response, Problem> {
    let metrics = app.metrics(&who).await?;
    let lags = app.coordinator.factory_lags(&who)?;
    let text = exposition::render(&metrics, &app.coordinator.metrics_snapshot(), &lags, app.streams.count());
    Ok(([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response())
}

/// The OpenAPI description.
#[utoipa::path(
    get, path = "/openapi.json", tag = "root",
    responses((status = 200, description = "OpenAPI", body = serde_json::Value)),
)]
pub(crate) async fn openapi(State(app): State<App>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], app.openapi.clone()).into_response()
}

/// The JSON Schema of a manifest's front matter.
#[utoipa::path(
    get, path = "/schema/job.json", tag = "jobs",
    responses((status = 200, description = "JSON Schema", body = serde_json::Value, content_type = "application/schema+json")),
)]
pub(crate) async fn job_schema() -> Response {
    let schema = domain::manifest_schema().to_string();
    ([(header::CONTENT_TYPE, "application/schema+json")], schema).into_response()
}

/// The web UI; for programs that ask for `application/json`, where the API is.
#[utoipa::path(
    get, path = "/", tag = "root",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(crate) async fn index(State(app): State<App>, headers: HeaderMap) -> Response {
    web::index(&app, &headers).await
}
