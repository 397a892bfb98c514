//! The requests of a document database, as every vendor has them.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{JobId, ProductId};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::batch::{BatchError, Op};

/// A document database. No request is retried here: the adapter decides that.
#[async_trait]
pub trait DocumentDatabase: Send + Sync {
    /// Reads one item. The result is never older than an acknowledged write, or the account is configured wrongly.
    async fn read(&self, key: &Key) -> Result<Option<Item>, RequestError>;
    /// Reads the items of one partition whose ids are in a range, in order of id.
    async fn range(
        &self,
        container: Container,
        partition: &Partition,
        ids: RangeInclusive<String>,
        limit: usize,
    ) -> Result<Vec<Item>, RequestError>;
    /// Reads the items that match all filters. A part of the answer is none: it is an error.
    async fn query(&self, query: Query) -> Result<Vec<Item>, RequestError>;
    /// Writes several items of one partition atomically; returns their new etags.
    async fn batch(&self, container: Container, partition: &Partition, ops: Vec<Op>) -> Result<Vec<Etag>, BatchError>;
    /// Reads the next changes of [`Container::Jobs`]. `None` is the beginning.
    async fn changes(&self, after: Option<&Continuation>, limit: usize) -> Result<FeedPage, RequestError>;
    /// Changes whenever the feed may have new entries: after a write, or at an interval.
    fn wakeups(&self) -> watch::Receiver<u64>;
}

/// The containers of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Container {
    /// Jobs: one logical partition per job, with the items `job`, `body`, `e:{seq}`, `run:{n}`.
    Jobs,
    /// One partition: the log of the fleet's events, each job's progress in it, and the number of jobs by stage.
    Log,
    /// Small documents: one logical partition per collection.
    Fleet,
}

impl Container {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Jobs, Self::Log, Self::Fleet];

    /// The name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jobs => "fleet_jobs",
            Self::Log => "fleet_log",
            Self::Fleet => "fleet_documents",
        }
    }

    /// The fields of every item that name its partition, the first level first. They cannot be changed later.
    pub fn partition_fields(self) -> &'static [&'static str] {
        match self {
            Self::Jobs => &["productId", "jobId"],
            Self::Log => &["log"],
            Self::Fleet => &["productId", "collection"],
        }
    }

    /// The fields that queries filter and order by: only these need an index. Of an array, each element.
    pub fn indexed_fields(self) -> &'static [&'static str] {
        match self {
            Self::Jobs => &[
                "type",
                "productId",
                "jobId",
                "stage",
                "isOpen",
                "priority",
                "repo",
                "deps",
                "parentId",
                "rootId",
                "terms",
                "listedAt",
            ],
            Self::Log => &["productId", "jobId", "id"],
            Self::Fleet => &[],
        }
    }
}

/// The values of a partition key, one for each of the container's [partition fields](Container::partition_fields).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(Vec<String>);

impl Partition {
    /// A partition by its values.
    pub fn of(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(values.into_iter().map(Into::into).collect())
    }

    /// The partition of a job.
    pub fn of_job(product: &ProductId, id: JobId) -> Self {
        Self::of([product.to_string(), id.to_string()])
    }

    /// The values.
    pub fn values(&self) -> &[String] {
        &self.0
    }

    /// The value of the last level.
    pub fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

/// The address of an item. Nothing is atomic across partitions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The container.
    pub container: Container,
    /// The logical partition in the container.
    pub partition: Partition,
    /// The item in the partition.
    pub id: String,
}

/// The version of an item: opaque, sent back as it was received, compared by conditional writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Etag(pub String);

/// A reader's place in the change feed. Opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation(pub String);

/// An item as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The item's address.
    pub key: Key,
    /// The item's version.
    pub etag: Etag,
    /// The item's content.
    pub document: Document,
}

/// A JSON object. Its id and the fields of its partition are part of it in the database; the adapter for the database
/// adds the id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document(Arc<Map<String, Value>>);

impl Document {
    /// A document of a partition: it has the fields that name the partition.
    pub fn of(container: Container, partition: &Partition) -> Self {
        let fields = container.partition_fields().iter().zip(partition.values());
        Self(Arc::new(fields.map(|(field, value)| ((*field).to_owned(), value.as_str().into())).collect()))
    }

    /// A document with these fields.
    pub fn from_fields(fields: Map<String, Value>) -> Self {
        Self(Arc::new(fields))
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        Arc::make_mut(&mut self.0).insert(field.to_owned(), value.into());
        self
    }

    /// Adds a field if it has a value.
    #[must_use]
    pub fn with_some(self, field: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(field, value),
            None => self,
        }
    }

    /// The fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// A field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// A field's text; empty if it has none.
    pub fn text(&self, field: &str) -> &str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }
}

/// A query, within one partition or across all.
#[derive(Debug, Clone)]
pub struct Query {
    /// The container.
    pub container: Container,
    /// The fields that must match.
    pub filters: Vec<Filter>,
    /// The text field that the results are ordered by.
    pub order_by: &'static str,
    /// The range of that field.
    pub range: RangeInclusive<String>,
    /// The direction.
    pub order: Order,
    /// Maximum number of results.
    pub limit: usize,
}

/// A condition of a query: the field has one of these values, or is an array with one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The field: one of [`Container::indexed_fields`].
    pub field: &'static str,
    /// The values.
    pub any_of: Vec<Value>,
}

impl Filter {
    /// A field with one value.
    pub fn is(field: &'static str, value: impl Into<Value>) -> Self {
        Self { field, any_of: vec![value.into()] }
    }

    /// A field with one of several values.
    pub fn any_of<V: Into<Value>>(field: &'static str, values: impl IntoIterator<Item = V>) -> Self {
        Self { field, any_of: values.into_iter().map(Into::into).collect() }
    }
}

/// The order of a query's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Rising,
    /// Largest first.
    Falling,
}

/// A response of the feed. It has items in their latest version; it may repeat them, has no order across partitions, and
/// never reports a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedPage {
    /// Some items, possibly none although more follow, and the place after them.
    Changes(Vec<Item>, Continuation),
    /// Nothing has changed since. Only this response reports the end.
    NotModified,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// Rate-limited: the request was not executed. Retry after this time. Over HTTP: 429.
    Throttled(Duration),
    /// The request was not executed, and may be repeated. Over HTTP: 503, or no connection.
    NotExecuted,
    /// The outcome of the request is unknown. Over HTTP: 408, a timeout, or a connection that broke after the request
    /// was sent.
    TimedOut,
    /// The database does not accept such a request. Over HTTP: 400, 401, 403.
    Invalid(String),
}
