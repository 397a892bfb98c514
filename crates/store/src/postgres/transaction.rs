//! One transaction for many changes, in two round trips: lock and create, then write, number, count and commit.

use std::collections::{HashMap, HashSet};

use domain::{JobId, Position, Revision};
use futures_util::future::join_all;
use tokio_postgres::Row;
use uuid::Uuid;

use super::batch::{Found, Verdicts, expected};
use super::change::Change;
use super::connection::{Session, in_time};
use super::fault::{Blame, Trouble};
use super::row::uuid;
use super::tail::{Rows, Tail};
use super::writer::Outcome;

/// Locks rows in order of id, so that two transactions never wait for each other.
pub(super) const LOCK: &str = "\
    SELECT id, rev, stage FROM fleet_jobs WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE";
pub(super) const CREATE: &str = "\
    INSERT INTO fleet_jobs (id, rev, product, stage, open, shape, priority, created, due, state)
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::boolean[], $6::bigint[], $7::text[],
                         $8::bigint[], $9::bigint[], $10::bytea[])
    ON CONFLICT (id) DO NOTHING RETURNING id";
pub(super) const END: &str = "SELECT pos FROM fleet_log";

/// A transaction that is on the disk.
pub(super) struct Committed {
    pub(super) outcomes: Vec<Outcome>,
    /// Events that were added, and where the log ends with them.
    pub(super) events: u64,
    pub(super) end: Position,
}

/// Why a transaction was not committed.
pub(super) enum Broken {
    /// It was undone: nothing of it is stored.
    Undone(Trouble),
    /// The commit was on its way when the connection broke: nobody knows.
    Unknown(Trouble),
}

/// Does the changes as if one after the other, in one transaction.
pub(super) async fn write(session: &Session, changes: &[&Change]) -> Result<Committed, Broken> {
    let opened = open(session, changes).await;
    let found = match opened {
        Ok(found) => found,
        Err(trouble) => {
            // One that cannot be undone any more is over already.
            let _ = session.run("ROLLBACK").await;
            return Err(Broken::Undone(trouble));
        }
    };
    let verdicts = Verdicts::over(&found, changes);
    let outcomes = verdicts.outcomes(changes);
    if verdicts.last.is_empty() {
        session.run("ROLLBACK").await.map_err(Broken::Undone)?;
        return Ok(Committed { outcomes, events: 0, end: Position(0) });
    }
    let tail = Tail::of(&verdicts, &found, changes);
    let end = commit(session, &tail).await?;
    Ok(Committed { outcomes, events: tail.added(), end })
}

/// Where the log ends.
pub(super) async fn end(session: &Session) -> Result<Position, Trouble> {
    let rows = session.rows(END, &[]).await?;
    let end: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(Position(u64::try_from(end).unwrap_or(0)))
}

/// Begins, locks what is there and creates what is not; answers with the rows that were there before.
async fn open(session: &Session, changes: &[&Change]) -> Result<HashMap<JobId, Found>, Trouble> {
    let wanted = expected(changes);
    let assumed = Verdicts::over(&HashMap::new(), changes);
    let new: Vec<&Change> = assumed.last.values().copied().collect();
    let (lock, create) = (session.prepared(LOCK).await?, session.prepared(CREATE).await?);
    let ids: Vec<Uuid> = wanted.into_iter().map(uuid).collect();
    let rows = Rows::of(&new);
    let client = &session.client;
    let locking = async { if ids.is_empty() { Ok(Vec::new()) } else { client.query(&lock, &[&ids]).await } };
    let creating = async {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let created: Vec<i64> = new.iter().map(|change| change.facts.created.as_millis()).collect();
        let products: Vec<&str> = new.iter().map(|change| change.facts.product.as_str()).collect();
        client
            .query(
                &create,
                &[
                    &rows.ids,
                    &rows.revs,
                    &products,
                    &rows.stages,
                    &rows.open,
                    &rows.shapes,
                    &rows.priorities,
                    &created,
                    &rows.dues,
                    &rows.states,
                ],
            )
            .await
    };
    let all = async {
        // Sent in this order without waiting for the answers.
        let (begun, locked, created) = tokio::join!(biased; client.batch_execute("BEGIN"), locking, creating);
        begun?;
        Ok((locked?, created?))
    };
    let (locked, created) = in_time(all).await?;
    let mut found = found(&locked)?;
    let created: HashSet<Uuid> = created.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let surprising = rows.ids.iter().filter(|id| !created.contains(id));
    let surprising = surprising.filter(|id| !found.contains_key(&JobId::from_bytes(*id.as_bytes())));
    let surprising: Vec<Uuid> = surprising.copied().collect();
    if !surprising.is_empty() {
        found.extend(self::found(&session.rows(LOCK, &[&surprising]).await?)?);
    }
    Ok(found)
}

fn found(rows: &[Row]) -> Result<HashMap<JobId, Found>, Trouble> {
    let read = |row: &Row| {
        let (id, revision, stage): (Uuid, i64, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let revision = Revision(u64::try_from(revision).unwrap_or(0));
        let stage = stage.parse().map_err(|_| Trouble::Unreachable(format!("job `{id}` is in no stage we know")))?;
        Ok((JobId::from_bytes(*id.as_bytes()), Found { revision, stage }))
    };
    rows.iter().map(read).collect()
}

/// Sends everything and the commit without waiting for the answers in between: a statement that fails turns the commit
/// into an undoing. Answers with where the log ends then.
async fn commit(session: &Session, tail: &Tail<'_>) -> Result<Position, Broken> {
    let steps = tail.steps();
    for (sql, _) in &steps {
        if let Err(trouble) = session.prepared(sql).await {
            let _ = session.run("ROLLBACK").await;
            return Err(Broken::Undone(trouble));
        }
    }
    if session.is_broken() {
        return Err(Broken::Undone(Trouble::Unreachable("the connection broke".to_owned())));
    }
    let sending = join_all(steps.iter().map(|(sql, params)| session.rows(sql, params)));
    let (answers, committed) = tokio::join!(biased; sending, session.run("COMMIT"));
    let answers: Result<Vec<_>, _> = answers.into_iter().collect();
    let outcome = answers.and_then(|answers| {
        committed?;
        // Only the statement that extends the log answers with a row.
        let end: i64 = answers.iter().flatten().next().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(Position(u64::try_from(end).unwrap_or(0)))
    });
    outcome.map_err(|trouble| match trouble.blame() {
        Blame::Connection => Broken::Unknown(trouble),
        Blame::Content | Blame::Race | Blame::Server => Broken::Undone(trouble),
    })
}
