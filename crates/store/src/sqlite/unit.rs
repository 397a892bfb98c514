//! One change, serialised by the caller and applied by the writer inside a transaction.

use domain::{Collection, Commit, EventSeq, Expected, Position, Revision, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use super::row::stored;
use super::search_index::IndexUnit;
use super::writer_cache::{CachedJob, WriterCache};
use crate::change::Change;

/// An atomic part of a transaction. The caller serialises it, so that the writer only writes.
pub(super) enum Unit {
    Job(Box<JobUnit>),
    Document(DocumentUnit),
    Index(Box<IndexUnit>),
}

/// The outcome of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApplyOutcome {
    Written(Revision),
    Stale,
    /// The event numbers do not continue the stored ones [J7].
    Gap,
}

impl Unit {
    pub(super) fn apply(&self, connection: &Connection, books: &mut WriterCache<'_>) -> rusqlite::Result<ApplyOutcome> {
        match self {
            Self::Job(unit) => unit.apply(connection, books),
            Self::Document(unit) => unit.apply(connection),
            Self::Index(unit) => unit.apply(connection),
        }
    }
}

pub(super) struct JobUnit(Change);

pub(super) const CREATE: &str = "\
    INSERT INTO fleet_jobs (n, id, rev, product, stage, open, shape, priority, repo, created, latest, state)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (id) DO NOTHING";
pub(super) const CREATE_BODY: &str = "INSERT INTO fleet_bodies (n, submission, body_md) VALUES (?1, ?2, ?3)";
pub(super) const CREATE_DEP: &str = "INSERT INTO fleet_deps (dep, job) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
pub(super) const CURRENT: &str = "\
    SELECT n, rev, stage, priority, latest, ifnull((SELECT seq FROM fleet_events WHERE pos = latest), 0)
    FROM fleet_jobs WHERE id = ?1";
/// SQLite rewrites each index whose columns a statement names, so there is one statement for each set of changed
/// columns.
pub(super) const REPLACE: &str = "\
    UPDATE fleet_jobs SET rev = ?2, shape = ?3, latest = ?4, state = ?5, stage = ?6, open = ?7, priority = ?8
    WHERE n = ?1";
pub(super) const REPLACE_IN_STAGE: &str =
    "UPDATE fleet_jobs SET rev = ?2, shape = ?3, latest = ?4, state = ?5, stage = ?6 WHERE n = ?1";
pub(super) const REPLACE_IN_PLACE: &str =
    "UPDATE fleet_jobs SET rev = ?2, shape = ?3, latest = ?4, state = ?5 WHERE n = ?1";
pub(super) const APPEND_EVENT: &str =
    "INSERT INTO fleet_events (pos, job, seq, before, product, doc) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
pub(super) const APPEND_RUN: &str = "INSERT INTO fleet_runs (job, n, doc) VALUES (?1, ?2, ?3)";

impl JobUnit {
    pub(super) fn prepare(commit: Commit) -> Result<Self, StoreError> {
        Change::prepare(commit).map(Self)
    }

    fn apply(&self, connection: &Connection, books: &mut WriterCache<'_>) -> rusqlite::Result<ApplyOutcome> {
        let before = match self.0.expected {
            Expected::Absent => None,
            Expected::At(revision) => match self.current(connection, books)?.filter(|known| known.rev == revision) {
                Some(known) => Some(known),
                None => return Ok(ApplyOutcome::Stale),
            },
        };
        if !self.follows(before.map_or(EventSeq(0), |known| known.seq)) {
            return Ok(ApplyOutcome::Gap);
        }
        let written = match before {
            None => self.create(connection, books)?,
            Some(before) => Some(self.replace(connection, books, before)?),
        };
        let Some(known) = written else { return Ok(ApplyOutcome::Stale) };
        for (seq, doc) in &self.0.events {
            let (position, before) = books.append(self.0.id, *seq, &self.0.facts.product, doc);
            connection.prepare_cached(APPEND_EVENT)?.execute(params![
                stored(position.0),
                known.n,
                stored(seq.0),
                stored(before.unwrap_or(known.latest).0),
                self.0.facts.product.as_str(),
                doc
            ])?;
        }
        for (run, doc) in &self.0.runs {
            connection.prepare_cached(APPEND_RUN)?.execute(params![known.n, run, doc])?;
        }
        let (seq, latest) = match self.0.events.last() {
            Some((seq, _)) => (*seq, books.end()),
            None => (known.seq, known.latest),
        };
        books.know(self.0.id, CachedJob { seq, latest, ..known });
        Ok(ApplyOutcome::Written(self.0.expected.next()))
    }

    /// Reports whether the event numbers continue after the last one.
    fn follows(&self, last: EventSeq) -> bool {
        self.0.events.iter().zip(last.0 + 1..).all(|((seq, _), expected)| seq.0 == expected)
    }

    /// The job's current columns, from the cache or from the table.
    fn current(&self, connection: &Connection, books: &WriterCache<'_>) -> rusqlite::Result<Option<CachedJob>> {
        match books.known(self.0.id) {
            Some(known) => Ok(Some(known)),
            None => connection.prepare_cached(CURRENT)?.query_row([self.0.id.as_bytes()], CachedJob::read).optional(),
        }
    }

    /// The position of the job's latest event after this unit's events are appended.
    fn latest(&self, books: &WriterCache<'_>, before: Position) -> i64 {
        let events = self.0.events.len() as u64;
        stored(if events == 0 { before.0 } else { books.end().0 + events })
    }

    /// Inserts the job if it does not exist; returns its new cache entry.
    fn create(&self, connection: &Connection, books: &mut WriterCache<'_>) -> rusqlite::Result<Option<CachedJob>> {
        let (n, facts) = (books.next_job(), &self.0.facts);
        let written = connection.prepare_cached(CREATE)?.execute(params![
            n,
            self.0.id.as_bytes(),
            stored(self.0.expected.next().0),
            facts.product.as_str(),
            facts.stage.as_str(),
            !facts.stage.is_terminal(),
            facts.shape.0,
            facts.priority.name(),
            facts.repo.as_ref().map(|repo| repo.as_str()),
            facts.created.as_millis(),
            self.latest(books, Position(0)),
            self.0.state,
        ])?;
        if written == 0 {
            return Ok(None);
        }
        books.number(&facts.product, facts.stage);
        let body = self.0.body.as_ref().map(|body| &*body.0);
        connection.prepare_cached(CREATE_BODY)?.execute(params![n, self.0.submission, body])?;
        for dep in &facts.deps {
            connection.prepare_cached(CREATE_DEP)?.execute(params![dep.as_bytes(), n])?;
        }
        let (rev, stage, priority) = (self.0.expected.next(), facts.stage, Some(facts.priority));
        Ok(Some(CachedJob { n, rev, stage, priority, latest: Position(0), seq: EventSeq(0) }))
    }

    /// Updates the job; returns its new cache entry.
    fn replace(
        &self,
        connection: &Connection,
        books: &mut WriterCache<'_>,
        before: CachedJob,
    ) -> rusqlite::Result<CachedJob> {
        let facts = &self.0.facts;
        let next =
            CachedJob { rev: self.0.expected.next(), stage: facts.stage, priority: Some(facts.priority), ..before };
        let latest = self.latest(books, before.latest);
        let (n, rev, shape) = (before.n, stored(next.rev.0), facts.shape.0);
        let moves = next.stage != before.stage;
        let is_simple = next.priority == before.priority && next.stage.is_terminal() == before.stage.is_terminal();
        match (is_simple, moves) {
            (true, false) => {
                connection.prepare_cached(REPLACE_IN_PLACE)?.execute(params![n, rev, shape, latest, self.0.state])?
            }
            (true, true) => {
                let stage = next.stage.as_str();
                let mut statement = connection.prepare_cached(REPLACE_IN_STAGE)?;
                statement.execute(params![n, rev, shape, latest, self.0.state, stage])?
            }
            _ => {
                let (stage, open, priority) = (next.stage.as_str(), !next.stage.is_terminal(), facts.priority.name());
                let mut statement = connection.prepare_cached(REPLACE)?;
                statement.execute(params![n, rev, shape, latest, self.0.state, stage, open, priority])?
            }
        };
        books.moved(&facts.product, before.stage, next.stage);
        Ok(next)
    }
}

pub(super) struct DocumentUnit {
    pub(super) collection: Collection,
    pub(super) key: String,
    pub(super) expected: Expected,
    /// The document in JSON; `None` removes it.
    pub(super) doc: Option<String>,
}

pub(super) const CREATE_DOCUMENT: &str = "\
    INSERT INTO fleet_documents (collection, key, rev, doc) VALUES (?1, ?2, 1, ?3)
    ON CONFLICT (collection, key) DO NOTHING";
pub(super) const REPLACE_DOCUMENT: &str = "\
    UPDATE fleet_documents SET rev = rev + 1, doc = ?4 WHERE collection = ?1 AND key = ?2 AND rev = ?3";
pub(super) const REMOVE_DOCUMENT: &str = "DELETE FROM fleet_documents WHERE collection = ?1 AND key = ?2 AND rev = ?3";
pub(super) const DOCUMENT_IS_THERE: &str =
    "SELECT EXISTS (SELECT 1 FROM fleet_documents WHERE collection = ?1 AND key = ?2)";

impl DocumentUnit {
    fn apply(&self, connection: &Connection) -> rusqlite::Result<ApplyOutcome> {
        let (collection, key) = (self.collection.name(), &self.key);
        let written = match (self.expected, &self.doc) {
            (Expected::Absent, Some(doc)) => {
                connection.prepare_cached(CREATE_DOCUMENT)?.execute(params![collection, key, doc])? == 1
            }
            (Expected::At(revision), Some(doc)) => {
                let mut statement = connection.prepare_cached(REPLACE_DOCUMENT)?;
                statement.execute(params![collection, key, stored(revision.0), doc])? == 1
            }
            (Expected::At(revision), None) => {
                let mut statement = connection.prepare_cached(REMOVE_DOCUMENT)?;
                statement.execute(params![collection, key, stored(revision.0)])? == 1
            }
            // Removing an absent document succeeds.
            (Expected::Absent, None) => {
                let mut statement = connection.prepare_cached(DOCUMENT_IS_THERE)?;
                !statement.query_row(params![collection, key], |row| row.get::<_, bool>(0))?
            }
        };
        Ok(if written { ApplyOutcome::Written(self.expected.next()) } else { ApplyOutcome::Stale })
    }
}
