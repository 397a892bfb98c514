//! A backup service that copies a real store, and puts a restored file where the next start finds it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use clock::SystemClock;
use domain::{Backup, BackupSummary, Clock, Generation};
use protocol::RestoreSummary;
use server::{BackupService, BackupServiceError};
use store::{SqliteStore, stage_restore};
use tokio::sync::Mutex;

/// The backup service of a fleet in one directory.
pub(crate) struct FileBackupService {
    store: Arc<SqliteStore>,
    folder: PathBuf,
    /// One backup at a time.
    pub(crate) turn: Mutex<()>,
    /// Backups wait for it.
    pub(crate) gate: Mutex<()>,
}

impl FileBackupService {
    pub(crate) fn new(store: Arc<SqliteStore>, folder: &Path) -> Self {
        Self { store, folder: folder.to_owned(), turn: Mutex::default(), gate: Mutex::default() }
    }
}

#[async_trait]
impl BackupService for FileBackupService {
    fn directory(&self) -> &Path {
        &self.folder
    }

    async fn back_up(&self, to: &Path) -> Result<BackupSummary, BackupServiceError> {
        let _turn = self.turn.try_lock().map_err(|_| BackupServiceError::Busy)?;
        let _passed = self.gate.lock().await;
        self.store.back_up(to, SystemClock::new().now()).await.map_err(BackupServiceError::Store)
    }

    async fn restore(&self, incoming: &Path) -> Result<RestoreSummary, BackupServiceError> {
        let database = self.folder.join("fleet.db");
        let staged = stage_restore(incoming, &database, Some(Generation(0)), SystemClock::new().now());
        let staged = staged.map_err(|error| BackupServiceError::BadBackup(error.to_string()))?;
        let notice = RestoreSummary::notice(&staged.backup);
        Ok(RestoreSummary { backup: staged.backup, generation: staged.generation, kept: None, notice })
    }
}
