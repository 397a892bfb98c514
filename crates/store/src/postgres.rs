//! PostgreSQL: a database on a server. Group commit, one row that orders the log, and notifications for subscribers.

#[cfg(feature = "sqlite")]
mod backend;
#[cfg(feature = "sqlite")]
mod backup;
mod batch;
mod connection;
mod documents;
mod errors;
mod history;
mod identity;
mod jobs;
mod leadership;
mod list;
mod notify;
mod open_error;
mod pool;
#[cfg(test)]
mod query_plan_tests;
#[cfg(feature = "sqlite")]
mod restore;
mod row;
mod rows;
mod schema;
mod scratch_schema;
mod search_index;
mod statement;
mod tls;
mod transaction;
mod url;
mod writer;
mod writer_cache;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, Position, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(feature = "sqlite")]
pub(crate) use backend::parse_backend;
pub use identity::RecordError;
pub use leadership::Exclusivity;
pub use open_error::OpenError;
pub use scratch_schema::ScratchSchema;
pub use url::Url;

use connection::{ConnectWait, Connector};
use leadership::Leadership;
use notify::{LogEnd, Notifier};
use pool::Pool;
use writer::{Writer, WriterNotice};

use crate::meter::{Meter, Operations};
use crate::quarantine::Quarantine;
use crate::recent::RecentEvents;

/// A store in one PostgreSQL database.
///
/// [`PostgresStore::close`] writes the queue and closes every connection. A dropped store does the same in the
/// background.
pub struct PostgresStore {
    pool: Pool,
    writer: Writer,
    tenure: Arc<Leadership>,
    recent: Arc<RecentEvents>,
    end: Arc<LogEnd>,
    meter: Arc<Meter>,
    quarantine: Quarantine,
    connector: Arc<Connector>,
}

/// Resource limits of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether other stores may write to the same database.
    pub tenancy: Exclusivity,
    /// Connections that read.
    pub readers: usize,
    /// Maximum number of queued writes; further callers wait.
    pub waiting_max: usize,
    /// How often a waiting subscriber polls for a change whose notification was lost.
    pub look_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { tenancy: Exclusivity::Alone, readers: 4, waiting_max: 1024, look_every: Duration::from_secs(60) }
    }
}

impl PostgresStore {
    /// Connects, migrates the schema in one transaction and takes the leadership. Refuses a database that another
    /// coordinator uses.
    pub async fn open(url: &Url, options: Options, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let end = Arc::new(LogEnd::default());
        let connector = Connector::new(url.clone(), clock, tasks.clone(), closing.clone(), Arc::clone(&end))?;
        let connector = Arc::new(connector);
        let session = connector.first(ConnectWait::Restart).await?;
        match options.tenancy {
            Exclusivity::Guest => schema::check(&session, url).await?,
            Exclusivity::Alone | Exclusivity::Shared => {
                schema::migrate(&session, url, schema::MIGRATIONS, &*connector.clock).await?;
            }
        }
        let tenure = Leadership::begin(&connector, url, options.tenancy).await?;
        end.reach(transaction::end(&session).await.map_err(OpenError::server(url))?);
        let meter = Arc::new(Meter::default());
        let pool = Pool::new(Arc::clone(&connector), options.readers.max(1));
        pool.put(session);
        let herald = Notifier::new(Arc::clone(&connector), Arc::clone(&meter), options.look_every);
        let recent: Arc<RecentEvents> = Arc::default();
        let word = WriterNotice { own: herald.own(), recent: Arc::clone(&recent), meter: Arc::clone(&meter) };
        let writer = Writer::start(&connector, Arc::clone(&tenure), word, options.waiting_max);
        tasks.spawn(herald.run());
        Ok(Self { pool, writer, tenure, recent, end, meter, quarantine: Quarantine::default(), connector })
    }

    /// Describes the database for the operator. Changes nothing.
    pub async fn probe(url: &Url, clock: Arc<dyn Clock>) -> Result<String, OpenError> {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let connector = Connector::new(url.clone(), clock, tasks, closing, Arc::default())?;
        let session = connector.first(ConnectWait::None).await?;
        schema::describe(&session).await.map_err(OpenError::server(url))
    }

    /// The operations since the store was opened.
    pub fn operations(&self) -> Operations {
        self.meter.operations()
    }

    /// The number of notifications sent to other processes.
    pub fn notifications(&self) -> u64 {
        self.end.notifications()
    }

    /// The end of the log, as far as this process knows.
    pub fn end(&self) -> Position {
        self.end.position()
    }

    /// Resolves once another process has taken the leadership: this store can no longer write.
    pub async fn deposed(&self) {
        self.tenure.lost().await;
    }

    /// Writes the queue and closes every connection. Later calls return `Unavailable`.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.writer.close().await;
        self.pool.close();
        self.connector.closing.cancel();
        self.end.close();
        self.connector.tasks.close();
        self.connector.tasks.wait().await;
        Ok(())
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.connector.closing.cancel();
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("operations", &self.operations()).finish_non_exhaustive()
    }
}
