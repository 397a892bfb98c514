//! The HTTP client's policy: retries, ETag caching and rate limits.

use std::sync::Arc;
use std::time::Duration;

use domain::Clock;
use http::{HeaderMap, Method, header};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::debug;

use super::etag_cache::{CachedResponse, EtagCache};
use super::paging::last_page;
use super::wire::ApiErrorBody;
use crate::ForgeError;
use crate::http::{ForgeCall, ForgeReply, ForgeTransport, ForgeUnreachable};

/// The longest shown message of the forge.
pub(super) const COMPLAINT_CHARS_MAX: usize = 400;

/// How often an idempotent request is tried.
const TRIES_MAX: u32 = 4;

/// The first pause between two attempts; each further one is three times as long.
const PAUSE_FIRST: Duration = Duration::from_millis(200);

/// A rate limit that ends sooner is awaited; a longer one is returned to the caller.
const WAIT_MAX: Duration = Duration::from_secs(8);

/// The pause after a rate limit without a duration.
const SECONDARY_WAIT: Duration = Duration::from_secs(60);

/// No limit lasts longer than its hour, whatever the server's clock says.
const RESET_MAX: Duration = Duration::from_secs(3_600);

/// Whether a request is idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// A repetition changes nothing.
    Harmless,
    /// The caller must check first whether it was done.
    Never,
}

/// GitHub's interface.
pub(crate) struct Api {
    transport: Box<dyn ForgeTransport>,
    clock: Arc<dyn Clock>,
    known: Mutex<EtagCache>,
    /// The end of the rate limit, on the monotonic clock.
    away_until: Mutex<Duration>,
}

impl Api {
    pub(crate) fn new(transport: Box<dyn ForgeTransport>, clock: Arc<dyn Clock>) -> Self {
        Self { transport, clock, known: Mutex::default(), away_until: Mutex::default() }
    }

    /// Reads a resource. An unchanged one is not sent again, and does not count against the rate limit.
    pub(super) async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ForgeError> {
        self.page(path).await.map(|(page, _)| page)
    }

    /// The same for one page of a listing, with the number of its last one.
    pub(super) async fn page<A: DeserializeOwned>(&self, path: &str) -> Result<(A, Option<usize>), ForgeError> {
        let known = self.known.lock().recall(path);
        let etag = known.as_ref().map(|known| known.etag.clone());
        let call = ForgeCall { method: Method::GET, path: path.to_owned(), body: None, etag };
        let reply = self.exchange(&call, Repeat::Harmless).await?;
        let (body, last_page) = match (reply.status, known) {
            (304, Some(known)) => (known.body, known.last_page),
            _ => {
                let last_page = last_page(&reply.headers);
                self.remember(path, &reply, last_page);
                (reply.body, last_page)
            }
        };
        Ok((parsed(&what(&call), &body)?, last_page))
    }

    /// Sends a request, and reads the answer.
    pub(super) async fn send<R: Serialize + Sync, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        request: &R,
        repeat: Repeat,
    ) -> Result<A, ForgeError> {
        let body = serde_json::to_vec(request).unwrap_or_default().into();
        let call = ForgeCall { method, path: path.to_owned(), body: Some(body), etag: None };
        let reply = self.exchange(&call, repeat).await?;
        parsed(&what(&call), &reply.body)
    }

    /// A text that the forge may store elsewhere: the redirect is followed without a token.
    pub(super) async fn text(&self, path: &str) -> Result<String, ForgeError> {
        let call = ForgeCall { method: Method::GET, path: path.to_owned(), body: None, etag: None };
        let what = what(&call);
        let away = |why: ForgeUnreachable| match why {
            ForgeUnreachable::NoToken(why) => ForgeError::Unauthenticated(why),
            ForgeUnreachable::Away(why) => {
                ForgeError::Away { what: what.clone(), why: domain::escape_for_terminal(&why) }
            }
        };
        self.wait_for_leave().await?;
        let mut reply = self.transport.carry(&call).await.map_err(away)?;
        if matches!(reply.status, 302 | 307)
            && let Some(address) = reply.headers.get(header::LOCATION).and_then(|address| address.to_str().ok())
        {
            reply = self.transport.follow(address).await.map_err(away)?;
        }
        match reply.status {
            200..=299 => Ok(String::from_utf8_lossy(&reply.body).into_owned()),
            status => Err(ForgeError::Refused { what: what.clone(), status, message: complaint(&reply) }),
        }
    }

    fn remember(&self, path: &str, reply: &ForgeReply, last_page: Option<usize>) {
        let Some(etag) = reply.headers.get(header::ETAG).and_then(|etag| etag.to_str().ok()) else { return };
        let answer = CachedResponse { etag: etag.to_owned(), body: reply.body.clone(), last_page };
        self.known.lock().remember(path, answer);
    }

    async fn exchange(&self, call: &ForgeCall, repeat: Repeat) -> Result<ForgeReply, ForgeError> {
        let mut pause = PAUSE_FIRST;
        let mut tries = 0;
        loop {
            self.wait_for_leave().await?;
            tries += 1;
            let outcome = self.exchange_once(call).await;
            let error = match outcome {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let may_try_again = match &error {
                // It was not done: a repetition does not do it twice.
                ForgeError::RateLimited { wait } => *wait <= WAIT_MAX,
                error => error.is_unknown() && repeat == Repeat::Harmless,
            };
            if !may_try_again || tries >= TRIES_MAX {
                return Err(error);
            }
            debug!(%error, "Asking the forge again");
            if !matches!(error, ForgeError::RateLimited { .. }) {
                self.clock.sleep(pause).await;
                pause *= 3;
            }
        }
    }

    async fn exchange_once(&self, call: &ForgeCall) -> Result<ForgeReply, ForgeError> {
        let what = what(call);
        let reply = match self.transport.carry(call).await {
            Ok(reply) => reply,
            Err(ForgeUnreachable::NoToken(why)) => return Err(ForgeError::Unauthenticated(why)),
            Err(ForgeUnreachable::Away(why)) => {
                return Err(ForgeError::Away { what, why: domain::escape_for_terminal(&why) });
            }
        };
        if let Some(wait) = self.asked_to_wait(&reply) {
            let until = self.clock.monotonic() + wait;
            let mut away_until = self.away_until.lock();
            *away_until = (*away_until).max(until);
            drop(away_until);
            if reply.status >= 400 {
                return Err(ForgeError::RateLimited { wait });
            }
        }
        match reply.status {
            200..=299 | 304 => Ok(reply),
            401 => Err(ForgeError::Unauthenticated(complaint(&reply))),
            status => Err(ForgeError::Refused { what, status, message: complaint(&reply) }),
        }
    }

    /// Waits for the end of a rate limit, if that is not too long.
    async fn wait_for_leave(&self) -> Result<(), ForgeError> {
        let wait = self.away_until.lock().saturating_sub(self.clock.monotonic());
        if wait > WAIT_MAX {
            return Err(ForgeError::RateLimited { wait });
        }
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
        Ok(())
    }

    /// The duration of a rate limit, if the answer has one: by the primary limit, the secondary one, or the message.
    fn asked_to_wait(&self, reply: &ForgeReply) -> Option<Duration> {
        let refused = matches!(reply.status, 403 | 429);
        if let Some(seconds) = number(&reply.headers, "retry-after").filter(|_| refused || reply.status == 503) {
            return Some(Duration::from_secs(seconds).min(RESET_MAX));
        }
        if number(&reply.headers, "x-ratelimit-remaining") == Some(0)
            && let Some(reset) = number(&reply.headers, "x-ratelimit-reset")
        {
            let now = u64::try_from(self.clock.now().as_millis()).unwrap_or(0);
            let wait = Duration::from_millis(reset.saturating_mul(1_000).saturating_sub(now));
            return Some((wait + Duration::from_secs(1)).min(RESET_MAX));
        }
        let in_words = refused && complaint(reply).to_lowercase().contains("rate limit");
        (reply.status == 429 || in_words).then_some(SECONDARY_WAIT)
    }
}

fn what(call: &ForgeCall) -> String {
    let path = call.path.split('?').next().unwrap_or_default();
    format!("{} {path}", call.method)
}

fn parsed<A: DeserializeOwned>(what: &str, body: &[u8]) -> Result<A, ForgeError> {
    serde_json::from_slice(body).map_err(|error| ForgeError::Garbled {
        what: what.to_owned(),
        why: domain::escape_for_terminal(&error.to_string()),
    })
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// The forge's own message, in one line.
fn complaint(reply: &ForgeReply) -> String {
    let complaint: ApiErrorBody = serde_json::from_slice(&reply.body).unwrap_or_default();
    let mut words = vec![complaint.message];
    for error in &complaint.errors {
        let said = error.get("message").or_else(|| error.get("code")).unwrap_or(error);
        words.extend(said.as_str().map(str::to_owned));
    }
    let shown: String = domain::terminal_chars(&words.join(": ")).take(COMPLAINT_CHARS_MAX).collect();
    if shown.is_empty() { "without a word".to_owned() } else { shown }
}
