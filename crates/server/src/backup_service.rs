//! Where whole copies of the store come from and go to: given by whoever wires the process, for only they can close it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use domain::{BackupSummary, StoreError};
use protocol::RestoreSummary;

/// Takes copies of the whole store and puts them back while the server runs.
#[async_trait]
pub trait BackupService: Send + Sync {
    /// The folder in which copies are made and arrive, on the store's own disk. What a dead process left in it is litter.
    fn folder(&self) -> &Path;
    /// Writes everything as of now into a new file. Work goes on. It is always heard to its end, whoever asked for it.
    async fn back_up(&self, to: &Path) -> Result<BackupSummary, BackupServiceError>;
    /// Makes the file the store. Once this has answered, the process stops serving and starts again on it; an error has
    /// changed nothing.
    async fn restore(&self, incoming: &Path) -> Result<RestoreSummary, BackupServiceError>;
}

/// Why a copy was not made or not put back.
#[derive(Debug, thiserror::Error)]
pub enum BackupServiceError {
    /// The file is not a backup that can be put back.
    #[error("{0}")]
    BadBackup(String),
    /// One at a time.
    #[error("another backup or restore is under way")]
    Busy,
    /// The store or the disk could not do it.
    #[error("the store could not do it")]
    Store(#[source] StoreError),
}

/// A file of the vault that goes away with this value, whatever became of it.
pub(crate) struct ScratchFile(PathBuf);

impl ScratchFile {
    /// A name of its own. Nothing is there yet.
    pub(crate) fn in_vault(vault: &dyn BackupService) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(vault.folder().join(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))))
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
