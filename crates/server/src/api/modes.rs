//! How work reaches factories [D1]: the modes, and asking for work.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::{Flags, Revision, Versioned};
use http::{HeaderMap, header};
use protocol::{Claim, Claimed};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::answer::Json;
use crate::app::App;
use crate::caller::Caller;
use crate::extract::{Asked, Sent};
use crate::problem::Problem;

/// How a claim is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimQuery {
    /// Say what would be granted and why not more, and change nothing.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

/// Asks for work, where it is not offered. The same nonce gives the same answer, however often it is asked for.
#[utoipa::path(
    post, path = "/claim", tag = "work", params(ClaimQuery), request_body = Claim,
    responses((status = 200, description = "The leases, and everything needed to work", body = Claimed)),
)]
pub(crate) async fn claim(
    State(app): State<App>,
    Caller(who): Caller,
    Asked(asked): Asked<ClaimQuery>,
    Sent(request): Sent<Claim>,
) -> Result<Json<Claimed>, Problem> {
    Ok(Json(match asked.dry_run {
        true => app.coordinator.claim_dry_run(&who, &request).await?,
        false => app.coordinator.claim(&who, &request).await?,
    }))
}

/// The modes in force.
#[utoipa::path(
    get, path = "/flags", tag = "operations",
    responses((status = 200, description = "The modes; the `ETag` is for changing them", body = Flags)),
)]
pub(crate) async fn flags(State(app): State<App>, Caller(who): Caller) -> Result<Response, Problem> {
    Ok(tagged(app.coordinator.flags(&who)?))
}

/// Switches the fleet or single products to other modes. Offers that are out stay out.
#[utoipa::path(
    put, path = "/flags", tag = "operations", request_body = Flags,
    params(("If-Match" = Option<String>, Header, description = "The `ETag` of the modes that are to be changed")),
    responses(
        (status = 200, description = "The modes afterwards", body = Flags),
        (status = 412, description = "They were changed since `If-Match` was read"),
    ),
)]
pub(crate) async fn put_flags(
    State(app): State<App>,
    Caller(who): Caller,
    headers: HeaderMap,
    Sent(flags): Sent<Flags>,
) -> Result<Response, Problem> {
    let expected = expected(&headers)?;
    Ok(tagged(app.coordinator.put_flags(&who, flags, expected).await?))
}

fn tagged(flags: Versioned<Flags>) -> Response {
    ([(header::ETAG, format!("\"{}\"", flags.revision))], Json(flags.value)).into_response()
}

/// The revision that the client has seen; `*` is any.
fn expected(headers: &HeaderMap) -> Result<Option<Revision>, Problem> {
    let Some(tag) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let tag = tag.to_str().unwrap_or_default().trim();
    if tag == "*" {
        return Ok(None);
    }
    let number = tag.trim_start_matches("W/").trim_matches('"').parse();
    number
        .map(|number| Some(Revision(number)))
        .map_err(|_| Problem::invalid(format!("`If-Match`: `{}` is no tag of ours", domain::printable(tag))))
}
