//! The memory budget of request bodies: a share per sender, and a limit for all.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use axum::extract::Request;
use http::header;
use parking_lot::Mutex;
use protocol::SESSION_HEADER;

use crate::auth::ConnectionAddresses;
use crate::problem::Problem;

/// The limit of all bodies: an eighth of the memory of a small machine.
const TOTAL_LEN_MAX: usize = 256 * 1024 * 1024;

/// The limit of one sender's bodies: four of the longest batches.
const SENDER_LEN_MAX: usize = 128 * 1024 * 1024;

/// The first bytes of each body are not counted, so that ordinary requests take no lock.
const UNCOUNTED_LEN: usize = 16 * 1024;

/// The memory that arriving bodies use.
pub(crate) struct BodyBudget {
    usage: Arc<Mutex<Usage>>,
    hasher: RandomState,
}

#[derive(Default)]
struct Usage {
    total: usize,
    by_sender: HashMap<u64, usize>,
}

/// One body's part of the budget; released when dropped.
pub(crate) struct Reservation {
    usage: Arc<Mutex<Usage>>,
    sender: u64,
    len: usize,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self { usage: Arc::default(), hasher: RandomState::new() }
    }
}

impl BodyBudget {
    /// An empty reservation for the sender of a request: the owner of its token or session, or its address without one.
    pub(crate) fn reserve(&self, request: &Request) -> Reservation {
        let sender = match request.headers().get(header::AUTHORIZATION).or(request.headers().get(SESSION_HEADER)) {
            Some(token) => self.hasher.hash_one(token.as_bytes()),
            None => self.hasher.hash_one(request.extensions().get::<ConnectionAddresses>().map(|ends| ends.peer)),
        };
        Reservation { usage: Arc::clone(&self.usage), sender, len: 0 }
    }
}

impl Reservation {
    /// Reserves memory for a body of `len` bytes, or rejects it.
    pub(crate) fn grow_to(&mut self, len: usize) -> Result<(), Problem> {
        let more = len.saturating_sub(UNCOUNTED_LEN).saturating_sub(self.len);
        if more == 0 {
            return Ok(());
        }
        let mut usage = self.usage.lock();
        let taken = usage.by_sender.get(&self.sender).copied().unwrap_or_default();
        if usage.total + more > TOTAL_LEN_MAX || taken + more > SENDER_LEN_MAX {
            return Err(Problem::too_many_bodies());
        }
        usage.total += more;
        usage.by_sender.insert(self.sender, taken + more);
        self.len += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        let mut usage = self.usage.lock();
        usage.total -= self.len;
        let left = usage.by_sender.get(&self.sender).copied().unwrap_or_default() - self.len;
        match left {
            0 => usage.by_sender.remove(&self.sender),
            left => usage.by_sender.insert(self.sender, left),
        };
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const BATCH: usize = 32 * 1024 * 1024;

    fn of(budget: &BodyBudget, token: &str) -> Reservation {
        let request = Request::builder().header(header::AUTHORIZATION, token).body(Body::empty());
        budget.reserve(&request.unwrap_or_default())
    }

    // [I12]
    #[test]
    fn one_sender_never_takes_more_than_its_share() {
        let budget = BodyBudget::default();
        let mut bodies: Vec<_> = (0..5).map(|_| of(&budget, "a")).collect();

        let taken = bodies.iter_mut().map(|body| body.grow_to(BATCH).is_ok()).collect::<Vec<_>>();

        assert_eq!(taken, [true, true, true, true, false]);
        assert!(of(&budget, "b").grow_to(BATCH).is_ok());
    }

    #[test]
    fn all_senders_together_stay_within_the_limit() {
        let budget = BodyBudget::default();
        let mut bodies: Vec<_> = (0..9).map(|n| of(&budget, &n.to_string())).collect();

        let taken = bodies.iter_mut().filter_map(|body| body.grow_to(BATCH).ok()).count();

        assert_eq!(taken, 8);
    }

    #[test]
    fn a_dropped_body_releases_its_budget() {
        let budget = BodyBudget::default();
        for _ in 0..20 {
            assert!(of(&budget, "a").grow_to(BATCH).is_ok());
        }

        let usage = budget.usage.lock();
        assert_eq!((usage.total, usage.by_sender.len()), (0, 0));
    }

    #[test]
    fn an_ordinary_body_is_not_counted() {
        let budget = BodyBudget::default();
        let mut body = of(&budget, "a");

        assert!(body.grow_to(UNCOUNTED_LEN).is_ok());

        assert_eq!(budget.usage.lock().total, 0);
    }
}
