//! The open streams: how many a caller has, and when they must end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Coordinator, Principal};
use domain::{Clock, SessionId, TokenId};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;

/// When a client with too many streams may retry: one of them may have ended by then.
const AGAIN: Duration = Duration::from_secs(5);

/// The streams of a token and all its browser sessions together, in limits of one caller: with the most sessions that a
/// token can have, one token would otherwise hold every connection of the server.
const CALLERS_PER_TOKEN_MAX: usize = 4;

/// The open streams, by caller.
pub(crate) struct Streams {
    per_token_max: usize,
    closing: CancellationToken,
    by_caller: Mutex<HashMap<StreamOwner, Open>>,
}

/// Streams are counted by token; each browser session counts as a caller of its own.
type StreamOwner = (TokenId, Option<SessionId>);

struct Open {
    who: Principal,
    count: usize,
    revoked: CancellationToken,
}

/// The permit for one open stream; released when dropped.
pub(crate) struct Permit {
    streams: Arc<Streams>,
    owner: StreamOwner,
    revoked: CancellationToken,
}

impl Streams {
    /// No streams yet. All of them end with `closing`.
    pub(crate) fn new(per_token_max: usize, closing: CancellationToken) -> Self {
        Self { per_token_max, closing, by_caller: Mutex::default() }
    }

    /// Opens one more stream for a caller.
    pub(crate) fn open(self: &Arc<Self>, who: &Principal) -> Result<Permit, Problem> {
        let mut by_caller = self.by_caller.lock();
        let of_token: usize =
            by_caller.iter().filter(|((token, _), _)| *token == who.token).map(|(_, open)| open.count).sum();
        if of_token >= self.per_token_max * CALLERS_PER_TOKEN_MAX {
            let detail = format!("this token and its sessions have {of_token} streams open, their limit");
            return Err(Problem::rate_limited(detail, AGAIN));
        }
        let new = || Open { who: who.clone(), count: 0, revoked: CancellationToken::new() };
        let owner = (who.token, who.session);
        let open = by_caller.entry(owner).or_insert_with(new);
        if open.count >= self.per_token_max {
            let detail = format!("this token or session has {} streams open, its limit", open.count);
            return Err(Problem::rate_limited(detail, AGAIN));
        }
        open.count += 1;
        Ok(Permit { streams: Arc::clone(self), owner, revoked: open.revoked.clone() })
    }

    /// The number of open streams.
    pub(crate) fn count(&self) -> usize {
        self.by_caller.lock().values().map(|open| open.count).sum()
    }

    /// Ends the streams of invalid tokens, for as long as it is polled.
    pub(crate) async fn watch(&self, coordinator: &Coordinator, clock: &dyn Clock, every: Duration) {
        loop {
            clock.sleep(every).await;
            self.by_caller.lock().retain(|_, open| {
                let is_valid = coordinator.is_valid(&open.who);
                if !is_valid {
                    open.revoked.cancel();
                }
                is_valid
            });
        }
    }
}

impl Permit {
    /// Resolves when the stream must end: its token is invalid, or the server stops.
    pub(crate) async fn over(&self) {
        tokio::select! {
            () = self.revoked.cancelled() => {}
            () = self.streams.closing.cancelled() => {}
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut by_caller = self.streams.by_caller.lock();
        if let Some(open) = by_caller.get_mut(&self.owner) {
            open.count -= 1;
            if open.count == 0 {
                by_caller.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::auth::reader;

    use super::*;

    #[test]
    fn the_sessions_of_a_token_share_a_limit() {
        let streams = Arc::new(Streams::new(1, CancellationToken::new()));
        let session = |n| Principal { session: Some(SessionId::from_bytes([n; 16])), ..reader() };

        let opened: Vec<_> = (0..5).map(|n| streams.open(&session(n))).collect();

        assert_eq!(opened.iter().filter(|permit| permit.is_ok()).count(), CALLERS_PER_TOKEN_MAX);
    }

    #[test]
    fn a_stream_that_ends_frees_its_permit() {
        let streams = Arc::new(Streams::new(1, CancellationToken::new()));
        let first = streams.open(&reader());

        let second = streams.open(&reader()).map(|_| ()).map_err(|problem| problem.into_body().status);
        assert_eq!(second, Err(429));
        drop(first);

        assert!(streams.open(&reader()).is_ok());
        assert_eq!(streams.count(), 0);
    }
}
