//! The writer's cache: the ends of the log and of the jobs, the columns of recent jobs, and the counts that one
//! transaction adds.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{EventSeq, JobId, Position, Priority, ProductId, Revision, StageName, StoredEvent};
use foldhash::HashMap;
use rusqlite::{Connection, Row, params};

use super::row::{counter, parsed, stored};

/// Number of cached jobs: a few megabytes. Others are read from the table.
const KNOWN_MAX: usize = 32_768;

/// The latest log position and the latest job number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LogEnds {
    pub(super) log: Position,
    pub(super) jobs: u64,
}

/// The columns of a job that its next change depends on. Only the writer changes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedJob {
    pub(super) n: i64,
    pub(super) rev: Revision,
    pub(super) stage: StageName,
    pub(super) priority: Option<Priority>,
    pub(super) latest: Position,
    pub(super) seq: EventSeq,
}

impl CachedJob {
    /// From the columns `n`, `rev`, `stage`, `priority`, `latest` and the latest event's `seq`, in this order.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            n: row.get(0)?,
            rev: Revision(counter(row, 1)?),
            stage: parsed(row, 2)?,
            priority: priority(row.get_ref(3)?.as_str()?),
            latest: Position(counter(row, 4)?),
            seq: EventSeq(counter(row, 5)?),
        })
    }
}

/// Parses a priority. An unknown one differs from all known ones, so the next change overwrites it.
fn priority(name: &str) -> Option<Priority> {
    Priority::ALL.into_iter().find(|priority| priority.name() == name)
}

/// Recently written jobs by id. It is invalid after a rollback and then cleared.
#[derive(Debug, Default)]
pub(super) struct JobCache(HashMap<JobId, CachedJob>);

impl JobCache {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// The changes of one transaction to the cache.
pub(super) struct WriterCache<'a> {
    memory: &'a mut JobCache,
    ends: LogEnds,
    moved: BTreeMap<(ProductId, StageName), i64>,
    spans: BTreeMap<ProductId, (Position, Position)>,
    recorded: Vec<StoredEvent>,
    /// The job of the log's latest event, so that the next event of the same unit can refer to it.
    last_of: Option<JobId>,
}

pub(super) const COUNT: &str = "\
    INSERT INTO fleet_counts (product, stage, n) VALUES (?1, ?2, ?3)
    ON CONFLICT (product, stage) DO UPDATE SET n = n + excluded.n";
pub(super) const APPEND_SPAN: &str = "INSERT INTO fleet_event_spans (product, last, first) VALUES (?1, ?2, ?3)";

impl<'a> WriterCache<'a> {
    pub(super) fn open(memory: &'a mut JobCache, ends: LogEnds) -> Self {
        let (moved, spans) = (BTreeMap::new(), BTreeMap::new());
        Self { memory, ends, moved, spans, recorded: Vec::new(), last_of: None }
    }

    /// The cached columns of a job.
    pub(super) fn known(&self, id: JobId) -> Option<CachedJob> {
        self.memory.0.get(&id).copied()
    }

    /// Caches a job while it is likely to change.
    pub(super) fn know(&mut self, id: JobId, known: CachedJob) {
        self.last_of = None;
        if known.stage.is_terminal() {
            self.memory.0.remove(&id);
            return;
        }
        if self.memory.0.len() >= KNOWN_MAX {
            self.memory.forget();
        }
        self.memory.0.insert(id, known);
    }

    /// The number for the next job.
    pub(super) fn next_job(&self) -> i64 {
        stored(self.ends.jobs + 1)
    }

    /// Counts a newly inserted job, which took the next number.
    pub(super) fn number(&mut self, product: &ProductId, stage: StageName) {
        self.ends.jobs += 1;
        *self.moved.entry((product.clone(), stage)).or_default() += 1;
    }

    /// Counts a job's move from one stage to another.
    pub(super) fn moved(&mut self, product: &ProductId, from: StageName, to: StageName) {
        if from != to {
            *self.moved.entry((product.clone(), from)).or_default() -= 1;
            *self.moved.entry((product.clone(), to)).or_default() += 1;
        }
    }

    /// The end of the log.
    pub(super) fn end(&self) -> Position {
        self.ends.log
    }

    /// The position of the next event, and of the previous one if this unit wrote it too.
    pub(super) fn append(
        &mut self,
        job: JobId,
        seq: EventSeq,
        product: &ProductId,
        json: &Arc<str>,
    ) -> (Position, Option<Position>) {
        let before = (self.last_of == Some(job)).then_some(self.ends.log);
        self.ends.log = self.ends.log.next();
        self.last_of = Some(job);
        let position = self.ends.log;
        match self.spans.get_mut(product) {
            Some((_, last)) => *last = position,
            None => drop(self.spans.insert(product.clone(), (position, position))),
        }
        self.recorded.push(StoredEvent { position, json: Arc::clone(json), job, product: product.clone(), seq });
        (position, before)
    }

    /// Writes counts and spans once per transaction instead of once per job.
    pub(super) fn settle(self, connection: &Connection) -> rusqlite::Result<(LogEnds, Vec<StoredEvent>)> {
        for ((product, stage), by) in &self.moved {
            if *by != 0 {
                connection.prepare_cached(COUNT)?.execute(params![product.as_str(), stage.as_str(), by])?;
            }
        }
        for (product, (first, last)) in &self.spans {
            let mut statement = connection.prepare_cached(APPEND_SPAN)?;
            statement.execute(params![product.as_str(), stored(last.0), stored(first.0)])?;
        }
        Ok((self.ends, self.recorded))
    }
}
