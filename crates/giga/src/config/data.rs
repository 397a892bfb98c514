//! The data directory and its layout.

use std::path::{Path, PathBuf};

use super::setting::{Origin, Setting};

/// The data directory of a coordinator and its clients on this machine.
#[derive(Debug, Clone)]
pub(crate) struct DataDir(Setting<PathBuf>);

impl DataDir {
    pub(super) fn new(folder: Setting<PathBuf>) -> Self {
        Self(folder)
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        &self.0.value
    }

    /// The source of the setting.
    pub(crate) fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// The database of the coordinator.
    pub(crate) fn database(&self) -> PathBuf {
        self.path().join("fleet.db")
    }

    /// The output of engines, and the evidence of their runs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.path().join("logs")
    }

    /// The artifacts of jobs, unless an object store has them.
    pub(crate) fn artifacts(&self) -> PathBuf {
        self.path().join("artifacts")
    }

    /// The first admin's token, readable by its user alone.
    pub(crate) fn admin_token(&self) -> PathBuf {
        self.path().join("admin.token")
    }

    /// The address of the coordinator that runs on this directory.
    pub(crate) fn endpoint(&self) -> PathBuf {
        self.path().join("endpoint")
    }

    /// The default state directory of a factory.
    pub(crate) fn factory_state(&self) -> PathBuf {
        self.path().join("factory")
    }
}
