//! The routes of a coordinator that does not lead: its own health and metrics, and the leader's answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use domain::Generation;
use http::header;
use protocol::{CoordinatorRole, Health, PROTOCOL_VERSION};

use crate::build;
use crate::exposition;
use crate::forward::Forwarder;
use crate::json_response::Json;
use crate::problem::Problem;
use crate::problem_code as code;

/// The router of a follower.
pub(crate) fn router(forwarder: Arc<Forwarder>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(forward)
        .with_state(forwarder)
}

async fn healthz(State(forwarder): State<Arc<Forwarder>>) -> Json<Health> {
    Json(health(&forwarder))
}

/// A follower is as ready as the leader that it forwards to is known.
async fn readyz(State(forwarder): State<Arc<Forwarder>>) -> Result<Json<Health>, Problem> {
    let is_known = forwarder.leader.borrow().as_ref().is_some_and(|leader| leader.address.is_some());
    if is_known { Ok(Json(health(&forwarder))) } else { Err(Problem::new(code::NOT_LEADER, "no coordinator leads")) }
}

fn health(forwarder: &Forwarder) -> Health {
    Health {
        status: "ok".to_owned(),
        version: build::VERSION.to_owned(),
        protocol: PROTOCOL_VERSION,
        generation: Generation::default(),
        role: Some(CoordinatorRole::Follower),
        term: forwarder.leader.borrow().as_ref().map(|leader| leader.term),
    }
}

/// Nothing about the fleet, so that no token is needed.
async fn metrics(State(forwarder): State<Arc<Forwarder>>) -> Response {
    let term = forwarder.leader.borrow().as_ref().map_or(0, |leader| leader.term);
    let forwarded = forwarder.forwarded.load(Ordering::Relaxed);
    let text = exposition::follower(term, forwarded);
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response()
}

async fn forward(State(forwarder): State<Arc<Forwarder>>, request: Request) -> Response {
    forwarder.forward(request).await
}
