//! Reports of holders. The holder is the token's factory, never a field of the body.

use axum::extract::State;
use domain::{Epoch, InstanceId, JobId};
use http::HeaderMap;
use protocol::{
    AcceptRequest, AcceptResponse, CompletionReport, CompletionResponse, DeclineRequest, ErrandReport, EvidenceReport,
    EvidenceResponse, FailureReport, FailureResponse, HeldJob, LeaseView, Patch, PullRequestReport,
    PullRequestReportResponse, QuestionReport, QuotaReport, QuotaResponse, ReleaseReport, StageResponse, StartReport,
    SubtaskList, SubtaskRequest, SubtaskResponse, SubtaskWaitReport,
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::auth::Caller;
use crate::etag;
use crate::extract::{Id, JsonBody, QueryParams, REPORT_LEN_MAX};
use crate::json_response::Json;
use crate::problem::Problem;

/// Accepts a dispatch. The same nonce always returns the same answer.
#[utoipa::path(
    post, path = "/accept", tag = "work", request_body = AcceptRequest,
    responses((status = 200, description = "The lease, with all inputs of the run", body = AcceptResponse)),
)]
pub(crate) async fn accept(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(request): JsonBody<AcceptRequest>,
) -> Result<Json<AcceptResponse>, Problem> {
    Ok(Json(app.coordinator.accept(&who, &request).await?))
}

/// Declines a dispatch. The coordinator offers the job to another factory; no attempt is counted.
#[utoipa::path(
    post, path = "/decline", tag = "work", request_body = DeclineRequest,
    responses((status = 200, description = "The job's stage after the report", body = StageResponse)),
)]
pub(crate) async fn decline(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(request): JsonBody<DeclineRequest>,
) -> Result<Json<StageResponse>, Problem> {
    Ok(Json(app.coordinator.decline(&who, &request).await?))
}

/// Reports that the engine started.
#[utoipa::path(
    post, path = "/jobs/{id}/start", tag = "work", request_body = StartReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The job's stage after the report", body = StageResponse)),
)]
pub(crate) async fn start(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<StartReport>,
) -> Result<Json<StageResponse>, Problem> {
    Ok(Json(app.coordinator.start(&who, id, &request).await?))
}

/// Records a checkpoint, or sets the stage `building`.
#[utoipa::path(
    patch, path = "/jobs/{id}", tag = "work", request_body = Patch,
    params(
        ("id" = JobId, Path, description = "The job"),
        ("If-Match" = Option<String>, Header, description = "Only if the job is still at this `ETag`"),
    ),
    responses((status = 200, description = "The job's stage after the report", body = StageResponse)),
)]
pub(crate) async fn patch(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<Patch>,
) -> Result<Json<StageResponse>, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    app.coordinator.expect_revision(&who, id, expected).await?;
    Ok(Json(app.coordinator.patch(&who, id, &request).await?))
}

/// Reports completed, verified and pushed work.
#[utoipa::path(
    post, path = "/jobs/{id}/complete", tag = "work", request_body = CompletionReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The job's stage, and the branch to update", body = CompletionResponse)),
)]
pub(crate) async fn complete(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<CompletionReport, REPORT_LEN_MAX>,
) -> Result<Json<CompletionResponse>, Problem> {
    Ok(Json(app.coordinator.complete(&who, id, &request).await?))
}

/// Reports the outcome of a promotion or a merge.
#[utoipa::path(
    post, path = "/jobs/{id}/promote", tag = "work", request_body = ErrandReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The job's stage after the report", body = StageResponse)),
)]
pub(crate) async fn promote(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<ErrandReport>,
) -> Result<Json<StageResponse>, Problem> {
    Ok(Json(app.coordinator.promote(&who, id, &request).await?))
}

/// Reports the state of a job's pull request. Accepted only from the factory that was asked to poll it.
#[utoipa::path(
    post, path = "/jobs/{id}/pull-request", tag = "work", request_body = PullRequestReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The job's stage, and the comment to post", body = PullRequestReportResponse)),
)]
pub(crate) async fn report_pull_request(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<PullRequestReport, REPORT_LEN_MAX>,
) -> Result<Json<PullRequestReportResponse>, Problem> {
    Ok(Json(app.coordinator.report_pull_request(&who, id, &request).await?))
}

/// A failed attempt of a job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailedAttempt {
    /// The job.
    job_id: JobId,
    /// The failure.
    #[serde(flatten)]
    failure: FailureReport,
}

/// Reports a failed attempt. The coordinator decides whether to retry.
#[utoipa::path(
    post, path = "/fail", tag = "work", request_body = FailedAttempt,
    responses((status = 200, description = "The job's stage after the report", body = FailureResponse)),
)]
pub(crate) async fn fail(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(request): JsonBody<FailedAttempt, REPORT_LEN_MAX>,
) -> Result<Json<FailureResponse>, Problem> {
    Ok(Json(app.coordinator.fail(&who, request.job_id, &request.failure).await?))
}

/// Reports an exhausted usage window. The job waits for another factory or for the reset.
#[utoipa::path(
    post, path = "/jobs/{id}/quota", tag = "work", request_body = QuotaReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The job's stage, and when the usage window resets", body = QuotaResponse)),
)]
pub(crate) async fn quota(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<QuotaReport>,
) -> Result<Json<QuotaResponse>, Problem> {
    Ok(Json(app.coordinator.quota(&who, id, &request).await?))
}

/// Pauses the job with a question. `requeue` with a message answers it.
#[utoipa::path(
    post, path = "/jobs/{id}/ask", tag = "work", request_body = QuestionReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The job's stage after the report", body = StageResponse)),
)]
pub(crate) async fn ask(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<QuestionReport>,
) -> Result<Json<StageResponse>, Problem> {
    Ok(Json(app.coordinator.ask(&who, id, &request).await?))
}

/// Creates a subtask for the agent of a run, within what is left of the job's budget. The same key returns the same
/// subtask.
#[utoipa::path(
    post, path = "/jobs/{id}/subtasks", tag = "work", request_body = SubtaskRequest,
    params(("id" = JobId, Path, description = "The job that the run is of")),
    responses((status = 200, description = "The subtask, and what is left", body = SubtaskResponse)),
)]
pub(crate) async fn create_subtask(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<SubtaskRequest>,
) -> Result<Json<SubtaskResponse>, Problem> {
    Ok(Json(app.coordinator.create_subtask(&who, id, &request).await?))
}

/// Which run asks.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SubtaskQuery {
    /// The epoch of the lease.
    lease_epoch: u64,
}

/// The subtasks of a running job, for its holder.
#[utoipa::path(
    get, path = "/jobs/{id}/subtasks", tag = "work",
    params(("id" = JobId, Path, description = "The job that the run is of"), SubtaskQuery),
    responses((status = 200, description = "The subtasks, and what is left for more", body = SubtaskList)),
)]
pub(crate) async fn subtasks(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    QueryParams(asked): QueryParams<SubtaskQuery>,
) -> Result<Json<SubtaskList>, Problem> {
    Ok(Json(app.coordinator.subtasks(&who, id, Epoch(asked.lease_epoch)).await?))
}

/// Ends a run whose agent waits for its subtasks. The job is queued again when all of them are verified or have ended.
#[utoipa::path(
    post, path = "/jobs/{id}/subtasks/wait", tag = "work", request_body = SubtaskWaitReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The job's stage after the report", body = StageResponse)),
)]
pub(crate) async fn await_subtasks(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<SubtaskWaitReport>,
) -> Result<Json<StageResponse>, Problem> {
    Ok(Json(app.coordinator.await_subtasks(&who, id, &request).await?))
}

/// Stores evidence of the current run: diff, commits, the engine's last messages.
#[utoipa::path(
    post, path = "/jobs/{id}/runs/evidence", tag = "work", request_body = EvidenceReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "Length of the log", body = EvidenceResponse)),
)]
pub(crate) async fn keep_evidence(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<EvidenceReport, REPORT_LEN_MAX>,
) -> Result<Json<EvidenceResponse>, Problem> {
    Ok(Json(app.coordinator.keep_evidence(&who, id, &request).await?))
}

/// Releases a job.
#[utoipa::path(
    post, path = "/jobs/{id}/lease/release", tag = "work", request_body = ReleaseReport,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The job's stage after the report", body = StageResponse)),
)]
pub(crate) async fn release(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<ReleaseReport>,
) -> Result<Json<StageResponse>, Problem> {
    Ok(Json(app.coordinator.release(&who, id, &request).await?))
}

/// One lease to renew.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenewLease {
    /// The epoch of the lease.
    lease_epoch: Epoch,
    /// The factory process that holds the lease.
    instance: InstanceId,
}

/// Renews one lease. A factory renews all of its leases in one call: see `POST /factories/{id}/renew`.
#[utoipa::path(
    post, path = "/jobs/{id}/lease/renew", tag = "work", request_body = RenewLease,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "The lease", body = LeaseView)),
)]
pub(crate) async fn renew(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<RenewLease>,
) -> Result<Json<LeaseView>, Problem> {
    let held = HeldJob { job_id: id, lease_epoch: request.lease_epoch };
    Ok(Json(app.coordinator.renew_lease(&who, held, request.instance).await?))
}
