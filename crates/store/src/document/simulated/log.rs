//! The log of the fleet's events, derived from the difference between the jobs and the log.

use std::collections::{BTreeMap, HashMap, VecDeque};

use domain::{EventSeq, JobId, Position, StoreError, StoredEvent};
use tracing::debug;

use super::batch::{BATCH_OPS_MAX, Condition, Op};
use super::database::{Document, Item, Key};
use super::feed::{Continuation, FeedPage, PHYSICAL_PARTITIONS};
use super::items::{JOBS, LOG, event_id, number, unreadable};
use super::retry::{WriteError, backoff};
use super::{SimulatedDocumentStore, pending_writes::PendingBatch};

/// Maximum entries of one job in one batch: with the end and the job's mark, several jobs fit into a batch.
const ENTRIES_MAX: usize = 40;

/// Changes read from the feed per request.
const FEED_PAGE: usize = 100;

/// Consecutive empty pages after which the rest is left to the next poll.
const EMPTY_PAGES_MAX: u32 = 1_000;

/// Maximum conflicts over the end of the log: another process appends the same events at the same time.
const ATTEMPTS_MAX: u32 = 100;

/// Number of cached marks; beyond that they are read again.
const MARKS_MAX: usize = 16_384;

/// This process's cache of the log. Never truth.
#[derive(Default)]
pub(super) struct Progress {
    feed: [Continuation; PHYSICAL_PARTITIONS],
    /// The end of the log, and its etag.
    end: Option<LogEnd>,
    /// A lower bound of how far each job's events are in the log.
    marks: HashMap<JobId, EventSeq>,
}

#[derive(Debug, Clone, Copy)]
struct LogEnd {
    position: Position,
    condition: Condition,
}

impl SimulatedDocumentStore {
    /// Loads the end of the log and the feed positions as last saved.
    pub(super) async fn load_progress(&self) -> Result<(), StoreError> {
        let mut progress = self.progress.lock().await;
        for (partition, continuation) in progress.feed.iter_mut().enumerate() {
            if let Some(item) = self.read(&feed_key(partition)).await? {
                *continuation = Continuation::read(item.document.text("continuation"));
            }
        }
        let end = self.log_end(&mut progress).await?;
        self.end.send_replace(end.position);
        Ok(())
    }

    /// Appends this process's writes, and the changes that the feed returns. Idempotent.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        let mut progress = self.progress.lock().await;
        let mine: PendingBatch<'_> = self.touched.take();
        self.enter(&mut progress, mine.jobs.clone()).await?;
        mine.finish();
        for partition in 0..PHYSICAL_PARTITIONS {
            self.follow_feed(&mut progress, partition).await?;
        }
        // Another process may have appended the same events.
        progress.end = None;
        let end = self.log_end(&mut progress).await?.position;
        self.end.send_if_modified(|known| end > std::mem::replace(known, end.max(*known)));
        Ok(())
    }

    /// Reads one physical partition's feed until `NotModified`: an empty page is not the end.
    async fn follow_feed(&self, progress: &mut Progress, partition: usize) -> Result<(), StoreError> {
        let before = progress.feed[partition];
        let mut empty = 0;
        while empty < EMPTY_PAGES_MAX {
            let after = progress.feed[partition];
            let page = self.patience.ask(|| self.database().changes(partition, after, FEED_PAGE)).await?;
            let FeedPage::Changes(items, reached) = page else { break };
            empty = if items.is_empty() { empty + 1 } else { 0 };
            self.enter(progress, changed_jobs(&items)?).await?;
            // Saved last: a process that ends before this reads the page again.
            progress.feed[partition] = reached;
        }
        if progress.feed[partition] != before {
            let document = Document::default().with("continuation", progress.feed[partition].text());
            let op = Op { id: feed_key(partition).id, condition: Condition::Any, document };
            if let Err(error) = self.patience.write(LOG, LOG, &[op]).await {
                debug!(?error, "Could not store the position of the change feed: it will be read again");
            }
        }
        Ok(())
    }

    /// Appends the events of these jobs, up to these numbers, that the log lacks.
    async fn enter(&self, progress: &mut Progress, mut left: VecDeque<(JobId, EventSeq)>) -> Result<(), StoreError> {
        let mut lost_races = 0;
        while !left.is_empty() {
            let end = self.log_end(progress).await?;
            let mut batch = Batch::new(end.position);
            let mut taken = Vec::new();
            while batch.has_capacity()
                && let Some((job, seq)) = left.pop_front()
            {
                taken.push((job, seq));
                let is_whole = progress.has(job, seq) || self.collect(&mut batch, job, seq).await?;
                if !is_whole {
                    left.push_front((job, seq));
                    break;
                }
            }
            let written = match batch.ops(end) {
                Some(ops) => self.patience.write(LOG, LOG, &ops).await,
                None => Ok(Vec::new()),
            };
            match written {
                Ok(etags) => {
                    let condition = etags.first().map_or(end.condition, |etag| Condition::At(*etag));
                    progress.end = Some(LogEnd { position: batch.end, condition });
                    progress.remember(&batch);
                }
                // Another process appended events, or the outcome is unknown: read the current state and decide again.
                Err(WriteError::Refused { .. } | WriteError::Unknown) if lost_races < ATTEMPTS_MAX => {
                    progress.end = None;
                    lost_races += 1;
                    taken.into_iter().rev().for_each(|job| left.push_front(job));
                    self.patience.pause(backoff(lost_races.min(4))).await;
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
    async fn collect(&self, batch: &mut Batch, job: JobId, upto: EventSeq) -> Result<bool, StoreError> {
        let entered = match batch.marks.get(&job) {
            Some(mark) => mark.entered,
            None => {
                let item = self.read(&mark_key(job)).await?;
                let entered = EventSeq(item.as_ref().map_or(Ok(0), |item| number(item, "seq"))?);
                batch.marks.insert(job, JobMark { before: entered, entered, etag: item.map(|item| item.etag) });
                entered
            }
        };
        if entered >= upto {
            return Ok(true);
        }
        let (partition, ids) = (job.to_string(), event_id(entered.next())..=event_id(upto));
        let events = || self.database().range(JOBS, &partition, ids.clone(), ENTRIES_MAX);
        let events = self.patience.ask(events).await?;
        batch.add(job, &events)?;
        Ok(events.len() < ENTRIES_MAX)
    }

    async fn log_end(&self, progress: &mut Progress) -> Result<LogEnd, StoreError> {
        if let Some(end) = progress.end {
            return Ok(end);
        }
        let end = match self.read(&log_key("end".to_owned())).await? {
            Some(item) => {
                LogEnd { position: Position(number(&item, "position")?), condition: Condition::At(item.etag) }
            }
            None => LogEnd { position: Position(0), condition: Condition::Absent },
        };
        progress.end = Some(end);
        Ok(end)
    }
}

impl Progress {
    fn has(&self, job: JobId, seq: EventSeq) -> bool {
        self.marks.get(&job).is_some_and(|mark| *mark >= seq)
    }

    fn remember(&mut self, batch: &Batch) {
        if self.marks.len() > MARKS_MAX {
            self.marks.clear();
        }
        self.marks.extend(batch.marks.iter().map(|(job, mark)| (*job, mark.entered)));
    }
}

/// Entries that are written together with the new end and the marks of their jobs.
struct Batch {
    end: Position,
    entries: Vec<Op>,
    marks: BTreeMap<JobId, JobMark>,
}

/// How far a job's events are in the log.
struct JobMark {
    before: EventSeq,
    entered: EventSeq,
    etag: Option<u64>,
}

impl Batch {
    fn new(end: Position) -> Self {
        Self { end, entries: Vec::new(), marks: BTreeMap::new() }
    }

    /// Reports whether another job's entries and its mark fit, with the end itself.
    fn has_capacity(&self) -> bool {
        self.entries.len() + self.marks.len() + ENTRIES_MAX + 2 <= BATCH_OPS_MAX
    }

    fn add(&mut self, job: JobId, events: &[Item]) -> Result<(), StoreError> {
        for event in events {
            let seq = EventSeq(number(event, "seq")?);
            self.end = self.end.next();
            self.entries.push(entry(self.end, job, event));
            self.marks.entry(job).and_modify(|mark| mark.entered = seq);
        }
        Ok(())
    }

    /// The writes, with the end first; `None` if there is nothing to append.
    fn ops(&self, before: LogEnd) -> Option<Vec<Op>> {
        if self.entries.is_empty() {
            return None;
        }
        let document = Document::default().with("position", self.end.to_string());
        let mut ops = vec![Op { id: "end".to_owned(), condition: before.condition, document }];
        ops.extend(self.entries.iter().cloned());
        for (job, mark) in self.marks.iter().filter(|(_, mark)| mark.entered > mark.before) {
            let condition = mark.etag.map_or(Condition::Absent, Condition::At);
            let document = Document::default().with("seq", mark.entered.to_string());
            ops.push(Op { id: mark_key(*job).id, condition, document });
        }
        Some(ops)
    }
}

fn entry(position: Position, job: JobId, event: &Item) -> Op {
    let product = event.document.text("product");
    let document = Document::default()
        .with("position", position.to_string())
        .with("job", job.to_string())
        .with("product", product)
        .with("seq", event.document.text("seq"))
        .with("json", event.document.fields.get("json").cloned().unwrap_or_default())
        .key("log_job", place(&job.to_string(), position))
        .key("log_product", place(product, position));
    Op { id: entry_id(position), condition: Condition::Absent, document }
}

/// Decodes an entry of the log.
pub(super) fn recorded(item: &Item) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        position: Position(number(item, "position")?),
        json: item.document.fields.get("json").cloned().unwrap_or_default(),
        job: item.document.text("job").parse().map_err(|error| unreadable(&item.key, error))?,
        product: item.document.text("product").parse().map_err(|error| unreadable(&item.key, error))?,
        seq: EventSeq(number(item, "seq")?),
    })
}

/// The jobs among the changed items, with the number of their latest event.
fn changed_jobs(items: &[Item]) -> Result<VecDeque<(JobId, EventSeq)>, StoreError> {
    let jobs = items.iter().filter(|item| item.key.id == "job");
    let changed = |item: &Item| {
        let id = item.key.partition.parse().map_err(|error| unreadable(&item.key, error))?;
        Ok((id, EventSeq(number(item, "seq")?)))
    };
    jobs.map(changed).collect()
}

/// The sort key of an owner's entries in the index, by position.
pub(super) fn place(whose: &str, position: Position) -> String {
    format!("{whose} {:020}", position.0)
}

pub(super) fn entry_id(position: Position) -> String {
    format!("p:{:020}", position.0)
}

fn log_key(id: String) -> Key {
    Key { container: LOG, partition: LOG.to_owned(), id }
}

fn mark_key(job: JobId) -> Key {
    log_key(format!("mark:{job}"))
}

fn feed_key(partition: usize) -> Key {
    log_key(format!("feed:{partition}"))
}
