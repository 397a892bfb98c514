//! A document database as clouds sell them, in memory: items in logical partitions, compared and set one by one or in a
//! batch of one partition, and nothing beyond that.

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

/// A document: names to texts. What a query can find it by is kept beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Its fields.
    pub fields: BTreeMap<&'static str, Arc<str>>,
    /// What the index has of it; a name may stand there several times, as the elements of an array do.
    pub keys: Vec<(&'static str, String)>,
}

impl Document {
    /// With one more field.
    #[must_use]
    pub fn with(mut self, name: &'static str, text: impl Into<Arc<str>>) -> Self {
        self.fields.insert(name, text.into());
        self
    }

    /// With one more entry in the index.
    #[must_use]
    pub fn key(mut self, name: &'static str, value: String) -> Self {
        self.keys.push((name, value));
        self
    }

    /// A field's text; empty where there is none.
    pub fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |text| text.as_ref())
    }

    pub(super) fn bytes(&self) -> usize {
        self.fields.values().map(|text| text.len()).sum()
    }
}

/// Where an item is: nothing is atomic across partitions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which container.
    pub container: &'static str,
    /// Which logical partition of it.
    pub partition: String,
    /// Which item of that.
    pub id: String,
}

/// An item as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it is.
    pub key: Key,
    /// Its version: opaque, compared by writes.
    pub etag: u64,
    /// What it says.
    pub document: Document,
}

/// Why a request was not answered with what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// Too many requests lately; it did not happen.
    Throttled(Duration),
    /// It did not happen.
    Refused,
    /// Nobody knows whether it happened.
    TimedOut,
}

/// A question to the index of a container.
#[derive(Debug, Clone)]
pub struct Query {
    /// Which entries.
    pub name: &'static str,
    /// From where to where.
    pub values: RangeInclusive<String>,
    /// In which direction.
    pub order: Order,
    /// Items that are handed out at most.
    pub limit: usize,
}

/// The order of a query's answer, by the value in the index and then by partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Rising,
    /// Largest first.
    Falling,
}

/// A simulated document database. It outlives the stores that are opened on it, as a cloud outlives a process.
pub struct SimulatedDatabase {
    pub(super) dice: Dice,
    pub(super) data: Mutex<Data>,
    /// Rises with every write to a container that has a feed: stands for asking the feed again and again.
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
    /// What it was before its latest write.
    before: Option<(u64, Document)>,
}

impl SimulatedDatabase {
    /// An empty database with these faults, decided by this chance.
    pub fn new(faults: Faults, chance: Arc<dyn Entropy>) -> Self {
        Self { dice: Dice::new(faults, chance), data: Mutex::default(), bell: watch::Sender::new(0) }
    }

    /// Another database with everything that is in this one now, as a cloud makes it that goes back to a moment. Nothing
    /// goes wrong with it until somebody says so.
    pub fn copied(&self, chance: Arc<dyn Entropy>) -> Self {
        let data = Mutex::new(self.data.lock().clone());
        Self { dice: Dice::new(Faults::default(), chance), data, bell: watch::Sender::new(0) }
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.dice.set(faults);
    }

    /// Requests since the beginning, by kind; those that failed count.
    pub fn requests(&self, kind: &str) -> u64 {
        self.data.lock().requests.get(kind).copied().unwrap_or(0)
    }

    /// One item.
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

    /// Items of one partition whose ids are in a range, in order.
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

    /// Items of a container by an entry in its index, across partitions.
    pub async fn query(&self, query: Query) -> Result<Vec<Item>, RequestError> {
        self.begin("query").await?;
        let data = self.data.lock();
        let first = Key { container: "", partition: String::new(), id: String::new() };
        let (from, to) = query.values.into_inner();
        // Entries of the last value lie before its successor, the same text with a zero behind it.
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

    /// How many items there are for each value in the index.
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

    /// Writes several items of one partition, all or none; answers with their new versions.
    pub async fn batch(&self, container: &'static str, partition: &str, ops: Vec<Op>) -> Result<Vec<u64>, BatchError> {
        self.dice.give_way().await;
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
        self.dice.give_way().await;
        // Also the answer that nothing was written can be lost.
        if fate == RequestFate::AnswerLost { Err(RequestError::TimedOut.into()) } else { applied }
    }

    /// Rings when the feed may show something new.
    pub fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    pub(super) async fn begin(&self, kind: &'static str) -> Result<(), RequestError> {
        self.dice.give_way().await;
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
