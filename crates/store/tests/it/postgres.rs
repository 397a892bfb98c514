//! PostgreSQL keeps every promise, and some of its own.

use std::sync::Arc;

use ambient::SystemClock;
use async_trait::async_trait;
use pgserver::{Flushes, Server, for_test};
use store::conformance::{Bench, Stores};
use store::{Postgres, PostgresOptions, PostgresUrl};

/// A server of one test.
pub(crate) struct Database {
    pub(crate) server: Server,
    open: Option<Arc<Postgres>>,
}

impl Database {
    /// `None` where the tester said that there is no PostgreSQL.
    pub(crate) fn new() -> Option<Self> {
        let server = for_test(Flushes::None).unwrap_or_else(|error| panic!("{error}"))?;
        Some(Self { server, open: None })
    }

    /// The server does not flush, which the store is told to accept.
    pub(crate) fn url(&self) -> String {
        format!("{}?fsync=off", self.server.url())
    }

    pub(crate) async fn postgres(&self) -> Postgres {
        open(&self.url(), PostgresOptions::default()).await
    }
}

pub(crate) async fn open(url: &str, options: PostgresOptions) -> Postgres {
    let url = PostgresUrl::parse(url).unwrap();
    Postgres::open(&url, options, Arc::new(SystemClock::new())).await.unwrap()
}

#[async_trait]
impl Bench for Database {
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
