//! Operations: metrics, alerts, the queue, dead letters.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::JobId;
use http::{HeaderMap, StatusCode, header};
use protocol::{Action, ActionRequest, AlertList, DeadLetterList, JobView, Metrics, QueueState};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::etag;
use crate::extract::{Id, JsonBody, QueryParams, parse_list};
use crate::json_response::Json;
use crate::list_limit::ListCaller;
use crate::problem::Problem;

/// The default page size.
const PAGE: u16 = 100;

/// The metrics of the fleet.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "The figures", body = Metrics)),
)]
pub(crate) async fn metrics(State(app): State<App>, Caller(who): Caller) -> Result<Json<Metrics>, Problem> {
    Ok(Json(app.metrics(&who).await?))
}

/// The products to include.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct QueueQuery {
    /// Separated by commas; all products of the token when absent.
    #[param(
        pattern = r"^(?!.*[^,]{65})[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?(,[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?)*$",
        min_length = 1,
        max_length = 16_000
    )]
    products: Option<String>,
}

/// The queue version and depth, by product.
#[utoipa::path(
    get, path = "/queue-state", tag = "operations",
    params(
        QueueQuery,
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the client's copy"),
    ),
    responses(
        (status = 200, description = "By product", body = Vec<QueueState>, headers(("ETag" = String, description = "The version of this answer"))),
        (status = 304, description = "Nothing has changed since `If-None-Match`", headers(("ETag" = String, description = "The version of this answer"))),
    ),
)]
pub(crate) async fn queue_state(
    State(app): State<App>,
    Caller(who): Caller,
    QueryParams(asked): QueryParams<QueueQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let state = app.coordinator.queue_state(&who, parse_list(asked.products.as_deref())?)?;
    let tag = weak_tag(app.coordinator.incarnation(), &state);
    if etag::is_known(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    Ok(([(header::ETAG, tag)], Json(state)).into_response())
}

/// The tag of a queue state, for one start of the coordinator: another start may reach the same numbers in another way.
fn weak_tag(incarnation: u64, state: &[QueueState]) -> String {
    let mut hash = DefaultHasher::new();
    incarnation.hash(&mut hash);
    for product in state {
        (product.product_id.as_str(), product.version, product.pending_count).hash(&mut hash);
    }
    format!("W/\"{:016x}\"", hash.finish())
}

/// Alerts for operators.
#[utoipa::path(
    get, path = "/alerts", tag = "operations",
    responses((status = 200, description = "By kind, then oldest first", body = AlertList)),
)]
pub(crate) async fn alerts(
    State(app): State<App>,
    ListCaller { who, .. }: ListCaller,
) -> Result<Json<AlertList>, Problem> {
    Ok(Json(app.coordinator.alerts(&who).await?))
}

/// The page of a list to return.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// The `next` of the previous page.
    #[param(max_length = 1_000)]
    cursor: Option<String>,
    /// The page size.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u16>,
}

/// Lists dead-lettered jobs.
#[utoipa::path(
    get, path = "/dead-letters", tag = "operations", params(PageQuery),
    responses((status = 200, description = "Newest first", body = DeadLetterList)),
)]
pub(crate) async fn dead_letters(
    State(app): State<App>,
    ListCaller { who, .. }: ListCaller,
    QueryParams(asked): QueryParams<PageQuery>,
) -> Result<Json<DeadLetterList>, Problem> {
    Ok(Json(app.coordinator.dead_letters(&who, asked.cursor, asked.limit.unwrap_or(PAGE)).await?))
}

/// Removes a dead-lettered job from the list and the alert. It stays dead-lettered and can still be requeued.
#[utoipa::path(
    post, path = "/dead-letters/{id}/dismiss", tag = "operations", request_body = ActionRequest,
    params(
        ("id" = JobId, Path, description = "The job"),
        ("If-Match" = Option<String>, Header, description = "Only if the job is still at this `ETag`"),
    ),
    responses((status = 200, description = "The job after the change", body = JobView)),
)]
pub(crate) async fn dismiss(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ActionRequest>,
) -> Result<Json<JobView>, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    Ok(Json(app.coordinator.dismiss(&who, id, expected, request.message).await?))
}

/// Requeues a dead-lettered job.
#[utoipa::path(
    post, path = "/dead-letters/{id}/redrive", tag = "operations", request_body = ActionRequest,
    params(
        ("id" = JobId, Path, description = "The job"),
        ("If-Match" = Option<String>, Header, description = "Only if the job is still at this `ETag`"),
    ),
    responses((status = 200, description = "The job after the change", body = JobView)),
)]
pub(crate) async fn redrive(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ActionRequest>,
) -> Result<Json<JobView>, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    Ok(Json(app.coordinator.act_at(&who, id, expected, Action::Requeue, request).await?))
}
