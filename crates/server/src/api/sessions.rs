//! Browser sessions: sign in, look, sign out, and one-time codes for links.

use axum::extract::State;
use axum::response::{AppendHeaders, IntoResponse, Response};
use coordinator::{Principal, SignIn};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use protocol::{
    CoordinatorView, CreateCodeRequest, PrincipalView, Role, SessionView, SignInCode, SignInRequest, SignInResponse,
};

use crate::app::{App, Exposure};
use crate::auth::{Caller, RequestOrigin};
use crate::build;
use crate::extract::JsonBody;
use crate::host_check;
use crate::json_response::Json;
use crate::problem::Problem;

/// Signs a browser in with a token or a one-time code. Needs no other token.
///
/// The session has two halves, and each request needs both: the answer's cookie, and the answer's `session` in the header
/// `x-giga-session`. It has the scope of the token, ends with it, and lasts for 12 hours. A change needs
/// `Sec-Fetch-Site: same-origin`, or an `Origin` that is the `Host`.
#[utoipa::path(
    post, path = "/session", tag = "operations", request_body = SignInRequest,
    responses((
        status = 201, description = "The session", body = SignInResponse,
        headers(("Set-Cookie" = String, description = "The other half of the session")),
    )),
)]
pub(crate) async fn sign_in(
    State(app): State<App>,
    whence: RequestOrigin,
    headers: HeaderMap,
    JsonBody(request): JsonBody<SignInRequest>,
) -> Result<Response, Problem> {
    host_check::check_sign_in(&headers)?;
    let with = match (&request.token, &request.code) {
        (Some(token), None) => SignIn::Token(token),
        (None, Some(code)) => SignIn::Code(code),
        _ => return Err(Problem::invalid("sign in with either `token` or `code`")),
    };
    let session = whence.checked_token(&app, app.coordinator.sign_in(with).await)?;
    let age = session.expires_at.since(app.clock.now());
    let cookie = app.session_cookie.set(session.cookie.reveal(), age);
    let answer = SignInResponse {
        session: session.page.reveal().to_owned(),
        principal: view(&session.principal),
        expires_at: session.expires_at,
    };
    let cookie = AppendHeaders(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
    Ok((StatusCode::CREATED, cookie, Json(answer)).into_response())
}

/// The caller, and the coordinator that answers.
#[utoipa::path(
    get, path = "/session", tag = "operations",
    responses((status = 200, description = "The caller", body = SessionView)),
)]
pub(crate) async fn show(State(app): State<App>, Caller(who): Caller) -> Json<SessionView> {
    let coordinator =
        CoordinatorView { name: build::coordinator_name().to_owned(), version: build::VERSION.to_owned() };
    Json(SessionView { principal: view(&who), coordinator, expires_at: app.coordinator.authority_expires_at(&who) })
}

/// Signs the browser out, and closes its streams.
#[utoipa::path(
    delete, path = "/session", tag = "operations", responses((status = 204, description = "Signed out")),
)]
pub(crate) async fn sign_out(State(app): State<App>, Caller(who): Caller) -> Result<Response, Problem> {
    app.coordinator.sign_out(&who).await?;
    let cookie = AppendHeaders(app.session_cookie.remove().map(|cookie| (header::SET_COOKIE, cookie)));
    Ok((StatusCode::NO_CONTENT, cookie).into_response())
}

/// Makes a one-time code that signs a browser in with the caller's token. Not for browser sessions.
#[utoipa::path(
    post, path = "/session/codes", tag = "operations", request_body = CreateCodeRequest,
    responses((status = 201, description = "The code, and a link with it", body = SignInCode)),
)]
pub(crate) async fn create_code(
    State(app): State<App>,
    Caller(who): Caller,
    parts: Parts,
    JsonBody(request): JsonBody<CreateCodeRequest>,
) -> Result<(StatusCode, Json<SignInCode>), Problem> {
    let (code, expires_at) = app.coordinator.create_sign_in_code(&who, request.ttl_seconds)?;
    let code = code.reveal().to_owned();
    let url = format!("{}/#code={code}", base(&app, &parts));
    Ok((StatusCode::CREATED, Json(SignInCode { code, url, expires_at })))
}

/// The address for a browser: the one for other machines, or the one that the caller used.
fn base(app: &App, parts: &Parts) -> String {
    if let (Exposure::Network, Some(address)) = (app.reach, app.reached_at.addresses.first()) {
        return address.clone();
    }
    let called = host_check::authority(parts).map_or_else(String::new, |authority| authority.to_string());
    format!("{}://{called}", if app.session_cookie.is_secure() { "https" } else { "http" })
}

fn view(who: &Principal) -> PrincipalView {
    PrincipalView { name: who.name.clone(), role: Role::from(&who.grant), products: who.products() }
}
