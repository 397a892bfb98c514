//! `/mcp`: the tools of the fleet, with the authority of each request's caller.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use client::{HttpTransport, ResponseBody, TransportError};
use clock::SystemClock;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use server::{CallerApi, Mount};

/// Where the tools are.
const PREFIX: &str = "/mcp";

/// The service for the server. Calls that wait end with the server's own shutdown.
pub(super) fn mount() -> Mount {
    let transport = |request: &http::request::Parts| -> Option<Arc<dyn HttpTransport>> {
        let api = request.extensions.get::<CallerApi>()?.clone();
        Some(Arc::new(InProcess(api)))
    };
    Mount::new(PREFIX, mcp::fleet_service(transport, Arc::new(SystemClock::new())))
}

/// The API inside the process: no connection, no token.
struct InProcess(CallerApi);

#[async_trait]
impl HttpTransport for InProcess {
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError> {
        let (parts, body) = request.into_parts();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        let response = self.0.call(Request::from_parts(parts, body.into())).await;
        Ok(response.map(|body| body.map_err(|error| TransportError::new(error.to_string())).boxed_unsync()))
    }
}
