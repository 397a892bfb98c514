//! Profiles: personas with defaults, in versions [J2].

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::{ProductId, ProfileName, ProfileOwner, ProfileRef};
use http::{StatusCode, header};
use protocol::{API_PREFIX, CreateProfileRequest, CreateProfileResponse, ProfileDetail, ProfileList};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{DefaultProduct, JsonBody, Name, QueryParams};
use crate::json_response::Json;
use crate::problem::Problem;

/// The newest version of each profile that the caller's jobs can use.
#[utoipa::path(
    get, path = "/profiles", tag = "operations",
    responses((status = 200, description = "In order of name; a product's own before the fleet's", body = ProfileList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<ProfileList>, Problem> {
    Ok(Json(app.coordinator.profiles(&who)?))
}

/// Which profile of a name is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ProfileQuery {
    /// The version; the newest when absent.
    #[param(minimum = 1)]
    version: Option<u32>,
    /// Whose profile. When absent: the one that a job of the product in `x-product-id` or of the token's first product
    /// would use.
    product_id: Option<ProfileOwner>,
}

/// One version of a profile, with its text.
#[utoipa::path(
    get, path = "/profiles/{name}", tag = "operations",
    params(
        ("name" = ProfileName, Path, description = "The profile"),
        ProfileQuery,
        ("x-product-id" = Option<ProductId>, Header, description = "The product whose jobs would use it"),
    ),
    responses((status = 200, description = "The version", body = ProfileDetail)),
)]
pub(crate) async fn profile(
    State(app): State<App>,
    Caller(who): Caller,
    Name(name): Name<ProfileName>,
    DefaultProduct(product): DefaultProduct,
    QueryParams(asked): QueryParams<ProfileQuery>,
) -> Result<Json<ProfileDetail>, Problem> {
    let wanted = ProfileRef { name, version: asked.version };
    Ok(Json(app.coordinator.profile(&who, &wanted, asked.product_id.as_ref(), product.as_ref())?))
}

/// Creates the next version of a profile.
///
/// A text equal to that of the newest version returns that version, with status 200 instead of 201. Versions never change.
#[utoipa::path(
    post, path = "/profiles", tag = "operations", request_body = CreateProfileRequest,
    params(("x-product-id" = Option<ProductId>, Header, description = "The product, if the request names none")),
    responses(
        (status = 201, description = "The new version", body = CreateProfileResponse, headers(("Location" = String, description = "The profile's path"))),
        (status = 200, description = "The newest version has this text", body = CreateProfileResponse, headers(("Location" = String, description = "The profile's path"))),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(who): Caller,
    DefaultProduct(product): DefaultProduct,
    JsonBody(request): JsonBody<CreateProfileRequest>,
) -> Result<Response, Problem> {
    let made = app.coordinator.create_profile(&who, request, product).await?;
    let status = if made.created { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("{API_PREFIX}/profiles/{}", made.profile.profile.name);
    Ok((status, [(header::LOCATION, location)], Json(made)).into_response())
}
