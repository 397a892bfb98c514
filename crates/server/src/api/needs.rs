//! What needs a person, and the two answers that only a person can give: to a question, and to a failure.

use axum::extract::State;
use coordinator::NeedsFilter;
use domain::{JobId, ProductId};
use http::HeaderMap;
use protocol::{AnswerRequest, DismissRequest, JobView, NeedList};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::etag;
use crate::extract::{DefaultProduct, Id, JsonBody, QueryParams, parse_list};
use crate::json_response::Json;
use crate::list_limit::ListCaller;
use crate::problem::Problem;

/// The default page size.
const PAGE: u16 = 100;

/// The items to return.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NeedsQuery {
    /// Only jobs of these products, separated by commas.
    #[param(
        pattern = r"^(?!.*[^,]{65})[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?(,[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?)*$",
        min_length = 1,
        max_length = 16_000
    )]
    product: Option<String>,
    /// Only these kinds, separated by commas.
    #[param(
        pattern = r"^(question|review|merge_failed|unplaceable|dead_letter|failed|ready_to_ship|pull_request_abandoned|stale_factory|credential_exhausted|alert)(,(question|review|merge_failed|unplaceable|dead_letter|failed|ready_to_ship|pull_request_abandoned|stale_factory|credential_exhausted|alert))*$",
        max_length = 1_000
    )]
    kind: Option<String>,
    /// The `next` of the previous page.
    #[param(max_length = 1_000)]
    cursor: Option<String>,
    /// The page size.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u16>,
}

/// What needs the caller: questions, reviews, merges, failures, and alerts.
///
/// Blocked people and money come first, then the oldest. `actions` lists what the caller's role may do about an item.
#[utoipa::path(
    get, path = "/needs-me", tag = "operations",
    params(
        NeedsQuery,
        ("x-product-id" = Option<ProductId>, Header, description = "Only this product, if `product` names none"),
    ),
    responses((status = 200, description = "The page", body = NeedList)),
)]
pub(crate) async fn needs_me(
    State(app): State<App>,
    ListCaller { who, .. }: ListCaller,
    DefaultProduct(product): DefaultProduct,
    QueryParams(asked): QueryParams<NeedsQuery>,
) -> Result<Json<NeedList>, Problem> {
    let mut products = parse_list(asked.product.as_deref())?;
    if products.is_empty() {
        products.extend(product);
    }
    let filter = NeedsFilter { products, kinds: parse_list(asked.kind.as_deref())? };
    Ok(Json(app.coordinator.needs_me(&who, filter, asked.cursor, asked.limit.unwrap_or(PAGE)).await?))
}

/// Answers the question of a job's agent. The job is requeued with the answer.
#[utoipa::path(
    post, path = "/jobs/{id}/answer", tag = "jobs", request_body = AnswerRequest,
    params(
        ("id" = JobId, Path, description = "The job"),
        ("If-Match" = Option<String>, Header, description = "Only if the job is still at this `ETag`"),
    ),
    responses((status = 200, description = "The job after the change", body = JobView)),
)]
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<AnswerRequest>,
) -> Result<Json<JobView>, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    Ok(Json(app.coordinator.answer(&who, id, expected, &request.text).await?))
}

/// Dismisses a failed or dead-lettered job: it needs no operator any more. It keeps its stage and can still be requeued.
#[utoipa::path(
    post, path = "/jobs/{id}/dismiss", tag = "jobs", request_body = DismissRequest,
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
    JsonBody(request): JsonBody<DismissRequest>,
) -> Result<Json<JobView>, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    Ok(Json(app.coordinator.dismiss(&who, id, expected, request.message).await?))
}
