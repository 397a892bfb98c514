//! A document database like those of cloud vendors, in memory: items in logical partitions, written by
//! compare-and-set, alone or in a batch within one partition.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use domain::Entropy;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::batch::{BatchError, Condition, Op};
use super::faults::{Dice, Faults, RequestFate};
use super::feed::Feed;

/// A document: named text fields. Its index entries are kept beside them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// The fields by name.
    pub fields: BTreeMap<&'static str, Arc<str>>,
    /// The index entries; a name may occur several times, as for the elements of an array.
    pub keys: Vec<(&'static str, String)>,
}

impl Document {
    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, text: impl Into<Arc<str>>) -> Self {
        self.fields.insert(name, text.into());
        self
    }

    /// Adds an index entry.
    #[must_use]
    pub fn key(mut self, name: &'static str, value: String) -> Self {
        self.keys.push((name, value));
        self
    }

    /// A field's text; empty if absent.
    pub fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |text| text.as_ref())
    }

    pub(super) fn bytes(&self) -> usize {
        self.fields.values().map(|text| text.len()).sum()
    }
}

/// The address of an item. Nothing is atomic across partitions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The container.
    pub container: &'static str,
    /// The logical partition in the container.
    pub partition: String,
    /// The item in the partition.
    pub id: String,
}

/// An item as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The item's address.
    pub key: Key,
    /// The item's version: opaque, compared by conditional writes.
    pub etag: u64,
    /// The item's content.
    pub document: Document,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// Rate-limited: the request was not executed. Retry after this time.
    Throttled(Duration),
    /// The request was not executed.
    Refused,
    /// The outcome of the request is unknown.
    TimedOut,
}

/// A query on a container's index.
#[derive(Debug, Clone)]
pub struct Query {
    /// The name of the index entries.
    pub name: &'static str,
    /// The range of values.
    pub values: RangeInclusive<String>,
    /// The order of the results.
    pub order: Order,
    /// Maximum number of results.
    pub limit: usize,
}

/// The order of a query's results, by index value and then by partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Rising,
    /// Largest first.
    Falling,
}

/// A simulated document database. It outlives the stores that are opened on it, as a cloud database outlives a
/// process.
pub struct SimulatedDatabase {
    pub(super) dice: Dice,
    pub(super) data: Mutex<Data>,
    /// Rises with every write to a container that has a feed. It stands for polling the feed.
    bell: watch::Sender<u64>,
}

#[derive(Default, Clone)]
pub(super) struct Data {
    items: BTreeMap<Key, StoredItem>,
    index: BTreeSet<(&'static str, String, Key)>,
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
        Self { dice: Dice::new(faults, chance), data: Mutex::default(), bell: watch::Sender::new(0) }
    }

    /// Copies the database, as a point-in-time restore does. The copy has no faults until [`Self::set_faults`] sets
    /// some.
    pub fn copied(&self, chance: Arc<dyn Entropy>) -> Self {
        let data = Mutex::new(self.data.lock().clone());
        Self { dice: Dice::new(Faults::default(), chance), data, bell: watch::Sender::new(0) }
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.dice.set(faults);
    }

    /// The number of requests by kind, failed ones included.
    pub fn requests(&self, kind: &str) -> u64 {
        self.data.lock().requests.get(kind).copied().unwrap_or(0)
    }

    /// Reads one item.
    pub async fn read(&self, key: &Key) -> Result<Option<Item>, RequestError> {
        self.begin("read").await?;
        let is_stale = self.dice.happens(self.dice.faults().stale_reads);
        let data = self.data.lock();
        let Some(kept) = data.items.get(key) else { return Ok(None) };
        let (etag, document) = match &kept.before {
            Some((etag, before)) if is_stale => (*etag, before.clone()),
            Some(_) | None => (kept.etag, kept.document.clone()),
        };
        Ok(Some(Item { key: key.clone(), etag, document }))
    }

    /// Reads the items of one partition whose ids are in a range, in order.
    pub async fn range(
        &self,
        container: &'static str,
        partition: &str,
        ids: RangeInclusive<String>,
        limit: usize,
    ) -> Result<Vec<Item>, RequestError> {
        self.begin("range").await?;
        let key = |id: &str| Key { container, partition: partition.to_owned(), id: id.to_owned() };
        let data = self.data.lock();
        let found = data.items.range(key(ids.start())..=key(ids.end()));
        Ok(found.take(limit).map(|(key, kept)| kept.item(key)).collect())
    }

    /// Queries a container's index, across partitions.
    pub async fn query(&self, query: Query) -> Result<Vec<Item>, RequestError> {
        self.begin("query").await?;
        let data = self.data.lock();
        let first = Key { container: "", partition: String::new(), id: String::new() };
        let (from, to) = query.values.into_inner();
        // The successor of the last value is the same text with a zero appended; its entries sort before that.
        let span = (
            Bound::Included((query.name, from, first.clone())),
            Bound::Excluded((query.name, format!("{to}\0"), first)),
        );
        let entries = data.index.range(span).map(|(_, _, key)| key);
        let item = |key: &Key| data.items.get(key).map(|kept| kept.item(key));
        Ok(match query.order {
            Order::Rising => entries.filter_map(item).take(query.limit).collect(),
            Order::Falling => entries.rev().filter_map(item).take(query.limit).collect(),
        })
    }

    /// Counts the items for each value of an index.
    pub async fn count(&self, name: &'static str) -> Result<BTreeMap<String, u64>, RequestError> {
        self.begin("query").await?;
        let data = self.data.lock();
        let mut counts = BTreeMap::new();
        let first = Key { container: "", partition: String::new(), id: String::new() };
        for (_, value, _) in data.index.range((name, String::new(), first)..).take_while(|(its, ..)| *its == name) {
            *counts.entry(value.clone()).or_default() += 1;
        }
        Ok(counts)
    }

    /// Writes several items of one partition atomically; returns their new etags.
    pub async fn batch(&self, container: &'static str, partition: &str, ops: Vec<Op>) -> Result<Vec<u64>, BatchError> {
        self.dice.yield_now().await;
        let fate = self.dice.of_write();
        self.data.lock().note("batch");
        match fate {
            RequestFate::Throttled(after) => return Err(RequestError::Throttled(after).into()),
            RequestFate::Refused => return Err(RequestError::Refused.into()),
            RequestFate::RequestLost => return Err(RequestError::TimedOut.into()),
            RequestFate::Fine | RequestFate::AnswerLost => {}
        }
        let applied = {
            let mut data = self.data.lock();
            let applied = data.apply(container, partition, ops);
            let end = data.feed.end();
            self.bell.send_if_modified(|heard| std::mem::replace(heard, end) != end);
            applied
        };
        self.dice.yield_now().await;
        // The response that nothing was written can be lost too.
        if fate == RequestFate::AnswerLost { Err(RequestError::TimedOut.into()) } else { applied }
    }

    /// Signals that the feed may have new changes.
    pub fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    pub(super) async fn begin(&self, kind: &'static str) -> Result<(), RequestError> {
        self.dice.yield_now().await;
        self.data.lock().note(kind);
        match self.dice.of_read() {
            RequestFate::Throttled(after) => Err(RequestError::Throttled(after)),
            RequestFate::Refused => Err(RequestError::Refused),
            RequestFate::Fine | RequestFate::AnswerLost | RequestFate::RequestLost => Ok(()),
        }
    }
}

impl StoredItem {
    fn item(&self, key: &Key) -> Item {
        Item { key: key.clone(), etag: self.etag, document: self.document.clone() }
    }
}

impl Data {
    fn note(&mut self, kind: &'static str) {
        *self.requests.entry(kind).or_default() += 1;
    }

    fn apply(&mut self, container: &'static str, partition: &str, ops: Vec<Op>) -> Result<Vec<u64>, BatchError> {
        super::batch::check_size(&ops)?;
        let keys: Vec<Key> =
            ops.iter().map(|op| Key { container, partition: partition.to_owned(), id: op.id.clone() }).collect();
        for (at, (op, key)) in ops.iter().zip(&keys).enumerate() {
            let there = self.items.get(key).map(|kept| kept.etag);
            let holds = match op.condition {
                Condition::Absent => there.is_none(),
                Condition::At(etag) => there == Some(etag),
                Condition::Any => true,
            };
            if !holds || keys[..at].contains(key) {
                return Err(BatchError::Refused { at });
            }
        }
        Ok(ops.into_iter().zip(keys).map(|(op, key)| self.write(key, op.document)).collect())
    }

    fn write(&mut self, key: Key, document: Document) -> u64 {
        self.last_etag += 1;
        self.feed.note(&key);
        for (name, value) in &document.keys {
            self.index.insert((*name, value.clone(), key.clone()));
        }
        let before = self.items.remove(&key).map(|kept| (kept.etag, kept.document));
        for (name, value) in before.iter().flat_map(|(_, before)| &before.keys) {
            if !document.keys.iter().any(|(its, at)| its == name && at == value) {
                self.index.remove(&(*name, value.clone(), key.clone()));
            }
        }
        self.items.insert(key, StoredItem { etag: self.last_etag, document, before });
        self.last_etag
    }

    pub(super) fn item(&self, key: &Key) -> Option<Item> {
        self.items.get(key).map(|kept| kept.item(key))
    }
}
