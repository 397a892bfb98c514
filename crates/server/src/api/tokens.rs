//! Tokens: created here, shown once.

use axum::extract::State;
use domain::{TokenId, TokenScope};
use http::StatusCode;
use protocol::{CreateTokenRequest, CreateTokenResponse, TokenList};

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Id, JsonBody};
use crate::json_response::Json;
use crate::problem::Problem;

/// All tokens, without their secrets.
#[utoipa::path(
    get, path = "/tokens", tag = "operations",
    responses((status = 200, description = "Oldest first", body = TokenList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<TokenList>, Problem> {
    Ok(Json(app.coordinator.list_tokens(&who)?))
}

/// Creates a token. Only this answer has the secret.
#[utoipa::path(
    post, path = "/tokens", tag = "operations", request_body = CreateTokenRequest,
    responses((status = 201, description = "The token, with its secret", body = CreateTokenResponse)),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(request): JsonBody<CreateTokenRequest>,
) -> Result<(StatusCode, Json<CreateTokenResponse>), Problem> {
    let is_join = matches!(request.grant, TokenScope::Join { .. });
    let made = app.coordinator.create_token(&who, request).await?;
    let coordinator = is_join.then(|| app.reached_at.clone());
    Ok((StatusCode::CREATED, Json(CreateTokenResponse { coordinator, ..made })))
}

/// Revokes a token, and closes its streams.
#[utoipa::path(
    delete, path = "/tokens/{id}", tag = "operations", params(("id" = TokenId, Path, description = "The token")),
    responses((status = 204, description = "Ended")),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<TokenId>,
) -> Result<StatusCode, Problem> {
    app.coordinator.delete_token(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
