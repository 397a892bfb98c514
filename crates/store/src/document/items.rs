//! The items of a job, and their encoding as JSON objects. Numbers stay below 2^53, the limit of JSON readers; the hashes
//! of search terms do not, and are text.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{
    Commit, EventSeq, Expected, Job, JobId, ProductId, Revision, SearchTerm, StoreError, Submission, Timestamp,
    Versioned, search_terms,
};
use serde_json::{Map, Value};

use super::batch::{Condition, Op};
use super::database::{Container, Document, Etag, Item, Key, Partition};
use super::job_cache::JobVersion;

/// The version of the layout of these items. The job's own parts have versions of theirs.
const LAYOUT_VERSION: u16 = 1;

/// Sorts after every text that occurs in ids.
pub(super) const LAST: &str = "\u{10ffff}";

/// The fields of a job's state that are repeated at the top of its item, for people who query the database.
const STATE_FIELDS: [&str; 4] = ["leaseEpoch", "dispatchSeq", "attempts", "lostLeases"];

pub(super) fn job_key(product: &ProductId, id: JobId, item: &str) -> Key {
    Key { container: Container::Jobs, partition: Partition::of_job(product, id), id: item.to_owned() }
}

pub(super) fn event_id(seq: EventSeq) -> String {
    format!("e:{seq:020}", seq = seq.0)
}

pub(super) fn run_id(n: u64) -> String {
    format!("run:{n:010}")
}

/// A job's place in lists, as text that sorts chronologically and then by id.
pub(super) fn listed_at(created: Timestamp, id: JobId) -> String {
    format!("{:016x}{id}", created.as_millis().cast_unsigned() ^ (1 << 63))
}

pub(super) fn number(item: &Item, field: &str) -> Result<u64, StoreError> {
    let number = item.document.get(field).and_then(Value::as_u64);
    number.ok_or_else(|| unreadable(&item.key, format_args!("`{field}` is not a number")))
}

/// A text field, parsed.
pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(item: &Item, field: &str) -> Result<T, StoreError> {
    item.document.text(field).parse().map_err(|error| unreadable(&item.key, error))
}

pub(super) fn unreadable(key: &Key, error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("`{}` of {} in {}: {error}", key.id, key.partition, key.container.name()))
}

/// The text of a search term.
pub(super) fn term(term: SearchTerm) -> String {
    format!("{:016x}", term.0.cast_unsigned())
}

/// Decodes the job of an item.
pub(super) fn job(item: &Item) -> Result<Versioned<Job>, StoreError> {
    let part =
        |name: &str| item.document.get(name).ok_or_else(|| unreadable(&item.key, format_args!("it has no `{name}`")));
    let submission: Submission =
        serde::Deserialize::deserialize(part("submission")?).map_err(|error| unreadable(&item.key, error))?;
    let value = Job::from_stored(Arc::new(submission), &part("state")?.to_string())
        .map_err(|error| unreadable(&item.key, error))?;
    Ok(Versioned { value, revision: Revision(number(item, "rev")?) })
}

/// The version of a job's item.
pub(super) fn version(item: &Item) -> Result<JobVersion, StoreError> {
    let (revision, seq) = (Revision(number(item, "rev")?), EventSeq(number(item, "seq")?));
    Ok(JobVersion { revision, etag: item.etag.clone(), seq })
}

/// The writes of a unit; the job's own is the first. With them the number of the job's last event.
pub(super) fn ops(unit: &Commit, current: Option<&JobVersion>) -> Result<(Vec<Op>, EventSeq), StoreError> {
    let partition = Partition::of_job(&unit.facts.product, unit.job.id());
    let document = |kind: &str| Document::of(Container::Jobs, &partition).with("type", kind);
    let mut seq = current.map_or(EventSeq(0), |version| version.seq);
    let mut events = Vec::with_capacity(unit.events.len());
    for event in &unit.events {
        if event.seq <= seq {
            return Err(StoreError::Corrupt(format!("job `{}` already has an event {}", event.job_id, event.seq)));
        }
        seq = event.seq;
        let document = document("event").with("seq", seq.0).with("event", json(event)?);
        events.push(Op { id: event_id(seq), condition: Condition::Absent, document });
    }
    let condition = current.map_or(Condition::Absent, |version| Condition::At(version.etag.clone()));
    let job = columns(unit, document("job"))?.with("rev", unit.expected.next().0).with("seq", seq.0);
    let mut ops = vec![Op { id: "job".to_owned(), condition, document: job }];
    if let (Expected::Absent, Some(body)) = (unit.expected, &unit.body) {
        let document = document("body").with("manifestSnapshot", &*body.0);
        ops.push(Op { id: "body".to_owned(), condition: Condition::Absent, document });
    }
    ops.extend(events);
    for run in &unit.runs {
        let document = document("run").with("run", json(run)?);
        ops.push(Op { id: run_id(run.n.into()), condition: Condition::Absent, document });
    }
    Ok((ops, seq))
}

/// The job with the fields that queries use.
fn columns(unit: &Commit, document: Document) -> Result<Document, StoreError> {
    let (job, facts) = (&unit.job, &unit.facts);
    let state: Value = serde_json::from_str(&job.state_json().map_err(|error| unwritable(&error))?)
        .map_err(|error| unwritable(&error))?;
    let deps: BTreeSet<String> = facts.deps.iter().map(ToString::to_string).collect();
    let terms: Vec<String> = search_terms(job).into_iter().map(term).collect();
    let document = document
        .with("v", LAYOUT_VERSION)
        .with("stage", facts.stage.to_string())
        .with_some("isOpen", (!facts.stage.is_terminal()).then_some(true))
        .with("priority", facts.priority.name())
        .with_some("repo", facts.repo.as_ref().map(|repo| repo.as_str()))
        .with("createdAt", json(&facts.created)?)
        .with("listedAt", listed_at(facts.created, job.id()))
        .with_some("deps", (!deps.is_empty()).then(|| Value::from_iter(deps)))
        .with_some("parentId", facts.tree.as_ref().map(|place| place.parent_id.to_string()))
        .with_some("rootId", facts.tree.as_ref().map(|place| place.root_id.to_string()))
        .with_some("holderFactoryId", job.lease().map(|lease| lease.factory.to_string()))
        .with_some("targetFactoryId", job.dispatch().map(|offer| offer.target.to_string()))
        .with("terms", terms);
    let repeated = STATE_FIELDS.into_iter().filter_map(|field| Some((field, state.get(field)?.clone())));
    let document = repeated.fold(document, |document, (field, value)| document.with(field, value));
    Ok(document.with("submission", json(&**job.submission())?).with("state", state))
}

pub(super) fn json(value: &impl serde::Serialize) -> Result<Value, StoreError> {
    serde_json::to_value(value).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt(format!("the job cannot be written: {error}"))
}

/// The text of an event, as readers forward it.
pub(super) fn event_text(item: &Item) -> Arc<str> {
    item.document.get("event").map(ToString::to_string).unwrap_or_default().into()
}

/// An etag as a precondition.
pub(super) fn at(etag: Option<&Etag>) -> Condition {
    etag.map_or(Condition::Absent, |etag| Condition::At(etag.clone()))
}

/// An empty object.
pub(super) fn no_fields() -> Map<String, Value> {
    Map::new()
}
