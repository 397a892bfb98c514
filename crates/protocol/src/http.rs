//! The network as a port: the real one here, a simulated one in a simulation.

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

use crate::client::Trust;
use crate::problem::Problem;
use crate::public_resolver::{AddressPolicy, Resolver};

use proof::ProvingConnector;

pub(crate) use proof::IdentityCheck;
pub use tls::{fingerprint, is_publicly_trusted};

/// How long opening a connection may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a connection is kept for the next request. A server closes idle ones too: whoever keeps them for longer sends
/// a request into a connection that is being closed, and cannot tell whether it was carried out.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(15);

/// The body of an answer, as it arrives.
pub type ResponseBody = UnsyncBoxBody<Bytes, TransportError>;

/// The body of a request that is too long for memory.
pub type RequestBody = UnsyncBoxBody<Bytes, TransportError>;

/// What carries requests to a coordinator and brings answers back.
#[async_trait]
pub trait HttpTransport: Send + Sync {
    /// Sends a request and gives back the answer's head; its body arrives afterwards.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError>;

    /// [`Network::exchange`], for a body that is sent as it is read.
    async fn send(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, TransportError> {
        let path = request.uri().path();
        Err(TransportError::new(format!("this network carries no long bodies, such as that of {path}")))
    }
}

/// The real network, for talking to others than a coordinator; an error in words if `trust` cannot be used.
pub fn real_network(trust: &Trust) -> Result<Arc<dyn HttpTransport>, String> {
    Ok(Arc::new(HyperTransport::new(trust)?))
}

/// The real network for addresses that somebody else gave us: https only, and never to an address that is not public.
pub fn public_network(trust: &Trust) -> Result<Arc<dyn HttpTransport>, String> {
    Ok(Arc::new(HyperTransport::reaching(AddressPolicy::PublicOnly, trust, None)?))
}

/// Why nothing came back, in words.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct TransportError {
    why: String,
    kind: TransportErrorKind,
}

/// What a client can do about a fault.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TransportErrorKind {
    /// The other end is away, or the way to it is.
    Unreachable,
    /// TLS does not work with the other end; with what to do about it.
    Tls(&'static str),
    /// The other end did not prove that it issued the token.
    Unproven,
    /// A coordinator refused the challenge.
    Refused(Box<Problem>),
}

impl TransportError {
    /// A fault, described.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), kind: TransportErrorKind::Unreachable }
    }

    fn tls(why: impl Into<String>, remedy: &'static str) -> Self {
        Self { why: why.into(), kind: TransportErrorKind::Tls(remedy) }
    }

    fn unproven(why: &str) -> Self {
        Self { why: why.to_owned(), kind: TransportErrorKind::Unproven }
    }

    fn refused(problem: Problem) -> Self {
        Self { why: problem.to_string(), kind: TransportErrorKind::Refused(Box::new(problem)) }
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
            // An I/O error does not name the error that it was made of as its source.
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

/// TCP, TLS where the address says so, and the proof of the other end's identity.
type Connector = ProvingConnector<HttpsConnector<HttpConnector<Resolver>>>;

/// The real network: HTTP/1.1 over TCP, with TLS where the address says so, and connections that are kept.
pub(crate) struct HyperTransport {
    reach: AddressPolicy,
    http: hyper_util::client::legacy::Client<Connector, Full<Bytes>>,
    /// The same network for bodies of another type; it has connections of its own, and seldom any.
    long: hyper_util::client::legacy::Client<Connector, RequestBody>,
}

impl HyperTransport {
    /// The network, with certificates judged by `trust`; an error in words if those cannot be used.
    pub(crate) fn new(trust: &Trust) -> Result<Self, String> {
        Self::reaching(AddressPolicy::Anywhere, trust, None)
    }

    /// The network to one coordinator: every new connection has to give the proof before a request is sent on it.
    pub(crate) fn to_coordinator(trust: &Trust, proof: Option<IdentityCheck>) -> Result<Self, String> {
        Self::reaching(AddressPolicy::Anywhere, trust, proof)
    }

    fn reaching(reach: AddressPolicy, trust: &Trust, proof: Option<IdentityCheck>) -> Result<Self, String> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(reach));
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIME_MAX));
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
        let response = self.http.request(request).await.map_err(|error| TransportError::of(&error))?;
        Ok(response.map(|body| body.map_err(|error| TransportError::of(&error)).boxed_unsync()))
    }

    async fn send(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, TransportError> {
        self.reach.check(request.uri())?;
        let response = self.long.request(request).await.map_err(|error| TransportError::of(&error))?;
        Ok(response.map(|body| body.map_err(|error| TransportError::of(&error)).boxed_unsync()))
    }
}
