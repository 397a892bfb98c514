//! The writer. It commits all queued changes together, so that one flush serves many callers.

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

/// The result of one change, as its caller receives it.
pub(super) type Outcome = Result<Revision, CommitError>;

/// A transaction of this many changes takes a few milliseconds; a larger one would delay its first caller.
const CHANGES_MAX: usize = 1024;

/// Keeps a message far below the server's maximum size.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum attempts of a transaction that was rolled back because of a race.
const ATTEMPTS_MAX: u32 = 3;

/// A connection that was idle for longer is probed first: it may be broken, and a write over a broken connection has
/// an unknown outcome.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// The handle of the writer task.
pub(super) struct Writer {
    requests: Mutex<Option<mpsc::Sender<Write>>>,
    ended: CancellationToken,
}

struct Write {
    changes: Vec<Change>,
    answer: oneshot::Sender<Vec<Outcome>>,
}

/// The channels through which the writer publishes its progress.
pub(super) struct WriterNotice {
    /// The end of the log as written by this process.
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

    /// Queues the changes and waits for the flush. Queued changes are written even if the caller is cancelled.
    pub(super) async fn write(&self, changes: Vec<Change>) -> Vec<Outcome> {
        let count = changes.len();
        let (answer, outcomes) = oneshot::channel();
        let Some(requests) = self.requests.lock().clone() else { return refuse(count, closed) };
        if requests.send(Write { changes, answer }).await.is_err() {
            return refuse(count, closed);
        }
        // Without a response, the writer has died while it had the changes.
        outcomes.await.unwrap_or_else(|_| unknown(count))
    }

    /// Writes the queue; accepts no more changes.
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

/// The state of the writer task. Transactions are sequential, as their flushes have to be; changes that arrive
/// meanwhile form the next one.
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

/// Splits the changes into transactions of limited size. A single caller may exceed the limit.
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

/// The outcome of a part of a batch.
enum PartOutcome {
    Done(Vec<Outcome>),
    /// One of the changes caused the error: split the part in two, and only one half fails.
    Halve,
}

impl WriterState {
    async fn run(mut self) {
        while let Some(first) = self.waiting.recv().await {
            let batch = self.collect(first);
            self.serve(batch).await;
        }
    }

    /// The first request and all queued ones, up to a limit.
    fn collect(&mut self, first: Write) -> Vec<Write> {
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
            // A cancelled caller receives no response; its changes are written all the same.
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
                    error!("The connection to the database was lost during a commit: {trouble}");
                    self.session = None;
                    return PartOutcome::Done(unknown(changes.len()));
                }
                Err(TransactionError::Deposed) => {
                    self.tenure.lose();
                    continue;
                }
                Err(TransactionError::Away(trouble)) => {
                    return PartOutcome::Done(refuse(changes.len(), || trouble.to_store_error()));
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
                    return PartOutcome::Done(refuse(changes.len(), || trouble.to_store_error()));
                }
            }
            last = Some(trouble);
        }
        PartOutcome::Done(refuse(changes.len(), || last.as_ref().map_or_else(closed, ServerError::to_store_error)))
    }

    /// Runs one transaction: based on the cache at first; reading the rows costs one more round trip.
    async fn attempt(&mut self, changes: &[&Change], looks: bool) -> Result<CommittedTransaction, TransactionError> {
        let session = match self.session.take().filter(|session| !session.is_broken()) {
            Some(session) => session,
            None => self.connector.connect_patiently().await.map_err(TransactionError::Away)?,
        };
        let session = &*self.session.insert(session);
        let (books, term, asked_at) = (&mut self.books, self.tenure.term(), self.connector.clock.monotonic());
        let outcome = match looks {
            true => transaction::apply_after_reading(session, changes, books, term).await,
            false => transaction::by_memory(session, changes, books, term).await,
        };
        self.used = self.connector.clock.monotonic();
        if outcome.as_ref().is_ok_and(|committed| !committed.events.is_empty()) {
            // The database compared the term.
            self.tenure.prove(asked_at);
        }
        outcome
    }

    /// Updates memory after a commit: the counters and the subscribers' notification.
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
