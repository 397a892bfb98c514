//! Whatever waits is committed together, so that one flush serves many callers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use domain::{CommitError, Position, Revision, StoreError};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::connection::{Connector, Session};
use super::errors::{ErrorSource, ServerError, closed};
use super::leadership::{Leadership, deposed};
use super::transaction::{self, CommittedTransaction, TransactionError};
use super::writer_cache::WriterCache;
use crate::change::Change;
use crate::meter::Meter;
use crate::recent::RecentEvents;

/// What a caller learns about one of its changes.
pub(super) type Outcome = Result<Revision, CommitError>;

/// A transaction of this many changes takes a few milliseconds; more would make the first caller wait for the last.
const CHANGES_MAX: usize = 1024;

/// A message to the server is far smaller than the largest that it takes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often a transaction is tried that was undone through no fault of its own.
const ATTEMPTS_MAX: u32 = 3;

/// A connection that was quiet for longer is asked something first: it may be gone without anybody having noticed, and
/// what is sent over such a one has an unknown outcome.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// The way to the one who writes.
pub(super) struct Writer {
    requests: Mutex<Option<mpsc::Sender<Write>>>,
    ended: CancellationToken,
}

struct Write {
    changes: Vec<Change>,
    answer: oneshot::Sender<Vec<Outcome>>,
}

/// What the one who writes tells others.
pub(super) struct WriterNotice {
    /// Where the log ends by what was written here.
    pub(super) own: watch::Sender<Position>,
    pub(super) recent: Arc<RecentEvents>,
    pub(super) meter: Arc<Meter>,
}

impl Writer {
    pub(super) fn start(
        connector: &Arc<Connector>,
        tenure: Arc<Leadership>,
        word: WriterNotice,
        waiting_max: usize,
    ) -> Self {
        let (requests, waiting) = mpsc::channel(waiting_max.max(1));
        let ended = CancellationToken::new();
        let scribe = WriterState {
            waiting,
            connector: Arc::clone(connector),
            tenure,
            word,
            session: None,
            books: WriterCache::default(),
            used: Duration::ZERO,
            _ended: ended.clone().drop_guard(),
        };
        connector.tasks.spawn(scribe.run());
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

/// The one who writes. Transactions follow one another, as their flushes have to; what comes in meanwhile is the next one.
struct WriterState {
    waiting: mpsc::Receiver<Write>,
    connector: Arc<Connector>,
    tenure: Arc<Leadership>,
    word: WriterNotice,
    session: Option<Session>,
    books: WriterCache,
    /// When the connection was last used.
    used: Duration,
    _ended: tokio_util::sync::DropGuard,
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
enum PartOutcome {
    Done(Vec<Outcome>),
    /// One of them is at fault: in two halves, only one of them fails.
    Halve,
}

impl WriterState {
    async fn run(mut self) {
        while let Some(first) = self.waiting.recv().await {
            let batch = self.gather(first);
            self.serve(batch).await;
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

    async fn serve(&mut self, batch: Vec<Write>) {
        let changes: Vec<&Change> = batch.iter().flat_map(|write| &write.changes).collect();
        let mut outcomes = self.write(&changes).await.into_iter();
        drop(changes);
        for write in batch {
            let count = write.changes.len();
            // A caller that does not wait any more has no use for the answer; the changes are written all the same.
            let _ = write.answer.send(outcomes.by_ref().take(count).collect());
        }
    }

    async fn write(&mut self, changes: &[&Change]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(changes.len());
        let mut parts = parts(changes);
        while let Some(part) = parts.pop_front() {
            match self.write_part(&changes[part.clone()]).await {
                PartOutcome::Done(done) => outcomes.extend(done),
                PartOutcome::Halve => {
                    let middle = part.start + part.len() / 2;
                    parts.push_front(middle..part.end);
                    parts.push_front(part.start..middle);
                }
            }
        }
        outcomes
    }

    async fn write_part(&mut self, changes: &[&Change]) -> PartOutcome {
        if changes.is_empty() {
            return PartOutcome::Done(Vec::new());
        }
        let mut last = None;
        let mut looks = self.connector.clock.monotonic().saturating_sub(self.used) > QUIET_MAX;
        for _ in 0..ATTEMPTS_MAX {
            if self.tenure.is_lost() {
                return PartOutcome::Done(refuse(changes.len(), deposed));
            }
            let trouble = match self.attempt(changes, looks).await {
                Ok(committed) => return PartOutcome::Done(self.record(committed)),
                Err(TransactionError::Unclear) => {
                    looks = true;
                    continue;
                }
                Err(TransactionError::Unknown(trouble)) => {
                    error!("The connection to the database broke during a commit: {trouble}");
                    self.session = None;
                    return PartOutcome::Done(unknown(changes.len()));
                }
                Err(TransactionError::Deposed) => {
                    self.tenure.lose();
                    continue;
                }
                Err(TransactionError::Away(trouble)) => {
                    return PartOutcome::Done(refuse(changes.len(), || trouble.fault()));
                }
                Err(TransactionError::Undone(trouble)) => trouble,
            };
            looks = true;
            match trouble.blame() {
                ErrorSource::Connection => self.session = None,
                ErrorSource::Race => {}
                ErrorSource::Content if changes.len() > 1 => return PartOutcome::Halve,
                ErrorSource::Content | ErrorSource::Server => {
                    warn!("A change was not written: {trouble}");
                    return PartOutcome::Done(refuse(changes.len(), || trouble.fault()));
                }
            }
            last = Some(trouble);
        }
        PartOutcome::Done(refuse(changes.len(), || last.as_ref().map_or_else(closed, ServerError::fault)))
    }

    /// One transaction. By memory at first; a look costs one more round trip.
    async fn attempt(&mut self, changes: &[&Change], looks: bool) -> Result<CommittedTransaction, TransactionError> {
        let session = match self.session.take().filter(|session| !session.is_broken()) {
            Some(session) => session,
            None => self.connector.connect_patiently().await.map_err(TransactionError::Away)?,
        };
        let session = &*self.session.insert(session);
        let (books, term) = (&mut self.books, self.tenure.term());
        let outcome = match looks {
            true => transaction::by_looking(session, changes, books, term).await,
            false => transaction::by_memory(session, changes, books, term).await,
        };
        self.used = self.connector.clock.monotonic();
        outcome
    }

    /// What a commit leaves behind in memory: the counters, and a word to those who follow the log.
    fn record(&self, committed: CommittedTransaction) -> Vec<Outcome> {
        let meter = &self.word.meter;
        meter.transactions.add(1);
        meter.job_units.add(committed.outcomes.len() as u64);
        meter.stale_units.add(committed.outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64);
        meter.events.add(committed.events.len() as u64);
        let Some(end) = committed.events.last().map(|event| event.position) else { return committed.outcomes };
        self.word.recent.extend(committed.events);
        self.connector.end.reach(end);
        self.word.own.send_if_modified(|own| {
            let further = end > *own;
            *own = end.max(*own);
            further
        });
        committed.outcomes
    }
}
