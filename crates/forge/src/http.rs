//! One HTTP exchange with GitHub, independent of its transport.

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method};

/// The longest answer; a longer one is not read.
pub(super) const ANSWER_LEN_MAX: usize = 8 * 1024 * 1024;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct ForgeCall {
    pub(super) method: Method,
    /// Below the base address, with a leading `/`.
    pub(super) path: String,
    pub(super) body: Option<Bytes>,
    /// The ETag of the last answer.
    pub(super) etag: Option<String>,
}

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub(super) struct ForgeReply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ForgeUnreachable {
    /// There is no token.
    NoToken(String),
    /// No answer; it may have been done.
    Away(String),
}

/// The transport of requests to GitHub.
#[async_trait]
pub(super) trait ForgeTransport: Send + Sync {
    async fn carry(&self, call: &ForgeCall) -> Result<ForgeReply, ForgeUnreachable>;

    /// Follows a redirect. It may lead to any server, so no token is sent.
    async fn follow(&self, address: &str) -> Result<ForgeReply, ForgeUnreachable>;
}
