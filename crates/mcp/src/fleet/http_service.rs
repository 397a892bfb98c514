//! The tools over HTTP, behind the server's authentication.

use std::sync::Arc;

use client::HttpTransport;
use domain::Clock;
use http::request::Parts;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::FleetTools;

/// The tools as a service. It keeps no session: every request has its caller.
pub type FleetService = StreamableHttpService<FleetTools, NeverSessionManager>;

/// The largest request: a manifest and its envelope.
const BODY_LEN_MAX: usize = 2 * 1024 * 1024;

/// The service at `/mcp`. `transport_of` finds the way to the API with the authority of a request's caller; a request
/// without one is refused. The server in front ends calls that wait when it stops, or when the caller's token is revoked.
pub fn fleet_service(
    transport_of: impl Fn(&Parts) -> Option<Arc<dyn HttpTransport>> + Send + Sync + 'static,
    clock: Arc<dyn Clock>,
) -> FleetService {
    // The server in front checks the host: it knows the addresses that it listens on. No web page is a client, so that a
    // request with an origin is always refused.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_LEN_MAX)
        .disable_allowed_hosts()
        .enforce_origin_validation();
    let tools = FleetTools::of_caller(Arc::new(transport_of), clock);
    StreamableHttpService::new(move || Ok(tools.clone()), Arc::new(NeverSessionManager::default()), config)
}
