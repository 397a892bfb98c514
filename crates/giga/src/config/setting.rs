//! A value that remembers where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::secret::Secret;

/// A value that remembers where it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it came from.
    pub(crate) origin: Origin,
}

impl<T> Setting<T> {
    /// The same setting with its value made into another.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: change(self.value), origin: self.origin }
    }
}

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag of the command line.
    Flag(&'static str),
    /// A variable of the environment.
    Variable(&'static str),
    /// The configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1; a table may be spread over several.
        line: Option<usize>,
    },
    /// A file that a running coordinator wrote to the data directory.
    Beside(PathBuf),
    /// It follows from another setting.
    Derived {
        /// The other setting.
        from: &'static str,
        /// Where that came from.
        origin: Box<Origin>,
    },
    /// It is not set.
    Default,
}

/// A setting for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct ListedSetting {
    /// Its name in the file.
    pub(crate) key: &'static str,
    /// What it is; of a secret only its kind.
    pub(crate) value: String,
    /// Where it came from.
    pub(crate) origin: String,
}

/// A value as the listing shows it.
pub(crate) trait DisplayedValue {
    /// The text; never a secret.
    fn shown(&self) -> String;
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => f.write_str(name),
            Self::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Beside(path) => write!(f, "{}", path.display()),
            Self::Derived { from, origin } => write!(f, "{origin} ({from})"),
            Self::Default => f.write_str("default"),
        }
    }
}

macro_rules! shown_as_display {
    ($($kind:ty),*) => {
        $(impl DisplayedValue for $kind {
            fn shown(&self) -> String {
                self.to_string()
            }
        })*
    };
}

shown_as_display!(
    String,
    bool,
    u8,
    u32,
    SocketAddr,
    sandbox::SandboxMode,
    domain::BranchName,
    domain::ProductId,
    domain::FactoryId,
    domain::Capability,
    domain::EngineName,
    domain::RepoName
);

impl DisplayedValue for PathBuf {
    fn shown(&self) -> String {
        Path::display(self).to_string()
    }
}

impl DisplayedValue for Secret {
    fn shown(&self) -> String {
        self.kind()
    }
}

impl<T: DisplayedValue> DisplayedValue for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or_else(|| "-".to_owned(), DisplayedValue::shown)
    }
}

impl<T: DisplayedValue> DisplayedValue for Vec<T> {
    fn shown(&self) -> String {
        if self.is_empty() {
            return "-".to_owned();
        }
        self.iter().map(DisplayedValue::shown).collect::<Vec<_>>().join(", ")
    }
}

impl<K: DisplayedValue, V> DisplayedValue for BTreeMap<K, V> {
    fn shown(&self) -> String {
        self.keys().collect::<Vec<_>>().shown()
    }
}

impl<T: DisplayedValue> DisplayedValue for &T {
    fn shown(&self) -> String {
        (**self).shown()
    }
}
