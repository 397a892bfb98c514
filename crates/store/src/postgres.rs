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

use domain::{Clock, Leader, Position, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

#[cfg(feature = "sqlite")]
pub(crate) use backend::parse_backend;
pub use identity::RecordError;
pub use leadership::Exclusivity;
pub use open_error::OpenError;
pub use scratch_schema::ScratchSchema;
pub use url::Url;

use connection::{ConnectWait, Connector, Session};
use leadership::Leadership;
use notify::{LogEnd, Notifier};
use pool::Pool;
use schema::LockHolder;
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
        Self::open_leading(url, options, clock, None, None).await
    }

    /// [`PostgresStore::open`] for a coordinator among several: with the claim of [`PostgresStore::stand_by`], and the
    /// address at which the others reach it.
    pub async fn open_leading(
        url: &Url,
        options: Options,
        clock: Arc<dyn Clock>,
        claim: Option<Claim>,
        address: Option<String>,
    ) -> Result<Self, OpenError> {
        let (connector, held) = match claim {
            Some(Claim { connector, session }) => (connector, Some(session)),
            None => (connector(url, clock)?, None),
        };
        let (tasks, end) = (connector.tasks.clone(), Arc::clone(&connector.end));
        let session = connector.first(ConnectWait::Restart).await?;
        match options.tenancy {
            Exclusivity::Guest => schema::check(&session, url).await?,
            Exclusivity::Alone | Exclusivity::Shared => {
                let holder = match held {
                    Some(_) => LockHolder::Us,
                    None => LockHolder::Unknown(&*connector.clock),
                };
                schema::migrate(&session, url, schema::MIGRATIONS, holder).await?;
            }
        }
        let meter = Arc::new(Meter::default());
        let tenure = Leadership::begin(&connector, url, options.tenancy, (held, address), &meter).await?;
        end.reach(transaction::end(&session).await.map_err(OpenError::server(url))?);
        let pool = Pool::new(Arc::clone(&connector), options.readers.max(1));
        pool.put(session);
        let herald = Notifier::new(Arc::clone(&connector), Arc::clone(&meter), options.look_every);
        let recent: Arc<RecentEvents> = Arc::default();
        let word = WriterNotice { own: herald.own(), recent: Arc::clone(&recent), meter: Arc::clone(&meter) };
        let writer = Writer::start(&connector, Arc::clone(&tenure), word, options.waiting_max);
        tasks.spawn(herald.run());
        Ok(Self { pool, writer, tenure, recent, end, meter, quarantine: Quarantine::default(), connector })
    }

    /// Waits until this process may lead the database, and shows meanwhile who does. `None` for a database without a
    /// fleet.
    pub async fn stand_by(
        url: &Url,
        clock: Arc<dyn Clock>,
        seen: &watch::Sender<Option<Leader>>,
    ) -> Result<Option<Claim>, OpenError> {
        let connector = connector(url, clock)?;
        // Reports what can be wrong with the server.
        drop(connector.first(ConnectWait::Restart).await?);
        let session = leadership::stand_by(&connector, schema::MIGRATIONS.len(), seen).await;
        Ok(session.map(|session| Claim { connector, session }))
    }

    /// This process as the leader; `None` for a store that several may write.
    pub fn leader(&self) -> Option<Leader> {
        self.tenure.shown()
    }

    /// Proves that this process leads.
    pub fn leadership(&self) -> Arc<dyn domain::Leadership> {
        Arc::clone(&self.tenure) as _
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
        self.resign().await;
        self.pool.close();
        self.connector.closing.cancel();
        self.end.close();
        self.connector.tasks.close();
        self.connector.tasks.wait().await;
        Ok(())
    }
}

impl PostgresStore {
    /// Tells standbys that this leader answers no more, so that its successor need not wait for its leases. A failure
    /// costs only that time.
    async fn resign(&self) {
        if self.tenure.is_lost() {
            return;
        }
        let Some((resigned, record)) = self.tenure.resignation() else { return };
        let resigning = async { self.pool.execute(leadership::RESIGN, &[&resigned, &record]).await };
        if !matches!(tokio::time::timeout(RESIGN_WITHIN, resigning).await, Ok(Ok(_))) {
            warn!("Could not record that this coordinator resigned: its successor revokes leases later");
        }
    }
}

/// How long a stop waits for the database to record it.
const RESIGN_WITHIN: Duration = Duration::from_secs(2);

/// The right to open a database as its leader: the leadership lock, on a connection of its own.
pub struct Claim {
    connector: Arc<Connector>,
    session: Session,
}

fn connector(url: &Url, clock: Arc<dyn Clock>) -> Result<Arc<Connector>, OpenError> {
    let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
    Ok(Arc::new(Connector::new(url.clone(), clock, tasks, closing, Arc::new(LogEnd::default()))?))
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
