//! What a transaction writes, column by column.

use std::collections::HashMap;

use domain::{Body, JobId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::batch::{Found, Verdicts};
use super::change::Change;
use super::row::{stored, uuid};

pub(super) const REPLACE: &str = "\
    UPDATE fleet_jobs j SET rev = u.rev, stage = u.stage, open = u.open, shape = u.shape, priority = u.priority,
                            due = u.due, state = u.state
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[], $6::text[], $7::bigint[], $8::bytea[])
         AS u (id, rev, stage, open, shape, priority, due, state)
    WHERE j.id = u.id";
pub(super) const CREATE_BODIES: &str = "\
    INSERT INTO fleet_bodies (id, product, repo, created, submission, body_md)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[])";
pub(super) const CREATE_DEPS: &str = "\
    INSERT INTO fleet_deps (dep, job) SELECT * FROM unnest($1::uuid[], $2::uuid[]) ON CONFLICT DO NOTHING";
pub(super) const APPEND_RUNS: &str = "\
    INSERT INTO fleet_runs (job, n, doc) SELECT * FROM unnest($1::uuid[], $2::integer[], $3::bytea[])";
/// From here to the commit nobody else adds events: what is numbered next is committed next.
pub(super) const EXTEND: &str = "UPDATE fleet_log SET pos = pos + $1 RETURNING pos";
pub(super) const APPEND_EVENTS: &str = "\
    INSERT INTO fleet_events (pos, job, seq, product, doc)
    SELECT (SELECT pos FROM fleet_log) - $1 + e.n, e.job, e.seq, e.product, e.doc
    FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::bytea[]) WITH ORDINALITY AS e (job, seq, product, doc, n)";
pub(super) const COUNT: &str = "\
    INSERT INTO fleet_counts (product, stage, n) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
    ON CONFLICT (product, stage) DO UPDATE SET n = fleet_counts.n + excluded.n";

/// A statement with what it is run with.
pub(super) type Step<'a> = (&'static str, Vec<&'a (dyn ToSql + Sync)>);

/// Rows of jobs.
#[derive(Default)]
pub(super) struct Rows<'a> {
    pub(super) ids: Vec<Uuid>,
    pub(super) revs: Vec<i64>,
    pub(super) stages: Vec<&'a str>,
    pub(super) open: Vec<bool>,
    pub(super) shapes: Vec<i64>,
    pub(super) priorities: Vec<&'a str>,
    pub(super) dues: Vec<Option<i64>>,
    pub(super) states: Vec<&'a [u8]>,
}

impl<'a> Rows<'a> {
    pub(super) fn of(changes: &[&'a Change]) -> Self {
        let mut rows = Self::default();
        for change in changes {
            let facts = &change.facts;
            rows.ids.push(uuid(change.id));
            rows.revs.push(stored(change.expected.next().0));
            rows.stages.push(facts.stage.as_str());
            rows.open.push(!facts.stage.is_terminal());
            rows.shapes.push(facts.shape.0);
            rows.priorities.push(facts.priority.name());
            rows.dues.push(facts.due.map(|due| due.as_millis()));
            rows.states.push(change.state.as_bytes());
        }
        rows
    }

    fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.ids, &self.revs, &self.stages, &self.open, &self.shapes, &self.priorities, &self.dues, &self.states]
    }
}

/// Everything that is written once it is known what happens.
#[derive(Default)]
pub(super) struct Tail<'a> {
    replaced: Rows<'a>,
    bodies: Bodies<'a>,
    deps: (Vec<Uuid>, Vec<Uuid>),
    runs: (Vec<Uuid>, Vec<i32>, Vec<&'a [u8]>),
    events: Events<'a>,
    counts: (Vec<&'a str>, Vec<&'a str>, Vec<i64>),
}

#[derive(Default)]
struct Bodies<'a> {
    ids: Vec<Uuid>,
    products: Vec<&'a str>,
    repos: Vec<Option<&'a str>>,
    created: Vec<i64>,
    submissions: Vec<&'a [u8]>,
    bodies: Vec<Option<&'a [u8]>>,
}

impl<'a> Tail<'a> {
    pub(super) fn of(verdicts: &Verdicts<'a>, found: &HashMap<JobId, Found>, changes: &[&'a Change]) -> Self {
        let replaced: Vec<&Change> =
            verdicts.last.values().copied().filter(|change| found.contains_key(&change.id)).collect();
        let mut tail = Self { replaced: Rows::of(&replaced), ..Self::default() };
        for change in verdicts.written(changes) {
            tail.add(change);
        }
        for ((product, stage), by) in verdicts.moved(found) {
            tail.counts.0.push(product.as_str());
            tail.counts.1.push(stage.as_str());
            tail.counts.2.push(by);
        }
        tail
    }

    fn add(&mut self, change: &'a Change) {
        let (id, facts) = (uuid(change.id), &change.facts);
        if let Some(submission) = &change.submission {
            self.bodies.ids.push(id);
            self.bodies.products.push(facts.product.as_str());
            self.bodies.repos.push(facts.repo.as_ref().map(|repo| repo.as_str()));
            self.bodies.created.push(facts.created.as_millis());
            self.bodies.submissions.push(submission.as_bytes());
            self.bodies.bodies.push(change.body.as_ref().map(|Body(text)| text.as_bytes()));
            for dep in &facts.deps {
                self.deps.0.push(uuid(*dep));
                self.deps.1.push(id);
            }
        }
        for (n, doc) in &change.runs {
            self.runs.0.push(id);
            self.runs.1.push(i32::try_from(*n).unwrap_or(i32::MAX));
            self.runs.2.push(doc.as_bytes());
        }
        for (seq, doc) in &change.events {
            self.events.added += 1;
            self.events.jobs.push(id);
            self.events.seqs.push(stored(seq.0));
            self.events.products.push(facts.product.as_str());
            self.events.docs.push(doc.as_bytes());
        }
    }

    /// How many events it adds.
    pub(super) fn added(&self) -> u64 {
        self.events.jobs.len() as u64
    }

    /// What to run, in this order. The log's row is locked as late as can be, and the counts only by whoever has it.
    pub(super) fn steps(&self) -> Vec<Step<'_>> {
        let (rows, bodies, events) = (&self.replaced, &self.bodies, &self.events);
        let steps: [(usize, Step<'_>); 7] = [
            (rows.ids.len(), (REPLACE, rows.all())),
            (bodies.ids.len(), (CREATE_BODIES, bodies.all())),
            (self.deps.0.len(), (CREATE_DEPS, vec![&self.deps.0, &self.deps.1])),
            (self.runs.0.len(), (APPEND_RUNS, vec![&self.runs.0, &self.runs.1, &self.runs.2])),
            (events.jobs.len(), (EXTEND, vec![&events.added])),
            (events.jobs.len(), (APPEND_EVENTS, events.all())),
            (self.counts.0.len(), (COUNT, vec![&self.counts.0, &self.counts.1, &self.counts.2])),
        ];
        steps.into_iter().filter(|(count, _)| *count > 0).map(|(_, step)| step).collect()
    }
}

#[derive(Default)]
struct Events<'a> {
    added: i64,
    jobs: Vec<Uuid>,
    seqs: Vec<i64>,
    products: Vec<&'a str>,
    docs: Vec<&'a [u8]>,
}

impl Events<'_> {
    fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.added, &self.jobs, &self.seqs, &self.products, &self.docs]
    }
}

impl Bodies<'_> {
    fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.ids, &self.products, &self.repos, &self.created, &self.submissions, &self.bodies]
    }
}
