//! The names of the adapter's items, and the encoding of jobs as documents.

use std::sync::Arc;

use domain::{
    Commit, EventSeq, Expected, Job, JobId, Revision, SearchTerm, StoreError, Submission, Timestamp, Versioned,
    search_terms,
};

use super::batch::{Condition, Op};
use super::database::{Document, Item, Key};
use super::feed::FED;

/// One logical partition per job: `job`, `body`, `e:{seq}`, `run:{n}`.
pub(super) const JOBS: &str = FED;
/// One partition: the log of the fleet's events and each job's progress.
pub(super) const LOG: &str = "log";
/// One logical partition per document.
pub(super) const FLEET: &str = "fleet";

/// Sorts after every id that begins with a letter and a colon.
pub(super) const LAST: &str = "\u{10ffff}";

pub(super) fn job_key(id: JobId, item: &str) -> Key {
    Key { container: JOBS, partition: id.to_string(), id: item.to_owned() }
}

pub(super) fn event_id(seq: EventSeq) -> String {
    format!("e:{seq:020}", seq = seq.0)
}

/// A timestamp as text that sorts chronologically.
pub(super) fn sortable(at: Timestamp) -> String {
    format!("{:016x}", at.as_millis().cast_unsigned() ^ (1 << 63))
}

pub(super) fn number(item: &Item, field: &str) -> Result<u64, StoreError> {
    item.document.text(field).parse().map_err(|error| unreadable(&item.key, error))
}

pub(super) fn unreadable(key: &Key, error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("{} of {} `{}`: {error}", key.id, key.container, key.partition))
}

/// The index entry of a term, in the order of jobs.
pub(super) fn term_key(term: SearchTerm, place: &str) -> String {
    format!("{:016x} {place}", term.0.cast_unsigned())
}

/// Decodes the job of an item.
pub(super) fn job(item: &Item) -> Result<Versioned<Job>, StoreError> {
    let submission: Submission =
        serde_json::from_str(item.document.text("submission")).map_err(|error| unreadable(&item.key, error))?;
    let value = Job::from_stored(Arc::new(submission), item.document.text("state"))
        .map_err(|error| unreadable(&item.key, error))?;
    Ok(Versioned { value, revision: Revision(number(item, "rev")?) })
}

/// The writes of a unit; the job's own is the first.
pub(super) fn ops(unit: &Commit, current: Option<&Item>) -> Result<Vec<Op>, StoreError> {
    let unwritable = |error: serde_json::Error| StoreError::Corrupt(format!("the job cannot be written: {error}"));
    let mut seq = EventSeq(current.map_or(Ok(0), |item| number(item, "seq"))?);
    let mut events = Vec::with_capacity(unit.events.len());
    for event in &unit.events {
        if event.seq <= seq {
            return Err(StoreError::Corrupt(format!("job `{}` already has an event {}", event.job_id, event.seq)));
        }
        seq = event.seq;
        let document = Document::default()
            .with("json", serde_json::to_string(event).map_err(unwritable)?)
            .with("product", event.product_id.as_str())
            .with("seq", seq.to_string());
        events.push(Op { id: event_id(seq), condition: Condition::Absent, document });
    }
    let submission: Arc<str> = match current.and_then(|item| item.document.fields.get("submission")) {
        Some(written_once) => Arc::clone(written_once),
        None => serde_json::to_string(&**unit.job.submission()).map_err(unwritable)?.into(),
    };
    let document = indexed(unit)
        .with("rev", unit.expected.next().to_string())
        .with("seq", seq.to_string())
        .with("submission", submission)
        .with("state", unit.job.state_json().map_err(unwritable)?);
    let condition = current.map_or(Condition::Absent, |item| Condition::At(item.etag));
    let mut ops = vec![Op { id: "job".to_owned(), condition, document }];
    if let (Expected::Absent, Some(body)) = (unit.expected, &unit.body) {
        let document = Document::default().with("body", Arc::clone(&body.0));
        ops.push(Op { id: "body".to_owned(), condition: Condition::Absent, document });
    }
    ops.extend(events);
    for run in &unit.runs {
        let document = Document::default().with("json", serde_json::to_string(run).map_err(unwritable)?);
        ops.push(Op { id: format!("run:{:010}", run.n), condition: Condition::Absent, document });
    }
    Ok(ops)
}

/// A document with the index entries of a job.
fn indexed(unit: &Commit) -> Document {
    let (id, facts) = (unit.job.id().to_string(), &unit.facts);
    let mut document = Document::default()
        .key("stage", format!("{} {}", facts.product, facts.stage))
        .key("created", format!("{}{id}", sortable(facts.created)));
    for term in search_terms(&unit.job) {
        document = document.key("term", term_key(term, &format!("{}{id}", sortable(facts.created))));
    }
    if !facts.stage.is_terminal() {
        document = document.key("open", id);
    }
    let deps: std::collections::BTreeSet<_> = facts.deps.iter().collect();
    deps.into_iter().fold(document, |document, dep| document.key("dep", dep.to_string()))
}
