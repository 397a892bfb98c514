//! A vault that copies a real store, and puts what arrives where the next start would find it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ambient::SystemClock;
use async_trait::async_trait;
use domain::{Backup, BackupSummary, Clock, Generation};
use protocol::Restored;
use server::{Vault, VaultError};
use store::{Sqlite, stage_restore};
use tokio::sync::Mutex;

/// The vault of a fleet in one folder.
pub(crate) struct Shelf {
    store: Arc<Sqlite>,
    folder: PathBuf,
    /// One copy at a time.
    pub(crate) turn: Mutex<()>,
    /// Copies wait for it.
    pub(crate) gate: Mutex<()>,
}

impl Shelf {
    pub(crate) fn new(store: Arc<Sqlite>, folder: &Path) -> Self {
        Self { store, folder: folder.to_owned(), turn: Mutex::default(), gate: Mutex::default() }
    }
}

#[async_trait]
impl Vault for Shelf {
    fn folder(&self) -> &Path {
        &self.folder
    }

    async fn back_up(&self, to: &Path) -> Result<BackupSummary, VaultError> {
        let _turn = self.turn.try_lock().map_err(|_| VaultError::Busy)?;
        let _passed = self.gate.lock().await;
        self.store.back_up(to, SystemClock::new().now()).await.map_err(VaultError::Store)
    }

    async fn restore(&self, incoming: &Path) -> Result<Restored, VaultError> {
        let database = self.folder.join("fleet.db");
        let staged = stage_restore(incoming, &database, Some(Generation(0)), SystemClock::new().now());
        let staged = staged.map_err(|error| VaultError::BadBackup(error.to_string()))?;
        let notice = Restored::notice(&staged.backup);
        Ok(Restored { backup: staged.backup, generation: staged.generation, kept: None, notice })
    }
}
