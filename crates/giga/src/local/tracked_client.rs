//! The client of the queue's own coordinator, which remembers what it could not get an answer to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError, EventFeed};
use domain::{Clock, JobId, Run};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long a failing store is retried: the operator may free space on a full disk, or a backup may end.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// Two failures that are further apart have nothing to do with each other. A request that hangs takes half a minute.
const APART: Duration = Duration::from_secs(90);

/// A client of the coordinator that records failed requests. Clones share the records.
#[derive(Clone)]
pub(super) struct TrackedClient {
    client: Client,
    clock: Arc<dyn Clock>,
    /// The last failed requests, by path.
    unanswered: Arc<Mutex<BTreeMap<String, UnansweredRequest>>>,
}

struct UnansweredRequest {
    first: Duration,
    last: Duration,
    why: String,
}

impl TrackedClient {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self { client, clock, unanswered: Arc::default() }
    }

    /// `GET` a path under the API.
    pub(super) async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        let answer = self.client.get(path).await;
        self.noted(path, answer)
    }

    /// All runs of a job, oldest first.
    pub(super) async fn runs(&self, job: JobId) -> Result<Vec<Run>, ClientError> {
        let answer = self.client.runs(job).await;
        self.noted(&format!("/jobs/{job}/runs"), answer)
    }

    /// `POST` a request to a path under the API.
    pub(super) async fn post<R: Serialize + Sync, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &R,
    ) -> Result<A, ClientError> {
        let answer = self.client.post(path, request).await;
        self.noted(path, answer)
    }

    /// A feed of events, not connected yet.
    pub(super) fn feed(&self, path: &str) -> EventFeed {
        EventFeed::new(self.client.clone(), Arc::clone(&self.clock), path, None)
    }

    /// Part of a request failed, although the request as a whole succeeded.
    pub(super) fn fail(&self, what: &str, why: String) {
        let now = self.clock.monotonic();
        let mut unanswered = self.unanswered.lock();
        let first = unanswered.get(what).filter(|known| now.saturating_sub(known.last) < APART);
        let first = first.map_or(now, |known| known.first);
        unanswered.insert(what.to_owned(), UnansweredRequest { first, last: now, why });
    }

    /// A request succeeded.
    pub(super) fn succeed(&self, what: &str) {
        self.unanswered.lock().remove(what);
    }

    /// Whether a request has just failed for the first time.
    pub(super) fn is_news(&self, what: &str) -> bool {
        self.unanswered.lock().get(what).is_some_and(|known| known.first == known.last)
    }

    /// Whether the last try of a request failed recently.
    pub(super) fn is_in_trouble(&self) -> bool {
        let now = self.clock.monotonic();
        self.unanswered.lock().values().any(|known| now.saturating_sub(known.last) < APART)
    }

    /// What has not got its answer for too long, in words.
    pub(super) fn given_up(&self) -> Option<String> {
        let unanswered = self.unanswered.lock();
        let lasting = unanswered.values().find(|known| known.last.saturating_sub(known.first) >= ANSWER_WITHIN)?;
        Some(format!("the queue's store does not answer: {}; gave up after {} s", lasting.why, ANSWER_WITHIN.as_secs()))
    }

    fn noted<A>(&self, path: &str, answer: Result<A, ClientError>) -> Result<A, ClientError> {
        match &answer {
            Err(error) if !error.is_final() => self.fail(path, error.to_string()),
            Ok(_) | Err(_) => self.succeed(path),
        }
        answer
    }
}
