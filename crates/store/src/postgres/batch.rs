//! Plans many changes in memory, as if they were applied one after the other.

use std::collections::{BTreeMap, HashMap};

use domain::{CommitError, Expected, JobId, Position, ProductId, Revision, StageName, StoreError, StoredEvent};

use super::rows::Rows;
use super::writer::Outcome;
use super::writer_cache::{CachedJob, LogEnds, WriterCache};
use crate::change::Change;

/// How far the cache can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheTrust {
    /// The cache may lack existing jobs.
    Memory,
    /// The cache has every job of the changes, and the log's lock keeps other writers out.
    Everything,
}

/// The cache cannot decide: the rows must be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotCached;

/// The plan of a batch: an outcome for each change, the rows to write, and the state afterwards.
pub(super) struct BatchPlan<'a> {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) before: LogEnds,
    pub(super) after: LogEnds,
    pub(super) rows: Rows<'a>,
    /// The appended events, as subscribers receive them.
    pub(super) recorded: Vec<StoredEvent>,
    /// The changed jobs: their current rows and their new ones.
    jobs: BTreeMap<JobId, PlannedJob<'a>>,
    moved: BTreeMap<(&'a ProductId, StageName), i64>,
    spans: BTreeMap<&'a ProductId, (Position, Position)>,
}

struct PlannedJob<'a> {
    /// The revision of the current row; `None` for a new job.
    from: Option<Revision>,
    to: CachedJob,
    change: &'a Change,
}

impl<'a> BatchPlan<'a> {
    /// Plans by the cache. Rows are in order of id, so that two transactions cannot deadlock.
    pub(super) fn of(changes: &[&'a Change], books: &WriterCache, sight: CacheTrust) -> Result<Self, NotCached> {
        let before = books.ends.ok_or(NotCached)?;
        let mut plan = Self {
            outcomes: Vec::with_capacity(changes.len()),
            before,
            after: before,
            rows: Rows::default(),
            recorded: Vec::with_capacity(changes.len()),
            jobs: BTreeMap::new(),
            moved: BTreeMap::new(),
            spans: BTreeMap::new(),
        };
        for change in changes {
            let outcome = plan.decide(change, books, sight)?;
            plan.outcomes.push(outcome);
        }
        for (id, turn) in &plan.jobs {
            plan.rows.job(*id, turn.from, turn.to, turn.change);
        }
        for ((product, stage), by) in plan.moved.iter().filter(|(_, by)| **by != 0) {
            plan.rows.count(product, *stage, *by);
        }
        for (product, (first, last)) in &plan.spans {
            plan.rows.span(product, *first, *last);
        }
        Ok(plan)
    }

    /// Reports whether the plan writes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The state of the changed jobs afterwards.
    pub(super) fn known(&self) -> impl Iterator<Item = (JobId, CachedJob)> + '_ {
        self.jobs.iter().map(|(id, turn)| (*id, turn.to))
    }

    fn decide(&mut self, change: &'a Change, books: &WriterCache, sight: CacheTrust) -> Result<Outcome, NotCached> {
        let current = self.jobs.get(&change.id).map(|turn| turn.to).or_else(|| books.known(change.id));
        match (change.expected, current) {
            (Expected::At(_), None) if sight == CacheTrust::Memory => return Err(NotCached),
            // Another process changed the job since it was cached.
            (Expected::At(revision), Some(known)) if sight == CacheTrust::Memory && revision > known.rev => {
                return Err(NotCached);
            }
            (Expected::Absent, None) => {}
            (Expected::At(revision), Some(known)) if revision == known.rev => {}
            _ => return Ok(Err(CommitError::Stale)),
        }
        let last = current.map_or(0, |known| known.seq.0);
        if !change.events.iter().zip(last + 1..).all(|((seq, _), expected)| seq.0 == expected) {
            let why = "the job's events do not follow the stored ones".to_owned();
            return Ok(Err(StoreError::Corrupt(why).into()));
        }
        self.write(change, current, books);
        Ok(Ok(change.expected.next()))
    }

    fn write(&mut self, change: &'a Change, current: Option<CachedJob>, books: &WriterCache) {
        let facts = &change.facts;
        let mut known = current.unwrap_or_else(|| {
            self.after.jobs += 1;
            CachedJob::new(self.after.jobs, facts.stage)
        });
        if current.is_none() {
            self.rows.body(known.n, change);
            *self.moved.entry((&facts.product, facts.stage)).or_default() += 1;
        } else {
            *self.moved.entry((&facts.product, known.stage)).or_default() -= 1;
            *self.moved.entry((&facts.product, facts.stage)).or_default() += 1;
        }
        for (seq, doc) in &change.events {
            let position = self.after.log.next();
            self.rows.event(position, known, *seq, &facts.product, doc);
            (self.after.log, known.latest, known.seq) = (position, position, *seq);
            self.spans.entry(&facts.product).or_insert((position, position)).1 = position;
            let (json, product) = (std::sync::Arc::clone(doc), facts.product.clone());
            self.recorded.push(StoredEvent { position, json, job: change.id, product, seq: *seq });
        }
        for (n, doc) in &change.runs {
            self.rows.run(known.n, *n, doc);
        }
        (known.rev, known.stage) = (change.expected.next(), facts.stage);
        let from = self.jobs.get(&change.id).map_or_else(|| books.known(change.id).map(|known| known.rev), |t| t.from);
        self.jobs.insert(change.id, PlannedJob { from, to: known, change });
    }
}

impl CachedJob {
    fn new(n: u64, stage: StageName) -> Self {
        let n = super::row::stored(n);
        Self { n, rev: Revision(0), stage, latest: Position(0), seq: domain::EventSeq(0) }
    }
}

/// The jobs of the changes, each once.
pub(super) fn ids(changes: &[&Change]) -> Vec<JobId> {
    let ids: HashMap<JobId, ()> = changes.iter().map(|change| (change.id, ())).collect();
    let mut ids: Vec<_> = ids.into_keys().collect();
    ids.sort_unstable();
    ids
}
