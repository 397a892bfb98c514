//! How object stores are reached: the HTTP client of this workspace.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use rustls::RootCertStore;

/// How long a request may take until its answer begins.
const ANSWER_TIME_MAX: Duration = Duration::from_mins(2);

/// How long a connection may take to open.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// HTTP/1.1 over TCP and TLS, with the public certificate authorities.
#[derive(Clone)]
pub(super) struct Transport {
    client: Client<HttpsConnector<TcpConnector>, HttpRequestBody>,
}

impl Transport {
    pub(super) fn new() -> Result<Self, String> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIME_MAX));
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(tcp);
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector) })
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, self.client.request(request)).await;
        let answer =
            answer.map_err(|_| HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut)));
        let response = answer?.map_err(|error| HttpError::new(kind_of(&error), error))?;
        let (parts, body) = response.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

fn kind_of(error: &hyper_util::client::legacy::Error) -> HttpErrorKind {
    if error.is_connect() {
        return HttpErrorKind::Connect;
    }
    match error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>()) {
        Some(cause) if cause.is_timeout() => HttpErrorKind::Timeout,
        Some(cause) if cause.is_closed() || cause.is_incomplete_message() || cause.is_body_write_aborted() => {
            HttpErrorKind::Request
        }
        _ => HttpErrorKind::Unknown,
    }
}
