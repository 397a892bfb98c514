//! The store that the settings name, opened.

use std::path::Path;
use std::sync::Arc;

use domain::{Clock, FleetStore, JobHistory, JobStore, StoreError};
use store::{Postgres, PostgresOptions, Sqlite};

use crate::config::StoreChoice;

/// One store through its ports.
pub(crate) struct Opened {
    /// The truth.
    pub(crate) jobs: Arc<dyn JobStore>,
    /// What people read.
    pub(crate) history: Arc<dyn JobHistory>,
    /// What the fleet is.
    pub(crate) fleet: Arc<dyn FleetStore>,
    adapter: Adapter,
}

/// A store as what it is.
#[derive(Clone)]
pub(crate) enum Adapter {
    /// A file.
    Sqlite(Arc<Sqlite>),
    /// A database on a server.
    Postgres(Arc<Postgres>),
}

/// Opens the store; one in a file is at `database`.
pub(crate) async fn open(choice: &StoreChoice, database: &Path, clock: Arc<dyn Clock>) -> anyhow::Result<Opened> {
    match choice {
        StoreChoice::Sqlite => {
            let path = database.to_owned();
            let opening = tokio::task::spawn_blocking(move || Sqlite::open(&path, store::Options::default()));
            let store = Arc::new(opening.await??);
            Ok(Opened::of(Arc::clone(&store), Adapter::Sqlite(store)))
        }
        StoreChoice::Postgres(url) => {
            let store = Arc::new(Postgres::open(url, PostgresOptions::default(), clock).await?);
            Ok(Opened::of(Arc::clone(&store), Adapter::Postgres(store)))
        }
    }
}

impl Opened {
    fn of<S: JobStore + JobHistory + FleetStore + 'static>(store: Arc<S>, adapter: Adapter) -> Self {
        Self { jobs: Arc::clone(&store) as _, history: Arc::clone(&store) as _, fleet: store, adapter }
    }

    /// What is behind it: copied and replaced as a whole while the coordinator works.
    pub(crate) fn adapter(&self) -> Adapter {
        self.adapter.clone()
    }

    /// Resolves once another process has taken the store over.
    pub(crate) async fn deposed(&self) {
        match &self.adapter {
            // The system keeps the file for the process that has it open.
            Adapter::Sqlite(_) => std::future::pending().await,
            Adapter::Postgres(store) => store.deposed().await,
        }
    }

    /// Writes what waits and lets go of the store.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        match &self.adapter {
            Adapter::Sqlite(store) => store.close().await,
            Adapter::Postgres(store) => store.close().await,
        }
    }
}
