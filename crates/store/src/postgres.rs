//! PostgreSQL: a database that several coordinators share. Writers share their flushes, one row orders the log, and
//! everybody who listens is woken.

mod batch;
mod change;
mod connection;
mod documents;
mod fault;
mod herald;
mod history;
mod jobs;
mod list;
mod open_error;
#[cfg(test)]
mod plans;
mod pool;
mod row;
mod schema;
mod tail;
mod tls;
mod transaction;
mod url;
mod writer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, Position, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use open_error::OpenError;
pub use url::Url;

use connection::{Connector, Patience};
use herald::{End, Herald};
use pool::Pool;
use writer::Writer;

use crate::meter::{Meter, Operations};

/// A store in one PostgreSQL database.
///
/// [`Postgres::close`] writes what waits and ends every connection. A store that is dropped does the same in its own
/// time.
pub struct Postgres {
    pool: Pool,
    writer: Writer,
    end: Arc<End>,
    meter: Arc<Meter>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// How much of the server the store may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Connections that write: while one waits for its flush, the next prepares its own.
    pub writers: usize,
    /// Connections that read.
    pub readers: usize,
    /// Writes that may wait; the next caller waits for room.
    pub waiting_max: usize,
    /// How often somebody who waits for a change looks for one that nobody told of.
    pub look_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        // Flushes follow one another, so more than one writer ahead of the flush only makes smaller batches.
        Self { writers: 2, readers: 4, waiting_max: 1024, look_every: Duration::from_secs(60) }
    }
}

impl Postgres {
    /// Connects, and brings the schema up to date in one transaction. Several coordinators may do so at once.
    pub async fn open(url: &Url, options: Options, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let end = Arc::new(End::default());
        let connector = Connector::new(url.clone(), clock, tasks.clone(), closing.clone(), Arc::clone(&end))?;
        let connector = Arc::new(connector);
        let session = connector.first(Patience::Restart).await?;
        schema::migrate(&session, url, schema::MIGRATIONS).await?;
        end.reach(transaction::end(&session).await.map_err(OpenError::server(url))?);
        let meter = Arc::new(Meter::default());
        let pool = Pool::new(Arc::clone(&connector), options.readers.max(1));
        pool.give(session);
        let herald = Herald::new(Arc::clone(&connector), Arc::clone(&meter), options.look_every);
        let writer = Writer::start(&connector, herald.own(), Arc::clone(&meter), options);
        tasks.spawn(herald.run());
        Ok(Self { pool, writer, end, meter, tasks, closing })
    }

    /// Looks at the database and changes nothing: what it is, for people.
    pub async fn probe(url: &Url, clock: Arc<dyn Clock>) -> Result<String, OpenError> {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let connector = Connector::new(url.clone(), clock, tasks, closing, Arc::default())?;
        let session = connector.first(Patience::None).await?;
        schema::describe(&session).await.map_err(OpenError::server(url))
    }

    /// What the store was asked to do since it was opened.
    pub fn operations(&self) -> Operations {
        self.meter.operations()
    }

    /// How often other processes were told that the log has grown.
    pub fn notifications(&self) -> u64 {
        self.end.notifications()
    }

    /// Where the log ends, as far as this process knows.
    pub fn end(&self) -> Position {
        self.end.position()
    }

    /// Writes what waits and ends every connection. Whatever is asked afterwards is answered with `Unavailable`.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.writer.close().await;
        self.pool.close();
        self.closing.cancel();
        self.end.close();
        self.tasks.close();
        self.tasks.wait().await;
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("operations", &self.operations()).finish_non_exhaustive()
    }
}
