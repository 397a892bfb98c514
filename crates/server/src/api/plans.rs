//! Plans: one Markdown file becomes a tree of jobs.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::ProductId;
use http::{StatusCode, header};
use protocol::{API_PREFIX, PlanRequest, PlanResponse};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{DefaultProduct, JsonBody, QueryParams};
use crate::json_response::Json;
use crate::problem::Problem;

/// Options of a plan.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct PlanQuery {
    /// Only report what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// Submits a plan: one Markdown file becomes a tree of jobs.
///
/// The tree is accepted as a whole or not at all; `findings` of the problem name the headings of rejected jobs. The same
/// text is submitted once. A dry run reports the tree, and where each job would run.
#[utoipa::path(
    post, path = "/plans", tag = "jobs", request_body = PlanRequest,
    params(
        PlanQuery,
        ("x-product-id" = Option<ProductId>, Header, description = "The product, if the plan names none"),
    ),
    responses(
        (status = 201, description = "Written down", body = PlanResponse, headers(("Location" = String, description = "The path of the root"))),
        (status = 200, description = "The plan was already submitted, or this was a dry run", body = PlanResponse),
    ),
)]
pub(crate) async fn submit(
    State(app): State<App>,
    Caller(who): Caller,
    DefaultProduct(product): DefaultProduct,
    QueryParams(asked): QueryParams<PlanQuery>,
    JsonBody(mut plan): JsonBody<PlanRequest>,
) -> Result<Response, Problem> {
    plan.product_id = plan.product_id.or(product);
    let answer = match asked.dry_run {
        true => app.coordinator.submit_plan_dry(&who, &plan).await?,
        false => app.coordinator.submit_plan(&who, &plan).await?,
    };
    let status = if answer.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(match answer.jobs.first().and_then(|root| root.id) {
        Some(root) => (status, [(header::LOCATION, format!("{API_PREFIX}/jobs/{root}"))], Json(answer)).into_response(),
        None => (status, Json(answer)).into_response(),
    })
}
