//! Outgoing webhooks: their state, and a test of one [T6].

use axum::extract::State;
use domain::WebhookName;
use protocol::{WebhookList, WebhookTestResponse};

use crate::app::App;
use crate::auth::Caller;
use crate::extract::Name;
use crate::json_response::Json;
use crate::problem::Problem;

/// The outgoing webhooks of the coordinator's configuration, and their state since it started.
#[utoipa::path(
    get, path = "/webhooks", tag = "webhooks",
    responses((status = 200, description = "The webhooks in order of name", body = WebhookList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<WebhookList>, Problem> {
    Ok(Json(app.coordinator.webhooks(&who)?))
}

/// Sends a test delivery, and returns whether the receiver took it.
#[utoipa::path(
    post, path = "/webhooks/{name}/test", tag = "webhooks",
    params(("name" = WebhookName, Path, description = "The webhook")),
    responses((status = 200, description = "What became of it", body = WebhookTestResponse)),
)]
pub(crate) async fn test(
    State(app): State<App>,
    Caller(who): Caller,
    Name(name): Name<WebhookName>,
) -> Result<Json<WebhookTestResponse>, Problem> {
    Ok(Json(app.coordinator.test_webhook(&who, &name).await?))
}
