//! A store on a document database: items in logical partitions, each written by compare-and-set.
//!
//! Two layers. [`DocumentDatabase`] is the database: a few requests that every vendor has. [`DocumentStore`] is the
//! adapter, which uses nothing but these requests:
//!
//! - A job is one partition. A commit writes the job with its events in one batch, under the etag that this process
//!   remembers or else reads. A wrong memory is a refused batch: the job is read, and its revision decides. A timeout is
//!   `Unknown`; only a request that is known to have failed is retried.
//! - The log is not written with the job, because no batch spans partitions. A job's events are numbered in its own
//!   partition and appended to the log later, by the next reader. The log's entries, its end, the number of jobs in each
//!   stage and each job's progress are one partition, changed in one batch under the etag of the end: two processes
//!   cannot assign one position twice. So positions grow by one, never change, and can be resumed from. They keep each
//!   job's order and the order of one process's writes, and no more.
//! - The difference between the job and the log decides what is appended, never the feed: a skipped, repeated or
//!   reordered feed entry changes nothing. A process finds its own writes without the feed.
//! - Nothing is counted by a query: databases refuse that across partitions. A removed document stays as a tombstone, so
//!   that its revisions continue.

mod batch;
mod collections;
mod database;
mod history;
mod items;
mod job_cache;
mod log;
mod pending_writes;
mod requests;
#[cfg(feature = "simulated")]
pub mod simulated;
mod store;

pub use batch::{BATCH_BYTES_MAX, BATCH_OPS_MAX, BatchError, Condition, Op};
pub use database::{
    Container, Continuation, Document, DocumentDatabase, Etag, FeedPage, Filter, Item, Key, Order, Partition, Query,
    RequestError,
};
pub use store::DocumentStore;
