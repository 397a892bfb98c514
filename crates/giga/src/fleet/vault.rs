//! Backups and restores of the coordinator that this process runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Backup, BackupSummary, Clock, Generation, StoreError};
use protocol::Restored;
use server::{Vault, VaultError};
use store::{BackupError, DirectoryLogs, Restoration, pack_evidence, stage_restore, unpack_evidence};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::coordinator::make_private_folder;
use super::stores::Adapter;

/// Copies of one open store. Putting one back ends with a restart of the coordinator on it.
pub(super) struct StoreVault {
    store: Adapter,
    logs: DirectoryLogs,
    database: PathBuf,
    folder: PathBuf,
    generation: Generation,
    clock: Arc<dyn Clock>,
    restart: CancellationToken,
    /// Each holds a whole copy of the store on the disk: one at a time.
    turn: Mutex<()>,
}

impl StoreVault {
    /// The vault of an open store; `restart` is cancelled when there is another store to start with.
    pub(super) fn open(
        store: Adapter,
        logs: DirectoryLogs,
        database: PathBuf,
        generation: Generation,
        clock: Arc<dyn Clock>,
        restart: CancellationToken,
    ) -> std::io::Result<Self> {
        let folder = database.with_file_name("transfers");
        // What a dead process was copying is of no use to anybody.
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => make_private_folder(&folder)?,
        }
        Ok(Self { store, logs, database, folder, generation, clock, restart, turn: Mutex::default() })
    }
}

#[async_trait]
impl Vault for StoreVault {
    fn folder(&self) -> &Path {
        &self.folder
    }

    async fn back_up(&self, to: &Path) -> Result<BackupSummary, VaultError> {
        let _turn = self.turn.try_lock().map_err(|_| VaultError::Busy)?;
        let taken = match &self.store {
            Adapter::Sqlite(store) => store.back_up(to, self.clock.now()).await,
            Adapter::Postgres(store) => store.back_up(to, self.clock.now()).await,
        };
        taken.map_err(VaultError::Store)?;
        let (backup, logs) = (to.to_owned(), self.logs.clone());
        off_thread(move || pack_evidence(&backup, &logs)).await
    }

    async fn restore(&self, incoming: &Path) -> Result<Restored, VaultError> {
        let _turn = self.turn.try_lock().map_err(|_| VaultError::Busy)?;
        if self.restart.is_cancelled() {
            return Err(VaultError::Busy);
        }
        // First: staging uses the file up, and what backs runs that nobody will know harms nobody.
        let (backup, logs) = (incoming.to_owned(), self.logs.clone());
        off_thread(move || unpack_evidence(&backup, &logs)).await?;
        let staged = match &self.store {
            Adapter::Sqlite(_) => self.stage(incoming).await?,
            Adapter::Postgres(store) => store.restore(incoming, self.clock.now()).await.map_err(refused)?,
        };
        self.restart.cancel();
        let kept = staged.kept.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let notice = Restored::notice(&staged.backup);
        Ok(Restored { backup: staged.backup, generation: staged.generation, kept, notice })
    }
}

impl StoreVault {
    /// Makes the file the one that the next start finds.
    async fn stage(&self, incoming: &Path) -> Result<Restoration, VaultError> {
        let (incoming, database) = (incoming.to_owned(), self.database.clone());
        let (generation, now) = (self.generation, self.clock.now());
        off_thread(move || stage_restore(&incoming, &database, Some(generation), now)).await
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, VaultError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| VaultError::Store(StoreError::Unavailable(error.to_string())))?;
    done.map_err(refused)
}

/// The file's name is ours and means nothing to whoever sent it.
fn refused(error: BackupError) -> VaultError {
    match error {
        BackupError::NotABackup { why, .. } => VaultError::BadBackup(format!("this is not a backup of a fleet: {why}")),
        BackupError::Damaged { why, .. } => VaultError::BadBackup(format!("the backup is damaged: {why}")),
        BackupError::Newer { found, known, .. } => VaultError::BadBackup(format!(
            "the backup has schema {found}, this program knows up to {known}: use the newer program"
        )),
        error => VaultError::Store(error.into()),
    }
}
