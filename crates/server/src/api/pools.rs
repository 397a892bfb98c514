//! Pools of factories that are started on demand [F9].

use axum::extract::State;
use domain::PoolName;
use http::StatusCode;
use protocol::{PoolList, PoolSettings, PoolView, ScaleResponse};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Id, JsonBody, QueryParams};
use crate::json_response::Json;
use crate::problem::Problem;

/// The pools that the caller may see, with what they need at the moment.
#[utoipa::path(
    get, path = "/pools", tag = "factories",
    responses((status = 200, description = "In order of name", body = PoolList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<PoolList>, Problem> {
    Ok(Json(app.coordinator.pools(&who)?))
}

/// One pool.
#[utoipa::path(
    get, path = "/pools/{id}", tag = "factories", params(("id" = PoolName, Path, description = "The pool")),
    responses((status = 200, description = "The pool", body = PoolView)),
)]
pub(crate) async fn pool(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<PoolName>,
) -> Result<Json<PoolView>, Problem> {
    Ok(Json(app.coordinator.pool(&who, &id)?))
}

/// Declares a pool, or replaces its declaration.
#[utoipa::path(
    put, path = "/pools/{id}", tag = "factories", request_body = PoolSettings,
    params(("id" = PoolName, Path, description = "The pool")),
    responses((status = 200, description = "The pool after the change", body = PoolView)),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<PoolName>,
    JsonBody(settings): JsonBody<PoolSettings>,
) -> Result<Json<PoolView>, Problem> {
    Ok(Json(app.coordinator.put_pool(&who, &id, settings).await?))
}

/// Removes a pool. Its factories finish their jobs and leave.
#[utoipa::path(
    delete, path = "/pools/{id}", tag = "factories", params(("id" = PoolName, Path, description = "The pool")),
    responses((status = 204, description = "Removed")),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<PoolName>,
) -> Result<StatusCode, Problem> {
    app.coordinator.delete_pool(&who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The pool to include.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ScaleQuery {
    /// Only this pool; all of them when absent.
    pool: Option<PoolName>,
}

/// How many factories each pool should have: for programs that start machines.
#[utoipa::path(
    get, path = "/scale", tag = "factories", params(ScaleQuery),
    responses((status = 200, description = "By pool, in order of name", body = ScaleResponse)),
)]
pub(crate) async fn scale(
    State(app): State<App>,
    Caller(who): Caller,
    QueryParams(asked): QueryParams<ScaleQuery>,
) -> Result<Json<ScaleResponse>, Problem> {
    Ok(Json(app.coordinator.scale(&who, asked.pool.as_ref())?))
}
