//! The network as a port: the real one here, a simulated one in a simulation.

use std::fmt;
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
use crate::reach::{Reach, Resolver};

/// How long opening a connection may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a connection is kept for the next request. A server closes idle ones too: whoever keeps them for longer sends
/// a request into a connection that is being closed, and cannot tell whether it was carried out.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(15);

/// The body of an answer, as it arrives.
pub type Answer = UnsyncBoxBody<Bytes, Fault>;

/// The body of a request that is too long for memory.
pub type Outgoing = UnsyncBoxBody<Bytes, Fault>;

/// What carries requests to a coordinator and brings answers back.
#[async_trait]
pub trait Network: Send + Sync {
    /// Sends a request and gives back the answer's head; its body arrives afterwards.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Answer>, Fault>;

    /// [`Network::exchange`], for a body that is sent as it is read.
    async fn send(&self, request: Request<Outgoing>) -> Result<Response<Answer>, Fault> {
        let path = request.uri().path();
        Err(Fault::new(format!("this network carries no long bodies, such as that of {path}")))
    }
}

/// The real network, for talking to others than a coordinator; an error in words if `trust` cannot be used.
pub fn real_network(trust: &Trust) -> Result<Arc<dyn Network>, String> {
    Ok(Arc::new(Hyper::new(trust)?))
}

/// The real network for addresses that somebody else gave us: https only, and never to an address that is not public.
pub fn public_network(trust: &Trust) -> Result<Arc<dyn Network>, String> {
    Ok(Arc::new(Hyper::reaching(Reach::PublicOnly, trust)?))
}

/// Why nothing came back, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Fault(String);

impl Fault {
    /// A fault, described.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        Self(root_cause(error))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Fault {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::of(error.as_ref())
    }
}

/// The real network: HTTP/1.1 over TCP, with TLS where the address says so, and connections that are kept.
pub(crate) struct Hyper {
    reach: Reach,
    http: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    /// The same network for bodies of another type; it has connections of its own, and seldom any.
    long: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector<Resolver>>, Outgoing>,
}

impl Hyper {
    /// The network, with certificates judged by `trust`; an error in words if those cannot be used.
    pub(crate) fn new(trust: &Trust) -> Result<Self, String> {
        Self::reaching(Reach::Anywhere, trust)
    }

    fn reaching(reach: Reach, trust: &Trust) -> Result<Self, String> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(reach));
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIME_MAX));
        tcp.enforce_http(false);
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls(trust)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIME_MAX);
        Ok(Self { reach, http: builder.build(https.clone()), long: builder.build(https) })
    }
}

#[async_trait]
impl Network for Hyper {
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Answer>, Fault> {
        self.reach.check(request.uri())?;
        let response = self.http.request(request).await.map_err(|error| Fault::of(&error))?;
        Ok(response.map(|body| body.map_err(|error| Fault::of(&error)).boxed_unsync()))
    }

    async fn send(&self, request: Request<Outgoing>) -> Result<Response<Answer>, Fault> {
        self.reach.check(request.uri())?;
        let response = self.long.request(request).await.map_err(|error| Fault::of(&error))?;
        Ok(response.map(|body| body.map_err(|error| Fault::of(&error)).boxed_unsync()))
    }
}

fn tls(trust: &Trust) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    match trust {
        Trust::Public => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Trust::Authority(der) => roots
            .add(rustls::pki_types::CertificateDer::from(der.clone()))
            .map_err(|error| format!("the certificate authority cannot be used: {error}"))?,
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The innermost cause: "connection refused" rather than "client error (Connect)".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
