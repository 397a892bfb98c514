//! Products: the tenants [T1].

use axum::extract::State;
use domain::{Product, ProductId};
use protocol::{ProductList, ProductSettings};

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Id, JsonBody};
use crate::json_response::Json;
use crate::problem::Problem;

/// The products that the caller may see.
#[utoipa::path(
    get, path = "/products", tag = "operations",
    responses((status = 200, description = "In order of name", body = ProductList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<ProductList>, Problem> {
    Ok(Json(app.coordinator.products(&who)?))
}

/// One product.
#[utoipa::path(
    get, path = "/products/{id}", tag = "operations", params(("id" = ProductId, Path, description = "The product")),
    responses((status = 200, description = "The product", body = Product)),
)]
pub(crate) async fn product(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ProductId>,
) -> Result<Json<Product>, Problem> {
    Ok(Json(app.coordinator.product(&who, &id).map_err(Problem::of_product)?))
}

/// Creates a product, or changes the given fields.
#[utoipa::path(
    put, path = "/products/{id}", tag = "operations", request_body = ProductSettings,
    params(("id" = ProductId, Path, description = "The product")),
    responses((status = 200, description = "The product after the change", body = Product)),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ProductId>,
    JsonBody(settings): JsonBody<ProductSettings>,
) -> Result<Json<Product>, Problem> {
    Ok(Json(app.coordinator.put_product(&who, &id, settings).await?))
}
