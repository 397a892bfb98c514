//! Dispatch modes and claims [D1].

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::{DispatchModes, ProductId, Versioned};
use http::{HeaderMap, StatusCode, header};
use protocol::{ClaimRequest, ClaimResponse, DivergenceReport};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::counts::CountQuery;
use crate::app::App;
use crate::auth::Caller;
use crate::etag;
use crate::extract::{DefaultProduct, JsonBody, QueryParams, parse_list};
use crate::json_response::Json;
use crate::problem::Problem;

/// Options of a claim.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimQuery {
    /// Report what would be granted and why not more, without a change.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

/// Claims jobs in the modes without offers. The same nonce always returns the same answer.
#[utoipa::path(
    post, path = "/claim", tag = "work", params(ClaimQuery), request_body = ClaimRequest,
    responses((status = 200, description = "The leases, with all inputs of the runs", body = ClaimResponse)),
)]
pub(crate) async fn claim(
    State(app): State<App>,
    Caller(who): Caller,
    QueryParams(asked): QueryParams<ClaimQuery>,
    JsonBody(request): JsonBody<ClaimRequest>,
) -> Result<Json<ClaimResponse>, Problem> {
    Ok(Json(match asked.dry_run {
        true => app.coordinator.claim_dry_run(&who, &request).await?,
        false => app.coordinator.claim(&who, &request).await?,
    }))
}

/// The current dispatch modes.
#[utoipa::path(
    get, path = "/flags", tag = "operations",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the client's copy")),
    responses(
        (status = 200, description = "The modes; the `ETag` is for changing them", body = DispatchModes, headers(("ETag" = String, description = "The revision of the modes"))),
        (status = 304, description = "Unchanged since `If-None-Match`", headers(("ETag" = String, description = "The revision of the modes"))),
    ),
)]
pub(crate) async fn flags(
    State(app): State<App>,
    Caller(who): Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let flags = app.coordinator.flags(&who)?;
    let tag = tag(&app, &flags);
    if etag::is_known(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    Ok(tagged(&app, flags))
}

/// Changes the dispatch modes of the fleet or of products. Open offers stay valid.
#[utoipa::path(
    put, path = "/flags", tag = "operations", request_body = DispatchModes,
    params(("If-Match" = Option<String>, Header, description = "The `ETag` of the modes to change")),
    responses(
        (status = 200, description = "The modes after the change", body = DispatchModes, headers(("ETag" = String, description = "The revision of the modes"))),
    ),
)]
pub(crate) async fn put_flags(
    State(app): State<App>,
    Caller(who): Caller,
    headers: HeaderMap,
    JsonBody(flags): JsonBody<DispatchModes>,
) -> Result<Response, Problem> {
    let expected = etag::expected(&headers, app.coordinator.generation())?;
    Ok(tagged(&app, app.coordinator.put_flags(&who, flags, expected).await?))
}

/// How push mode compares with polling in the last week [D1].
///
/// Compared are the claims of products in mode `shadow`, and of all products that factories poll for if the coordinator
/// was started with `AQ_FLEET_SHADOW=1`.
#[utoipa::path(
    get, path = "/divergence", tag = "operations",
    params(
        CountQuery,
        ("x-product-id" = Option<ProductId>, Header, description = "Only this product, if `product` names none"),
    ),
    responses((status = 200, description = "Counts by hour, the last divergences and a verdict", body = DivergenceReport)),
)]
pub(crate) async fn divergence(
    State(app): State<App>,
    Caller(who): Caller,
    DefaultProduct(product): DefaultProduct,
    QueryParams(asked): QueryParams<CountQuery>,
) -> Result<Json<DivergenceReport>, Problem> {
    let mut products = parse_list(asked.product.as_deref())?;
    if products.is_empty() {
        products.extend(product);
    }
    Ok(Json(app.coordinator.divergence(&who, products)?))
}

fn tagged(app: &App, flags: Versioned<DispatchModes>) -> Response {
    ([(header::ETAG, tag(app, &flags))], Json(flags.value)).into_response()
}

fn tag(app: &App, flags: &Versioned<DispatchModes>) -> String {
    etag::of_revision(app.coordinator.generation(), flags.revision)
}
