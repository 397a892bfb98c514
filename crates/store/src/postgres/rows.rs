//! The rows of a transaction, as arrays.

use std::sync::Arc;

use domain::{Body, EventSeq, JobId, Position, ProductId, Revision, StageName};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::row::{stored, uuid};
use super::statement::{PARTS, sql};
use super::writer_cache::{CachedJob, LogEnds};
use crate::change::Change;

/// The rows of a transaction, column by column.
#[derive(Default)]
pub(super) struct Rows<'a> {
    created: Jobs<'a>,
    created_at: (Vec<i64>, Vec<&'a str>, Vec<i64>),
    replaced: Jobs<'a>,
    replaced_from: Vec<i64>,
    bodies: Bodies<'a>,
    deps: (Vec<Uuid>, Vec<i64>),
    children: (Vec<Uuid>, Vec<i64>, Vec<Uuid>),
    runs: (Vec<i64>, Vec<i32>, Vec<&'a [u8]>),
    events: Events<'a>,
    spans: (Vec<&'a str>, Vec<i64>, Vec<i64>),
    counts: (Vec<&'a str>, Vec<&'a str>, Vec<i64>),
}

#[derive(Default)]
struct Jobs<'a> {
    ids: Vec<Uuid>,
    revs: Vec<i64>,
    stages: Vec<&'a str>,
    open: Vec<bool>,
    shapes: Vec<i64>,
    priorities: Vec<&'a str>,
    latest: Vec<i64>,
    states: Vec<&'a [u8]>,
}

#[derive(Default)]
struct Bodies<'a> {
    numbers: Vec<i64>,
    ids: Vec<Uuid>,
    repos: Vec<Option<&'a str>>,
    submissions: Vec<&'a [u8]>,
    bodies: Vec<Option<&'a [u8]>>,
}

#[derive(Default)]
struct Events<'a> {
    positions: Vec<i64>,
    jobs: Vec<i64>,
    seqs: Vec<i64>,
    before: Vec<i64>,
    products: Vec<&'a str>,
    docs: Vec<&'a [u8]>,
}

/// The expected values of the log's row, and its new ones.
pub(super) struct Log {
    jobs: i64,
    from_pos: i64,
    from_jobs: i64,
    term: Option<i64>,
    pos: i64,
}

impl Log {
    pub(super) fn new(before: LogEnds, after: LogEnds, term: Option<i64>) -> Self {
        Self {
            jobs: stored(after.jobs),
            from_pos: stored(before.log.0),
            from_jobs: stored(before.jobs),
            term,
            pos: stored(after.log.0),
        }
    }
}

impl<'a> Rows<'a> {
    pub(super) fn job(&mut self, id: JobId, from: Option<Revision>, to: CachedJob, change: &'a Change) {
        let facts = &change.facts;
        let jobs = match from {
            None => {
                self.created_at.0.push(to.n);
                self.created_at.1.push(facts.product.as_str());
                self.created_at.2.push(facts.created.as_millis());
                &mut self.created
            }
            Some(revision) => {
                self.replaced_from.push(stored(revision.0));
                &mut self.replaced
            }
        };
        jobs.ids.push(uuid(id));
        jobs.revs.push(stored(to.rev.0));
        jobs.stages.push(facts.stage.as_str());
        jobs.open.push(!facts.stage.is_terminal());
        jobs.shapes.push(facts.shape.0);
        jobs.priorities.push(facts.priority.name());
        jobs.latest.push(stored(to.latest.0));
        jobs.states.push(change.state.as_bytes());
    }

    /// Adds the columns that are written once, with a new job.
    pub(super) fn body(&mut self, n: i64, change: &'a Change) {
        let submission = change.submission.as_deref().unwrap_or_default();
        self.bodies.numbers.push(n);
        self.bodies.ids.push(uuid(change.id));
        self.bodies.repos.push(change.facts.repo.as_ref().map(|repo| repo.as_str()));
        self.bodies.submissions.push(submission.as_bytes());
        self.bodies.bodies.push(change.body.as_ref().map(|Body(text)| text.as_bytes()));
        for dep in &change.facts.deps {
            self.deps.0.push(uuid(*dep));
            self.deps.1.push(n);
        }
        if let Some(place) = &change.facts.tree {
            self.children.0.push(uuid(place.parent_id));
            self.children.1.push(n);
            self.children.2.push(uuid(place.root_id));
        }
    }

    pub(super) fn run(&mut self, job: i64, n: u32, doc: &'a str) {
        self.runs.0.push(job);
        self.runs.1.push(i32::try_from(n).unwrap_or(i32::MAX));
        self.runs.2.push(doc.as_bytes());
    }

    /// Adds an event of a job, with the job's state before it.
    pub(super) fn event(
        &mut self,
        position: Position,
        job: CachedJob,
        seq: EventSeq,
        product: &'a ProductId,
        doc: &'a Arc<str>,
    ) {
        let events = &mut self.events;
        events.positions.push(stored(position.0));
        events.jobs.push(job.n);
        events.seqs.push(stored(seq.0));
        events.before.push(stored(job.latest.0));
        events.products.push(product.as_str());
        events.docs.push(doc.as_bytes());
    }

    pub(super) fn span(&mut self, product: &'a ProductId, first: Position, last: Position) {
        self.spans.0.push(product.as_str());
        self.spans.1.push(stored(last.0));
        self.spans.2.push(stored(first.0));
    }

    pub(super) fn count(&mut self, product: &'a ProductId, stage: StageName, by: i64) {
        self.counts.0.push(product.as_str());
        self.counts.1.push(stage.as_str());
        self.counts.2.push(by);
    }

    /// The statement that writes the rows, with its parameters.
    pub(super) fn statement<'r>(&'r self, log: &'r Log) -> (&'static str, Vec<&'r (dyn ToSql + Sync)>) {
        let parts: [(bool, Vec<&(dyn ToSql + Sync)>); PARTS.len()] = [
            (!self.created.ids.is_empty(), self.created()),
            (!self.replaced.ids.is_empty(), self.replaced()),
            (!self.bodies.ids.is_empty(), self.bodies.all()),
            (!self.deps.0.is_empty(), vec![&self.deps.0, &self.deps.1]),
            (!self.runs.0.is_empty(), vec![&self.runs.0, &self.runs.1, &self.runs.2]),
            (!self.events.positions.is_empty(), self.events.all()),
            (!self.spans.0.is_empty(), vec![&self.spans.0, &self.spans.1, &self.spans.2]),
            (!self.counts.0.is_empty(), vec![&self.counts.0, &self.counts.1, &self.counts.2]),
            (!self.children.0.is_empty(), vec![&self.children.0, &self.children.1, &self.children.2]),
        ];
        let (mut bits, mut params) = (0, Vec::with_capacity(51));
        for (n, (is_there, columns)) in parts.into_iter().enumerate() {
            if is_there {
                bits |= 1 << n;
                params.extend(columns);
            }
        }
        params.extend([&log.jobs as &(dyn ToSql + Sync), &log.from_pos, &log.from_jobs, &log.term, &log.pos]);
        (sql(bits), params)
    }

    fn created(&self) -> Vec<&(dyn ToSql + Sync)> {
        let (jobs, (numbers, products, created)) = (&self.created, &self.created_at);
        vec![
            &jobs.ids,
            numbers,
            &jobs.revs,
            products,
            &jobs.stages,
            &jobs.open,
            &jobs.shapes,
            &jobs.priorities,
            created,
            &jobs.latest,
            &jobs.states,
        ]
    }

    fn replaced(&self) -> Vec<&(dyn ToSql + Sync)> {
        let jobs = &self.replaced;
        vec![
            &jobs.ids,
            &self.replaced_from,
            &jobs.revs,
            &jobs.stages,
            &jobs.open,
            &jobs.shapes,
            &jobs.priorities,
            &jobs.latest,
            &jobs.states,
        ]
    }
}

impl Bodies<'_> {
    fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.numbers, &self.ids, &self.repos, &self.submissions, &self.bodies]
    }
}

impl Events<'_> {
    fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.positions, &self.jobs, &self.seqs, &self.before, &self.products, &self.docs]
    }
}
