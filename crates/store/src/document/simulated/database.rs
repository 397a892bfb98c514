//! A document database like those of cloud vendors, in memory: items in logical partitions, written by
//! compare-and-set, alone or in a batch within one partition.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use domain::Entropy;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::faults::{Dice, Faults, RequestFate};
use super::feed::{self, Feed};
use crate::document::{
    BATCH_BYTES_MAX, BATCH_OPS_MAX, BatchError, Condition, Container, Continuation, Document, DocumentDatabase, Etag,
    FeedPage, Filter, Item, Key, Op, Order, Partition, Query, RequestError,
};

/// The kind of the reads that were answered with the version before the latest write.
pub const STALE_READ: &str = "stale read";

/// A simulated document database. It outlives the stores that are opened on it, as a cloud database outlives a
/// process.
pub struct SimulatedDatabase {
    dice: Dice,
    data: Mutex<Data>,
    /// Rises with every write to a container that has a feed. It stands for polling the feed.
    wakeups: watch::Sender<u64>,
}

#[derive(Default, Clone)]
pub(super) struct Data {
    items: BTreeMap<Key, StoredItem>,
    /// The items by the value of each indexed field, or by each element of an array.
    index: HashMap<(Container, &'static str, String), BTreeSet<Key>>,
    last_etag: u64,
    pub(super) feed: Feed,
    requests: HashMap<&'static str, u64>,
}

#[derive(Clone)]
struct StoredItem {
    etag: u64,
    document: Document,
    /// The version before the latest write.
    before: Option<(u64, Document)>,
}

impl SimulatedDatabase {
    /// Creates an empty database with these faults, decided by `chance`.
    pub fn new(faults: Faults, chance: Arc<dyn Entropy>) -> Self {
        Self { dice: Dice::new(faults, chance), data: Mutex::default(), wakeups: watch::Sender::new(0) }
    }

    /// Copies the database, as a point-in-time restore does. The copy has no faults until [`Self::set_faults`] sets
    /// some.
    pub fn copied(&self, chance: Arc<dyn Entropy>) -> Self {
        let data = Mutex::new(self.data.lock().clone());
        Self { dice: Dice::new(Faults::default(), chance), data, wakeups: watch::Sender::new(0) }
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.dice.set(faults);
    }

    /// The number of requests by kind, failed ones included; of reads that answered with an older version, [`STALE_READ`].
    pub fn requests(&self, kind: &str) -> u64 {
        self.data.lock().requests.get(kind).copied().unwrap_or(0)
    }

    /// The items of a container, as an operator's export shows them.
    pub fn items(&self, container: Container) -> Vec<Item> {
        let data = self.data.lock();
        data.items.iter().filter(|(key, _)| key.container == container).map(|(key, kept)| kept.item(key)).collect()
    }

    async fn begin(&self, kind: &'static str) -> Result<(), RequestError> {
        self.dice.yield_now().await;
        self.data.lock().note(kind);
        match self.dice.of_read() {
            RequestFate::Throttled(after) => Err(RequestError::Throttled(after)),
            RequestFate::Refused => Err(RequestError::NotExecuted),
            RequestFate::Fine | RequestFate::AnswerLost | RequestFate::RequestLost => Ok(()),
        }
    }
}

#[async_trait]
impl DocumentDatabase for SimulatedDatabase {
    async fn read(&self, key: &Key) -> Result<Option<Item>, RequestError> {
        self.begin("read").await?;
        let is_stale = self.dice.happens(self.dice.faults().stale_reads);
        let mut data = self.data.lock();
        let Some(kept) = data.items.get(key) else { return Ok(None) };
        let before = kept.before.clone().filter(|_| is_stale);
        let is_stale = before.is_some();
        let (etag, document) = before.unwrap_or_else(|| (kept.etag, kept.document.clone()));
        if is_stale {
            data.note(STALE_READ);
        }
        Ok(Some(Item { key: key.clone(), etag: text(etag), document }))
    }

    async fn range(
        &self,
        container: Container,
        partition: &Partition,
        ids: RangeInclusive<String>,
        limit: usize,
    ) -> Result<Vec<Item>, RequestError> {
        self.begin("range").await?;
        let key = |id: &str| Key { container, partition: partition.clone(), id: id.to_owned() };
        let data = self.data.lock();
        let found = data.items.range(key(ids.start())..=key(ids.end()));
        Ok(found.take(limit).map(|(key, kept)| kept.item(key)).collect())
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, RequestError> {
        self.begin("query").await?;
        let indexed = query.container.indexed_fields();
        let used = query.filters.iter().map(|filter| filter.field).chain([query.order_by]);
        if let Some(field) = used.into_iter().find(|field| !indexed.contains(field)) {
            return Err(RequestError::Invalid(format!("`{field}` of {} has no index", query.container.name())));
        }
        Ok(self.data.lock().matching(&query))
    }

    async fn batch(&self, container: Container, partition: &Partition, ops: Vec<Op>) -> Result<Vec<Etag>, BatchError> {
        self.dice.yield_now().await;
        let fate = self.dice.of_write();
        self.data.lock().note("batch");
        match fate {
            RequestFate::Throttled(after) => return Err(RequestError::Throttled(after).into()),
            RequestFate::Refused => return Err(RequestError::NotExecuted.into()),
            RequestFate::RequestLost => return Err(RequestError::TimedOut.into()),
            RequestFate::Fine | RequestFate::AnswerLost => {}
        }
        let applied = {
            let mut data = self.data.lock();
            let applied = data.apply(container, partition, ops);
            let end = data.feed.end();
            self.wakeups.send_if_modified(|known| std::mem::replace(known, end) != end);
            applied
        };
        self.dice.yield_now().await;
        // The response that nothing was written can be lost too.
        if fate == RequestFate::AnswerLost { Err(RequestError::TimedOut.into()) } else { applied }
    }

    async fn changes(&self, after: Option<&Continuation>, limit: usize) -> Result<FeedPage, RequestError> {
        self.begin("feed").await?;
        Ok(feed::next_page(&self.data.lock(), &self.dice, after, limit))
    }

    fn wakeups(&self) -> watch::Receiver<u64> {
        self.wakeups.subscribe()
    }
}

impl StoredItem {
    fn item(&self, key: &Key) -> Item {
        Item { key: key.clone(), etag: text(self.etag), document: self.document.clone() }
    }
}

impl Data {
    fn note(&mut self, kind: &'static str) {
        *self.requests.entry(kind).or_default() += 1;
    }

    fn apply(&mut self, container: Container, partition: &Partition, ops: Vec<Op>) -> Result<Vec<Etag>, BatchError> {
        let bytes: usize = ops.iter().map(|op| bytes(&op.document)).sum();
        if ops.len() > BATCH_OPS_MAX || bytes > BATCH_BYTES_MAX {
            return Err(BatchError::TooLarge);
        }
        let keys: Vec<Key> =
            ops.iter().map(|op| Key { container, partition: partition.clone(), id: op.id.clone() }).collect();
        for (at, (op, key)) in ops.iter().zip(&keys).enumerate() {
            check_partition(op, key)?;
            let there = self.items.get(key).map(|kept| text(kept.etag));
            let holds = match &op.condition {
                Condition::Absent => there.is_none(),
                Condition::At(etag) => there.as_ref() == Some(etag),
                Condition::Any => true,
            };
            if !holds || keys[..at].contains(key) {
                return Err(BatchError::Refused { at });
            }
        }
        Ok(ops.into_iter().zip(keys).map(|(op, key)| text(self.write(key, op.document))).collect())
    }

    fn write(&mut self, key: Key, document: Document) -> u64 {
        self.last_etag += 1;
        self.feed.note(&key);
        let before = self.items.remove(&key).map(|kept| (kept.etag, kept.document));
        let former = before.as_ref().map(|(_, before)| entries(key.container, before)).unwrap_or_default();
        let current = entries(key.container, &document);
        for gone in former.difference(&current) {
            if let Some(keys) = self.index.get_mut(gone) {
                keys.remove(&key);
            }
        }
        for new in current.difference(&former) {
            self.index.entry(new.clone()).or_default().insert(key.clone());
        }
        self.items.insert(key, StoredItem { etag: self.last_etag, document, before });
        self.last_etag
    }

    pub(super) fn item(&self, key: &Key) -> Option<Item> {
        self.items.get(key).map(|kept| kept.item(key))
    }

    fn matching(&self, query: &Query) -> Vec<Item> {
        // The filter with the fewest items finds them; the others are compared.
        let found = query.filters.iter().map(|filter| self.found_by(query.container, filter));
        let Some(candidates) = found.min_by_key(BTreeSet::len) else { return Vec::new() };
        let mut matching: Vec<(&str, &Key, &StoredItem)> = Vec::new();
        for key in candidates {
            let Some(kept) = self.items.get(key) else { continue };
            let place = if query.order_by == "id" { key.id.as_str() } else { kept.document.text(query.order_by) };
            let is_inside = query.range.start().as_str() <= place && place <= query.range.end().as_str();
            if is_inside && query.filters.iter().all(|filter| matches(filter, &kept.document)) {
                matching.push((place, key, kept));
            }
        }
        matching.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
        if query.order == Order::Falling {
            matching.reverse();
        }
        matching.into_iter().take(query.limit).map(|(_, key, kept)| kept.item(key)).collect()
    }

    fn found_by(&self, container: Container, filter: &Filter) -> BTreeSet<&Key> {
        let keys = |value: &Value| self.index.get(&(container, filter.field, value.to_string()));
        filter.any_of.iter().filter_map(keys).flatten().collect()
    }
}

/// Checks that the document names its partition, as every item has to.
fn check_partition(op: &Op, key: &Key) -> Result<(), BatchError> {
    let fields = key.container.partition_fields();
    let is_named = fields.len() == key.partition.values().len()
        && fields.iter().zip(key.partition.values()).all(|(field, value)| op.document.text(field) == value);
    let why = || format!("`{}` does not have the fields of its partition {}", key.id, key.partition);
    if is_named { Ok(()) } else { Err(RequestError::Invalid(why()).into()) }
}

fn matches(filter: &Filter, document: &Document) -> bool {
    match document.get(filter.field) {
        Some(Value::Array(values)) => values.iter().any(|value| filter.any_of.contains(value)),
        Some(value) => filter.any_of.contains(value),
        None => false,
    }
}

/// The index entries of a document.
fn entries(container: Container, document: &Document) -> BTreeSet<(Container, &'static str, String)> {
    let fields = container.indexed_fields().iter();
    let values = fields.filter_map(|field| Some((*field, document.get(field)?)));
    values
        .flat_map(|(field, value)| {
            let elements = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            elements.iter().map(move |value| (container, field, value.to_string()))
        })
        .collect()
}

fn bytes(document: &Document) -> usize {
    serde_json::to_string(document.fields()).map_or(usize::MAX, |text| text.len())
}

/// Vendors' etags are in quotes.
fn text(etag: u64) -> Etag {
    Etag(format!("\"{etag:08x}\""))
}
