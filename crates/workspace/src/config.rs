//! Host configuration of a factory. Plain values; the caller reads them from its configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use domain::{BranchName, RepoIdentity};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// One repository that this factory can work on. In a file it is a table, or its URL alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
pub struct RepoConfig {
    /// Its location: `https://…`, `ssh://…`, `user@host:path`, or an absolute path on this machine. A working clone
    /// stands for its `origin`.
    pub url: String,
    /// The identity of the repository, if the URL of its remote does not contain it: behind a host alias of ssh, or
    /// shared by several machines over a file system. A URL, or `github.com/acme/notes`.
    #[serde(default, deserialize_with = "identity")]
    pub identity: Option<RepoIdentity>,
    /// The branch that work starts from and merges into, when the job names none.
    #[serde(default = "default_base")]
    pub base: BranchName,
    /// Commands that prepare a new worktree, run before the engine.
    #[serde(default)]
    pub setup: Vec<String>,
    /// Whether the contents of files are fetched on demand; decided by the repository's size when absent.
    #[serde(default)]
    pub partial: Option<bool>,
    /// Fetches the contents of files in large file storage, where `git-lfs` is installed.
    #[serde(default = "yes")]
    pub lfs: bool,
    /// Checks out submodules too, for reading.
    #[serde(default)]
    pub submodules: bool,
    /// Directories that outlive worktrees, by the variable that names each: `CARGO_TARGET_DIR = "target"`. Each product
    /// has its own.
    #[serde(default)]
    pub caches: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for RepoConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AddressOrTable;

        impl<'de> Visitor<'de> for AddressOrTable {
            type Value = RepoConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the repository's address in quotes, or a table with its `url`")
            }

            fn visit_str<E: de::Error>(self, url: &str) -> Result<RepoConfig, E> {
                Ok(RepoConfig::at(url, default_base()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RepoConfig, A::Error> {
                RepoConfig::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(AddressOrTable)
    }
}

impl RepoConfig {
    /// A repository at `url` with default settings.
    pub fn at(url: impl Into<String>, base: BranchName) -> Self {
        Self {
            url: url.into(),
            identity: None,
            base,
            setup: Vec::new(),
            partial: None,
            lfs: true,
            submodules: false,
            caches: BTreeMap::new(),
        }
    }
}

/// An invalid cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{variable} = \"{name}\"` is no cache: name a variable that no program is led astray by, and a plain folder name"
)]
pub struct CacheError {
    variable: String,
    name: String,
}

/// Variables that decide which programs run, or under which identity.
const NOT_FOR_CACHES: [&str; 7] = ["PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV", "TERM"];

impl RepoConfig {
    /// Rejects caches whose directory would be elsewhere, or whose variable has another meaning.
    pub fn check(&self) -> Result<(), CacheError> {
        let plain = |text: &str, more: fn(char) -> bool| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more(c))
        };
        for (variable, name) in &self.caches {
            let is_variable = plain(variable, |c| c == '_')
                && !NOT_FOR_CACHES.contains(&variable.as_str())
                && !["LD_", "DYLD_", "GIT_", "GIGA_", "AQ_"].iter().any(|prefix| variable.starts_with(prefix));
            let is_name = plain(name, |c| matches!(c, '.' | '_' | '-')) && !name.starts_with(['.', '-']);
            if !is_variable || !is_name {
                let (variable, name) = (domain::escape_for_terminal(variable), domain::escape_for_terminal(name));
                return Err(CacheError { variable, name });
            }
        }
        Ok(())
    }
}

/// How the factory's own git reaches remotes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct GitConfig {
    /// The home directory in which git, its credential helpers and ssh find their settings and keys when they talk to a
    /// remote; that of the account that runs the factory when absent.
    pub home: Option<PathBuf>,
    /// The socket of the ssh agent, given to fetch and push only; that of the factory's environment when absent.
    pub ssh_auth_sock: Option<PathBuf>,
    /// A program that answers git's prompt for a user name or password, given to fetch and push only.
    pub askpass: Option<PathBuf>,
    /// Above this size a repository is mirrored without the contents of old files, unless it is configured itself.
    pub partial_above_mib: u64,
}

impl Default for GitConfig {
    fn default() -> Self {
        // A full copy of less takes minutes, and spares every agent a fetch from the remote.
        Self { home: None, ssh_auth_sock: None, askpass: None, partial_above_mib: 1024 }
    }
}

/// The identity of a URL, or one that is written as such.
fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RepoIdentity>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found = RepoIdentity::of_url(&text).map_or_else(|| text.parse(), Ok);
    found.map(Some).map_err(serde::de::Error::custom)
}

fn yes() -> bool {
    true
}

/// The branch that work starts from when nothing is configured.
pub fn default_base() -> BranchName {
    match "main".parse() {
        Ok(branch) => branch,
        Err(_) => unreachable!("`main` is a branch name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_needs_only_its_address() {
        let config: RepoConfig = serde_json::from_str(r#"{"url": "https://forge.example/notes.git"}"#).unwrap();

        assert_eq!(config, RepoConfig::at("https://forge.example/notes.git", "main".parse().unwrap()));
    }

    // [§12]
    #[test]
    fn a_cache_is_a_plain_folder_under_a_harmless_variable() {
        let with = |variable: &str, name: &str| RepoConfig {
            caches: [(variable.to_owned(), name.to_owned())].into(),
            ..RepoConfig::at("/srv/notes", default_base())
        };

        assert_eq!(with("CARGO_TARGET_DIR", "target").check(), Ok(()));
        for (variable, name) in [
            ("PATH", "bin"),
            ("LD_PRELOAD", "x"),
            ("GIGA_TOKEN", "x"),
            ("A B", "x"),
            ("X", ".."),
            ("X", "a/b"),
            ("X", ""),
        ] {
            assert!(with(variable, name).check().is_err(), "{variable} {name}");
        }
    }
}
