//! Backups and restores of the coordinator that this process runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{BackupSummary, Clock, Generation, StoreError};
use protocol::RestoreSummary;
use server::{BackupService, BackupServiceError};
use store::{BackupError, RestoreOutcome, RunLogs, StoreLifecycle, inspect_backup, pack_evidence, unpack_evidence};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Copies of one open store. Putting one back ends with a restart of the coordinator on it.
pub(super) struct StoreBackupService {
    store: Arc<dyn StoreLifecycle>,
    logs: RunLogs,
    directory: PathBuf,
    generation: Generation,
    clock: Arc<dyn Clock>,
    restart: CancellationToken,
    /// Each holds a whole copy of the store on the disk: one at a time.
    turn: Mutex<()>,
}

impl StoreBackupService {
    /// The backup service of an open store; `restart` is cancelled when there is another store to start with.
    pub(super) fn open(
        store: Arc<dyn StoreLifecycle>,
        logs: RunLogs,
        database: &Path,
        generation: Generation,
        clock: Arc<dyn Clock>,
        restart: CancellationToken,
    ) -> std::io::Result<Self> {
        let directory = database.with_file_name("transfers");
        // Partial copies of a dead process are useless.
        match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => sandbox::make_private_folder(&directory)?,
        }
        Ok(Self { store, logs, directory, generation, clock, restart, turn: Mutex::default() })
    }
}

#[async_trait]
impl BackupService for StoreBackupService {
    fn directory(&self) -> &Path {
        &self.directory
    }

    async fn back_up(&self, to: &Path) -> Result<BackupSummary, BackupServiceError> {
        let _turn = self.turn.try_lock().map_err(|_| BackupServiceError::Busy)?;
        self.store.back_up(to, self.clock.now()).await.map_err(BackupServiceError::Store)?;
        let (backup, logs) = (to.to_owned(), self.logs.clone());
        off_thread(move || pack_evidence(&backup, &logs)).await.map_err(refused)
    }

    async fn restore(&self, incoming: &Path) -> Result<RestoreSummary, BackupServiceError> {
        let _turn = self.turn.try_lock().map_err(|_| BackupServiceError::Busy)?;
        if self.restart.is_cancelled() {
            return Err(BackupServiceError::Busy);
        }
        let staged = self.replace(incoming).await.map_err(refused)?;
        self.restart.cancel();
        let kept = staged.kept.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let notice = RestoreSummary::notice(&staged.backup);
        Ok(RestoreSummary { backup: staged.backup, generation: staged.generation, kept, notice })
    }
}

impl StoreBackupService {
    /// Verifies the file before anything is changed; after a failed restore nothing of the backup stays.
    async fn replace(&self, incoming: &Path) -> Result<RestoreOutcome, BackupError> {
        let (backup, logs) = (incoming.to_owned(), self.logs.clone());
        let unpacking = off_thread(move || {
            inspect_backup(&backup)?;
            // Staging uses the file up.
            unpack_evidence(&backup, &logs)
        });
        let unpacked = unpacking.await?;
        let replaced = self.store.restore(incoming, self.generation, self.clock.now()).await;
        // A store that may be in place after all needs the evidence of its runs.
        if let Err(error) = &replaced
            && !matches!(error, BackupError::Unknown(_))
        {
            let taking_back = off_thread(move || {
                unpacked.remove_imported();
                Ok(())
            });
            taking_back.await?;
        }
        replaced
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| BackupError::Server(StoreError::Unavailable(error.to_string())))?
}

/// The file's name is internal and means nothing to the sender.
fn refused(error: BackupError) -> BackupServiceError {
    match error {
        BackupError::NotABackup { why, .. } => {
            BackupServiceError::BadBackup(format!("this is not a backup of a fleet: {why}"))
        }
        BackupError::Damaged { why, .. } => BackupServiceError::BadBackup(format!("the backup is damaged: {why}")),
        BackupError::Newer { found, known, .. } => BackupServiceError::BadBackup(format!(
            "the backup has schema {found}, this version supports up to {known}: use the newer version"
        )),
        error => BackupServiceError::Store(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clock::{SystemClock, SystemEntropy};
    use domain::{Epoch, JobId, LogStore};
    use store::{DirectoryLogs, StorePlace, StoreUrl};
    use tempfile::TempDir;

    use super::*;

    fn job() -> JobId {
        JobId::from_bytes([7; 16])
    }

    /// A backup service, and a backup of it with the evidence of one run, which the logs no longer have.
    async fn with_backup() -> (TempDir, StoreBackupService, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let (database, logs) = (home.path().join("data/fleet.db"), home.path().join("data/logs"));
        let (kept, clock) = (DirectoryLogs::new(&logs, 1_000).into(), Arc::new(SystemClock::new()));
        let place = StorePlace::of(database.clone());
        let store = StoreUrl::sqlite().open(place, clock.clone(), &SystemEntropy).await.unwrap().lifecycle;
        let restart = CancellationToken::new();
        let service = StoreBackupService::open(store, kept, &database, Generation::default(), clock, restart).unwrap();
        service.logs.keep_evidence(job(), Epoch(1), br#"{"diff":"+the change"}"#).await.unwrap();
        let backup = home.path().join("backup.db");
        assert_eq!(service.back_up(&backup).await.unwrap().evidence, 1);
        fs::remove_dir_all(logs).unwrap();
        (home, service, backup)
    }

    async fn is_unchanged(service: &StoreBackupService) -> bool {
        service.logs.evidence(job(), Epoch(1)).await.unwrap().is_none() && !service.restart.is_cancelled()
    }

    // [§12]
    #[tokio::test]
    async fn a_file_that_is_refused_has_changed_nothing() {
        let (_home, service, backup) = with_backup().await;
        let mut spoilt = fs::read(&backup).unwrap();
        let at = spoilt.windows(10).position(|window| window == b"the change").unwrap();
        spoilt[at..at + 10].fill(0xff);
        let cut = &spoilt[..spoilt.len() / 2];
        // The same pages under another program's number: a database that can be read, and is no backup.
        let mut foreign = fs::read(&backup).unwrap();
        foreign[68..72].fill(0x11);

        for (content, why) in [(cut, "damaged"), (&spoilt[..], "damaged"), (&foreign[..], "is not a backup")] {
            let incoming = backup.with_file_name("incoming");
            fs::write(&incoming, content).unwrap();
            let refused = service.restore(&incoming).await;

            assert!(matches!(&refused, Err(BackupServiceError::BadBackup(said)) if said.contains(why)), "{refused:?}");
            assert!(is_unchanged(&service).await, "{why}");
        }
    }

    // [§12]
    #[tokio::test]
    async fn a_restore_that_fails_in_its_last_step_has_changed_nothing_and_can_be_done_again() {
        let (_home, service, backup) = with_backup().await;
        let in_the_way = service.directory.with_file_name("fleet.db.restoring");
        fs::create_dir_all(in_the_way.join("something")).unwrap();
        let again = backup.with_file_name("again");
        fs::copy(&backup, &again).unwrap();

        let failed = service.restore(&backup).await;
        let was_unchanged = is_unchanged(&service).await;
        fs::remove_dir_all(in_the_way).unwrap();
        let restored = service.restore(&again).await.unwrap();

        assert!(matches!(failed, Err(BackupServiceError::Store(_))), "{failed:?}");
        assert!(was_unchanged);
        assert_eq!((restored.backup.evidence, service.restart.is_cancelled()), (1, true));
        assert!(service.logs.evidence(job(), Epoch(1)).await.unwrap().is_some());
    }
}
