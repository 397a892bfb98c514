//! Factories: enrolment, heartbeats, renewal, removal.

use axum::extract::State;
use domain::FactoryId;
use http::StatusCode;
use protocol::{
    DrainRequest, EnrolRequest, EnrolResponse, FactoryList, FactoryView, Heartbeat, HeartbeatResponse, PruneResponse,
    RenewRequest, RenewResponse, RotateTokenResponse,
};

use crate::app::App;
use crate::auth::{Caller, RequestOrigin};
use crate::extract::{Id, JsonBody, REPORT_LEN_MAX};
use crate::json_response::Json;
use crate::problem::Problem;

/// All factories.
#[utoipa::path(
    get, path = "/factories", tag = "factories",
    responses((status = 200, description = "In order of name", body = FactoryList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<FactoryList>, Problem> {
    Ok(Json(app.coordinator.factories(&who)?))
}

/// One factory.
#[utoipa::path(
    get, path = "/factories/{id}", tag = "factories", params(("id" = FactoryId, Path, description = "The factory")),
    responses((status = 200, description = "The factory", body = FactoryView)),
)]
pub(crate) async fn factory(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<FactoryId>,
) -> Result<Json<FactoryView>, Problem> {
    Ok(Json(app.coordinator.factory_view(&who, &id)?))
}

/// Removes a factory and its tokens. Its jobs are requeued.
#[utoipa::path(
    delete, path = "/factories/{id}", tag = "factories", params(("id" = FactoryId, Path, description = "The factory")),
    responses((status = 204, description = "Forgotten")),
)]
pub(crate) async fn deregister(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<FactoryId>,
) -> Result<StatusCode, Problem> {
    app.coordinator.deregister(&who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reports a factory's state. The token identifies the factory.
#[utoipa::path(
    post, path = "/factories/heartbeat", tag = "factories", request_body = Heartbeat,
    responses((status = 200, description = "How to continue", body = HeartbeatResponse)),
)]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(beat): JsonBody<Heartbeat>,
) -> Result<Json<HeartbeatResponse>, Problem> {
    Ok(Json(app.coordinator.heartbeat(&who, beat).await?))
}

/// Exchanges a one-time join token for a factory token. Needs no other token.
#[utoipa::path(
    post, path = "/factories/enroll", tag = "factories", request_body = EnrolRequest,
    responses((status = 201, description = "The token: shown once", body = EnrolResponse)),
)]
pub(crate) async fn enroll(
    State(app): State<App>,
    whence: RequestOrigin,
    JsonBody(request): JsonBody<EnrolRequest>,
) -> Result<(StatusCode, Json<EnrolResponse>), Problem> {
    let enrolled = app.coordinator.enroll(&request).await;
    Ok((StatusCode::CREATED, Json(whence.checked_token(&app, enrolled)?)))
}

/// Renews all leases of one factory process.
#[utoipa::path(
    post, path = "/factories/{id}/renew", tag = "work", request_body = RenewRequest,
    params(("id" = FactoryId, Path, description = "The factory")),
    responses((status = 200, description = "Leases that the factory lost, and directives", body = RenewResponse)),
)]
pub(crate) async fn renew(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<FactoryId>,
    JsonBody(request): JsonBody<RenewRequest, REPORT_LEN_MAX>,
) -> Result<Json<RenewResponse>, Problem> {
    Ok(Json(app.coordinator.renew(&who, &id, &request).await?))
}

/// Rotates a factory's token; the old one stays valid for a short time.
#[utoipa::path(
    post, path = "/factories/{id}/token/rotate", tag = "factories",
    params(("id" = FactoryId, Path, description = "The factory")),
    responses((status = 200, description = "The new token: shown once", body = RotateTokenResponse)),
)]
pub(crate) async fn rotate_token(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<FactoryId>,
) -> Result<Json<RotateTokenResponse>, Problem> {
    Ok(Json(app.coordinator.rotate_token(&who, &id).await?))
}

/// Revokes all tokens of a factory, and closes its streams.
#[utoipa::path(
    post, path = "/factories/{id}/token/revoke", tag = "factories",
    params(("id" = FactoryId, Path, description = "The factory")),
    responses((status = 204, description = "Revoked")),
)]
pub(crate) async fn revoke_token(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<FactoryId>,
) -> Result<StatusCode, Problem> {
    app.coordinator.revoke_factory(&who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Drains a factory, or resumes it.
#[utoipa::path(
    post, path = "/factories/{id}/drain", tag = "factories", request_body = DrainRequest,
    params(("id" = FactoryId, Path, description = "The factory")),
    responses((status = 200, description = "The factory after the change", body = FactoryView)),
)]
pub(crate) async fn drain(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<FactoryId>,
    JsonBody(request): JsonBody<DrainRequest>,
) -> Result<Json<FactoryView>, Problem> {
    app.coordinator.drain(&who, &id, &request).await?;
    Ok(Json(app.coordinator.factory_view(&who, &id)?))
}

/// Removes stale factories that hold no job.
#[utoipa::path(
    post, path = "/factories/prune", tag = "factories",
    responses((status = 200, description = "The factories that were removed", body = PruneResponse)),
)]
pub(crate) async fn prune(State(app): State<App>, Caller(who): Caller) -> Result<Json<PruneResponse>, Problem> {
    Ok(Json(app.coordinator.prune(&who).await?))
}
