//! A server without a coordinator: it reports that the process is alive, and what it waits for.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use coordinator::NotReady;
use domain::Generation;
use protocol::{Health, PROTOCOL_VERSION};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::json_response::Json;
use crate::problem::Problem;
use crate::server::Server;

impl Server {
    /// Answers `/healthz`, and everything else with the reason why there is no coordinator yet, until `over`. Then the
    /// address is free again. A server with its own certificate answers nothing meanwhile.
    pub async fn wait(self, reason: NotReady, over: CancellationToken) {
        let Some(listener) = self.into_plain_listener() else { return over.cancelled().await };
        let refuse = move || {
            let reason = reason.clone();
            async move { Problem::from(reason).into_response() }
        };
        let router = Router::new().route("/healthz", get(healthz)).fallback(refuse);
        let serving = axum::serve(listener, router).with_graceful_shutdown(over.cancelled_owned());
        if let Err(error) = serving.await {
            warn!(%error, "Could not answer while waiting");
        }
    }
}

async fn healthz() -> Response {
    let health = Health {
        status: "waiting".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL_VERSION,
        generation: Generation::default(),
        role: None,
        term: None,
    };
    Json(health).into_response()
}
