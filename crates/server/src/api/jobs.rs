//! Jobs: submit, list, show, act.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::{FactoryId, JobFilter, JobId, JobSearch, Priority, ProductId, RepoName};
use http::{HeaderMap, StatusCode, header};
use protocol::{
    API_PREFIX, ActionRequest, BatchOutcome, BatchRequest, BatchResponse, JobDetail, JobList, JobView, SubmitRequest,
    SubmitResponse,
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::etag;
use crate::extract::{ActionName, BATCH_LEN_MAX, DefaultProduct, Id, JsonBody, QueryParams, SubmitBody, parse_list};
use crate::json_response::Json;
use crate::list_limit::ListCaller;
use crate::problem::Problem;

/// The default page size.
const PAGE: u16 = 100;

/// The length of a search text; a title is not longer.
const TEXT_CHARS_MAX: usize = 200;

/// Options of a submit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct SubmitQuery {
    /// Only report what would happen.
    #[serde(default)]
    dry_run: bool,
    /// Unknown keys are errors.
    #[serde(default)]
    strict: bool,
}

/// Submits a job, idempotently.
///
/// The same idempotency key returns the same job, with status 200 instead of 201. The manifest can also be the body
/// itself, as `text/markdown`.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs",
    params(
        SubmitQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key returns the same job", min_length = 1, max_length = 190),
        ("x-product-id" = Option<ProductId>, Header, description = "The product, if the manifest names none"),
    ),
    request_body(content((SubmitRequest = "application/json"), (String = "text/markdown"))),
    responses(
        (status = 201, description = "Written down", body = SubmitResponse, headers(("Location" = String, description = "The job's path"))),
        (status = 200, description = "The job already existed, or this was a dry run", body = SubmitResponse, headers(("Location" = String, description = "The job's path"))),
    ),
)]
pub(crate) async fn submit(
    State(app): State<App>,
    Caller(who): Caller,
    QueryParams(asked): QueryParams<SubmitQuery>,
    SubmitBody(mut submit): SubmitBody,
) -> Result<Response, Problem> {
    submit.strict |= asked.strict;
    let submitted = if asked.dry_run {
        app.coordinator.submit_dry(&who, submit).await?
    } else {
        app.coordinator.submit(&who, submit).await?
    };
    let status = if submitted.created { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("{API_PREFIX}/jobs/{}", submitted.job.id);
    Ok((status, [(header::LOCATION, location)], Json(submitted)).into_response())
}

/// Submits many jobs, each with its own outcome.
#[utoipa::path(
    post, path = "/jobs/batch", tag = "jobs", request_body = BatchRequest,
    params(("x-product-id" = Option<ProductId>, Header, description = "The product, if a manifest names none")),
    responses((status = 200, description = "One outcome per job, in order", body = BatchResponse)),
)]
pub(crate) async fn batch(
    State(app): State<App>,
    Caller(who): Caller,
    DefaultProduct(product): DefaultProduct,
    JsonBody(batch): JsonBody<BatchRequest, BATCH_LEN_MAX>,
) -> Result<Json<BatchResponse>, Problem> {
    let with_product = |mut submit: SubmitRequest| {
        submit.product_id = submit.product_id.or_else(|| product.clone());
        submit
    };
    let jobs = batch.jobs.into_iter().map(with_product).collect();
    let outcomes = app.coordinator.submit_batch(&who, jobs).await?;
    Ok(Json(BatchResponse { outcomes: outcomes.into_iter().map(outcome).collect() }))
}

fn outcome(taken: Result<(JobView, bool), coordinator::Error>) -> BatchOutcome {
    match taken {
        Ok((job, created)) => BatchOutcome { id: Some(job.id), stage: Some(job.stage), created, problem: None },
        Err(error) => {
            let problem = Problem::from(error).into_body();
            BatchOutcome { id: None, stage: None, created: false, problem: Some(problem) }
        }
    }
}

/// Filters of a list of jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct JobQuery {
    /// Only these products, separated by commas.
    #[param(
        pattern = r"^(?!.*[^,]{65})[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?(,[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?)*$",
        min_length = 1,
        max_length = 16_000
    )]
    product: Option<String>,
    /// Only these stages, separated by commas.
    #[param(
        pattern = r"^(queued|blocked|assigned|building|review|testing|shipped|failed|dead_letter)(,(queued|blocked|assigned|building|review|testing|shipped|failed|dead_letter))*$",
        max_length = 1_000
    )]
    stage: Option<String>,
    /// Only this priority.
    priority: Option<Priority>,
    /// Only this repository.
    #[param(value_type = Option<RepoName>)]
    repo: Option<RepoName>,
    /// Only jobs that this factory holds or is offered, or whose last run was on it.
    #[param(value_type = Option<FactoryId>)]
    factory: Option<FactoryId>,
    /// Only jobs with all of these tags, separated by commas.
    #[param(
        pattern = r"^(?!.*[^,]{65})[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?(,[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?)*$",
        min_length = 1,
        max_length = 1_000
    )]
    tag: Option<String>,
    /// Only jobs with all of these words in the title, in any case, or with this beginning or end of the id.
    #[param(min_length = 1, max_length = 200)]
    text: Option<String>,
    /// Also count the jobs that match, up to a bound.
    #[serde(default)]
    #[param(required = false)]
    total: bool,
    /// The `next` of the previous page.
    #[param(max_length = 1_000)]
    cursor: Option<String>,
    /// The page size.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u16>,
}

/// A page of jobs, newest first.
///
/// Every filter has an index. A page examines 5,000 jobs at most: when filters have few jobs in common, it can be short,
/// even empty, and still have a `next`.
#[utoipa::path(
    get, path = "/jobs", tag = "jobs",
    params(
        JobQuery,
        ("x-product-id" = Option<ProductId>, Header, description = "Only this product, if `product` names none"),
    ),
    responses((status = 200, description = "The page", body = JobList)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ListCaller { who, .. }: ListCaller,
    DefaultProduct(product): DefaultProduct,
    QueryParams(asked): QueryParams<JobQuery>,
) -> Result<Json<JobList>, Problem> {
    let mut products = parse_list(asked.product.as_deref())?;
    if products.is_empty() {
        products.extend(product);
    }
    let stages = parse_list(asked.stage.as_deref())?;
    if asked.text.as_ref().is_some_and(|text| text.chars().count() > TEXT_CHARS_MAX) {
        return Err(Problem::invalid(format!("`text` is longer than {TEXT_CHARS_MAX} characters")));
    }
    let text = asked.text.filter(|text| !text.trim().is_empty());
    let tags = parse_list(asked.tag.as_deref())?;
    let search = JobSearch { factory: asked.factory, tags, text, ..JobSearch::default() };
    let filter = JobFilter { products, stages, priority: asked.priority, repo: asked.repo, search };
    let total = match asked.total {
        true => Some(app.coordinator.job_total(&who, filter.clone()).await?),
        false => None,
    };
    let page = app.coordinator.jobs(&who, filter, asked.cursor, asked.limit.unwrap_or(PAGE)).await?;
    Ok(Json(JobList { total, ..page }))
}

/// One job with its manifest.
#[utoipa::path(
    get, path = "/jobs/{id}", tag = "jobs",
    params(
        ("id" = JobId, Path, description = "The job"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the client's copy"),
    ),
    responses(
        (status = 200, description = "The job; its `ETag` is its revision", body = JobDetail, headers(("ETag" = String, description = "The job's revision"))),
        (status = 304, description = "Unchanged since `If-None-Match`", headers(("ETag" = String, description = "The job's revision"))),
    ),
)]
pub(crate) async fn job(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let job = app.coordinator.job(&who, id).await?;
    let tag = etag::of_revision(app.coordinator.generation(), job.job.rev);
    if etag::is_known(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    Ok(([(header::ETAG, tag)], Json(job)).into_response())
}

/// Applies an action to a job.
///
/// `ship`, `requeue`, `reject`, `cancel`, `retry-from-checkpoint`, `request-changes`, `priority` or `pin`.
#[utoipa::path(
    post, path = "/jobs/{id}/actions/{action}", tag = "jobs", request_body = ActionRequest,
    params(
        ("id" = JobId, Path, description = "The job"),
        ("action" = protocol::Action, Path, description = "The action"),
        ("If-Match" = Option<String>, Header, description = "Only if the job is still at this `ETag`"),
    ),
    responses((status = 200, description = "The job after the change", body = JobView)),
)]
pub(crate) async fn act(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    ActionName(action): ActionName,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ActionRequest>,
) -> Result<Json<JobView>, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    Ok(Json(app.coordinator.act_at(&who, id, expected, action, request).await?))
}
