//! Counts of jobs, and the metrics of the last hour.

use axum::extract::State;
use domain::ProductId;
use protocol::{JobCounts, MetricsHistory};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{DefaultProduct, QueryParams, parse_list};
use crate::json_response::Json;
use crate::list_limit::ListCaller;
use crate::problem::Problem;

/// The jobs to count.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CountQuery {
    /// Only these products, separated by commas.
    #[param(
        pattern = r"^(?!.*[^,]{65})[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?(,[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?)*$",
        min_length = 1,
        max_length = 16_000
    )]
    pub(crate) product: Option<String>,
}

/// The number of jobs by stage, and why queued ones wait.
#[utoipa::path(
    get, path = "/jobs/counts", tag = "jobs",
    params(
        CountQuery,
        ("x-product-id" = Option<ProductId>, Header, description = "Only this product, if `product` names none"),
    ),
    responses((status = 200, description = "The counts", body = JobCounts)),
)]
pub(crate) async fn jobs(
    State(app): State<App>,
    ListCaller { who, .. }: ListCaller,
    DefaultProduct(product): DefaultProduct,
    QueryParams(asked): QueryParams<CountQuery>,
) -> Result<Json<JobCounts>, Problem> {
    let mut products = parse_list(asked.product.as_deref())?;
    if products.is_empty() {
        products.extend(product);
    }
    Ok(Json(app.coordinator.job_counts(&who, products).await?))
}

/// The metrics of the last hour, in steps of ten seconds. A step without any change has no point.
#[utoipa::path(
    get, path = "/metrics/history", tag = "operations",
    responses((status = 200, description = "Oldest first", body = MetricsHistory)),
)]
pub(crate) async fn metrics_history(
    State(app): State<App>,
    Caller(who): Caller,
) -> Result<Json<MetricsHistory>, Problem> {
    Ok(Json(app.coordinator.metrics_history(&who)?))
}
