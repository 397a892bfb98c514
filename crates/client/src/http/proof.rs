//! Verifies on each new connection that the server issued the client's token.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::rt::{Read, Write};
use protocol::{API_PREFIX, IdentityChallenge, IdentityProof, Problem, TokenDigest};
use tower::Service;

use crate::http::TransportError;

/// Timeout of the proof.
const PROOF_TIME_MAX: Duration = Duration::from_secs(20);

/// A proof is 43 characters, a problem a few hundred.
const ANSWER_LEN_MAX: usize = 64 * 1024;

/// The proof that every new connection has to give.
#[derive(Clone)]
pub(crate) struct IdentityCheck {
    digest: TokenDigest,
    /// The coordinator's base address, as the client dials it.
    base: Arc<str>,
}

impl IdentityCheck {
    pub(crate) fn new(token: &str, base: &str) -> Self {
        Self { digest: TokenDigest::of(token), base: base.into() }
    }

    fn challenge(&self) -> Result<IdentityChallenge, TransportError> {
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|error| TransportError::new(format!("no random numbers: {error}")))?;
        Ok(IdentityChallenge {
            nonce: URL_SAFE_NO_PAD.encode(nonce),
            token: self.digest.lookup(),
            address: self.base.to_string(),
        })
    }

    /// Sends the challenge on a new connection, and returns the connection if the proof is valid.
    async fn checked<S: Read + Write + Unpin + Send + 'static>(&self, stream: S) -> Result<S, TransportError> {
        let challenge = self.challenge()?;
        let request = self.request(&challenge)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(|error| TransportError::of(&error))?;
        let ask = async move {
            let response = sender.send_request(request).await.map_err(|error| TransportError::of(&error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_LEN_MAX).collect().await.map_err(TransportError::from)?;
            let is_kept = head.headers.get(header::CONNECTION).is_none_or(|value| value != "close");
            Ok::<_, TransportError>((head.status, body.to_bytes(), is_kept))
            // Dropping the sender ends the HTTP connection and leaves the stream open.
        };
        let (answer, parts) = tokio::join!(ask, connection.without_shutdown());
        let (status, body, is_kept) = answer?;
        self.judge(&challenge, status, &body)?;
        let parts = parts.map_err(|error| TransportError::of(&error))?;
        if !is_kept || !parts.read_buf.is_empty() {
            return Err(TransportError::new("the connection was closed"));
        }
        Ok(parts.io)
    }

    fn request(&self, challenge: &IdentityChallenge) -> Result<Request<Full<Bytes>>, TransportError> {
        let base: Uri = self.base.parse().map_err(|_| TransportError::new("not an address"))?;
        let host = base.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let body = serde_json::to_vec(challenge).map_err(|error| TransportError::new(error.to_string()))?;
        let path = base.path().trim_end_matches('/');
        Request::builder()
            .method(Method::POST)
            .uri(format!("{path}{API_PREFIX}/identity"))
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))
            .map_err(|error| TransportError::new(error.to_string()))
    }

    fn judge(&self, challenge: &IdentityChallenge, status: StatusCode, body: &[u8]) -> Result<(), TransportError> {
        if status.is_success() {
            return match serde_json::from_slice::<IdentityProof>(body) {
                Ok(answer) if self.digest.is_proven(challenge, &answer) => Ok(()),
                Ok(_) => Err(TransportError::unproven("its answer to the identity challenge is wrong")),
                Err(_) => Err(TransportError::unproven("its answer to the identity challenge is not one")),
            };
        }
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) if problem.code == "unauthenticated" => Err(TransportError::refused(Problem {
                detail: format!(
                    "the coordinator at {} does not know this token: it was revoked, or is another fleet's",
                    self.base
                ),
                ..problem
            })),
            Ok(problem) if problem.code != "no_such_route" => Err(TransportError::refused(problem)),
            _ => Err(TransportError::unproven("it does not answer the identity challenge")),
        }
    }
}

/// A connector that verifies connections, if there is a token.
#[derive(Clone)]
pub(crate) struct ProvingConnector<C> {
    connector: C,
    proof: Option<IdentityCheck>,
}

impl<C> ProvingConnector<C> {
    pub(crate) fn new(connector: C, proof: Option<IdentityCheck>) -> Self {
        Self { connector, proof }
    }
}

impl<C> Service<Uri> for ProvingConnector<C>
where
    C: Service<Uri, Error = Box<dyn std::error::Error + Send + Sync>> + Send,
    C::Response: Read + Write + Unpin + Send + 'static,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, proof) = (self.connector.call(uri), self.proof.clone());
        Box::pin(async move {
            let stream = connecting.await?;
            let Some(proof) = proof else { return Ok(stream) };
            match tokio::time::timeout(PROOF_TIME_MAX, proof.checked(stream)).await {
                Ok(checked) => Ok(checked?),
                Err(_) => Err(TransportError::new("no answer to the identity challenge").into()),
            }
        })
    }
}
