//! Locates the PostgreSQL programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Debian and Ubuntu install the server programs here and not on the search path.
const DISTRIBUTION: &str = "/usr/lib/postgresql";

/// The PostgreSQL programs, all of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Returns the programs on the search path, or else the newest version of the distribution.
    pub fn find() -> Result<Self, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).find_map(|folder| real_directory(&folder));
        on_path.or_else(newest_of_distribution).map(|folder| Self { folder }).ok_or(Error::NotInstalled)
    }

    pub(crate) fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// Returns the output of `postgres --version` as a directory name.
    pub(crate) fn version(&self) -> Result<String, Error> {
        let postgres = self.path("postgres");
        let output = Command::new(&postgres).arg("--version").output().map_err(Error::files(&postgres))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let word = text.split_whitespace().nth(2).unwrap_or("unknown");
        Ok(word.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect())
    }
}

/// Resolves symbolic links: PostgreSQL locates its other programs relative to the real path.
fn real_directory(folder: &Path) -> Option<PathBuf> {
    let real = folder.join("postgres").canonicalize().ok()?.parent()?.to_owned();
    (real.join("initdb").is_file() && folder.join("initdb").is_file()).then_some(real)
}

fn newest_of_distribution() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DISTRIBUTION).ok()?.flatten();
    let numbered = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, real_directory(&entry.path().join("bin"))?))
    });
    numbered.max_by_key(|(version, _)| *version).map(|(_, folder)| folder)
}
