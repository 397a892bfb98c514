//! Many worker operations in one request.

use axum::extract::State;
use coordinator::{Error, Principal};
use futures_util::stream::{self, StreamExt};
use http::StatusCode;
use protocol::{WorkOperation, WorkOutcome, WorkRequest, WorkResponse, WorkResult};

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{BATCH_LEN_MAX, JsonBody};
use crate::json_response::Json;
use crate::problem::Problem;

/// As many as a batch of submits: one request should not delay others for longer.
const OPERATIONS_MAX: usize = 1_000;

/// Concurrent operations: enough to share a flush of the store, few enough not to block other requests.
const SIDE_BY_SIDE: usize = 256;

/// Runs many operations concurrently. The results are in the order of the request.
#[utoipa::path(
    post, path = "/work", tag = "work", request_body = WorkRequest,
    responses((status = 200, description = "One result for each operation", body = WorkResponse)),
)]
pub(crate) async fn work(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(work): JsonBody<WorkRequest, BATCH_LEN_MAX>,
) -> Result<Json<WorkResponse>, Problem> {
    let count = work.operations.len();
    if count > OPERATIONS_MAX {
        return Err(Problem::invalid(format!("operations: {count} in one request, {OPERATIONS_MAX} at most")));
    }
    let (app, who) = (&app, &who);
    let results = stream::iter(work.operations).map(|operation| operate(app, who, operation)).buffered(SIDE_BY_SIDE);
    Ok(Json(WorkResponse { results: results.collect().await }))
}

async fn operate(app: &App, who: &Principal, operation: WorkOperation) -> WorkResult {
    match outcome(app, who, operation).await {
        Ok(outcome) => WorkResult { status: StatusCode::OK.as_u16(), outcome },
        Err(error) => {
            let problem = Problem::from(error).into_body();
            WorkResult { status: problem.status, outcome: WorkOutcome::Problem(Box::new(problem)) }
        }
    }
}

async fn outcome(app: &App, who: &Principal, operation: WorkOperation) -> Result<WorkOutcome, Error> {
    use WorkOperation as W;
    let coordinator = &app.coordinator;
    Ok(match operation {
        W::Accept { request } => WorkOutcome::Accepted(Box::new(coordinator.accept(who, &request).await?)),
        W::Decline { request } => WorkOutcome::Stage(coordinator.decline(who, &request).await?),
        W::Start { job_id, request } => WorkOutcome::Stage(coordinator.start(who, job_id, &request).await?),
        W::Patch { job_id, request } => WorkOutcome::Stage(coordinator.patch(who, job_id, &request).await?),
        W::Complete { job_id, request } => WorkOutcome::Completed(coordinator.complete(who, job_id, &request).await?),
        W::Promote { job_id, request } => WorkOutcome::Stage(coordinator.promote(who, job_id, &request).await?),
        W::Fail { job_id, request } => WorkOutcome::Failed(coordinator.fail(who, job_id, &request).await?),
        W::Quota { job_id, request } => WorkOutcome::Quota(coordinator.quota(who, job_id, &request).await?),
        W::Ask { job_id, request } => WorkOutcome::Stage(coordinator.ask(who, job_id, &request).await?),
        W::AwaitSubtasks { job_id, request } => {
            WorkOutcome::Stage(coordinator.await_subtasks(who, job_id, &request).await?)
        }
        W::Release { job_id, request } => WorkOutcome::Stage(coordinator.release(who, job_id, &request).await?),
    })
}
