//! One change, made ready by the caller and applied by the writer inside a transaction.

use std::collections::BTreeMap;

use domain::{
    Body, Collection, Commit, EventSeq, Expected, Facts, JobId, Position, ProductId, Revision, StageName, StoreError,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::row::{parsed, stored};

/// What a transaction writes, whole or not at all. Serialised by its caller, so that the writer only writes.
pub(super) enum Unit {
    Job(Box<JobUnit>),
    Document(DocumentUnit),
}

/// What became of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    Written(Revision),
    Stale,
}

/// Where the log and the jobs end, and by how much the counts moved, as of one transaction.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) end: Position,
    pub(super) jobs: u64,
    moved: BTreeMap<(ProductId, StageName), i64>,
}

impl Unit {
    pub(super) fn apply(&self, connection: &Connection, tally: &mut Tally) -> rusqlite::Result<Applied> {
        match self {
            Self::Job(unit) => unit.apply(connection, tally),
            Self::Document(unit) => unit.apply(connection),
        }
    }
}

pub(super) const COUNT: &str = "\
    INSERT INTO fleet_counts (product, stage, n) VALUES (?1, ?2, ?3)
    ON CONFLICT (product, stage) DO UPDATE SET n = n + excluded.n";

impl Tally {
    pub(super) fn at(end: Position, jobs: u64) -> Self {
        Self { end, jobs, moved: BTreeMap::new() }
    }

    fn count(&mut self, product: &ProductId, stage: StageName, by: i64) {
        *self.moved.entry((product.clone(), stage)).or_default() += by;
    }

    /// Writes the counts, once per transaction and not once per job.
    pub(super) fn settle(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for ((product, stage), by) in std::mem::take(&mut self.moved) {
            if by != 0 {
                connection.prepare_cached(COUNT)?.execute(params![product.as_str(), stage.as_str(), by])?;
            }
        }
        Ok(())
    }
}

/// A job's change with everything already in JSON.
pub(super) struct JobUnit {
    expected: Expected,
    id: JobId,
    facts: Facts,
    state: String,
    /// Only with the first write.
    submission: Option<String>,
    body: Option<Body>,
    events: Vec<(EventSeq, String)>,
    runs: Vec<(u32, String)>,
}

pub(super) const CREATE: &str = "\
    INSERT INTO fleet_jobs (n, id, rev, product, stage, open, shape, priority, repo, created, due, state)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (id) DO NOTHING";
pub(super) const CREATE_BODY: &str = "INSERT INTO fleet_bodies (n, submission, body_md) VALUES (?1, ?2, ?3)";
pub(super) const CREATE_DEP: &str = "INSERT INTO fleet_deps (dep, job) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
pub(super) const CURRENT: &str = "SELECT n, stage, priority, due FROM fleet_jobs WHERE id = ?1 AND rev = ?2";
pub(super) const REPLACE: &str = "\
    UPDATE fleet_jobs SET rev = ?3, shape = ?4, state = ?5, stage = ?6, open = ?7, priority = ?8, due = ?9
    WHERE n = ?1 AND rev = ?2";
/// For a change that moves the job in no index: SQLite would write each index again that a statement names.
pub(super) const REPLACE_IN_PLACE: &str =
    "UPDATE fleet_jobs SET rev = ?3, shape = ?4, state = ?5 WHERE n = ?1 AND rev = ?2";
pub(super) const APPEND_EVENT: &str =
    "INSERT INTO fleet_events (pos, job, seq, product, doc) VALUES (?1, ?2, ?3, ?4, ?5)";
pub(super) const APPEND_RUN: &str = "INSERT INTO fleet_runs (job, n, doc) VALUES (?1, ?2, ?3)";

impl JobUnit {
    pub(super) fn prepare(commit: Commit) -> Result<Self, StoreError> {
        let unwritable = |error: serde_json::Error| StoreError::Corrupt(format!("the job cannot be written: {error}"));
        let submission = match commit.expected {
            Expected::Absent => Some(serde_json::to_string(&**commit.job.submission()).map_err(unwritable)?),
            Expected::At(_) => None,
        };
        let events = commit.events.iter().map(|event| Ok((event.seq, serde_json::to_string(event)?)));
        let runs = commit.runs.iter().map(|run| Ok((run.n, serde_json::to_string(run)?)));
        Ok(Self {
            expected: commit.expected,
            id: commit.job.id(),
            state: commit.job.state_json().map_err(unwritable)?,
            submission,
            events: events.collect::<Result<_, _>>().map_err(unwritable)?,
            runs: runs.collect::<Result<_, _>>().map_err(unwritable)?,
            body: commit.body,
            facts: commit.facts,
        })
    }

    fn apply(&self, connection: &Connection, tally: &mut Tally) -> rusqlite::Result<Applied> {
        let written = match self.expected {
            Expected::Absent => self.create(connection, tally)?,
            Expected::At(revision) => self.replace(connection, tally, revision)?,
        };
        let Some(n) = written else { return Ok(Applied::Stale) };
        for (seq, doc) in &self.events {
            tally.end = tally.end.next();
            connection.prepare_cached(APPEND_EVENT)?.execute(params![
                stored(tally.end.0),
                n,
                stored(seq.0),
                self.facts.product.as_str(),
                doc
            ])?;
        }
        for (run, doc) in &self.runs {
            connection.prepare_cached(APPEND_RUN)?.execute(params![n, run, doc])?;
        }
        Ok(Applied::Written(self.expected.next()))
    }

    /// Writes the job if there is none; answers with its number.
    fn create(&self, connection: &Connection, tally: &mut Tally) -> rusqlite::Result<Option<i64>> {
        let (n, facts) = (stored(tally.jobs + 1), &self.facts);
        let written = connection.prepare_cached(CREATE)?.execute(params![
            n,
            self.id.as_bytes(),
            stored(self.expected.next().0),
            facts.product.as_str(),
            facts.stage.as_str(),
            !facts.stage.is_terminal(),
            facts.shape.0,
            facts.priority.name(),
            facts.repo.as_ref().map(|repo| repo.as_str()),
            facts.created.as_millis(),
            facts.due.map(|due| due.as_millis()),
            self.state,
        ])?;
        if written == 0 {
            return Ok(None);
        }
        tally.jobs += 1;
        tally.count(&facts.product, facts.stage, 1);
        let body = self.body.as_ref().map(|body| &*body.0);
        connection.prepare_cached(CREATE_BODY)?.execute(params![n, self.submission, body])?;
        for dep in &facts.deps {
            connection.prepare_cached(CREATE_DEP)?.execute(params![dep.as_bytes(), n])?;
        }
        Ok(Some(n))
    }

    /// Writes the job over `revision` if that is what is there; answers with its number.
    fn replace(&self, connection: &Connection, tally: &mut Tally, revision: Revision) -> rusqlite::Result<Option<i64>> {
        let facts = &self.facts;
        let current = connection
            .prepare_cached(CURRENT)?
            .query_row(params![self.id.as_bytes(), stored(revision.0)], |row| {
                let same_priority = row.get_ref(2)?.as_str()? == facts.priority.name();
                Ok((row.get::<_, i64>(0)?, parsed::<StageName>(row, 1)?, same_priority, row.get::<_, Option<i64>>(3)?))
            })
            .optional()?;
        let Some((n, stage, same_priority, due)) = current else { return Ok(None) };
        let (next, due_next) = (stored(revision.next().0), facts.due.map(|due| due.as_millis()));
        let written = if stage == facts.stage && same_priority && due == due_next {
            let mut statement = connection.prepare_cached(REPLACE_IN_PLACE)?;
            statement.execute(params![n, stored(revision.0), next, facts.shape.0, self.state])?
        } else {
            connection.prepare_cached(REPLACE)?.execute(params![
                n,
                stored(revision.0),
                next,
                facts.shape.0,
                self.state,
                facts.stage.as_str(),
                !facts.stage.is_terminal(),
                facts.priority.name(),
                due_next,
            ])?
        };
        if written == 0 {
            return Ok(None);
        }
        tally.count(&facts.product, stage, -1);
        tally.count(&facts.product, facts.stage, 1);
        Ok(Some(n))
    }
}

/// A document's change.
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
    fn apply(&self, connection: &Connection) -> rusqlite::Result<Applied> {
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
            // Removing what is not there leaves it so, which is what was asked for.
            (Expected::Absent, None) => {
                let mut statement = connection.prepare_cached(DOCUMENT_IS_THERE)?;
                !statement.query_row(params![collection, key], |row| row.get::<_, bool>(0))?
            }
        };
        Ok(if written { Applied::Written(self.expected.next()) } else { Applied::Stale })
    }
}
