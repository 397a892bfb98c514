//! Forwarding: a coordinator that does not lead passes requests to the one that does, byte for byte.
//!
//! Only the host, the origin and the address of an identity challenge are checked here, because the leader cannot: it
//! knows neither the connection nor the names of this coordinator. Everything else is the leader's decision.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use client::{HttpTransport, RequestBody, ResponseBody, TransportError};
use domain::{Clock, Leader};
use futures_util::future::{self, Either};
use futures_util::{StreamExt, stream};
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body as _;
use protocol::{API_PREFIX, IdentityChallenge};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::auth::{self, ConnectionAddresses};
use crate::host_check::{self, AllowedHosts};
use crate::options::Limits;
use crate::problem::Problem;
use crate::problem_code as code;

/// Proves that another coordinator forwards a request: the secret of the leader's term.
const HOP: HeaderName = HeaderName::from_static("x-giga-hop");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers of one connection.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// How long a request waits for a leader, and how often one that does not answer is dialled again.
const LEADER_WITHIN: Duration = Duration::from_secs(5);
const DIAL_AGAIN: Duration = Duration::from_millis(100);

/// A shorter body is read before it is sent, so that it can be sent to the next leader.
const BUFFERED_LEN_MAX: u64 = 1024 * 1024;

/// The longest identity challenge.
const CHALLENGE_LEN_MAX: usize = 64 * 1024;

/// The client of a forwarded request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardedClient(pub(crate) IpAddr);

/// The client of a request that another coordinator forwarded. Without the leader's secret the header means nothing.
pub(crate) fn forwarded_for(parts: &mut Parts, leader: Option<&Leader>) -> Option<ForwardedClient> {
    let shown = parts.headers.remove(HOP)?;
    let is_proven = leader.is_some_and(|leader| is_equal(shown.as_bytes(), leader.hop_secret.as_bytes()));
    let client = auth::forwarded(&parts.headers).filter(|_| is_proven)?;
    Some(ForwardedClient(client))
}

/// Compares in constant time.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Passes requests to the leader.
pub(crate) struct Forwarder {
    pub(crate) leader: watch::Receiver<Option<Leader>>,
    pub(crate) network: Arc<dyn HttpTransport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hosts: AllowedHosts,
    pub(crate) behind_proxy: bool,
    pub(crate) limits: Arc<Limits>,
    /// Forwarded streams end when the server stops.
    pub(crate) closing: CancellationToken,
    pub(crate) forwarded: AtomicU64,
}

impl Forwarder {
    /// Answers with the leader's answer.
    pub(crate) async fn forward(&self, request: Request) -> Response {
        match self.forwarded(request).await {
            Ok(response) => response,
            Err(problem) => problem.into_response(),
        }
    }

    async fn forwarded(&self, request: Request) -> Result<Response, Problem> {
        let ends = request.extensions().get::<ConnectionAddresses>().copied();
        let local = ends.map_or(IpAddr::from([127, 0, 0, 1]), |ends| ends.local);
        let peer = ends.map_or(IpAddr::from([0, 0, 0, 0]), |ends| ends.peer);
        let (mut parts, body) = request.into_parts();
        self.hosts.check(&parts, local)?;
        if parts.headers.contains_key(HOP) {
            // Another coordinator takes this one for the leader: it asks again soon.
            return Err(no_leader("this coordinator does not lead"));
        }
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        let host = host_check::authority(&parts).map(|authority| authority.to_string()).unwrap_or_default();
        for name in HOP_BY_HOP {
            parts.headers.remove(name);
        }
        let host = HeaderValue::from_str(&host).map_err(|_| Problem::foreign_host(""))?;
        parts.headers.insert(header::HOST, host);
        let client = if self.behind_proxy { auth::forwarded(&parts.headers).unwrap_or(peer) } else { peer };
        parts
            .headers
            .append(FORWARDED_FOR, HeaderValue::from_str(&client.to_string()).map_err(|_| Problem::timed_out())?);
        let is_challenge = parts.uri.path().strip_prefix(API_PREFIX) == Some("/identity");
        let is_short = body.is_end_stream() || body.size_hint().upper().is_some_and(|len| len <= BUFFERED_LEN_MAX);
        if !is_short && !is_challenge {
            return self.stream(&parts, body).await;
        }
        let len_max = if is_challenge { CHALLENGE_LEN_MAX } else { BUFFERED_LEN_MAX as usize };
        let reading = tokio::time::timeout(self.limits.body_time_max, Limited::new(body, len_max).collect());
        let body = match reading.await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) | Err(_) => return Err(Problem::new(code::UNFINISHED_BODY, "the body was not sent in time")),
        };
        if is_challenge && !self.behind_proxy {
            self.check_challenge(&body, local)?;
        }
        let is_repeatable = is_challenge || matches!(parts.method, Method::GET | Method::HEAD);
        self.send(&parts, body, is_repeatable).await
    }

    /// The leader would prove itself for any address that it is told: this coordinator knows which are its own.
    fn check_challenge(&self, body: &[u8], local: IpAddr) -> Result<(), Problem> {
        let challenge: IdentityChallenge = serde_json::from_slice(body).map_err(|error| Problem::json(&error))?;
        let dialled: Option<Uri> = challenge.address.parse().ok();
        self.hosts.check_name(dialled.as_ref().and_then(Uri::host).unwrap_or_default(), local)
    }

    /// Sends a short request, to the next leader if this one cannot be reached, or dies before it has answered a request
    /// that can be repeated.
    async fn send(&self, parts: &Parts, body: Bytes, is_repeatable: bool) -> Result<Response, Problem> {
        let until = self.clock.monotonic() + LEADER_WITHIN;
        loop {
            let left = until.saturating_sub(self.clock.monotonic());
            let leader = self.leader_within(left).await?;
            let request = head(parts, &leader)?.body(Full::new(body.clone())).map_err(|_| Problem::timed_out())?;
            match self.during_term(&leader, self.network.exchange(request)).await {
                Some(Ok(response)) => return Ok(self.answer(&leader, response)),
                Some(Err(error)) if (error.is_unsent() || is_repeatable) && !left.is_zero() => {
                    debug!(%error, "Cannot reach the leader, trying again");
                    self.clock.sleep(DIAL_AGAIN).await;
                }
                None if is_repeatable && !left.is_zero() && !self.closing.is_cancelled() => {}
                Some(Err(error)) if error.is_unsent() => return Err(no_leader("the leader cannot be reached")),
                Some(Err(_)) | None => return Err(Problem::timed_out()),
            }
        }
    }

    /// Sends a request with a long body, once.
    async fn stream(&self, parts: &Parts, body: Body) -> Result<Response, Problem> {
        let leader = self.leader_within(LEADER_WITHIN).await?;
        let body: RequestBody = body.map_err(|error| TransportError::new(error.to_string())).boxed_unsync();
        let request = head(parts, &leader)?.body(body).map_err(|_| Problem::timed_out())?;
        match self.during_term(&leader, self.network.send(request)).await {
            Some(Ok(response)) => Ok(self.answer(&leader, response)),
            Some(Err(error)) if error.is_unsent() => Err(no_leader("the leader cannot be reached")),
            Some(Err(_)) | None => Err(Problem::timed_out()),
        }
    }

    async fn leader_within(&self, time: Duration) -> Result<Leader, Problem> {
        let mut known = self.leader.clone();
        let waiting = known.wait_for(|leader| leader.as_ref().is_some_and(|leader| leader.address.is_some()));
        let given_up = async {
            tokio::select! {
                () = self.clock.sleep(time) => {}
                () = self.closing.cancelled() => {}
            }
        };
        match future::select(pin!(waiting), pin!(given_up)).await {
            Either::Left((Ok(leader), _)) => leader.clone().ok_or_else(|| no_leader("no coordinator leads")),
            Either::Left((Err(_), _)) | Either::Right(_) => Err(no_leader("no coordinator leads at the moment")),
        }
    }

    /// The outcome, unless another coordinator leads meanwhile or this one stops.
    async fn during_term<T>(&self, leader: &Leader, request: impl Future<Output = T>) -> Option<T> {
        match future::select(pin!(request), pin!(self.over(leader.term))).await {
            Either::Left((outcome, _)) => Some(outcome),
            Either::Right(_) => None,
        }
    }

    /// Resolves when a leader's term is over, or this server stops.
    fn over(&self, term: u64) -> impl Future<Output = ()> + Send + 'static {
        let (mut leader, closing) = (self.leader.clone(), self.closing.clone());
        async move {
            let changed = leader.wait_for(|now| now.as_ref().is_some_and(|now| now.term != term));
            future::select(pin!(changed), pin!(closing.cancelled())).await;
        }
    }

    /// The leader's answer. A stream is cut when another coordinator leads: its client continues there.
    fn answer(&self, leader: &Leader, response: http::Response<ResponseBody>) -> Response {
        let (mut head, body) = response.into_parts();
        for name in HOP_BY_HOP {
            head.headers.remove(name);
        }
        head.version = http::Version::default();
        let parts = (body.into_data_stream(), Box::pin(self.over(leader.term)));
        let cut = stream::unfold(Some(parts), |state| async move {
            let (mut data, over) = state?;
            let (item, state) = match future::select(data.next(), over).await {
                Either::Left((item, over)) => (item?, Some((data, over))),
                Either::Right(_) => (Err(TransportError::new("another coordinator leads now")), None),
            };
            Some((item, state))
        });
        Response::from_parts(head, Body::from_stream(cut))
    }
}

/// The head of a forwarded request.
fn head(parts: &Parts, leader: &Leader) -> Result<http::request::Builder, Problem> {
    let base = leader.address.as_deref().unwrap_or_default().trim_end_matches('/');
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = http::Request::builder().method(parts.method.clone()).uri(format!("{base}{path}"));
    let hop = HeaderValue::from_str(&leader.hop_secret).map_err(|_| no_leader("the leader's record is damaged"))?;
    if let Some(headers) = request.headers_mut() {
        *headers = own_headers(&parts.headers);
        headers.insert(HOP, hop);
    }
    Ok(request)
}

/// The length is that of the body that is sent.
fn own_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    if headers.get(header::EXPECT).is_some() {
        headers.remove(header::EXPECT);
    }
    headers
}

fn no_leader(why: &str) -> Problem {
    Problem::new(code::NOT_LEADER, format!("{why}: nothing was done, try again")).retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    // [attack: a client claims to be a coordinator]
    #[test]
    fn only_the_secret_of_the_term_makes_a_forwarded_address_count() {
        let leader =
            Leader { term: 3, address: None, hop_secret: "s3cret".to_owned(), since: Timestamp::from_millis(0) };
        let client = |hop: Option<&str>, leader: Option<&Leader>| {
            let mut request = http::Request::builder().header("x-forwarded-for", "192.0.2.1, 203.0.113.9");
            if let Some(hop) = hop {
                request = request.header("x-giga-hop", hop);
            }
            let mut parts = request.body(()).unwrap().into_parts().0;
            let client = forwarded_for(&mut parts, leader).map(|client| client.0);
            assert!(!parts.headers.contains_key("x-giga-hop"), "no handler sees it");
            client
        };

        assert_eq!(client(Some("s3cret"), Some(&leader)), Some(IpAddr::from([203, 0, 113, 9])));
        assert_eq!(client(Some("s3creT"), Some(&leader)), None);
        assert_eq!(client(Some("s3cret"), None), None);
        assert_eq!(client(Some(""), Some(&leader)), None);
        assert_eq!(client(None, Some(&leader)), None);
    }
}
