//! SQLite passes the conformance suite and tests of its own.

mod backup;
mod close;
mod crash;
mod evidence;
mod faults;
mod group_commit;
mod meter;
mod record;
mod refusals;
mod restore;
mod settings;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use store::conformance::{Harness, Stores};
use store::{Options, SqliteStore};
use tempfile::TempDir;

/// A database in a temporary directory.
pub(crate) struct Database {
    folder: TempDir,
    open: Option<Arc<SqliteStore>>,
}

impl Database {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), open: None }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("data/fleet.db")
    }

    pub(crate) fn sqlite(&self) -> SqliteStore {
        SqliteStore::open(self.path(), Options::default()).unwrap()
    }
}

#[async_trait]
impl Harness for Database {
    async fn open(&mut self) -> Stores {
        let sqlite = Arc::new(self.sqlite());
        self.open = Some(Arc::clone(&sqlite));
        Stores::of(sqlite)
    }

    async fn reopen(&mut self) -> Option<Stores> {
        let sqlite = self.open.take().expect("it was open");
        sqlite.close().await.unwrap();
        Some(self.open().await)
    }
}

store::store_conformance!(Database::new());
