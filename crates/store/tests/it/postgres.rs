//! PostgreSQL passes the conformance suite and tests of its own.

mod backup;
mod binary_bodies;
mod broken_connections;
mod leadership;
mod meter;
mod notifications;
mod open;
mod ordering;
mod proxy;
mod restarting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clock::SystemClock;
use pgserver::{Flushes, Server, for_test};
use store::conformance::{Harness, Stores};
use store::{Exclusivity, PostgresOptions, PostgresStore, PostgresUrl};

/// A server for one test.
pub(crate) struct Database {
    pub(crate) server: Server,
    open: Option<Arc<PostgresStore>>,
}

impl Database {
    /// `None` if the tester disabled PostgreSQL.
    pub(crate) fn new() -> Option<Self> {
        let server = for_test(Flushes::None).unwrap_or_else(|error| panic!("{error}"))?;
        Some(Self { server, open: None })
    }

    /// The server runs with fsync=off, which this URL accepts.
    pub(crate) fn url(&self) -> String {
        format!("{}?fsync=off", self.server.url())
    }

    pub(crate) async fn postgres(&self) -> PostgresStore {
        open(&self.url(), PostgresOptions::default()).await
    }

    /// A store with shared access.
    pub(crate) async fn another(&self) -> PostgresStore {
        open(&self.url(), SHARED).await
    }
}

pub(crate) async fn open(url: &str, options: PostgresOptions) -> PostgresStore {
    let url = PostgresUrl::parse(url).unwrap();
    PostgresStore::open(&url, options, Arc::new(SystemClock::new())).await.unwrap()
}

/// A connection beside the store's: another program, or the operator.
pub(crate) async fn psql(database: &Database) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&database.server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio_util::task::TaskTracker::new().spawn(connection);
    client
}

/// Waits until `is_so`; fails with `what` after a timeout.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let clock = SystemClock::new();
    let waiting = async {
        while !is_so().await {
            domain::Clock::sleep(&clock, Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited too long for {what}"));
}

/// Options of stores with shared access.
pub(crate) const SHARED: PostgresOptions = PostgresOptions {
    tenancy: Exclusivity::Shared,
    readers: 4,
    waiting_max: 1024,
    look_every: Duration::from_secs(60),
};

/// Timeout of any single step of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[async_trait]
impl Harness for Database {
    async fn open(&mut self) -> Stores {
        let postgres = Arc::new(self.postgres().await);
        self.open = Some(Arc::clone(&postgres));
        Stores::of(postgres)
    }

    async fn reopen(&mut self) -> Option<Stores> {
        let postgres = self.open.take().expect("it was open");
        postgres.close().await.unwrap();
        Some(self.open().await)
    }
}

store::store_conformance!(match Database::new() {
    Some(database) => database,
    None => return,
});
