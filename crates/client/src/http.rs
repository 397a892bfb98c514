//! HTTP transport as a port: the real one here, a simulated one in tests.

mod proof;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use protocol::Problem;

use crate::client::Trust;
use crate::public_resolver::{AddressPolicy, Resolver};

use proof::ProvingConnector;

pub(crate) use proof::IdentityCheck;

/// Timeout to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// How often an idle connection is probed.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);

/// How long idle connections are kept. Servers close idle connections too: a request on a connection that is being
/// closed has an unknown outcome.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(15);

/// A streamed response body.
pub type ResponseBody = UnsyncBoxBody<Bytes, TransportError>;

/// A streamed request body, for bodies that do not fit in memory.
pub type RequestBody = UnsyncBoxBody<Bytes, TransportError>;

/// Sends HTTP requests.
#[async_trait]
pub trait HttpTransport: Send + Sync {
    /// Sends a request and returns the response's head; the body is streamed.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError>;

    /// [`HttpTransport::exchange`] with a streamed request body.
    async fn send(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, TransportError> {
        let path = request.uri().path();
        Err(TransportError::new(format!("this network carries no long bodies, such as that of {path}")))
    }
}

/// The real transport, for servers other than a coordinator. Fails if `trust` is invalid.
pub fn real_network(trust: &Trust) -> Result<Arc<dyn HttpTransport>, String> {
    Ok(Arc::new(HyperTransport::new(trust)?))
}

/// The real transport for untrusted URLs: https only, and only to public addresses.
pub fn public_network(trust: &Trust) -> Result<Arc<dyn HttpTransport>, String> {
    Ok(Arc::new(HyperTransport::reaching(AddressPolicy::PublicOnly, trust, None)?))
}

/// The real transport for webhooks: https to public addresses, and loopback addresses where the operator allows them.
pub(crate) fn webhook_network(policy: AddressPolicy) -> Result<HyperTransport, String> {
    HyperTransport::reaching(policy, &Trust::default(), None)
}

/// A transport error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct TransportError {
    why: String,
    kind: TransportErrorKind,
    is_unsent: bool,
}

/// The kind of a transport error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TransportErrorKind {
    /// The server cannot be reached.
    Unreachable,
    /// The TLS handshake failed; with the remedy.
    Tls(&'static str),
    /// The server did not prove that it issued the token.
    Unproven,
    /// The coordinator rejected the challenge.
    Refused(Box<Problem>),
}

impl TransportError {
    /// An error with a description.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), kind: TransportErrorKind::Unreachable, is_unsent: false }
    }

    fn tls(why: impl Into<String>, remedy: &'static str) -> Self {
        Self { why: why.into(), kind: TransportErrorKind::Tls(remedy), is_unsent: false }
    }

    fn unproven(why: &str) -> Self {
        Self { why: why.to_owned(), kind: TransportErrorKind::Unproven, is_unsent: false }
    }

    fn refused(problem: Problem) -> Self {
        Self { why: problem.to_string(), kind: TransportErrorKind::Refused(Box::new(problem)), is_unsent: false }
    }

    /// Whether the request was not sent, because no connection was made: it can be repeated.
    pub fn is_unsent(&self) -> bool {
        let may_pass = match &self.kind {
            TransportErrorKind::Unreachable => true,
            // The answer to the challenge that precedes every request.
            TransportErrorKind::Refused(problem) => problem.status >= 500,
            TransportErrorKind::Tls(_) | TransportErrorKind::Unproven => false,
        };
        self.is_unsent && may_pass
    }

    fn of_request(error: &hyper_util::client::legacy::Error) -> Self {
        Self { is_unsent: error.is_connect(), ..Self::of(error) }
    }

    pub(crate) fn kind(&self) -> &TransportErrorKind {
        &self.kind
    }

    /// The innermost cause: "connection refused" rather than "client error (Connect)".
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = error;
        loop {
            if let Some(fault) = cause.downcast_ref::<Self>() {
                return fault.clone();
            }
            if let Some(error) = cause.downcast_ref::<rustls::Error>() {
                return tls::fault(error);
            }
            if let Some(error) = cause.downcast_ref::<hyper::Error>()
                && error.is_parse()
            {
                let remedy = "if the coordinator has a certificate, use https:// in its address";
                return Self::tls("its answer is not http", remedy);
            }
            // An I/O error does not expose its inner error as its source.
            let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            cause = match inner.map(|inner| inner as &(dyn std::error::Error + 'static)).or(cause.source()) {
                Some(deeper) => deeper,
                None => return Self::new(cause.to_string()),
            };
        }
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for TransportError {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::of(error.as_ref())
    }
}

/// TCP, TLS for https, and the identity proof.
type Connector = ProvingConnector<HttpsConnector<HttpConnector<Resolver>>>;

/// The real transport: HTTP/1.1 over TCP or TLS, with a connection pool.
pub(crate) struct HyperTransport {
    reach: AddressPolicy,
    http: hyper_util::client::legacy::Client<Connector, Full<Bytes>>,
    /// The same transport for streamed bodies, with its own connection pool.
    long: hyper_util::client::legacy::Client<Connector, RequestBody>,
}

impl HyperTransport {
    /// A transport that accepts certificates by `trust`. Fails if `trust` is invalid.
    pub(crate) fn new(trust: &Trust) -> Result<Self, String> {
        Self::reaching(AddressPolicy::Anywhere, trust, None)
    }

    /// A transport to one coordinator: every new connection has to give the proof before the first request.
    pub(crate) fn to_coordinator(trust: &Trust, proof: Option<IdentityCheck>) -> Result<Self, String> {
        Self::reaching(AddressPolicy::Anywhere, trust, proof)
    }

    fn reaching(reach: AddressPolicy, trust: &Trust, proof: Option<IdentityCheck>) -> Result<Self, String> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(reach));
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIME_MAX));
        // A machine that vanished is noticed on open streams too.
        tcp.set_keepalive(Some(KEEPALIVE_EVERY));
        tcp.enforce_http(false);
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls::client_config(trust)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let https = ProvingConnector::new(https, proof);
        let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIME_MAX);
        Ok(Self { reach, http: builder.build(https.clone()), long: builder.build(https) })
    }
}

#[async_trait]
impl HttpTransport for HyperTransport {
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError> {
        self.reach.check(request.uri())?;
        let response = self.http.request(request).await.map_err(|error| TransportError::of_request(&error))?;
        Ok(response.map(|body| body.map_err(|error| TransportError::of(&error)).boxed_unsync()))
    }

    async fn send(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, TransportError> {
        self.reach.check(request.uri())?;
        let response = self.long.request(request).await.map_err(|error| TransportError::of_request(&error))?;
        Ok(response.map(|body| body.map_err(|error| TransportError::of(&error)).boxed_unsync()))
    }
}
