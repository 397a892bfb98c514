//! The log of the fleet's events, derived from the difference between the jobs and the log; and the number of jobs by
//! product and stage, which changes with it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use domain::{EventSeq, Position, StageName, StoreError, StoredEvent};
use serde_json::Value;
use tracing::debug;

use super::batch::{BATCH_OPS_MAX, Condition, Op};
use super::database::{Container, Continuation, Document, Etag, FeedPage, Item, Key, Partition};
use super::items::{LAST, at, event_id, event_text, no_fields, number, parsed, unreadable};
use super::pending_writes::{PendingBatch, PendingJob};
use super::requests::{WriteError, backoff};
use super::store::DocumentStore;

/// Maximum entries of one job in one batch: with the end, the job's mark and its product's counts, several jobs fit into
/// a batch.
const ENTRIES_MAX: usize = 40;

/// Changes read from the feed per request.
const FEED_PAGE: usize = 100;

/// Consecutive empty pages after which the rest is left to the next poll.
const EMPTY_PAGES_MAX: u32 = 1_000;

/// Maximum conflicts over the end of the log: another process appends the same events at the same time.
const ATTEMPTS_MAX: u32 = 100;

/// Number of cached marks; beyond that they are read again.
const MARKS_MAX: usize = 16_384;

/// The number of jobs by stage, by product.
pub(super) type Census = BTreeMap<String, BTreeMap<StageName, u64>>;

/// This process's cache of the log. Never truth.
#[derive(Default)]
pub(super) struct Progress {
    feed: Option<Continuation>,
    /// The end of the log, and its etag.
    end: Option<LogEnd>,
    /// The census as of an end of the log.
    census: Option<(Condition, Census)>,
    /// A lower bound of how far each job's events are in the log.
    marks: HashMap<Partition, EventSeq>,
}

#[derive(Debug, Clone)]
struct LogEnd {
    position: Position,
    condition: Condition,
}

impl DocumentStore {
    /// Loads the end of the log and the place in the feed as last saved.
    pub(super) async fn load_progress(&self) -> Result<(), StoreError> {
        let mut progress = self.progress.lock().await;
        if let Some(item) = self.requests.read(&log_key("feed".to_owned())).await? {
            progress.feed = Some(Continuation(item.document.text("continuation").to_owned()));
        }
        let end = self.log_end(&mut progress).await?;
        self.end.send_replace(end.position);
        Ok(())
    }

    /// Appends this process's writes, and the changes that the feed returns. Idempotent.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        let mut progress = self.progress.lock().await;
        let mine: PendingBatch<'_> = self.pending.take();
        self.enter(&mut progress, mine.jobs.clone()).await?;
        mine.finish();
        self.follow_feed(&mut progress).await?;
        // Another process may have appended the same events.
        progress.end = None;
        let end = self.log_end(&mut progress).await?.position;
        self.end.send_if_modified(|known| end > std::mem::replace(known, end.max(*known)));
        Ok(())
    }

    /// The number of jobs by product and stage, this process's own writes included.
    pub(super) async fn counted(&self) -> Result<Census, StoreError> {
        self.catch_up().await?;
        self.read_census().await
    }

    async fn read_census(&self) -> Result<Census, StoreError> {
        let ids = census_id("")..=census_id(LAST);
        let items = self.requests.range(Container::Log, &log_partition(), ids, usize::MAX).await?;
        items.iter().map(counts).collect()
    }

    /// Reads the feed until `NotModified`: an empty page is not the end.
    async fn follow_feed(&self, progress: &mut Progress) -> Result<(), StoreError> {
        let before = progress.feed.clone();
        let mut empty = 0;
        while empty < EMPTY_PAGES_MAX {
            let page = self.requests.changes(progress.feed.as_ref(), FEED_PAGE).await?;
            let FeedPage::Changes(items, reached) = page else { break };
            empty = if items.is_empty() { empty + 1 } else { 0 };
            self.enter(progress, changed_jobs(&items)?).await?;
            // Saved last: a process that ends before this reads the page again.
            progress.feed = Some(reached);
        }
        if let Some(feed) = progress.feed.as_ref().filter(|feed| before.as_ref() != Some(*feed)) {
            let document = log_document("feed").with("continuation", feed.0.as_str());
            let op = Op { id: "feed".to_owned(), condition: Condition::Any, document };
            if let Err(error) = self.requests.write(Container::Log, &log_partition(), &[op]).await {
                debug!(?error, "Could not store the position of the change feed: it will be read again");
            }
        }
        Ok(())
    }

    /// Appends the events of these jobs, up to these numbers, that the log lacks.
    async fn enter(&self, progress: &mut Progress, mut left: VecDeque<PendingJob>) -> Result<(), StoreError> {
        let mut lost_races = 0;
        while !left.is_empty() {
            let end = self.log_end(progress).await?;
            let mut batch = Batch::new(end.position);
            let mut taken = Vec::new();
            while batch.has_capacity()
                && let Some((job, seq)) = left.pop_front()
            {
                taken.push((job.clone(), seq));
                let is_whole = progress.has(&job, seq) || self.collect(&mut batch, &job, seq).await?;
                if !is_whole {
                    left.push_front((job, seq));
                    break;
                }
            }
            if batch.entries.is_empty() {
                progress.remember(&batch);
                continue;
            }
            let census = self.census_at(progress, &end).await?;
            let (ops, census) = batch.ops(&end, census);
            match self.requests.write(Container::Log, &log_partition(), &ops).await {
                Ok(etags) => {
                    let condition = at(etags.first());
                    progress.census = Some((condition.clone(), census));
                    progress.end = Some(LogEnd { position: batch.end, condition });
                    progress.remember(&batch);
                }
                // Another process appended events, or the outcome is unknown: read the current state and decide again.
                Err(WriteError::Refused { .. } | WriteError::Unknown) if lost_races < ATTEMPTS_MAX => {
                    progress.end = None;
                    lost_races += 1;
                    taken.into_iter().rev().for_each(|job| left.push_front(job));
                    self.requests.pause(backoff(lost_races.min(4))).await;
                }
                Err(WriteError::Refused { .. } | WriteError::Unknown) => {
                    return Err(StoreError::Unavailable("other writers keep appending to the log".to_owned()));
                }
                Err(WriteError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a job's missing events to the batch; returns whether all of them fit.
    async fn collect(&self, batch: &mut Batch, job: &Partition, upto: EventSeq) -> Result<bool, StoreError> {
        let entered = match batch.marks.get(job) {
            Some(mark) => mark.entered,
            None => {
                let mark = JobMark::read(self.requests.read(&log_key(mark_id(job))).await?)?;
                let entered = mark.entered;
                batch.marks.insert(job.clone(), mark);
                entered
            }
        };
        if entered >= upto {
            return Ok(true);
        }
        let ids = event_id(entered.next())..=event_id(upto);
        let events = self.requests.range(Container::Jobs, job, ids, ENTRIES_MAX).await?;
        batch.add(job, &events)?;
        Ok(events.len() < ENTRIES_MAX)
    }

    async fn log_end(&self, progress: &mut Progress) -> Result<LogEnd, StoreError> {
        if let Some(end) = &progress.end {
            return Ok(end.clone());
        }
        let end = match self.requests.read(&log_key("end".to_owned())).await? {
            Some(item) => {
                LogEnd { position: Position(number(&item, "position")?), condition: Condition::At(item.etag) }
            }
            None => LogEnd { position: Position(0), condition: Condition::Absent },
        };
        progress.end = Some(end.clone());
        Ok(end)
    }

    /// The census as of this end of the log. It changes with the end only, so the end's etag guards it too.
    async fn census_at(&self, progress: &mut Progress, end: &LogEnd) -> Result<Census, StoreError> {
        match progress.census.take() {
            Some((condition, census)) if condition == end.condition => Ok(census),
            Some(_) | None => self.read_census().await,
        }
    }
}

impl Progress {
    fn has(&self, job: &Partition, seq: EventSeq) -> bool {
        self.marks.get(job).is_some_and(|mark| *mark >= seq)
    }

    fn remember(&mut self, batch: &Batch) {
        if self.marks.len() > MARKS_MAX {
            self.marks.clear();
        }
        self.marks.extend(batch.marks.iter().map(|(job, mark)| (job.clone(), mark.entered)));
    }
}

/// Entries that are written together with the new end, the marks of their jobs and the census.
struct Batch {
    end: Position,
    entries: Vec<Op>,
    marks: BTreeMap<Partition, JobMark>,
}

/// How far a job's events are in the log, and the job's stage there.
#[derive(Default)]
struct JobMark {
    before: EventSeq,
    stage_before: Option<StageName>,
    entered: EventSeq,
    stage: Option<StageName>,
    product: String,
    etag: Option<Etag>,
}

impl JobMark {
    fn read(item: Option<Item>) -> Result<Self, StoreError> {
        let Some(item) = item else { return Ok(Self::default()) };
        let (seq, stage) = (EventSeq(number(&item, "seq")?), Some(parsed(&item, "stage")?));
        let product = item.document.text("productId").to_owned();
        Ok(Self { before: seq, stage_before: stage, entered: seq, stage, product, etag: Some(item.etag) })
    }
}

impl Batch {
    fn new(end: Position) -> Self {
        Self { end, entries: Vec::new(), marks: BTreeMap::new() }
    }

    /// Reports whether another job's entries, its mark and its product's counts fit, with the end itself.
    fn has_capacity(&self) -> bool {
        self.entries.len() + 2 * self.marks.len() + ENTRIES_MAX + 3 <= BATCH_OPS_MAX
    }

    fn add(&mut self, job: &Partition, events: &[Item]) -> Result<(), StoreError> {
        for event in events {
            let seq = EventSeq(number(event, "seq")?);
            let told = event.document.get("event").and_then(|told| told.get("stage")).and_then(Value::as_str);
            let stage = told.unwrap_or_default().parse().map_err(|error| unreadable(&event.key, error))?;
            self.end = self.end.next();
            self.entries.push(entry(self.end, job, event));
            let mark = self.marks.entry(job.clone()).or_default();
            mark.entered = seq;
            mark.stage = Some(stage);
            mark.product = event.document.text("productId").to_owned();
        }
        Ok(())
    }

    /// The writes, with the end first, and the census after them.
    fn ops(&self, before: &LogEnd, mut census: Census) -> (Vec<Op>, Census) {
        let document = log_document("end").with("position", self.end.0);
        let mut ops = vec![Op { id: "end".to_owned(), condition: before.condition.clone(), document }];
        ops.extend(self.entries.iter().cloned());
        let mut products = Vec::new();
        for (job, mark) in self.marks.iter().filter(|(_, mark)| mark.entered > mark.before) {
            let document = log_document("mark")
                .with("productId", mark.product.as_str())
                .with("jobId", job.last())
                .with("seq", mark.entered.0)
                .with_some("stage", mark.stage.map(|stage| stage.to_string()));
            ops.push(Op { id: mark_id(job), condition: at(mark.etag.as_ref()), document });
            let counts = census.entry(mark.product.clone()).or_default();
            if let Some(count) = mark.stage_before.and_then(|stage| counts.get_mut(&stage)) {
                *count = count.saturating_sub(1);
            }
            if let Some(stage) = mark.stage {
                *counts.entry(stage).or_default() += 1;
            }
            counts.retain(|_, count| *count > 0);
            if !products.contains(&mark.product) {
                products.push(mark.product.clone());
            }
        }
        for product in products {
            let counts = census.get(&product).into_iter().flatten();
            let by_stage = counts.fold(no_fields(), |mut fields, (stage, count)| {
                fields.insert(stage.to_string(), (*count).into());
                fields
            });
            let document = log_document("census").with("productId", product.as_str()).with("jobs", by_stage);
            ops.push(Op { id: census_id(&product), condition: Condition::Any, document });
        }
        (ops, census)
    }
}

/// Decodes the counts of a product.
fn counts(item: &Item) -> Result<(String, BTreeMap<StageName, u64>), StoreError> {
    let malformed = || unreadable(&item.key, "it has no numbers of jobs by stage");
    let fields = item.document.get("jobs").and_then(Value::as_object).ok_or_else(malformed)?;
    let count = |(stage, count): (&String, &Value)| {
        Ok((stage.parse().map_err(|_| malformed())?, count.as_u64().ok_or_else(malformed)?))
    };
    Ok((item.document.text("productId").to_owned(), fields.iter().map(count).collect::<Result<_, StoreError>>()?))
}

fn entry(position: Position, job: &Partition, event: &Item) -> Op {
    let document = log_document("entry")
        .with("position", position.0)
        .with("productId", event.document.text("productId"))
        .with("jobId", job.last())
        .with_some("seq", event.document.get("seq").cloned())
        .with_some("event", event.document.get("event").cloned());
    Op { id: entry_id(position), condition: Condition::Absent, document }
}

/// Decodes an entry of the log.
pub(super) fn recorded(item: &Item) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        position: Position(number(item, "position")?),
        json: event_text(item),
        job: parsed(item, "jobId")?,
        product: parsed(item, "productId")?,
        seq: EventSeq(number(item, "seq")?),
    })
}

/// The jobs among the changed items, with the number of their latest event.
fn changed_jobs(items: &[Item]) -> Result<VecDeque<PendingJob>, StoreError> {
    let jobs = items.iter().filter(|item| item.key.id == "job");
    jobs.map(|item| Ok((item.key.partition.clone(), EventSeq(number(item, "seq")?)))).collect()
}

/// The one partition of the log.
pub(super) fn log_partition() -> Partition {
    Partition::of(["events"])
}

fn log_document(kind: &str) -> Document {
    Document::of(Container::Log, &log_partition()).with("type", kind)
}

pub(super) fn entry_id(position: Position) -> String {
    format!("p:{:020}", position.0)
}

fn log_key(id: String) -> Key {
    Key { container: Container::Log, partition: log_partition(), id }
}

fn mark_id(job: &Partition) -> String {
    format!("mark:{}", job.last())
}

fn census_id(product: &str) -> String {
    format!("census:{product}")
}
