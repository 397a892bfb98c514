//! Durable storage of the fleet: jobs with their events, small documents, and logs. One adapter per feature, one
//! conformance suite for all.

#[cfg(feature = "sqlite")]
mod backend;
mod blob_place;
mod blobs;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod change;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "memory", feature = "sqlite", feature = "postgres", feature = "document"))]
mod cursor;
#[cfg(feature = "document")]
pub mod document;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod intersection;
mod logs;
#[cfg(feature = "memory")]
mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod meter;
#[cfg(feature = "object-store")]
mod object_blobs;
mod object_logs;
mod objects;
#[cfg(feature = "postgres")]
mod postgres;
mod private;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod quarantine;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod recent;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod record;
mod run_logs;
#[cfg(all(feature = "sqlite", feature = "postgres"))]
mod sql_value;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "sqlite")]
pub use backend::{
    LeadershipClaim, OfflineAccess, OfflineStore, OpenStore, ReservedStore, StoreBackend, StoreLifecycle,
    StoreOpenError, StorePlace, StoreUrl,
};
pub use blob_place::{BlobPlace, Bucket, ObjectProvider};
pub use blobs::DirectoryBlobs;
pub use logs::DirectoryLogs;
#[cfg(feature = "memory")]
pub use memory::MemoryStore;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use meter::Operations;
#[cfg(feature = "object-store")]
pub use object_blobs::{ObjectBlobs, ObjectStoreError};
pub use object_logs::ObjectLogs;
#[cfg(feature = "postgres")]
pub use postgres::{
    Claim as PostgresClaim, Exclusivity, OpenError as PostgresOpenError, Options as PostgresOptions, PostgresStore,
    RecordError, ScratchSchema as PostgresRoom, Url as PostgresUrl,
};
pub use private::create_directory as create_private_directory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use record::{DataLoss, FileStamp, RecordFile, StoreRecord, read_record};
pub use run_logs::RunLogs;
#[cfg(feature = "sqlite")]
pub use sqlite::{
    BackupError, EvidenceImport, OpenError, OpenedIdentity, Options, RestoreOutcome, Settings, SqliteStore,
    back_up_closed, check_closed, holds_store, inspect_backup, pack_evidence, record_path, restore_closed,
    stage_restore, unpack_evidence,
};
