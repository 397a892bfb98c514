//! Stores by address: where a store is, the store that is open there, and the registry of schemes.
//!
//! A new kind of store implements [`StoreBackend`] and adds its scheme to [`SCHEMES`].

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    BackupSummary, Clock, Entropy, FleetStore, Generation, JobHistory, JobStore, Leader, Leadership, StoreError,
    Timestamp,
};
use tokio::sync::watch;

use crate::sqlite::{BackupError, RestoreOutcome};

/// Creates the backend of an address. The error does not repeat the address: it may contain a password.
type Parse = fn(&str) -> Result<Arc<dyn StoreBackend>, String>;

/// The kinds of stores, by the scheme of their address.
const SCHEMES: &[(&str, Parse)] = &[
    ("sqlite", |_| Ok(Arc::new(crate::sqlite::SqliteBackend))),
    #[cfg(feature = "postgres")]
    ("postgres", crate::postgres::parse_backend),
    #[cfg(feature = "postgres")]
    ("postgresql", crate::postgres::parse_backend),
];

/// The address of a store: `sqlite`, or a URL such as `postgres://user@host/database`.
#[derive(Clone)]
pub struct StoreUrl {
    text: Arc<str>,
    backend: Arc<dyn StoreBackend>,
}

impl StoreUrl {
    /// A file in the data directory.
    pub fn sqlite() -> Self {
        Self { text: "sqlite".into(), backend: Arc::new(crate::sqlite::SqliteBackend) }
    }

    /// The address as it was given. It may contain a password.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    /// The error does not repeat the address: it may contain a password.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let scheme = text.split_once("://").map_or(text, |(scheme, _)| scheme);
        let Some((_, parse)) = SCHEMES.iter().find(|(known, _)| *known == scheme) else {
            return Err("a store is `sqlite` or an address such as `postgres://user@host/database`".to_owned());
        };
        Ok(Self { text: text.into(), backend: parse(text)? })
    }
}

impl Deref for StoreUrl {
    type Target = dyn StoreBackend;

    fn deref(&self) -> &Self::Target {
        self.backend.as_ref()
    }
}

impl PartialEq for StoreUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Without the password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.backend.fmt(f)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// A place where a store of one kind is. Its text contains no password.
#[async_trait]
pub trait StoreBackend: fmt::Display + Send + Sync {
    /// Opens the store for a coordinator. A store that lacks work that its record knows of is refused, unless the
    /// operator accepted the loss.
    async fn open(
        &self,
        place: StorePlace,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> Result<OpenStore, StoreOpenError>;

    /// Waits until this process may lead the store, and shows meanwhile who does. [`StoreBackend::open`] with the claim
    /// follows. Returns `None` for a new store, which any process may open, and writes nothing.
    async fn stand_by(
        &self,
        clock: Arc<dyn Clock>,
        seen: &watch::Sender<Option<Leader>>,
    ) -> Result<Option<LeadershipClaim>, StoreOpenError> {
        let _ = (clock, seen);
        Err(StoreOpenError::OneCoordinator)
    }

    /// Opens the store with a claim of [`StoreBackend::stand_by`].
    async fn open_claimed(
        &self,
        place: StorePlace,
        claim: Option<LeadershipClaim>,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> Result<OpenStore, StoreOpenError> {
        drop(claim);
        self.open(place, clock, entropy).await
    }

    /// Whether several coordinators can share the store.
    fn is_shared(&self) -> bool {
        false
    }

    /// The store for a backup or a restore without a coordinator.
    async fn offline(
        &self,
        database: &Path,
        access: OfflineAccess,
        clock: Arc<dyn Clock>,
    ) -> Result<Box<dyn OfflineStore>, StoreOpenError>;

    /// The file of the store, if it is one in the data directory; `database` is the path of that file.
    fn file(&self, database: &Path) -> Option<PathBuf> {
        let _ = database;
        None
    }

    /// Describes a store on a server for the operator. Changes nothing.
    async fn probe(&self, clock: Arc<dyn Clock>) -> Option<Result<String, StoreOpenError>> {
        let _ = clock;
        None
    }

    /// Whether the store is on this machine.
    fn is_local(&self) -> bool;

    /// Reserves a part of the store for a benchmark, which leaves the fleets there alone. Parts that dead processes
    /// left are removed. `None`: every data directory has a store of its own.
    async fn reserve(
        &self,
        process: u32,
        is_dead: &(dyn Fn(u32) -> bool + Send + Sync),
        clock: Arc<dyn Clock>,
    ) -> Result<Option<Box<dyn ReservedStore>>, StoreOpenError> {
        let _ = (process, is_dead, clock);
        Ok(None)
    }
}

/// The right to open a store as its leader.
pub struct LeadershipClaim(pub(crate) Box<dyn Any + Send>);

/// Where the files of a store are, and what opening it has to respect.
#[derive(Debug, Clone)]
pub struct StorePlace {
    /// The database of a store in a file; the record of any other store is beside it.
    pub database: PathBuf,
    /// When an operator accepted that acknowledged work is missing.
    pub accept_data_loss: Option<Timestamp>,
    /// The admin token of the expected store: if it exists, it belongs to a store that was here.
    pub admin_token: Option<PathBuf>,
    /// Where other coordinators reach this one, which the store shows them.
    pub address: Option<String>,
}

impl StorePlace {
    /// A place at which any store may be opened.
    pub fn of(database: PathBuf) -> Self {
        Self { database, accept_data_loss: None, admin_token: None, address: None }
    }

    /// Refuses a new store beside the token of another one (row 37).
    pub(crate) fn refuse_new(&self) -> Result<(), StoreOpenError> {
        let Some(token) = &self.admin_token else { return Ok(()) };
        let is_kept = std::fs::read_to_string(token).is_ok_and(|token| !token.trim().is_empty());
        if self.accept_data_loss.is_some() || !is_kept {
            return Ok(());
        }
        Err(StoreOpenError::TokenWithoutStore(token.clone()))
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The store is new, but there is an admin token of another one.
    #[error("the store is empty, but `{}` is the token of a store that was here", .0.display())]
    TokenWithoutStore(PathBuf),
    /// A standby needs a store on a server.
    #[error("this store is a file of one coordinator: several need a PostgreSQL database")]
    OneCoordinator,
    /// The adapter's own error, such as [`crate::OpenError`].
    #[error(transparent)]
    Adapter(Box<dyn Error + Send + Sync>),
}

impl StoreOpenError {
    pub(crate) fn adapter(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Adapter(Box::new(error))
    }
}

/// One open store through its ports.
pub struct OpenStore {
    /// The jobs: the source of truth.
    pub jobs: Arc<dyn JobStore>,
    /// Lists, events and runs, for reading.
    pub history: Arc<dyn JobHistory>,
    /// Factories, tokens, products and the fleet's other documents.
    pub fleet: Arc<dyn FleetStore>,
    /// The store as a whole.
    pub lifecycle: Arc<dyn StoreLifecycle>,
    /// The right to decide about its content.
    pub leadership: Arc<dyn Leadership>,
}

impl OpenStore {
    pub(crate) fn of<S: JobStore + JobHistory + FleetStore + 'static>(
        store: Arc<S>,
        lifecycle: Arc<dyn StoreLifecycle>,
        leadership: Arc<dyn Leadership>,
    ) -> Self {
        Self { jobs: Arc::clone(&store) as _, history: Arc::clone(&store) as _, fleet: store, lifecycle, leadership }
    }
}

/// An open store as a whole: it is checked, copied, replaced and closed.
#[async_trait]
pub trait StoreLifecycle: Send + Sync {
    /// Whether the store may have been changed since it was last closed in order.
    fn is_check_due(&self) -> bool {
        false
    }

    /// Reads the whole store. Returns the damage, or `None` if there is none.
    async fn check(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Resolves once another process has taken the store over.
    async fn deposed(&self) {
        std::future::pending::<()>().await;
    }

    /// This process as the leader, as other coordinators see it.
    fn leader(&self) -> Option<Leader> {
        None
    }

    /// Writes a consistent copy of the store to a new file while it is in use.
    async fn back_up(&self, to: &Path, now: Timestamp) -> Result<BackupSummary, StoreError>;

    /// Replaces the content of the store, which has the generation `current`, with a backup, for the next open. The
    /// file is consumed.
    async fn restore(&self, from: &Path, current: Generation, now: Timestamp) -> Result<RestoreOutcome, BackupError>;

    /// Writes the queue and closes the store.
    async fn close(&self) -> Result<(), StoreError>;
}

/// What a backup or a restore without a coordinator needs of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfflineAccess {
    /// Reading, also while a coordinator uses it.
    Read,
    /// Replacing its content.
    Replace,
}

/// A store without a coordinator.
#[async_trait]
pub trait OfflineStore: Send + Sync {
    /// Writes a consistent copy of the store to a new file.
    async fn back_up(&self, to: &Path, now: Timestamp) -> Result<BackupSummary, BackupError>;

    /// Replaces the content of the store with a backup.
    async fn restore(&self, from: &Path, now: Timestamp) -> Result<RestoreOutcome, BackupError>;

    /// Closes what was opened for it.
    async fn close(&self) -> Result<(), StoreError>;
}

/// A part of a store that is reserved for one process.
#[async_trait]
pub trait ReservedStore: Send + Sync {
    /// The address of the part, from that of the whole.
    fn address(&self, address: &str) -> String;

    /// Removes the part with its content.
    async fn remove(self: Box<Self>) -> Result<(), StoreOpenError>;
}

/// Runs blocking work on its own thread.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| BackupError::Server(StoreError::Unavailable(error.to_string())))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_store_and_its_password_is_never_shown() {
        let shown = |text: &str| text.parse::<StoreUrl>().map(|store| store.to_string());

        assert_eq!(shown(" sqlite "), Ok("sqlite".to_owned()));
        assert_eq!(shown("postgres://ada:s3cret@db/fleet"), Ok("postgres://ada:…@db:5432/fleet".to_owned()));
        for bad in ["mysql://ada:s3cret@db/fleet", "postgres://ada:s3cret@db:x/fleet", "s3cret"] {
            assert!(shown(bad).is_err_and(|why| !why.contains("s3cret")), "{bad}");
        }
    }
}
