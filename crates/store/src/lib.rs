//! Durable memory of the fleet: jobs with their events, small documents, and logs. One adapter per feature, one suite for all.

#[cfg(all(feature = "sqlite", feature = "postgres"))]
mod cell;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod change;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "memory", feature = "sqlite", feature = "postgres", feature = "weak"))]
mod cursor;
mod logs;
#[cfg(feature = "memory")]
mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod meter;
#[cfg(feature = "postgres")]
mod postgres;
mod private;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod recent;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "weak")]
pub mod weak;

pub use logs::DirectoryLogs;
#[cfg(feature = "memory")]
pub use memory::Memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use meter::Operations;
#[cfg(feature = "postgres")]
pub use postgres::{
    OpenError as PostgresOpenError, Options as PostgresOptions, Postgres, Room as PostgresRoom, Tenancy,
    Url as PostgresUrl,
};
#[cfg(feature = "sqlite")]
pub use sqlite::{
    BackupError, OpenError, Options, Restoration, Settings, Sqlite, Unpacked, back_up_closed, inspect_backup,
    pack_evidence, restore_closed, stage_restore, unpack_evidence,
};
