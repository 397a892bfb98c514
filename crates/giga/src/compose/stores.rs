//! The store that the settings name, opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clock::SystemEntropy;
use domain::{Clock, Entropy, FleetStore, JobHistory, JobStore, StoreError, Timestamp};
use store::{BackupError, FileStamp, PostgresOptions, PostgresStore, RecordFile, SqliteStore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::config::StoreChoice;
use crate::failure::Failure;

/// One store through its ports.
pub(crate) struct OpenStore {
    /// The jobs: the source of truth.
    pub(crate) jobs: Arc<dyn JobStore>,
    /// Lists, events and runs, for reading.
    pub(crate) history: Arc<dyn JobHistory>,
    /// Factories, tokens, products and the fleet's other documents.
    pub(crate) fleet: Arc<dyn FleetStore>,
    adapter: Adapter,
    /// What keeps the record up.
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// A store as what it is.
#[derive(Clone)]
pub(crate) enum Adapter {
    /// A file.
    Sqlite(Arc<SqliteStore>),
    /// A database on a server.
    Postgres(Arc<PostgresStore>),
}

/// Where a store is, and what its opening has to respect.
pub(crate) struct StorePlace {
    /// The database, for a store in a file; the record of any other store is beside it.
    pub(crate) database: PathBuf,
    /// When an operator accepted that acknowledged work is missing.
    pub(crate) accept_data_loss: Option<Timestamp>,
    /// The admin token of the store that is expected: one that exists belongs to a store that was here.
    pub(crate) admin_token: Option<PathBuf>,
}

impl StorePlace {
    /// A place that anything may be opened at.
    pub(crate) fn of(database: PathBuf) -> Self {
        Self { database, accept_data_loss: None, admin_token: None }
    }

    /// The refusal of a new store beside the token of another one (row 37).
    fn refuse_new(&self) -> Result<(), Failure> {
        let Some(token) = &self.admin_token else { return Ok(()) };
        let is_kept = std::fs::read_to_string(token).is_ok_and(|token| !token.trim().is_empty());
        if self.accept_data_loss.is_some() || !is_kept {
            return Ok(());
        }
        let what = format!("the store is empty, but `{}` is the token of a store that was here", token.display());
        Err(Failure::failed(what).hint(
            "put the store back, or restore a backup with `giga backup restore FILE`; for a new, empty fleet remove the token \
             or start with --accept-data-loss",
        ))
    }
}

/// How far a record on this machine may be behind a database on a server.
const RECORD_EVERY: Duration = Duration::from_secs(1);

/// The record of a store that is not in a file of the data directory.
fn server_record(database: &Path) -> PathBuf {
    database.with_file_name("postgres.record")
}

/// Drops the record of a store that was replaced on purpose: the next start begins a new one.
pub(crate) fn forget_record<T>(database: &Path, restored: Result<T, BackupError>) -> Result<T, BackupError> {
    let path = server_record(database);
    if restored.is_ok()
        && let Err(error) = std::fs::remove_file(&path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        warn!(%error, "Cannot remove {}: the next start may need --accept-data-loss", path.display());
    }
    restored
}

/// Opens the store. One that lacks something that its record knows of is refused, unless the operator accepted it.
pub(crate) async fn open(choice: &StoreChoice, place: StorePlace, clock: Arc<dyn Clock>) -> anyhow::Result<OpenStore> {
    match choice {
        StoreChoice::Sqlite => {
            if !store::holds_store(&place.database) {
                place.refuse_new()?;
            }
            let options = store::Options { accept_data_loss: place.accept_data_loss, ..store::Options::default() };
            let opening = tokio::task::spawn_blocking(move || SqliteStore::open(&place.database, options));
            let store = Arc::new(opening.await??);
            Ok(OpenStore::of(Arc::clone(&store), Adapter::Sqlite(store)))
        }
        StoreChoice::Postgres(url) => {
            let store = Arc::new(PostgresStore::open(url, PostgresOptions::default(), Arc::clone(&clock)).await?);
            let record = meet_record(&store, &place).await;
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    store.close().await?;
                    return Err(error);
                }
            };
            let opened = OpenStore::of(Arc::clone(&store), Adapter::Postgres(Arc::clone(&store)));
            opened.tasks.spawn(keep_record(store, record, clock, opened.closing.clone()));
            Ok(opened)
        }
    }
}

async fn meet_record(store: &PostgresStore, place: &StorePlace) -> anyhow::Result<RecordFile> {
    if store.is_blank().await? && !server_record(&place.database).exists() {
        place.refuse_new()?;
    }
    let mut fresh = [0; 16];
    SystemEntropy.fill(&mut fresh);
    let fresh: String = fresh.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(store.meet_record(&server_record(&place.database), &fresh, place.accept_data_loss).await?)
}

/// Notes how far the log reaches, a while after each time that it has grown; with nothing to do, nothing is written.
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

impl OpenStore {
    fn of<S: JobStore + JobHistory + FleetStore + 'static>(store: Arc<S>, adapter: Adapter) -> Self {
        Self {
            jobs: Arc::clone(&store) as _,
            history: Arc::clone(&store) as _,
            fleet: store,
            adapter,
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// What is behind it: copied and replaced as a whole while the coordinator works.
    pub(crate) fn adapter(&self) -> Adapter {
        self.adapter.clone()
    }

    /// Whether the store may have been changed since it was last closed in order.
    pub(crate) fn is_check_due(&self) -> bool {
        match &self.adapter {
            Adapter::Sqlite(store) => !store.opening().is_new && !store.opening().is_untouched,
            // The server looks after its own files.
            Adapter::Postgres(_) => false,
        }
    }

    /// Reads the whole store; what is wrong with it, or `None` when it is sound.
    pub(crate) async fn check(&self) -> Result<Option<String>, StoreError> {
        match &self.adapter {
            Adapter::Sqlite(store) => store.check().await,
            Adapter::Postgres(_) => Ok(None),
        }
    }

    /// Resolves once another process has taken the store over.
    pub(crate) async fn deposed(&self) {
        match &self.adapter {
            // The system keeps the file for the process that has it open.
            Adapter::Sqlite(_) => std::future::pending().await,
            Adapter::Postgres(store) => store.deposed().await,
        }
    }

    /// Writes what waits and lets go of the store.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let closed = match &self.adapter {
            Adapter::Sqlite(store) => store.close().await,
            Adapter::Postgres(store) => store.close().await,
        };
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        closed
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}
