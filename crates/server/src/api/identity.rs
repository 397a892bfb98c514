//! The proof that this coordinator issued a token, for clients that have not sent it yet.

use axum::extract::State;
use http::Uri;
use protocol::{IdentityChallenge, IdentityProof};

use crate::app::{App, Proxy};
use crate::auth::RequestOrigin;
use crate::extract::JsonBody;
use crate::json_response::Json;
use crate::problem::Problem;

/// Proves that this coordinator's store knows a token. Needs no token: the proof is useless without one.
#[utoipa::path(
    post, path = "/identity", tag = "operations", request_body = IdentityChallenge,
    responses((status = 200, description = "The proof", body = IdentityProof)),
)]
pub(crate) async fn prove(
    State(app): State<App>,
    whence: RequestOrigin,
    JsonBody(challenge): JsonBody<IdentityChallenge>,
) -> Result<Json<IdentityProof>, Problem> {
    // Behind a proxy clients dial the proxy's addresses.
    if app.proxy == Proxy::None && !whence.is_forwarded() {
        let dialled: Option<Uri> = challenge.address.parse().ok();
        let host = dialled.as_ref().and_then(Uri::host).unwrap_or_default();
        app.hosts.check_name(host, whence.local())?;
    }
    let proof = app.coordinator.prove_identity(&challenge);
    Ok(Json(whence.checked_token(&app, proof)?))
}
