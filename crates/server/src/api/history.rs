//! The history of a job, and why it is in its stage.

use axum::extract::State;
use domain::{EventCursor, JobId, Position};
use protocol::{Dag, EventList, JobExplanation, LeaseView, RunEvidence, RunList};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Id, QueryParams, RunNumber};
use crate::json_response::Json;
use crate::list_limit::ListCaller;
use crate::problem::Problem;

/// The default page size.
const PAGE: u16 = 200;

/// The page of runs to return.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunQuery {
    /// The `next` of the previous page.
    cursor: Option<u32>,
    /// The page size.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u16>,
}

/// A page of a job's runs.
#[utoipa::path(
    get, path = "/jobs/{id}/runs", tag = "jobs", params(("id" = JobId, Path, description = "The job"), RunQuery),
    responses((status = 200, description = "Oldest first; the last may still be running", body = RunList)),
)]
pub(crate) async fn runs(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    QueryParams(asked): QueryParams<RunQuery>,
) -> Result<Json<RunList>, Problem> {
    let (after, limit) = (asked.cursor.unwrap_or(0), asked.limit.unwrap_or(PAGE));
    Ok(Json(app.coordinator.runs(&who, id, after, limit).await?))
}

/// The evidence of one run: verify output, diff, commits, the engine's last messages.
#[utoipa::path(
    get, path = "/jobs/{id}/runs/{n}/evidence", tag = "jobs",
    params(("id" = JobId, Path, description = "The job"), ("n" = u32, Path, minimum = 1, description = "The run's number, from 1")),
    responses((status = 200, description = "What has been reported so far", body = RunEvidence)),
)]
pub(crate) async fn evidence(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    RunNumber(n): RunNumber,
) -> Result<Json<RunEvidence>, Problem> {
    Ok(Json(app.coordinator.evidence(&who, id, n).await?))
}

/// The page of events to return.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventQuery {
    /// The `next` of the previous page.
    #[param(value_type = Option<String>, pattern = r"^[0-9]{1,15}(\.[0-9]{1,15})?$", max_length = 31)]
    after: Option<EventCursor>,
    /// The page size.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u16>,
}

/// A page of a job's events, oldest first.
#[utoipa::path(
    get, path = "/jobs/{id}/events", tag = "jobs", params(("id" = JobId, Path, description = "The job"), EventQuery),
    responses((status = 200, description = "The page", body = EventList)),
)]
pub(crate) async fn events(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    QueryParams(asked): QueryParams<EventQuery>,
) -> Result<Json<EventList>, Problem> {
    let after = asked.after.map_or(Ok(Position(0)), |mark| app.coordinator.position(mark))?;
    let limit = asked.limit.unwrap_or(PAGE);
    Ok(Json(app.coordinator.events(&who, id, after, limit).await?))
}

/// Explains a job's placement: every factory, now and at the time of the dispatch.
#[utoipa::path(
    get, path = "/jobs/{id}/explain", tag = "jobs", params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The explanation, as text and data", body = JobExplanation)),
)]
pub(crate) async fn explain(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
) -> Result<Json<JobExplanation>, Problem> {
    Ok(Json(app.coordinator.explain(&who, id).await?))
}

/// A job with its dependencies and its dependents.
#[utoipa::path(
    get, path = "/jobs/{id}/dag", tag = "jobs", params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The graph, or the part closest to the job", body = Dag)),
)]
pub(crate) async fn dag(
    State(app): State<App>,
    ListCaller { who, .. }: ListCaller,
    Id(id): Id<JobId>,
) -> Result<Json<Dag>, Problem> {
    Ok(Json(app.coordinator.dag(&who, id).await?))
}

/// A job's lease.
#[utoipa::path(
    get, path = "/jobs/{id}/lease", tag = "work", params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The lease", body = LeaseView)),
)]
pub(crate) async fn lease(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
) -> Result<Json<LeaseView>, Problem> {
    Ok(Json(app.coordinator.lease(&who, id).await?))
}
