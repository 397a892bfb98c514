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

enum Adapter {
    Sqlite(Arc<Sqlite>),
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

    /// The file behind it, if it is one: what can be copied and replaced while the coordinator works.
    pub(crate) fn sqlite(&self) -> Option<Arc<Sqlite>> {
        match &self.adapter {
            Adapter::Sqlite(store) => Some(Arc::clone(store)),
            Adapter::Postgres(_) => None,
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
