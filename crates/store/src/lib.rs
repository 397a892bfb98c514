//! Durable memory of the fleet: jobs with their events, small documents, and logs. One adapter per feature, one suite for all.

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "memory", feature = "sqlite", feature = "weak"))]
mod cursor;
mod logs;
#[cfg(feature = "memory")]
mod memory;
mod private;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "weak")]
pub mod weak;

pub use logs::DirectoryLogs;
#[cfg(feature = "memory")]
pub use memory::Memory;
#[cfg(feature = "sqlite")]
pub use sqlite::{
    BackupError, OpenError, Operations, Options, Restoration, Settings, Sqlite, back_up_closed, inspect_backup,
    restore_closed, stage_restore,
};
