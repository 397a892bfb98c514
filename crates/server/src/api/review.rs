//! Votes on completed work, and requests for a review.

use axum::extract::State;
use domain::JobId;
use http::HeaderMap;
use protocol::{JobView, ReviewRequest, VoteRequest};

use crate::app::App;
use crate::auth::Caller;
use crate::etag;
use crate::extract::{Id, JsonBody};
use crate::json_response::Json;
use crate::problem::Problem;

/// Votes on the completed work of a job in review, as the person that the token belongs to.
///
/// A vote names the commit that was reviewed; on another one it is rejected with `other_commit`. One vote counts per
/// person and commit: the same vote again changes nothing, and another decision replaces it. A new commit voids all
/// votes. The approval that completes the quorum moves the job to `testing`; `changes` sends it back to the same branch
/// and session with the comment; `reject` ends it. The author of a job and factories cannot vote.
#[utoipa::path(
    post, path = "/jobs/{id}/review", tag = "jobs", request_body = VoteRequest,
    params(
        ("id" = JobId, Path, description = "The job"),
        ("If-Match" = Option<String>, Header, description = "Only if the job is still at this `ETag`"),
    ),
    responses((status = 200, description = "The job after the vote", body = JobView)),
)]
pub(crate) async fn vote(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<VoteRequest>,
) -> Result<Json<JobView>, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    Ok(Json(app.coordinator.vote(&who, id, expected, &request).await?))
}

/// Requests a review of finished work, or a stricter one than the job's.
///
/// A job in `testing` goes back to `review`, and earlier votes are void. The review then stays required for later
/// commits of the job. It can only become stricter: a higher quorum, or fewer reviewers.
#[utoipa::path(
    post, path = "/jobs/{id}/review/request", tag = "jobs", request_body = ReviewRequest,
    params(
        ("id" = JobId, Path, description = "The job"),
        ("If-Match" = Option<String>, Header, description = "Only if the job is still at this `ETag`"),
    ),
    responses((status = 200, description = "The job after the change", body = JobView)),
)]
pub(crate) async fn request(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ReviewRequest>,
) -> Result<Json<JobView>, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    Ok(Json(app.coordinator.request_review(&who, id, expected, &request).await?))
}
