//! Whatever waits is committed together, so that one flush serves many callers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use domain::{CommitError, Position, Revision, StoreError};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::Options;
use super::change::Change;
use super::connection::{Connector, Session};
use super::fault::{Blame, Trouble, closed};
use super::transaction::{self, Broken, Committed};
use crate::meter::Meter;

/// What a caller learns about one of its changes.
pub(super) type Outcome = Result<Revision, CommitError>;

/// A transaction of this many changes takes a few milliseconds; more would make the first caller wait for the last.
const CHANGES_MAX: usize = 1024;

/// A message to the server is far smaller than the largest that it takes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often a transaction is tried that was undone through no fault of its own.
const ATTEMPTS_MAX: u32 = 3;

/// The way to those who write.
pub(super) struct Writer {
    requests: Mutex<Option<mpsc::Sender<Write>>>,
    ended: CancellationToken,
}

struct Write {
    changes: Vec<Change>,
    answer: oneshot::Sender<Vec<Outcome>>,
}

impl Writer {
    pub(super) fn start(
        connector: &Arc<Connector>,
        own: watch::Sender<Position>,
        meter: Arc<Meter>,
        options: Options,
    ) -> Self {
        let (requests, waiting) = mpsc::channel(options.waiting_max.max(1));
        let ended = CancellationToken::new();
        let scribe = Arc::new(Scribe { connector: Arc::clone(connector), own, meter });
        let idle = (0..options.writers.max(1)).map(|_| None).collect();
        let desk = Desk { waiting, idle, at_work: JoinSet::new(), scribe, _ended: ended.clone().drop_guard() };
        connector.tasks.spawn(desk.run());
        Self { requests: Mutex::new(Some(requests)), ended }
    }

    /// Hands the changes over and waits for the flush. Once handed over they are written, even if nobody waits any more.
    pub(super) async fn write(&self, changes: Vec<Change>) -> Vec<Outcome> {
        let count = changes.len();
        let (answer, outcomes) = oneshot::channel();
        let Some(requests) = self.requests.lock().clone() else { return refuse(count, closed) };
        if requests.send(Write { changes, answer }).await.is_err() {
            return refuse(count, closed);
        }
        // Without an answer the one who wrote has died with the changes in its hands.
        outcomes.await.unwrap_or_else(|_| unknown(count))
    }

    /// Writes what waits; nothing more comes in.
    pub(super) async fn close(&self) {
        drop(self.requests.lock().take());
        self.ended.cancelled().await;
    }
}

fn refuse(count: usize, why: impl Fn() -> StoreError) -> Vec<Outcome> {
    (0..count).map(|_| Err(CommitError::Store(why()))).collect()
}

fn unknown(count: usize) -> Vec<Outcome> {
    (0..count).map(|_| Err(CommitError::Unknown)).collect()
}

/// Where what waits is gathered and given to whoever is idle.
struct Desk {
    waiting: mpsc::Receiver<Write>,
    /// Connections that do nothing; `None` for one that has yet to be made.
    idle: Vec<Option<Session>>,
    at_work: JoinSet<Option<Session>>,
    scribe: Arc<Scribe>,
    _ended: tokio_util::sync::DropGuard,
}

impl Desk {
    async fn run(mut self) {
        while let Some(first) = self.waiting.recv().await {
            let session = self.idle().await;
            let batch = self.gather(first);
            let scribe = Arc::clone(&self.scribe);
            self.at_work.spawn(async move { scribe.serve(session, batch).await });
        }
        while self.at_work.join_next().await.is_some() {}
    }

    async fn idle(&mut self) -> Option<Session> {
        while let Some(done) = self.at_work.try_join_next() {
            self.idle.push(done.unwrap_or(None));
        }
        match self.idle.pop() {
            Some(session) => session,
            // Whoever ends without giving its connection back leaves a place for another one.
            None => self.at_work.join_next().await.and_then(|done| done.unwrap_or(None)),
        }
    }

    /// The first request and whatever else waits, up to a bound.
    fn gather(&mut self, first: Write) -> Vec<Write> {
        let mut changes = first.changes.len();
        let mut batch = vec![first];
        while changes < CHANGES_MAX
            && let Ok(write) = self.waiting.try_recv()
        {
            changes += write.changes.len();
            batch.push(write);
        }
        batch
    }
}

/// Those who write.
struct Scribe {
    connector: Arc<Connector>,
    /// Where the log ends by what was written here.
    own: watch::Sender<Position>,
    meter: Arc<Meter>,
}

/// The changes in transactions that are not too large. One caller may hand over more than that at once.
fn parts(changes: &[&Change]) -> VecDeque<Range<usize>> {
    let (mut parts, mut start, mut bytes) = (VecDeque::new(), 0, 0);
    for (at, change) in changes.iter().enumerate() {
        bytes += change.size();
        if at > start && (bytes > BYTES_MAX || at - start >= CHANGES_MAX) {
            parts.push_back(start..at);
            (start, bytes) = (at, change.size());
        }
    }
    parts.push_back(start..changes.len());
    parts
}

/// What came of a part of a batch.
enum Part {
    Done(Vec<Outcome>),
    /// One of them is at fault: in two halves, only one of them fails.
    Halve,
}

impl Scribe {
    async fn serve(&self, mut session: Option<Session>, batch: Vec<Write>) -> Option<Session> {
        let changes: Vec<&Change> = batch.iter().flat_map(|write| &write.changes).collect();
        let mut outcomes = self.write(&mut session, &changes).await.into_iter();
        drop(changes);
        for write in batch {
            let count = write.changes.len();
            // A caller that does not wait any more has no use for the answer; the changes are written all the same.
            let _ = write.answer.send(outcomes.by_ref().take(count).collect());
        }
        session
    }

    async fn write(&self, session: &mut Option<Session>, changes: &[&Change]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(changes.len());
        let mut parts = parts(changes);
        while let Some(part) = parts.pop_front() {
            match self.write_part(session, &changes[part.clone()]).await {
                Part::Done(done) => outcomes.extend(done),
                Part::Halve => {
                    let middle = part.start + part.len() / 2;
                    parts.push_front(middle..part.end);
                    parts.push_front(part.start..middle);
                }
            }
        }
        outcomes
    }

    async fn write_part(&self, slot: &mut Option<Session>, changes: &[&Change]) -> Part {
        if changes.is_empty() {
            return Part::Done(Vec::new());
        }
        let mut last = None;
        for _ in 0..ATTEMPTS_MAX {
            let session = match self.session(slot).await {
                Ok(session) => session,
                Err(trouble) => return Part::Done(refuse(changes.len(), || trouble.fault())),
            };
            let trouble = match transaction::write(session, changes).await {
                Ok(committed) => return Part::Done(self.record(committed)),
                Err(Broken::Unknown(trouble)) => {
                    error!("The connection to the database broke during a commit: {trouble}");
                    *slot = None;
                    return Part::Done(unknown(changes.len()));
                }
                Err(Broken::Undone(trouble)) => trouble,
            };
            match trouble.blame() {
                Blame::Connection => *slot = None,
                Blame::Race => {}
                Blame::Content if changes.len() > 1 => return Part::Halve,
                Blame::Content | Blame::Server => {
                    warn!("A change was not written: {trouble}");
                    return Part::Done(refuse(changes.len(), || trouble.fault()));
                }
            }
            last = Some(trouble);
        }
        Part::Done(refuse(changes.len(), || last.as_ref().map_or_else(closed, Trouble::fault)))
    }

    async fn session<'s>(&self, slot: &'s mut Option<Session>) -> Result<&'s Session, Trouble> {
        let session = match slot.take().filter(|session| !session.is_broken()) {
            Some(session) => session,
            None => self.connector.connect_patiently().await?,
        };
        Ok(slot.insert(session))
    }

    /// What a commit leaves behind in memory: the counters, and a word to those who follow the log.
    fn record(&self, committed: Committed) -> Vec<Outcome> {
        self.meter.transactions.add(1);
        self.meter.job_units.add(committed.outcomes.len() as u64);
        self.meter.stale_units.add(committed.outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64);
        self.meter.events.add(committed.events);
        self.connector.end.reach(committed.end);
        self.own.send_if_modified(|own| {
            let further = committed.end > *own;
            *own = committed.end.max(*own);
            further
        });
        committed.outcomes
    }
}
