//! PostgreSQL as a kind of store: a database on a server, with a record of its progress on this machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Backup as _, BackupSummary, Clock, Entropy, Generation, Leader, StoreError, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::{Claim, Exclusivity, Options, PostgresStore, ScratchSchema, Url};
use crate::backend::{
    LeadershipClaim, OfflineAccess, OfflineStore, OpenStore, ReservedStore, StoreBackend, StoreLifecycle,
    StoreOpenError, StorePlace,
};
use crate::record::{FileStamp, RecordFile};
use crate::sqlite::{BackupError, RestoreOutcome};

/// How far a record on this machine may be behind a database on a server.
const RECORD_EVERY: Duration = Duration::from_secs(1);

/// The backend of a `postgres://` address.
pub(crate) fn parse_backend(text: &str) -> Result<Arc<dyn StoreBackend>, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    Ok(Arc::new(PostgresBackend(url)))
}

struct PostgresBackend(Url);

impl fmt::Display for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl StoreBackend for PostgresBackend {
    async fn open(
        &self,
        place: StorePlace,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> Result<OpenStore, StoreOpenError> {
        self.open_claimed(place, None, clock, entropy).await
    }

    async fn stand_by(
        &self,
        clock: Arc<dyn Clock>,
        seen: &watch::Sender<Option<Leader>>,
    ) -> Result<Option<LeadershipClaim>, StoreOpenError> {
        let claim = PostgresStore::stand_by(&self.0, clock, seen).await.map_err(StoreOpenError::adapter)?;
        Ok(claim.map(|claim| LeadershipClaim(Box::new(claim))))
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn open_claimed(
        &self,
        place: StorePlace,
        claim: Option<LeadershipClaim>,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> Result<OpenStore, StoreOpenError> {
        let claim = claim.and_then(|claim| claim.0.downcast::<Claim>().ok()).map(|claim| *claim);
        let opening =
            PostgresStore::open_leading(&self.0, Options::default(), Arc::clone(&clock), claim, place.address.clone());
        let store = Arc::new(opening.await.map_err(StoreOpenError::adapter)?);
        let record = match meet_record(&store, &place, entropy).await {
            Ok(record) => record,
            Err(error) => {
                store.close().await.map_err(StoreOpenError::adapter)?;
                return Err(error);
            }
        };
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(keep_record(Arc::clone(&store), record, clock, closing.clone()));
        let lifecycle = OpenDatabase { store: Arc::clone(&store), database: place.database, tasks, closing };
        let leadership = store.leadership();
        Ok(OpenStore::of(store, Arc::new(lifecycle), leadership))
    }

    async fn offline(
        &self,
        database: &Path,
        access: OfflineAccess,
        clock: Arc<dyn Clock>,
    ) -> Result<Box<dyn OfflineStore>, StoreOpenError> {
        let options = match access {
            OfflineAccess::Read => Options { tenancy: Exclusivity::Guest, ..Options::default() },
            OfflineAccess::Replace => Options::default(),
        };
        let store = open(&self.0, options, &clock).await?;
        Ok(Box::new(OfflineDatabase { store, database: database.to_owned() }))
    }

    async fn probe(&self, clock: Arc<dyn Clock>) -> Option<Result<String, StoreOpenError>> {
        Some(PostgresStore::probe(&self.0, clock).await.map_err(StoreOpenError::adapter))
    }

    fn is_local(&self) -> bool {
        self.0.is_local()
    }

    async fn reserve(
        &self,
        process: u32,
        is_dead: &(dyn Fn(u32) -> bool + Send + Sync),
        clock: Arc<dyn Clock>,
    ) -> Result<Option<Box<dyn ReservedStore>>, StoreOpenError> {
        let schema = ScratchSchema::make(&self.0, process, is_dead, clock).await.map_err(StoreOpenError::adapter)?;
        Ok(Some(Box::new(schema)))
    }
}

async fn open(url: &Url, options: Options, clock: &Arc<dyn Clock>) -> Result<PostgresStore, StoreOpenError> {
    PostgresStore::open(url, options, Arc::clone(clock)).await.map_err(StoreOpenError::adapter)
}

/// The record of the database, beside the file that another kind of store would use.
fn record_path(database: &Path) -> PathBuf {
    database.with_file_name("postgres.record")
}

async fn meet_record(
    store: &PostgresStore,
    place: &StorePlace,
    entropy: &dyn Entropy,
) -> Result<RecordFile, StoreOpenError> {
    let path = record_path(&place.database);
    if store.is_blank().await.map_err(StoreOpenError::adapter)? && !path.exists() {
        place.refuse_new()?;
    }
    let fresh: [u8; 16] = entropy.bytes();
    let fresh: String = fresh.iter().map(|byte| format!("{byte:02x}")).collect();
    store.meet_record(&path, &fresh, place.accept_data_loss).await.map_err(StoreOpenError::adapter)
}

/// Records how far the log reaches, a while after each time that it has grown; without new events, nothing is written.
async fn keep_record(
    store: Arc<PostgresStore>,
    mut record: RecordFile,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
) {
    let keeping = async {
        while store.reached(record.record().position).await.is_ok() {
            clock.sleep(RECORD_EVERY).await;
            record.reach(store.end());
        }
    };
    closing.run_until_cancelled(keeping).await;
    record.close(store.end(), FileStamp::default());
}

/// Removes the record of a database that was replaced on purpose: the next start creates a new one.
fn forget_record<T>(database: &Path, restored: Result<T, BackupError>) -> Result<T, BackupError> {
    let path = record_path(database);
    if restored.is_ok()
        && let Err(error) = std::fs::remove_file(&path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        warn!(%error, "Cannot remove {}: the next start may need --accept-data-loss", path.display());
    }
    restored
}

struct OpenDatabase {
    store: Arc<PostgresStore>,
    database: PathBuf,
    /// The task that keeps the record.
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// The server checks its own files.
#[async_trait]
impl StoreLifecycle for OpenDatabase {
    async fn deposed(&self) {
        self.store.deposed().await;
    }

    fn leader(&self) -> Option<Leader> {
        self.store.leader()
    }

    async fn back_up(&self, to: &Path, now: Timestamp) -> Result<BackupSummary, StoreError> {
        self.store.back_up(to, now).await
    }

    /// The database itself has the current generation.
    async fn restore(&self, from: &Path, _current: Generation, now: Timestamp) -> Result<RestoreOutcome, BackupError> {
        forget_record(&self.database, self.store.restore(from, now).await)
    }

    async fn close(&self) -> Result<(), StoreError> {
        let closed = self.store.close().await;
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        closed
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// A database without a coordinator of ours; its lock decides.
struct OfflineDatabase {
    store: PostgresStore,
    database: PathBuf,
}

#[async_trait]
impl OfflineStore for OfflineDatabase {
    async fn back_up(&self, to: &Path, now: Timestamp) -> Result<BackupSummary, BackupError> {
        self.store.back_up(to, now).await.map_err(BackupError::Server)
    }

    async fn restore(&self, from: &Path, now: Timestamp) -> Result<RestoreOutcome, BackupError> {
        forget_record(&self.database, self.store.restore(from, now).await)
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}

#[async_trait]
impl ReservedStore for ScratchSchema {
    fn address(&self, address: &str) -> String {
        Self::address(self, address)
    }

    async fn remove(self: Box<Self>) -> Result<(), StoreOpenError> {
        Self::remove(*self).await.map_err(StoreOpenError::adapter)
    }
}
