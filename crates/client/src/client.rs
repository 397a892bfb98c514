//! HTTP client for a coordinator.

mod event_feed;
mod modes;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clock::SystemClock;
use domain::{Clock as _, JobId, ProductId, Run};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use protocol::{API_PREFIX, Problem, RunList, SseEvent, SseParser};

use crate::http::{
    HttpTransport, HyperTransport, IdentityCheck, RequestBody, ResponseBody, TransportError, TransportErrorKind,
};

pub use event_feed::{EventFeed, FeedFrame, FeedItem};

/// Maximum length of a response; a coordinator never sends more.
const ANSWER_LEN_MAX: usize = 64 * 1024 * 1024;

/// Maximum page size of a coordinator.
const PAGE_MAX: u16 = 1_000;

/// Timeout of a request. Covers a coordinator that is starting or flushing to a slow disk.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Idle timeout of a stream. Coordinators send a comment every 5 seconds, earlier releases every 15.
const SILENCE_MAX: Duration = Duration::from_secs(32);

/// How often each of several coordinators is tried, and the pause in between: longer than a takeover.
const ROUNDS_MAX: usize = 20;
const ROUND_PAUSE: Duration = Duration::from_millis(300);
const TAKEOVER_MAX: Duration = ROUND_PAUSE.saturating_mul(20);

/// The code of a coordinator that knows no leader. Nothing was done.
const NOT_LEADER: &str = "not_leader";

/// The code of a coordinator whose leader did not answer. The outcome of a write is unknown.
const TIMED_OUT: &str = "timed_out";

/// Address and credentials for a coordinator.
#[derive(Clone)]
pub struct Endpoint {
    /// Its base address, such as `http://127.0.0.1:7878`; of several coordinators all of them, separated by commas.
    pub base: String,
    /// The bearer token.
    pub token: String,
    /// Default product of requests.
    pub product: Option<ProductId>,
    /// The accepted certificates.
    pub trust: Trust,
}

/// The accepted certificates.
#[derive(Clone, Default)]
pub enum Trust {
    /// Certificates of public authorities.
    #[default]
    Public,
    /// Certificates of this authority (DER), for a coordinator with its own certificate. The authority's certificate
    /// itself is accepted too.
    Authority(Vec<u8>),
    /// The certificate with this SHA-256, whatever its name.
    Pinned([u8; 32]),
}

/// A connection pool to one coordinator, or to several that answer for one fleet. Clones share it.
#[derive(Clone)]
pub struct Client {
    targets: Arc<[Target]>,
    /// The coordinator that answered last.
    current: Arc<AtomicUsize>,
    authorization: HeaderValue,
    product: Option<ProductId>,
}

/// One coordinator.
struct Target {
    base: String,
    network: Arc<dyn HttpTransport>,
}

/// An error of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The coordinator rejected the request.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// No response: the outcome of the request is unknown.
    #[error("no answer from {base}: {why}")]
    NoAnswer {
        /// Address of the coordinator.
        base: String,
        /// The transport error.
        why: String,
    },
    /// The TLS handshake failed.
    #[error("cannot connect to {base}: {why}")]
    Tls {
        /// Address of the coordinator.
        base: String,
        /// The TLS error.
        why: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The server did not prove that it issued the token.
    #[error("{base} is not the coordinator that issued this token: {why}; the token was not sent")]
    Unproven {
        /// Address of the coordinator.
        base: String,
        /// What the server did instead.
        why: String,
    },
    /// The response cannot be parsed.
    #[error("the answer from {base} is not a coordinator's: {why}")]
    Garbled {
        /// Address of the coordinator.
        base: String,
        /// The parse error.
        why: String,
    },
    /// The address or the token is invalid.
    #[error("{0}")]
    Unusable(String),
}

impl ClientError {
    /// The stable code of a rejection.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            Self::NoAnswer { .. }
            | Self::Tls { .. }
            | Self::Unproven { .. }
            | Self::Garbled { .. }
            | Self::Unusable(_) => None,
        }
    }

    /// Whether a retry gives the same answer. Otherwise the outcome is unknown.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused(problem) => problem.status < 500 && problem.status != 429,
            Self::Unusable(_) => true,
            Self::NoAnswer { .. } | Self::Tls { .. } | Self::Unproven { .. } | Self::Garbled { .. } => false,
        }
    }
}

impl Client {
    /// A client over the network. Sends nothing yet. It sends the token only on connections whose server proved that it
    /// issued the token.
    pub fn new(endpoint: Endpoint) -> Result<Self, ClientError> {
        let secret = endpoint.token.clone();
        Self::proving(endpoint, &secret)
    }

    /// A client without a token that sends `secret` in the request body, for enrolment. The server has to prove that it
    /// issued the secret.
    pub fn enrolling(endpoint: Endpoint, secret: &str) -> Result<Self, ClientError> {
        Self::proving(Endpoint { token: String::new(), ..endpoint }, secret)
    }

    /// Without a secret no proof is required.
    fn proving(endpoint: Endpoint, secret: &str) -> Result<Self, ClientError> {
        let mut targets = Vec::new();
        for base in bases(&endpoint.base) {
            let proof = (!secret.is_empty()).then(|| IdentityCheck::new(secret, &base));
            let network: Arc<dyn HttpTransport> =
                Arc::new(HyperTransport::to_coordinator(&endpoint.trust, proof).map_err(unusable)?);
            targets.push(Target { base, network });
        }
        Self::to(targets, endpoint)
    }

    /// A client over any transport. Sends nothing yet.
    pub fn over(network: Arc<dyn HttpTransport>, endpoint: Endpoint) -> Result<Self, ClientError> {
        let targets = bases(&endpoint.base).into_iter().zip(std::iter::repeat(network));
        Self::to(targets.map(|(base, network)| Target { base, network }).collect(), endpoint)
    }

    fn to(targets: Vec<Target>, endpoint: Endpoint) -> Result<Self, ClientError> {
        for Target { base, .. } in &targets {
            let uri: Uri = base.parse().map_err(|_| unusable(format!("`{base}` is not an address")))?;
            if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
                return Err(unusable(format!("`{base}` is not an address: expected http://host:port or https://host")));
            }
        }
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", endpoint.token))
            .map_err(|_| unusable("the token contains characters that cannot be sent".to_owned()))?;
        authorization.set_sensitive(true);
        Ok(Self { targets: targets.into(), current: Arc::default(), authorization, product: endpoint.product })
    }

    /// The base address: of several coordinators that of the one that is asked now.
    pub fn base(&self) -> &str {
        &self.target().base
    }

    fn target(&self) -> &Target {
        &self.targets[self.current.load(Ordering::Relaxed) % self.targets.len()]
    }

    /// Asks the next coordinator from now on, unless another request has moved on already.
    fn move_on(&self, from: &str) {
        let current = self.current.load(Ordering::Relaxed);
        if self.targets.len() > 1 && self.targets[current % self.targets.len()].base == from {
            let _ = self.current.compare_exchange(current, current + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Sends a request that fits in memory, to the next coordinator if one cannot be reached.
    pub(crate) async fn dial(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError> {
        let built_for = self.targets.iter().map(|target| target.base.as_str());
        let uri = request.uri().to_string();
        let path = built_for.filter_map(|base| uri.strip_prefix(base)).find(|path| path.starts_with('/'));
        let path = path.unwrap_or_default().to_owned();
        let (head, body) = request.into_parts();
        let attempts = if self.targets.len() > 1 { ROUNDS_MAX * self.targets.len() } else { 1 };
        for attempt in 1.. {
            let target = self.target();
            let mut head = head.clone();
            head.uri = format!("{}{path}", target.base).parse().unwrap_or(head.uri);
            match target.network.exchange(Request::from_parts(head, body.clone())).await {
                Err(error) if error.is_unsent() && attempt < attempts => self.move_on(&target.base),
                outcome => return outcome,
            }
            if attempt % self.targets.len() == 0 {
                // Another coordinator may be taking over.
                SystemClock::new().sleep(ROUND_PAUSE).await;
            }
        }
        Err(TransportError::new("no coordinator was asked"))
    }

    /// `GET` a path under the API.
    pub async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.call(Method::GET, path, None::<&()>).await
    }

    /// All runs of a job, oldest first. Reads all pages.
    pub async fn runs(&self, job: JobId) -> Result<Vec<Run>, ClientError> {
        let mut runs = Vec::new();
        let mut cursor = None;
        loop {
            let from = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
            let page: RunList = self.get(&format!("/jobs/{job}/runs?limit={PAGE_MAX}{from}")).await?;
            runs.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(runs);
            }
        }
    }

    /// `POST` a request to a path under the API.
    pub async fn post<R: Serialize + Sync, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &R,
    ) -> Result<A, ClientError> {
        self.call(Method::POST, path, Some(request)).await
    }

    /// Any method on a path under the API.
    pub async fn call<R: Serialize + Sync, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        request: Option<&R>,
    ) -> Result<A, ClientError> {
        let body = match request {
            Some(request) => serde_json::to_vec(request).map_err(|error| unusable(error.to_string()))?,
            None => Vec::new(),
        };
        let answer = self.send(method, path, "application/json", body.into()).await?;
        // 204 No Content.
        let answer = if answer.is_empty() { &b"null"[..] } else { &answer };
        serde_json::from_slice(answer).map_err(|error| self.garbled(&error))
    }

    /// `POST` raw bytes to a path under the API.
    pub async fn post_bytes<A: DeserializeOwned>(&self, path: &str, bytes: Bytes) -> Result<A, ClientError> {
        let answer = self.send(Method::POST, path, "application/octet-stream", bytes).await?;
        serde_json::from_slice(&answer).map_err(|error| self.garbled(&error))
    }

    /// `GET` a path under the API as text.
    pub async fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let answer = self.send(Method::GET, path, "application/json", Bytes::new()).await?;
        String::from_utf8(answer.into()).map_err(|error| self.garbled(&error))
    }

    /// Opens an event stream; `after` resumes after an earlier event.
    pub async fn events(&self, path: &str, after: Option<&str>) -> Result<EventStream, ClientError> {
        let mut request = self.request(Method::GET, path, "application/json", Bytes::new())?;
        if let Some(id) = after
            && let Ok(value) = HeaderValue::from_str(id)
        {
            request.headers_mut().insert("last-event-id", value);
        }
        let body = self.open(request).await?;
        Ok(EventStream { body, base: self.base().to_owned(), parser: SseParser::default(), ready: VecDeque::new() })
    }

    /// Opens a stream of raw bytes.
    pub async fn bytes(&self, path: &str) -> Result<LogStream, ClientError> {
        let request = self.request(Method::GET, path, "application/json", Bytes::new())?;
        let response = self.opened(request, REQUEST_TIME_MAX).await?;
        let offset = response.headers().get("x-log-offset").and_then(|offset| offset.to_str().ok()?.parse().ok());
        Ok(LogStream { body: response.into_body(), base: self.base().to_owned(), offset })
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: Bytes) -> Result<Bytes, ClientError> {
        let request = self.request(method, path, kind, body)?;
        let exchange = async {
            let takeover = self.takeover(&request);
            loop {
                match self.answered(request.clone()).await {
                    Err(error) if takeover.may_explain(&error) => takeover.pause().await,
                    outcome => return outcome,
                }
            }
        };
        match tokio::time::timeout(REQUEST_TIME_MAX, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("nothing for {} seconds", REQUEST_TIME_MAX.as_secs());
                Err(self.no_answer(&TransportError::new(why)))
            }
        }
    }

    async fn answered(&self, request: Request<Full<Bytes>>) -> Result<Bytes, ClientError> {
        let response = self.dial(request).await.map_err(|fault| self.no_answer(&fault))?;
        self.read(response).await
    }

    fn takeover(&self, request: &Request<Full<Bytes>>) -> Takeover {
        let clock = SystemClock::new();
        let until = clock.monotonic() + TAKEOVER_MAX;
        Takeover { is_possible: self.targets.len() > 1, is_read: request.method().is_safe(), until, clock }
    }

    /// Uploads a long body and parses the response.
    pub(crate) async fn uploaded<A: DeserializeOwned>(
        &self,
        request: Request<RequestBody>,
        time_max: Duration,
    ) -> Result<A, ClientError> {
        let exchange = async {
            let response = self.target().network.send(request).await.map_err(|fault| self.no_answer(&fault))?;
            self.read(response).await
        };
        let answer = tokio::time::timeout(time_max, exchange).await;
        let answer = answer.map_err(|_| self.no_answer(&TransportError::new("it takes too long")))??;
        serde_json::from_slice(&answer).map_err(|error| self.garbled(&error))
    }

    /// The response body as a stream.
    pub(crate) fn stream(&self, body: ResponseBody) -> LogStream {
        LogStream { body, base: self.base().to_owned(), offset: None }
    }

    async fn open(&self, request: Request<Full<Bytes>>) -> Result<ResponseBody, ClientError> {
        self.opened(request, REQUEST_TIME_MAX).await.map(Response::into_body)
    }

    /// Sends a request and waits for the head of a successful response.
    pub(crate) async fn opened(
        &self,
        request: Request<Full<Bytes>>,
        time_max: Duration,
    ) -> Result<Response<ResponseBody>, ClientError> {
        let opening = async {
            let takeover = self.takeover(&request);
            loop {
                match self.opened_once(request.clone()).await {
                    Err(error) if takeover.may_explain(&error) => takeover.pause().await,
                    outcome => return outcome,
                }
            }
        };
        match tokio::time::timeout(time_max, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(self.no_answer(&TransportError::new("it does not open"))),
        }
    }

    async fn opened_once(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, ClientError> {
        let response = self.dial(request).await.map_err(|fault| self.no_answer(&fault))?;
        if response.status().is_success() {
            return Ok(response);
        }
        match self.read(response).await {
            Ok(_) => Err(self.garbled(&"expected a stream")),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let prefix = if path.starts_with("/healthz") || path.starts_with("/readyz") { "" } else { API_PREFIX };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{prefix}{path}", self.base()))
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::CONTENT_TYPE, kind);
        if let Some(product) = &self.product {
            request = request.header("x-product-id", product.as_str());
        }
        request.body(Full::new(body)).map_err(|error| unusable(format!("`{path}` is not a path: {error}")))
    }

    async fn read(&self, response: Response<ResponseBody>) -> Result<Bytes, ClientError> {
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_LEN_MAX)
            .collect()
            .await
            .map_err(|error| self.no_answer(&TransportError::from(error)))?
            .to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => {
                if matches!(problem.code.as_str(), NOT_LEADER | TIMED_OUT) {
                    self.move_on(self.base());
                }
                Err(ClientError::Refused(Box::new(problem)))
            }
            Err(_) if status == StatusCode::NOT_FOUND => Err(self.garbled(&"it does not know the path")),
            Err(_) => Err(self.garbled(&format!("status {status} without an explanation"))),
        }
    }

    fn no_answer(&self, fault: &TransportError) -> ClientError {
        let (base, why) = (self.base().to_owned(), fault.to_string());
        self.move_on(&base);
        match fault.kind() {
            TransportErrorKind::Unreachable => ClientError::NoAnswer { base, why },
            TransportErrorKind::Tls(remedy) => ClientError::Tls { base, why, remedy },
            TransportErrorKind::Unproven => ClientError::Unproven { base, why },
            TransportErrorKind::Refused(problem) => ClientError::Refused(problem.clone()),
        }
    }

    fn garbled(&self, why: &dyn std::fmt::Display) -> ClientError {
        ClientError::Garbled { base: self.base().to_owned(), why: why.to_string() }
    }
}

/// The time in which another coordinator may become the leader: a request that this interrupts is repeated.
struct Takeover {
    is_possible: bool,
    /// Reads can be repeated whatever became of them, writes only if nothing was done.
    is_read: bool,
    until: Duration,
    clock: SystemClock,
}

impl Takeover {
    fn may_explain(&self, error: &ClientError) -> bool {
        let is_harmless = match error {
            ClientError::Refused(problem) if problem.code == NOT_LEADER => true,
            ClientError::Refused(problem) => self.is_read && problem.code == TIMED_OUT,
            ClientError::NoAnswer { .. } => self.is_read,
            ClientError::Tls { .. }
            | ClientError::Unproven { .. }
            | ClientError::Garbled { .. }
            | ClientError::Unusable(_) => false,
        };
        self.is_possible && is_harmless && self.clock.monotonic() < self.until
    }

    async fn pause(&self) {
        self.clock.sleep(ROUND_PAUSE).await;
    }
}

/// An open event stream.
pub struct EventStream {
    body: ResponseBody,
    base: String,
    parser: SseParser,
    ready: VecDeque<SseEvent>,
}

impl EventStream {
    /// The next event; `None` when the coordinator closed the stream. An idle timeout is an error.
    pub async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = next_chunk(&mut self.body, &self.base).await? else { return Ok(None) };
            let ready = &mut self.ready;
            self.parser.feed(&chunk, |event| ready.push_back(event));
        }
    }
}

/// An open stream of raw bytes.
pub struct LogStream {
    body: ResponseBody,
    base: String,
    offset: Option<u64>,
}

impl LogStream {
    /// Where the bytes begin in the whole log; none from a coordinator of an earlier version.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        next_chunk(&mut self.body, &self.base).await
    }
}

async fn next_chunk(body: &mut ResponseBody, base: &str) -> Result<Option<Bytes>, ClientError> {
    loop {
        let no_answer = |why: String| ClientError::NoAnswer { base: base.to_owned(), why };
        let frame = tokio::time::timeout(SILENCE_MAX, body.frame())
            .await
            .map_err(|_| no_answer("the stream fell silent".to_owned()))?;
        match frame {
            None => return Ok(None),
            Some(Err(fault)) => return Err(no_answer(fault.to_string())),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// The addresses of a list.
fn bases(list: &str) -> Vec<String> {
    let bases = list.split(',').map(|base| base.trim().trim_end_matches('/').to_owned());
    let known: Vec<String> = bases.filter(|base| !base.is_empty()).collect();
    if known.is_empty() { vec![list.to_owned()] } else { known }
}

fn unusable(why: String) -> ClientError {
    ClientError::Unusable(why)
}
