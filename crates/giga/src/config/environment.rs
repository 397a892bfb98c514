//! The environment variables that we read, and the platform's directories that follow from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a service without a home keeps its data.
const SERVICE_DATA: &str = "/var/lib/gigafactory";

/// Variables with their values. Empty ones are not set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// What this process was started with.
    pub(crate) fn of_this_process() -> Self {
        let readable =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::of(readable)
    }

    /// These variables.
    pub(crate) fn of<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(variables.filter(|(_, value): &(String, String)| !value.is_empty()).collect())
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The names that are set.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The home directory.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.get("HOME").map(Path::new)
    }

    /// The platform's directory for our configuration.
    pub(crate) fn config_folder(&self) -> Option<PathBuf> {
        self.folder("XDG_CONFIG_HOME", ".config")
    }

    /// The platform's directory for our data.
    pub(crate) fn data_folder(&self) -> PathBuf {
        self.folder("XDG_DATA_HOME", ".local/share").unwrap_or_else(|| SERVICE_DATA.into())
    }

    fn folder(&self, xdg: &str, below_home: &str) -> Option<PathBuf> {
        // By the XDG rules a relative path is to be ignored.
        if let Some(folder) = self.get(xdg).map(Path::new).filter(|folder| folder.is_absolute()) {
            return Some(folder.join("gigafactory"));
        }
        let below_home = if cfg!(target_os = "macos") { "Library/Application Support" } else { below_home };
        Some(self.home()?.join(below_home).join("gigafactory"))
    }
}
