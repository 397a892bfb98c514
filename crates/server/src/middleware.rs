//! The middleware of every request.

use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderValue, Method, header};
use protocol::API_PREFIX;
use tracing::{Instrument, debug, debug_span, info};

use crate::app::App;
use crate::auth::ConnectionAddresses;
use crate::forward;
use crate::problem::{Cause, Problem};
use crate::run_to_completion::RunToCompletion;
use crate::store_purpose;

/// Checks the host, enforces the time limit and logs the outcome.
pub(crate) async fn pass(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let path = match &matched {
        Some(path) => Cow::Borrowed(path.as_str()),
        None => Cow::Owned(domain::escape_for_terminal(request.uri().path())),
    };
    let is_mounted = app.mounts.iter().any(|mount| mount.has(request.uri().path()));
    let limits = if is_mounted { AnswerLimits::mounted(&app) } else { AnswerLimits::of(&app, &method, &path) };
    let started = app.clock.monotonic();
    let span = debug_span!("request", http.method = %method, http.path = %path);
    let answer = async {
        match checked(&app, request) {
            Ok(request) => answer(&app, request, next, limits).await,
            Err(problem) => problem.into_response(),
        }
    };
    let mut response = store_purpose::of(&method, &path).scope(answer.instrument(span)).await;
    protect(&mut response);
    let (status, spent_ms) = (response.status(), (app.clock.monotonic() - started).as_millis());
    debug!(http.method = %method, http.path = %path, http.status = status.as_u16(), spent_ms, "Answered {method} {path}");
    if status.is_server_error() {
        let cause = response.extensions().get::<Cause>().map_or("unknown", |cause| &cause.0);
        info!(http.method = %method, http.path = %path, http.status = status.as_u16(), cause, "Could not answer {method} {path}: {cause}");
    }
    response
}

fn checked(app: &App, request: Request) -> Result<Request, Problem> {
    let local =
        request.extensions().get::<ConnectionAddresses>().map_or(IpAddr::from([127, 0, 0, 1]), |ends| ends.local);
    let (mut parts, body) = request.into_parts();
    // The coordinator that forwarded a request has checked its host.
    match forward::forwarded_for(&mut parts, app.leader.as_ref()) {
        Some(client) => drop(parts.extensions.insert(client)),
        None => app.hosts.check(&parts, local)?,
    }
    if parts.uri.path().starts_with(API_PREFIX) {
        app.coordinator.lead()?;
    }
    Ok(Request::from_parts(parts, body))
}

/// How an answer is awaited.
#[derive(Debug, Clone, Copy)]
struct AnswerLimits {
    time_max: Duration,
    /// A change is finished even if its client disconnects or times out: a committed change must also be announced.
    is_finished: bool,
}

impl AnswerLimits {
    /// Backups and restores take as long as their size needs; all other requests have a short limit.
    fn of(app: &App, method: &Method, path: &str) -> Self {
        let time_max = match path.strip_prefix(API_PREFIX) {
            Some("/jobs/{id}/artifacts") if *method == Method::POST => app.limits.transfer_time_max,
            Some("/backup" | "/restore") => app.limits.transfer_time_max,
            _ => app.limits.request_time_max,
        };
        Self { time_max, is_finished: !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) }
    }

    /// A mounted service may wait for a job; the changes that it makes by the API are finished there.
    fn mounted(app: &App) -> Self {
        Self { time_max: app.limits.mounted_time_max, is_finished: false }
    }
}

async fn answer(app: &App, request: Request, next: Next, limits: AnswerLimits) -> Response {
    let answering = AssertUnwindSafe(next.run(request)).catch_unwind();
    let answered = if limits.is_finished {
        let change = RunToCompletion::new(answering.in_current_span(), app.changes.clone());
        tokio::time::timeout(limits.time_max, change).await
    } else {
        tokio::time::timeout(limits.time_max, answering).await
    };
    match answered {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => Problem::panicked(&message(&*panic)).into_response(),
        Err(_) => Problem::timed_out().into_response(),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

/// Adds the security headers: no caching by third parties, no content sniffing.
fn protect(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::body::Body;
    use axum::routing::{get, post};
    use clock::{SystemClock, SystemEntropy};
    use coordinator::{Coordinator, Ports, Settings};
    use http::StatusCode;
    use tokio::sync::oneshot;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    use crate::options::{Limits, Options};

    use super::*;

    async fn app() -> App {
        let store = Arc::new(store::MemoryStore::new());
        let clock = Arc::new(SystemClock::new());
        let folder = std::env::temp_dir().join("no-log-is-ever-written-here");
        let ports = Ports {
            jobs: store.clone(),
            history: store.clone(),
            fleet: store,
            logs: Arc::new(store::DirectoryLogs::new(folder, 0)),
            blobs: Arc::new(store::DirectoryBlobs::new(std::env::temp_dir().join("no-artifact-is-ever-written-here"))),
            leadership: Arc::new(domain::SoleLeader),
            broker: Arc::new(broker::Embedded::new(broker::Settings::default(), clock.clone())),
            clock,
            entropy: Arc::new(SystemEntropy),
        };
        let coordinator = Coordinator::open(ports, Settings::default()).await.unwrap();
        let limits = Limits { request_time_max: Duration::from_millis(50), ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        App::new(coordinator, &options, options.listen, Default::default(), CancellationToken::new(), None, None)
    }

    async fn problem_of(app: &App, router: Router, method: Method) -> (StatusCode, String) {
        let router = router.layer(axum::middleware::from_fn_with_state(app.clone(), pass));
        let request = Request::builder().method(method).uri("/").header("host", "localhost");
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let problem: protocol::Problem = serde_json::from_slice(&body).unwrap();
        (status, problem.code)
    }

    async fn panics() {
        panic!("a mistake");
    }

    #[tokio::test]
    async fn a_panic_is_answered_with_a_problem() {
        let app = app().await;
        let router = Router::new().route("/", get(panics).post(panics));

        for method in [Method::GET, Method::POST] {
            let told = problem_of(&app, router.clone(), method).await;
            assert_eq!(told, (StatusCode::INTERNAL_SERVER_ERROR, "internal".to_owned()));
        }
    }

    #[tokio::test]
    async fn a_change_that_times_out_still_completes() {
        let app = app().await;
        let (go, gone) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel::<()>();
        let both = Arc::new(parking_lot::Mutex::new(Some((gone, done))));
        let slow = post(move || async move {
            let Some((gone, done)) = both.lock().take() else { return };
            let _ = gone.await;
            let _ = done.send(());
        });

        let told = problem_of(&app, Router::new().route("/", slow), Method::POST).await;
        go.send(()).unwrap();

        assert_eq!(told, (StatusCode::SERVICE_UNAVAILABLE, "timed_out".to_owned()));
        ended.await.expect("the change was finished");
    }
}
