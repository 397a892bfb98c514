//! One transaction for many changes: a single statement based on the cache, or two round trips that read first.

use std::collections::HashMap;
use std::time::Duration;

use domain::{EventSeq, JobId, Position, Revision, StoredEvent};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::batch::{BatchPlan, CacheTrust, ids};
use super::connection::{Session, in_time};
use super::errors::{ErrorSource, ServerError};
use super::row::uuid;
use super::rows::Log;
use super::writer::Outcome;
use super::writer_cache::{CachedJob, LogEnds, WriterCache};
use crate::change::Change;

/// From here to the commit no other process can write.
pub(super) const LOCK: &str = "SELECT pos, jobs, term FROM fleet_log FOR UPDATE";
pub(super) const CURRENT: &str = "\
    SELECT j.id, j.n, j.rev, j.stage, j.latest, coalesce(e.seq, 0)
    FROM fleet_jobs j LEFT JOIN fleet_events e ON e.pos = j.latest WHERE j.id = ANY ($1::uuid[])";
pub(super) const END: &str = "SELECT pos FROM fleet_log";

/// A rollback is immediate: a server that takes longer is unreachable.
const UNDO_WITHIN: Duration = Duration::from_secs(2);

/// A committed transaction.
#[derive(Default)]
pub(super) struct CommittedTransaction {
    pub(super) outcomes: Vec<Outcome>,
    /// The appended events.
    pub(super) events: Vec<StoredEvent>,
}

/// Why a transaction was not committed.
pub(super) enum TransactionError {
    /// No connection could be made.
    Away(ServerError),
    /// The cache cannot decide, or was outdated: nothing is stored, and the rows must be read.
    Unclear,
    /// Rolled back: nothing of it is stored.
    Undone(ServerError),
    /// The connection broke during the commit: the outcome is unknown.
    Unknown(ServerError),
    /// Another process has taken the leadership. Nothing was stored, and this store can never write again.
    Deposed,
}

/// The end of the log.
pub(super) async fn end(session: &Session) -> Result<Position, ServerError> {
    let rows = session.rows(END, &[]).await?;
    rows.first().map_or(Ok(Position(0)), |row| Ok(Position(number(row, 0)?)))
}

/// Applies the changes in order, based on the cache. The statement is its own transaction, and the database rejects it
/// if the cache is outdated.
pub(super) async fn by_memory(
    session: &Session,
    changes: &[&Change],
    books: &mut WriterCache,
    term: Option<i64>,
) -> Result<CommittedTransaction, TransactionError> {
    let plan = BatchPlan::of(changes, books, CacheTrust::Memory).map_err(|_| TransactionError::Unclear)?;
    if plan.is_empty() {
        return Ok(CommittedTransaction { outcomes: plan.outcomes, events: Vec::new() });
    }
    let log = Log::new(plan.before, plan.after, term);
    let (sql, params) = plan.rows.statement(&log);
    session.prepared(sql).await.map_err(TransactionError::Undone)?;
    if session.is_broken() {
        return Err(TransactionError::Undone(ServerError::Unreachable("the connection was lost".to_owned())));
    }
    match session.rows(sql, &params).await {
        Ok(_) => Ok(settled(plan, books)),
        Err(trouble) => {
            books.forget();
            Err(match trouble.blame() {
                ErrorSource::Connection => TransactionError::Unknown(trouble),
                // Whatever the error is, reading the rows shows which change caused it.
                ErrorSource::Content | ErrorSource::Race => TransactionError::Unclear,
                ErrorSource::Server => TransactionError::Undone(trouble),
            })
        }
    }
}

/// Applies the changes in order, based on the rows as read under the log's lock.
pub(super) async fn apply_after_reading(
    session: &Session,
    changes: &[&Change],
    books: &mut WriterCache,
    term: Option<i64>,
) -> Result<CommittedTransaction, TransactionError> {
    books.forget();
    let outcome = read_and_write(session, changes, books, term).await;
    if let Err(broken) = &outcome {
        books.forget();
        undo(session, broken).await;
    }
    outcome
}

/// Rolls a failed transaction back. The server rolls back the transaction of a closed connection by itself.
async fn undo(session: &Session, broken: &TransactionError) {
    let is_lost = match broken {
        TransactionError::Undone(trouble) | TransactionError::Unknown(trouble) | TransactionError::Away(trouble) => {
            trouble.blame() == ErrorSource::Connection
        }
        TransactionError::Unclear | TransactionError::Deposed => false,
    };
    // No rollback over a connection that has just failed.
    let is_undone = !is_lost && matches!(timeout(UNDO_WITHIN, session.run("ROLLBACK")).await, Ok(Ok(())));
    if !is_undone {
        session.mark_broken();
    }
}

async fn read_and_write(
    session: &Session,
    changes: &[&Change],
    books: &mut WriterCache,
    term: Option<i64>,
) -> Result<CommittedTransaction, TransactionError> {
    let found = read_changed(session, changes).await.map_err(TransactionError::Undone)?;
    if term.is_some_and(|term| term != found.term) {
        return Err(TransactionError::Deposed);
    }
    *books = found.books;
    let plan = BatchPlan::of(changes, books, CacheTrust::Everything).map_err(|_| TransactionError::Unclear)?;
    if plan.is_empty() {
        session.run("ROLLBACK").await.map_err(TransactionError::Undone)?;
        return Ok(CommittedTransaction { outcomes: plan.outcomes, events: Vec::new() });
    }
    let log = Log::new(plan.before, plan.after, term);
    let (sql, params) = plan.rows.statement(&log);
    session.prepared(sql).await.map_err(TransactionError::Undone)?;
    // Pipelined: if the statement fails, the commit becomes a rollback.
    let (written, committed) = tokio::join!(biased; session.rows(sql, &params), session.run("COMMIT"));
    match written.and(committed) {
        Ok(()) => Ok(settled(plan, books)),
        Err(trouble) if trouble.blame() == ErrorSource::Connection => Err(TransactionError::Unknown(trouble)),
        Err(trouble) => Err(TransactionError::Undone(trouble)),
    }
}

/// The stored rows of the changes.
struct StoredState {
    books: WriterCache,
    term: i64,
}

/// Begins a transaction, locks out other writers, and reads the rows of the changes.
async fn read_changed(session: &Session, changes: &[&Change]) -> Result<StoredState, ServerError> {
    let (lock, current) = (session.prepared(LOCK).await?, session.prepared(CURRENT).await?);
    let ids: Vec<Uuid> = ids(changes).into_iter().map(uuid).collect();
    let (client, asked): (_, [&(dyn ToSql + Sync); 1]) = (&session.client, [&ids]);
    let all = async {
        // Pipelined in this order.
        let (begun, locked, found) = tokio::join!(
            biased;
            client.batch_execute("BEGIN"),
            client.query(&lock, &[]),
            client.query(&current, &asked)
        );
        begun?;
        Ok((locked?, found?))
    };
    let (locked, found) = in_time(all).await?;
    let log = locked.first().ok_or_else(|| ServerError::Unreachable("the end of the log is missing".to_owned()))?;
    let ends = LogEnds { log: Position(number(log, 0)?), jobs: number(log, 1)? };
    let known = found.iter().map(known).collect::<Result<HashMap<_, _>, _>>()?;
    Ok(StoredState { books: WriterCache::read(ends, known), term: log.try_get(2)? })
}

fn known(row: &Row) -> Result<(JobId, CachedJob), ServerError> {
    let id: Uuid = row.try_get(0)?;
    let stage: &str = row.try_get(3)?;
    let stage = stage.parse().map_err(|_| ServerError::Unreachable(format!("job `{id}` has an unknown stage")))?;
    let (rev, latest, seq) = (Revision(number(row, 2)?), Position(number(row, 4)?), EventSeq(number(row, 5)?));
    Ok((JobId::from_bytes(*id.as_bytes()), CachedJob { n: row.try_get(1)?, rev, stage, latest, seq }))
}

fn number(row: &Row, at: usize) -> Result<u64, ServerError> {
    Ok(u64::try_from(row.try_get::<_, i64>(at)?).unwrap_or(0))
}

fn settled(plan: BatchPlan<'_>, books: &mut WriterCache) -> CommittedTransaction {
    books.settle(plan.after, plan.known());
    CommittedTransaction { outcomes: plan.outcomes, events: plan.recorded }
}
