//! The writing thread. It commits all queued writes together, so that one flush serves many callers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use domain::{CommitError, Position, Revision, StoreError, StoredEvent};
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info, warn};

use super::errors::{closed, is_full, is_index_full, to_store_error};
use super::lock::DirectoryLock;
use super::open_error::OpenError;
use super::row::counter;
use super::unit::{ApplyOutcome, Unit};
use super::writer_cache::{JobCache, LogEnds, WriterCache};
use crate::meter::Meter;
use crate::recent::RecentEvents;
use crate::record::{FileStamp, RecordFile};

/// The result of one unit, as its caller receives it.
pub(super) type Outcome = Result<Revision, CommitError>;

/// The handle of the writing thread. Dropping it writes the queue and joins the thread.
pub(super) struct Writer {
    requests: Option<mpsc::Sender<Request>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Request {
    Write(Write),
    Close,
}

struct Write {
    units: Vec<Unit>,
    answer: oneshot::Sender<Vec<Outcome>>,
}

/// A transaction of this many units takes a few milliseconds; a larger one would delay its first caller.
const UNITS_MAX: usize = 1024;

/// Why the writer did not start.
pub(super) enum StartError {
    Sqlite(rusqlite::Error),
    Thread(std::io::Error),
}

impl StartError {
    pub(super) fn at(self, path: &Path) -> OpenError {
        match self {
            Self::Sqlite(error) => OpenError::sqlite(path)(error),
            Self::Thread(source) => OpenError::Files { path: path.to_owned(), source },
        }
    }
}

/// The files that only the writing thread uses.
pub(super) struct Files {
    pub(super) connection: Connection,
    pub(super) lock: DirectoryLock,
    pub(super) record: RecordFile,
    pub(super) database: PathBuf,
}

impl Writer {
    /// Starts the thread; the receiver follows the end of the log.
    pub(super) fn start(
        files: Files,
        meter: Arc<Meter>,
        recent: Arc<RecentEvents>,
        waiting_max: usize,
    ) -> Result<(Self, watch::Receiver<Position>), StartError> {
        let ends = last(&files.connection).map_err(StartError::Sqlite)?;
        let (requests, waiting) = mpsc::channel(waiting_max.max(1));
        let (end, follow) = watch::channel(ends.log);
        let memory = JobCache::default();
        let scribe = WriterState { files, waiting, end, meter, recent, memory, ends, failed: None, is_full: false };
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || scribe.run());
        let thread = Mutex::new(Some(thread.map_err(StartError::Thread)?));
        Ok((Self { requests: Some(requests), thread }, follow))
    }

    /// Queues the units and waits for the flush. Queued units are written even if the caller is cancelled.
    pub(super) async fn write(&self, units: Vec<Unit>) -> Vec<Outcome> {
        let count = units.len();
        let (answer, outcomes) = oneshot::channel();
        let Some(requests) = &self.requests else { return refuse(count, closed) };
        if requests.send(Request::Write(Write { units, answer })).await.is_err() {
            return refuse(count, closed);
        }
        // Without a response, the thread has died while it had the units.
        outcomes.await.unwrap_or_else(|_| (0..count).map(|_| Err(CommitError::Unknown)).collect())
    }

    /// Writes the queue, closes the database and ends the thread.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        if let Some(requests) = &self.requests {
            // An error means that the thread has already ended.
            let _ = requests.send(Request::Close).await;
        }
        let Some(thread) = self.thread.lock().take() else { return Ok(()) };
        match tokio::task::spawn_blocking(move || thread.join()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(StoreError::Unavailable("the writer thread failed: see the log".to_owned())),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.get_mut().take() {
            let _ = thread.join();
        }
    }
}

fn refuse(count: usize, why: impl Fn() -> StoreError) -> Vec<Outcome> {
    (0..count).map(|_| Err(CommitError::Store(why()))).collect()
}

pub(super) const LAST: &str =
    "SELECT (SELECT ifnull(max(pos), 0) FROM fleet_events), (SELECT ifnull(max(n), 0) FROM fleet_jobs)";

/// The ends of the log and of the jobs.
fn last(connection: &Connection) -> rusqlite::Result<LogEnds> {
    connection.query_row(LAST, [], |row| Ok(LogEnds { log: Position(counter(row, 0)?), jobs: counter(row, 1)? }))
}

/// The state of the writing thread.
struct WriterState {
    files: Files,
    waiting: mpsc::Receiver<Request>,
    end: watch::Sender<Position>,
    meter: Arc<Meter>,
    recent: Arc<RecentEvents>,
    memory: JobCache,
    /// As of the last commit. A transaction works on a copy, so that a rollback uses up no position.
    ends: LogEnds,
    /// Set by a failed flush: the content of the disk is unknown until the file is opened again.
    failed: Option<String>,
    /// The last change failed because the disk was full.
    is_full: bool,
}

/// Why a transaction was not committed.
enum TransactionError {
    /// Rolled back: nothing of it is stored.
    Undone(rusqlite::Error),
    /// The flush failed: the outcome is unknown.
    Unknown(rusqlite::Error),
}

impl WriterState {
    fn run(mut self) {
        while let Some(first) = self.waiting.blocking_recv() {
            let batch = self.collect(first);
            self.serve(batch);
        }
        self.finish();
    }

    /// The first request and all queued ones, up to a limit.
    fn collect(&mut self, first: Request) -> Vec<Write> {
        let (mut batch, mut units) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Write(write) => {
                    units += write.units.len();
                    batch.push(write);
                }
                // Requests from before the close are still written; no new ones are accepted.
                Request::Close => self.waiting.close(),
            }
            next = if units < UNITS_MAX { self.waiting.try_recv().ok() } else { None };
        }
        batch
    }

    fn serve(&mut self, batch: Vec<Write>) {
        let units: Vec<&Unit> = batch.iter().flat_map(|write| &write.units).collect();
        let mut outcomes = self.write(&units).into_iter();
        drop(units);
        for write in batch {
            let count = write.units.len();
            // A cancelled caller receives no response; its units are written all the same.
            let _ = write.answer.send(outcomes.by_ref().take(count).collect());
        }
    }

    fn write(&mut self, units: &[&Unit]) -> Vec<Outcome> {
        if let Some(why) = &self.failed {
            return refuse(units.len(), || StoreError::Unavailable(why.clone()));
        }
        if units.is_empty() {
            return Vec::new();
        }
        match self.transaction(units) {
            Ok(outcomes) => outcomes,
            // One of the units caused the error: written alone, only that one fails.
            Err(TransactionError::Undone(_)) if units.len() > 1 => {
                units.iter().flat_map(|unit| self.write(&[unit])).collect()
            }
            Err(TransactionError::Undone(cause)) => {
                self.report(&cause);
                refuse(units.len(), || to_store_error(&cause))
            }
            // The transaction becomes visible only if the process dies before the next one overwrites it in the log.
            Err(TransactionError::Unknown(cause)) if is_index_full(&cause) => {
                self.report(&cause);
                units.iter().map(|_| Err(CommitError::Unknown)).collect()
            }
            Err(TransactionError::Unknown(cause)) => {
                error!("Flushing the database failed, no more writes are accepted: {cause}");
                self.failed = Some(format!("I/O error while flushing: check the disk, then restart ({cause})"));
                units.iter().map(|_| Err(CommitError::Unknown)).collect()
            }
        }
    }

    /// Logs why a change was not written. A full disk is logged once, until there is space again.
    fn report(&mut self, cause: &rusqlite::Error) {
        if !is_full(cause) {
            warn!("A change was not written: {cause}");
        } else if !std::mem::replace(&mut self.is_full, true) {
            error!("No space left on the disk of the database: writes are rejected until space is freed ({cause})");
        }
    }

    fn transaction(&mut self, units: &[&Unit]) -> Result<Vec<Outcome>, TransactionError> {
        let written = self.apply(units);
        if written.is_err() {
            self.memory.forget();
        }
        let (applied, ends, recorded) = written?;
        if std::mem::take(&mut self.is_full) {
            info!("The disk of the database has space again");
        }
        self.record(units, &applied, ends, recorded);
        Ok(applied.into_iter().map(outcome).collect())
    }

    fn apply(&mut self, units: &[&Unit]) -> Result<(Vec<ApplyOutcome>, LogEnds, Vec<StoredEvent>), TransactionError> {
        let begun = self.files.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(TransactionError::Undone)?;
        let mut books = WriterCache::open(&mut self.memory, self.ends);
        let mut applied = Vec::with_capacity(units.len());
        for unit in units {
            applied.push(unit.apply(&transaction, &mut books).map_err(TransactionError::Undone)?);
        }
        let (ends, recorded) = books.settle(&transaction).map_err(TransactionError::Undone)?;
        transaction.commit().map_err(|cause| match cause.sqlite_error_code() {
            // The commit mark is written last, so a log without space for it holds no commit.
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => TransactionError::Undone(cause),
            _ => TransactionError::Unknown(cause),
        })?;
        Ok((applied, ends, recorded))
    }

    /// Updates memory after a commit: counters, recent events, and the subscribers' notification.
    fn record(&mut self, units: &[&Unit], applied: &[ApplyOutcome], ends: LogEnds, recorded: Vec<StoredEvent>) {
        // A batch of the index often shares the transaction of jobs.
        if units.iter().any(|unit| !matches!(unit, Unit::Index(_))) {
            self.meter.transactions.add(1);
        }
        for (unit, applied) in units.iter().zip(applied) {
            match unit {
                Unit::Job(_) => self.meter.job_units.add(1),
                Unit::Document(_) => self.meter.document_units.add(1),
                Unit::Index(_) => continue,
            }
            if *applied == ApplyOutcome::Stale {
                self.meter.stale_units.add(1);
            }
        }
        self.meter.events.add(recorded.len() as u64);
        self.recent.extend(recorded);
        if ends.log != self.ends.log {
            // After the flush and before the responses: every acknowledged commit is in the record.
            self.files.record.reach(ends.log);
            self.end.send_replace(ends.log);
        }
        self.ends = ends;
    }

    /// Checkpoints the log and releases the lock after the file is closed.
    fn finish(self) {
        let Self { files: Files { connection, lock, record, database }, ends, failed, .. } = self;
        let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        // A blocked checkpoint is reported in its result.
        let is_empty = matches!(emptied, Ok(0));
        if let Err(cause) = emptied {
            warn!("The write-ahead log was not checkpointed; the next start replays it: {cause}");
        }
        match connection.close() {
            Err((_, cause)) => warn!("The database was not closed: {cause}"),
            Ok(()) if is_empty && failed.is_none() => match FileStamp::of(&database) {
                Ok(stamp) => record.close(ends.log, stamp),
                Err(cause) => warn!("The clean shutdown is not recorded: {cause}"),
            },
            Ok(()) => {}
        }
        drop(lock);
    }
}

fn outcome(applied: ApplyOutcome) -> Outcome {
    match applied {
        ApplyOutcome::Written(revision) => Ok(revision),
        ApplyOutcome::Stale => Err(CommitError::Stale),
        ApplyOutcome::Gap => {
            Err(CommitError::Store(StoreError::Corrupt("the job's events do not follow the stored ones".to_owned())))
        }
    }
}
