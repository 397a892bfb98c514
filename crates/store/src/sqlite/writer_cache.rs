//! What the writer keeps in its head: where the log and the jobs end, what the jobs at hand look like, and what one
//! transaction adds to the counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{EventSeq, JobId, Position, Priority, ProductId, Revision, StageName, StoredEvent};
use foldhash::HashMap;
use rusqlite::{Connection, Row, params};

use super::row::{counter, parsed, stored};

/// Jobs at hand that are remembered: a few megabytes. More only means that some are looked up again.
const KNOWN_MAX: usize = 32_768;

/// Where the log and the jobs end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LogEnds {
    pub(super) log: Position,
    pub(super) jobs: u64,
}

/// The columns of a job that its next change depends on. Nobody but the writer changes them.
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

/// The priority of this name. What is none of ours differs from every one of them, and is written over.
fn priority(name: &str) -> Option<Priority> {
    Priority::ALL.into_iter().find(|priority| priority.name() == name)
}

/// The jobs that were written lately, by id. Wrong after a transaction that was undone: then it starts over.
#[derive(Debug, Default)]
pub(super) struct JobCache(HashMap<JobId, CachedJob>);

impl JobCache {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// What one transaction adds.
pub(super) struct WriterCache<'a> {
    memory: &'a mut JobCache,
    ends: LogEnds,
    moved: BTreeMap<(ProductId, StageName), i64>,
    spans: BTreeMap<ProductId, (Position, Position)>,
    recorded: Vec<StoredEvent>,
    /// The job that the latest event of the log belongs to, so that its next one in the same unit finds it.
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

    /// What is remembered about a job.
    pub(super) fn known(&self, id: JobId) -> Option<CachedJob> {
        self.memory.0.get(&id).copied()
    }

    /// Remembers a job for as long as it can still change often.
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

    /// The number that the next job gets.
    pub(super) fn next_job(&self) -> i64 {
        stored(self.ends.jobs + 1)
    }

    /// The next job was written, and has its number.
    pub(super) fn number(&mut self, product: &ProductId, stage: StageName) {
        self.ends.jobs += 1;
        *self.moved.entry((product.clone(), stage)).or_default() += 1;
    }

    /// A job moved from one stage to another.
    pub(super) fn moved(&mut self, product: &ProductId, from: StageName, to: StageName) {
        if from != to {
            *self.moved.entry((product.clone(), from)).or_default() -= 1;
            *self.moved.entry((product.clone(), to)).or_default() += 1;
        }
    }

    /// Where the log ends.
    pub(super) fn end(&self) -> Position {
        self.ends.log
    }

    /// The place of the next event, and of the one before it if this unit has written that too.
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

    /// Writes counts and spans, once per transaction and not once per job.
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
