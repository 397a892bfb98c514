//! Services of other crates, mounted behind the server's authentication.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use domain::TokenScope;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::json;
use server::{CallerApi, Mount, Options};

use crate::fleet::Fleet;
use crate::raw::{Asking, Connection, ask};

/// Submits the body of each request as a job, as its caller.
async fn submit(request: Request) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let api = parts.extensions.get::<CallerApi>().unwrap().clone();
    let inner = Request::post("/api/fleet/jobs").header("content-type", "text/markdown").body(body).unwrap();
    let status = api.call(inner).await.status().as_u16();
    let told = json!({ "path": parts.uri.path(), "caller": api.principal().name, "status": status });
    Ok(axum::Json(told).into_response())
}

async fn fleet() -> Fleet {
    let mounts = vec![Mount::new("/extra", tower::service_fn(submit))];
    Fleet::with(Options { mounts, ..Options::default() }).await
}

// [U3]
#[tokio::test]
async fn a_mounted_service_acts_with_its_callers_authority() {
    let fleet = fleet().await;
    let viewer = fleet.token(TokenScope::Viewer { products: Default::default() }).await;
    let post = |path: &str, token: &str| Asking::post(path).token(token).body("# One\n");

    let admin = ask(fleet.address, post("/extra", &fleet.admin_token)).await;
    let viewer = ask(fleet.address, post("/extra/below", &viewer.secret)).await;

    assert_eq!(admin.json(), json!({ "path": "/", "caller": "admin", "status": 201 }));
    assert_eq!(viewer.json(), json!({ "path": "/below", "caller": "story", "status": 403 }));
    assert_eq!(fleet.log().await.len(), 1);
}

// [U3] [attack: CSRF, DNS rebinding]
#[tokio::test]
async fn a_mounted_service_is_behind_the_servers_checks() {
    let fleet = fleet().await;
    let post = || Asking::post("/extra").token(&fleet.admin_token);

    let bare = ask(fleet.address, Asking::post("/extra")).await;
    let wrong = ask(fleet.address, Asking::post("/extra").token("giga_adm_guess")).await;
    let rebound = ask(fleet.address, post().header("host", "evil.example")).await;
    let foreign = ask(fleet.address, post().header("origin", "https://evil.example")).await;
    let long = ask(fleet.address, post().body(vec![b'x'; 3 * 1024 * 1024])).await;

    let codes = [&bare, &wrong, &rebound, &foreign, &long].map(|answer| answer.code());
    assert_eq!(codes, ["unauthenticated", "unauthenticated", "foreign_host", "foreign_origin", "body_too_large"]);
    assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(fleet.log().await.len(), 0);
    assert_eq!(ask(fleet.address, Asking::get("/extras").token(&fleet.admin_token)).await.code(), "no_such_route");
}

/// Its answer never ends.
async fn endless(_: Request) -> Result<Response, Infallible> {
    let pieces = futures_util::stream::repeat_with(|| Ok::<_, Infallible>("x\n"));
    let slowly = futures_util::StreamExt::then(pieces, |piece| async move {
        tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>()).await.unwrap_err();
        piece
    });
    Ok(Response::new(Body::from_stream(slowly)))
}

// [T3] [attack: stolen factory token]
#[tokio::test]
async fn a_mounted_stream_ends_with_its_token() {
    let mounts = vec![Mount::new("/extra", tower::service_fn(endless))];
    let fleet = Fleet::with(Options { mounts, ..Options::default() }).await;
    let viewer = fleet.token(TokenScope::Viewer { products: Default::default() }).await;

    let mut connection = Connection::open(fleet.address).await;
    let answer = connection.head(Asking::get("/extra").token(&viewer.secret)).await;
    let path = format!("/tokens/{}", viewer.token.id);
    let _: () = fleet.admin.call(http::Method::DELETE, &path, None::<&()>).await.unwrap();

    assert_eq!(answer.status(), StatusCode::OK);
    let ended = tokio::time::timeout(Duration::from_secs(5), answer.into_body().collect()).await;
    assert!(!ended.expect("it ends within 5 s").unwrap().to_bytes().is_empty());
}
