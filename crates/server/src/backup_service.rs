//! Backups of the whole store: implemented by the process that opens the store, because only it can close it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use domain::{BackupSummary, StoreError};
use protocol::RestoreSummary;

/// Makes and restores backups of the whole store while the server runs.
#[async_trait]
pub trait BackupService: Send + Sync {
    /// The directory for backup files, on the store's own disk. Files left by a former process are garbage.
    fn directory(&self) -> &Path;
    /// Writes a backup into a new file. Work continues. It always runs to its end, even if the client disconnects.
    async fn back_up(&self, to: &Path) -> Result<BackupSummary, BackupServiceError>;
    /// Replaces the store with the file. After success the process stops serving and restarts on it; an error has
    /// changed nothing.
    async fn restore(&self, incoming: &Path) -> Result<RestoreSummary, BackupServiceError>;
}

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupServiceError {
    /// The file is not a valid backup.
    #[error("{0}")]
    BadBackup(String),
    /// Another backup or restore is in progress.
    #[error("another backup or restore is in progress")]
    Busy,
    /// The store or the disk failed.
    #[error("the store failed")]
    Store(#[source] StoreError),
}

/// A file of the backup service that is removed when this value is dropped.
pub(crate) struct ScratchFile(PathBuf);

impl ScratchFile {
    /// A unique path. The file does not exist yet.
    pub(crate) fn in_backup_service(backups: &dyn BackupService) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(backups.directory().join(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
