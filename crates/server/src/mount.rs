//! Services of other crates, below a prefix of their own: the server checks the host, the caller and the body.

use std::convert::Infallible;
use std::fmt;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use coordinator::Principal;
use futures_util::StreamExt;
use http::{HeaderValue, header};
use tower::{Service, ServiceExt};

use crate::app::App;
use crate::auth::{self, ConnectionAddresses};
use crate::extract::{self, MANIFEST_LEN_MAX};
use crate::problem::Problem;
use crate::streams::Permit;

/// A service below a prefix. Each of its requests has an authenticated caller: its extensions include the [`CallerApi`]
/// and the [`Principal`]. The prefix is removed from the path.
#[derive(Clone)]
pub struct Mount {
    prefix: &'static str,
    router: Router,
}

impl Mount {
    /// `service` below `prefix`, which starts with a slash and ends without one.
    pub fn new<S>(prefix: &'static str, service: S) -> Self
    where
        S: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        Self { prefix, router: Router::new().fallback_service(service) }
    }

    /// Whether a path belongs to it.
    pub(crate) fn has(&self, path: &str) -> bool {
        path.strip_prefix(self.prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Adds it to the routes of the server; its requests reach the API by `api`.
    pub(crate) fn add_to(&self, router: Router, app: &App, api: &Router) -> Router {
        let gate = Gate { app: app.clone(), api: api.clone() };
        router.nest_service(self.prefix, self.router.clone().layer(from_fn_with_state(gate, pass)))
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mount").field(&self.prefix).finish()
    }
}

/// The API, called inside the process with the authority of one caller.
#[derive(Clone)]
pub struct CallerApi {
    caller: Principal,
    ends: Option<ConnectionAddresses>,
    router: Router,
}

/// A caller that the server has authenticated already. Only this module makes one.
#[derive(Clone)]
pub(crate) struct Authenticated(Principal);

impl Authenticated {
    pub(crate) fn principal(&self) -> &Principal {
        &self.0
    }
}

impl CallerApi {
    /// The caller.
    pub fn principal(&self) -> &Principal {
        &self.caller
    }

    /// Answers a request for a route of the server, such as `GET /api/fleet/jobs`. It needs no token and no host.
    pub async fn call(&self, mut request: Request) -> Response {
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
        request.headers_mut().remove(header::ORIGIN);
        request.extensions_mut().insert(Authenticated(self.caller.clone()));
        if let Some(ends) = self.ends {
            request.extensions_mut().insert(ends);
        }
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

#[derive(Clone)]
struct Gate {
    app: App,
    api: Router,
}

async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (request, permit) = match admit(gate, request).await {
        Ok(admitted) => admitted,
        Err(problem) => return problem.into_response(),
    };
    let response = tokio::select! {
        response = next.run(request) => response,
        () = permit.over() => return Problem::stopped().into_response(),
    };
    end_with(permit, response)
}

/// The request with its caller, its whole body, and its permit: requests of a mounted service may take long.
async fn admit(gate: Gate, request: Request) -> Result<(Request, Permit), Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = auth::authenticate(&parts, &gate.app)?;
    let permit = gate.app.streams.open(&caller)?;
    let ends = parts.extensions.get::<ConnectionAddresses>().copied();
    parts.extensions.insert(caller.clone());
    parts.extensions.insert(CallerApi { caller, ends, router: gate.api });
    let mut request = Request::from_parts(parts, body);
    let reserved = gate.app.body_budget.reserve(&request);
    let body = std::mem::take(request.body_mut());
    *request.body_mut() = extract::receive(body, reserved, &gate.app, MANIFEST_LEN_MAX).await?.bytes.into();
    Ok((request, permit))
}

/// A streaming answer ends when its caller's token does; a complete one is sent as it is.
fn end_with(permit: Permit, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        let over = async move { permit.over().await };
        Body::from_stream(body.into_data_stream().take_until(Box::pin(over)))
    })
}
