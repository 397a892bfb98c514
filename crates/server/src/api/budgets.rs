//! Budgets of products [T2].

use axum::extract::State;
use domain::{BudgetPeriod, BudgetSettings, JobId, Product, ProductId};
use protocol::{BudgetList, BudgetView, BurnDown, PauseRequest, UsageRequest, UsageResponse};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Id, JsonBody, QueryParams};
use crate::json_response::Json;
use crate::problem::Problem;

/// The budgets of the products that the caller may see, with what they have spent.
#[utoipa::path(
    get, path = "/budgets", tag = "budgets",
    responses((status = 200, description = "In order of name", body = BudgetList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<BudgetList>, Problem> {
    Ok(Json(app.coordinator.budgets(&who).await?))
}

/// The budget of a product, with what it has spent in the current period.
#[utoipa::path(
    get, path = "/budgets/{id}", tag = "budgets",
    params(("id" = ProductId, Path, description = "The product")),
    responses((status = 200, description = "The budget", body = BudgetView)),
)]
pub(crate) async fn budget(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ProductId>,
) -> Result<Json<BudgetView>, Problem> {
    Ok(Json(app.coordinator.budget(&who, &id).await.map_err(Problem::of_product)?))
}

/// Replaces the settings of a product's budget. Without `ceilingUsd` nothing is limited.
#[utoipa::path(
    put, path = "/budgets/{id}", tag = "budgets", request_body = BudgetSettings,
    params(("id" = ProductId, Path, description = "The product")),
    responses((status = 200, description = "The budget after the change", body = BudgetView)),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ProductId>,
    JsonBody(settings): JsonBody<BudgetSettings>,
) -> Result<Json<BudgetView>, Problem> {
    Ok(Json(app.coordinator.put_budget(&who, &id, settings).await.map_err(Problem::of_product)?))
}

/// The period to show.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BurnDownQuery {
    /// The period; the one of the ceiling when absent.
    #[param(required = false)]
    period: Option<BudgetPeriod>,
}

/// How the money of the current period was spent over time, and where that leads.
#[utoipa::path(
    get, path = "/budgets/{id}/burndown", tag = "budgets",
    params(("id" = ProductId, Path, description = "The product"), BurnDownQuery),
    responses((status = 200, description = "Oldest point first", body = BurnDown)),
)]
pub(crate) async fn burn_down(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ProductId>,
    QueryParams(asked): QueryParams<BurnDownQuery>,
) -> Result<Json<BurnDown>, Problem> {
    Ok(Json(app.coordinator.burn_down(&who, &id, asked.period).await.map_err(Problem::of_product)?))
}

/// Pauses a product: nothing of it starts, whatever was offered already. The budget's `running` says what happens to
/// running jobs.
#[utoipa::path(
    post, path = "/budgets/{id}/pause", tag = "budgets", request_body = PauseRequest,
    params(("id" = ProductId, Path, description = "The product")),
    responses((status = 200, description = "The product after the change", body = Product)),
)]
pub(crate) async fn pause(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ProductId>,
    JsonBody(request): JsonBody<PauseRequest>,
) -> Result<Json<Product>, Problem> {
    let paused = app.coordinator.pause_product(&who, &id, request.reason.as_deref()).await;
    Ok(Json(paused.map_err(Problem::of_product)?))
}

/// Ends the pause of a product.
#[utoipa::path(
    post, path = "/budgets/{id}/resume", tag = "budgets",
    params(("id" = ProductId, Path, description = "The product")),
    responses((status = 200, description = "The product after the change", body = Product)),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ProductId>,
) -> Result<Json<Product>, Problem> {
    Ok(Json(app.coordinator.resume_product(&who, &id).await.map_err(Problem::of_product)?))
}

/// Reports what a run has cost so far, also after its lease has ended. Changes no stage; a repeated report changes
/// nothing.
#[utoipa::path(
    post, path = "/jobs/{id}/usage", tag = "work", request_body = UsageRequest,
    params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "What the job has cost", body = UsageResponse)),
)]
pub(crate) async fn usage(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    JsonBody(request): JsonBody<UsageRequest>,
) -> Result<Json<UsageResponse>, Problem> {
    Ok(Json(app.coordinator.report_usage(&who, id, &request).await?))
}
