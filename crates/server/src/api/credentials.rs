//! Credentials of engines with an exhausted quota [B1].

use axum::extract::State;
use protocol::{CredentialList, ResumeCredential};

use crate::app::App;
use crate::auth::Caller;
use crate::extract::JsonBody;
use crate::json_response::Json;
use crate::problem::Problem;

/// Credentials whose usage window is exhausted.
#[utoipa::path(
    get, path = "/credentials", tag = "factories",
    responses((status = 200, description = "In order of their ids", body = CredentialList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<CredentialList>, Problem> {
    Ok(Json(app.coordinator.credentials(&who)?))
}

/// Resumes a credential before its usage window resets.
#[utoipa::path(
    post, path = "/credentials/resume", tag = "factories", request_body = ResumeCredential,
    responses((status = 200, description = "The credentials that still wait", body = CredentialList)),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(request): JsonBody<ResumeCredential>,
) -> Result<Json<CredentialList>, Problem> {
    Ok(Json(app.coordinator.resume_credential(&who, &request).await?))
}
