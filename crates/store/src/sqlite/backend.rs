//! SQLite as a kind of store: a file in the data directory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Backup as _, BackupSummary, Clock, Entropy, Generation, StoreError, Timestamp};

use super::{
    BackupError, Options, RestoreOutcome, SqliteStore, back_up_closed, holds_store, restore_closed, stage_restore,
};
use crate::backend::{
    OfflineAccess, OfflineStore, OpenStore, StoreBackend, StoreLifecycle, StoreOpenError, StorePlace, off_thread,
};

/// The file of the data directory.
pub(crate) struct SqliteBackend;

impl fmt::Display for SqliteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sqlite")
    }
}

#[async_trait]
impl StoreBackend for SqliteBackend {
    async fn open(
        &self,
        place: StorePlace,
        _clock: Arc<dyn Clock>,
        _entropy: &dyn Entropy,
    ) -> Result<OpenStore, StoreOpenError> {
        if !holds_store(&place.database) {
            place.refuse_new()?;
        }
        let options = Options { accept_data_loss: place.accept_data_loss, ..Options::default() };
        let path = place.database.clone();
        let opening = tokio::task::spawn_blocking(move || SqliteStore::open(&path, options)).await;
        let opened = opening.map_err(StoreOpenError::adapter)?.map_err(StoreOpenError::adapter)?;
        let store = Arc::new(opened);
        let lifecycle = OpenFile { store: Arc::clone(&store), database: place.database };
        Ok(OpenStore::of(store, Arc::new(lifecycle), Arc::new(domain::SoleLeader)))
    }

    async fn offline(
        &self,
        database: &Path,
        _access: OfflineAccess,
        _clock: Arc<dyn Clock>,
    ) -> Result<Box<dyn OfflineStore>, StoreOpenError> {
        Ok(Box::new(ClosedFile { database: database.to_owned() }))
    }

    fn file(&self, database: &Path) -> Option<PathBuf> {
        Some(database.to_owned())
    }

    fn is_local(&self) -> bool {
        true
    }
}

struct OpenFile {
    store: Arc<SqliteStore>,
    database: PathBuf,
}

/// The file system keeps the file for the process that has it open: it is never deposed.
#[async_trait]
impl StoreLifecycle for OpenFile {
    fn is_check_due(&self) -> bool {
        !self.store.opening().is_new && !self.store.opening().is_untouched
    }

    async fn check(&self) -> Result<Option<String>, StoreError> {
        self.store.check().await
    }

    async fn back_up(&self, to: &Path, now: Timestamp) -> Result<BackupSummary, StoreError> {
        self.store.back_up(to, now).await
    }

    async fn restore(&self, from: &Path, current: Generation, now: Timestamp) -> Result<RestoreOutcome, BackupError> {
        let (from, database) = (from.to_owned(), self.database.clone());
        off_thread(move || stage_restore(&from, &database, Some(current), now)).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}

/// A file that no process has open; its lock decides.
struct ClosedFile {
    database: PathBuf,
}

#[async_trait]
impl OfflineStore for ClosedFile {
    async fn back_up(&self, to: &Path, now: Timestamp) -> Result<BackupSummary, BackupError> {
        let (database, to) = (self.database.clone(), to.to_owned());
        off_thread(move || back_up_closed(&database, &to, now)).await
    }

    async fn restore(&self, from: &Path, now: Timestamp) -> Result<RestoreOutcome, BackupError> {
        let (database, from) = (self.database.clone(), from.to_owned());
        let restoring = tokio::task::spawn_blocking(move || restore_closed(&from, &database, now)).await;
        restoring.unwrap_or_else(|_| Err(BackupError::Unknown("the restore broke off".to_owned())))
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
