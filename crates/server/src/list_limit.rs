//! How many lists and searches a token reads at once. A search may examine thousands of jobs: without a limit, one token
//! would hold every reading connection of the store, and other callers would wait behind its requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use coordinator::Principal;
use domain::TokenId;
use http::request::Parts;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::auth::Caller;
use crate::problem::Problem;

/// Concurrent lists of a token and its browser sessions; further ones wait.
const CONCURRENT_MAX: usize = 4;

/// Lists of a token that run or wait; further ones are rejected.
const REQUESTS_MAX: usize = 64;

/// When a rejected caller may retry.
const AGAIN: Duration = Duration::from_secs(1);

/// The lists that run or wait, by token.
#[derive(Default)]
pub(crate) struct ListLimit {
    by_token: Mutex<HashMap<TokenId, Requests>>,
}

struct Requests {
    count: usize,
    running: Arc<Semaphore>,
}

/// The caller of a list, with its permit.
pub(crate) struct ListCaller {
    pub(crate) who: Principal,
    _permit: ListPermit,
}

impl FromRequestParts<App> for ListCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Caller(who) = Caller::from_request_parts(parts, app).await?;
        let _permit = app.lists.acquire(who.token).await?;
        Ok(Self { who, _permit })
    }
}

/// The permit for one list; released when dropped.
struct ListPermit {
    _running: OwnedSemaphorePermit,
    _request: CountedRequest,
}

struct CountedRequest {
    limit: Arc<ListLimit>,
    token: TokenId,
}

impl ListLimit {
    async fn acquire(self: &Arc<Self>, token: TokenId) -> Result<ListPermit, Problem> {
        let running = {
            let mut by_token = self.by_token.lock();
            let new = || Requests { count: 0, running: Arc::new(Semaphore::new(CONCURRENT_MAX)) };
            let requests = by_token.entry(token).or_insert_with(new);
            if requests.count >= REQUESTS_MAX {
                let detail = format!("this token reads {REQUESTS_MAX} lists at once, its limit");
                return Err(Problem::rate_limited(detail, AGAIN));
            }
            requests.count += 1;
            Arc::clone(&requests.running)
        };
        let request = CountedRequest { limit: Arc::clone(self), token };
        let running = running.acquire_owned().await.map_err(|_| Problem::timed_out())?;
        Ok(ListPermit { _running: running, _request: request })
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        let mut by_token = self.limit.by_token.lock();
        if let Some(requests) = by_token.get_mut(&self.token) {
            requests.count -= 1;
            if requests.count == 0 {
                by_token.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn token(number: u8) -> TokenId {
        TokenId::from_bytes([number; 16])
    }

    // [I12]
    #[test]
    fn lists_of_one_token_wait_and_those_of_another_do_not() {
        let limit = Arc::new(ListLimit::default());

        let mut held: Vec<_> = (0..CONCURRENT_MAX).map(|_| limit.acquire(token(1)).now_or_never()).collect();
        let mut waiting = Box::pin(limit.acquire(token(1)));
        let is_waiting = (&mut waiting).now_or_never().is_none();
        let other = limit.acquire(token(2)).now_or_never();
        held.pop();

        assert!(held.iter().all(Option::is_some) && is_waiting && other.is_some());
        assert!(waiting.now_or_never().is_some(), "a permit is free again");
    }

    #[test]
    fn too_many_waiting_lists_are_rejected_and_counted_down() {
        let limit = Arc::new(ListLimit::default());
        let mut requests: Vec<_> = (0..REQUESTS_MAX).map(|_| Box::pin(limit.acquire(token(1)))).collect();
        // A request is counted when it is polled first.
        let mut permits: Vec<_> = requests.iter_mut().map(FutureExt::now_or_never).collect();

        let rejected =
            limit.acquire(token(1)).now_or_never().and_then(Result::err).map(|problem| problem.into_body().status);
        permits.clear();
        drop(requests);

        assert_eq!(rejected, Some(429));
        assert!(limit.by_token.lock().is_empty());
    }
}
