//! Files of a worktree that no commit can hold: they exist nowhere else, however often the work is saved [I11].

use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use domain::CommitSha;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::mirror::Mirror;
use crate::worktree::Worktree;

/// A path that was not saved with the rest of a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsavedFile {
    /// Its path, below the worktree.
    #[serde(with = "lossy_path")]
    pub path: PathBuf,
    /// Why it cannot be saved.
    pub why: UnsavedReason,
}

/// Why git does not accept it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsavedReason {
    /// The file is too large for git hosts.
    TooLarge,
    /// It is a repository of its own, whose files are not part of the outer one.
    OwnRepository,
}

/// The number of reported paths; an agent can make any number.
const NAMED_MAX: usize = 5;

impl UnsavedFile {
    /// The first of them by name, and the number of the others.
    pub fn named(all: &[Self]) -> String {
        let mut named: Vec<String> = all.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        if all.len() > NAMED_MAX {
            named.push(format!("and {} more", all.len() - NAMED_MAX));
        }
        named.join(", ")
    }
}

impl fmt::Display for UnsavedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = domain::escape_for_terminal(&self.path.to_string_lossy());
        match self.why {
            UnsavedReason::TooLarge => write!(f, "`{path}` is too large for git"),
            UnsavedReason::OwnRepository => write!(f, "`{path}` is a repository of its own"),
        }
    }
}

impl Mirror {
    /// The repositories inside a worktree that hold files: those among the `untracked` names that the agent added, and
    /// those that it committed as a link to a commit that exists nowhere else.
    pub(crate) async fn own_repositories(
        &self,
        worktree: &Worktree,
        untracked: &[u8],
        fork: &CommitSha,
        tree: &CommitSha,
    ) -> Result<Vec<UnsavedFile>, Error> {
        let given = worktree.given();
        let given: Vec<&[u8]> = repositories_among(&given).collect();
        let made = repositories_among(untracked).filter(|path| !given.contains(path));
        let mut paths: Vec<PathBuf> = made.map(path_of).collect();
        let linked = self.new_links(fork, tree).await?;
        if !linked.is_empty() {
            let submodules = self.submodule_urls(tree).await?;
            let is_submodule = |path: &PathBuf| path.to_str().is_some_and(|path| submodules.contains_key(path));
            paths.extend(linked.into_iter().filter(|path| !is_submodule(path)));
        }
        paths.retain(|path| holds_files(&worktree.path().join(path)));
        Ok(paths.into_iter().map(|path| UnsavedFile { path, why: UnsavedReason::OwnRepository }).collect())
    }

    /// Submodule links in `tree` where the start of the work had none.
    async fn new_links(&self, fork: &CommitSha, tree: &CommitSha) -> Result<Vec<PathBuf>, Error> {
        let options = ["-r", "-z", "--raw", "--no-renames", "--diff-filter=AT"];
        let changes = self.call("diff-tree").args(options).args([fork.as_str(), tree.as_str()]).output().await?;
        let mut entries = changes.split(|byte| *byte == 0);
        let mut links = Vec::new();
        while let (Some(facts), Some(path)) = (entries.next(), entries.next()) {
            if facts.split(|byte| *byte == b' ').nth(1) == Some(b"160000") {
                links.push(path_of(path));
            }
        }
        Ok(links)
    }
}

/// A path for people: serde cannot serialize one that is not UTF-8.
mod lossy_path {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&path.to_string_lossy())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        String::deserialize(deserializer).map(PathBuf::from)
    }
}

/// Git shows a nested repository as a directory, and nothing else.
fn repositories_among(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    names.split(|byte| *byte == 0).filter(|name| name.ends_with(b"/"))
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// Whether a repository was worked in: it has files beside its own.
fn holds_files(folder: &Path) -> bool {
    let is_file = |entry: Result<fs::DirEntry, _>| entry.is_ok_and(|entry| entry.file_name() != ".git");
    fs::read_dir(folder).is_ok_and(|mut entries| entries.any(is_file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_what_was_left_out_and_why() {
        let shown = |path: &str, why| UnsavedFile { path: path.into(), why }.to_string();

        assert_eq!(shown("core\u{1b}[2J", UnsavedReason::TooLarge), "`core\u{fffd}[2J` is too large for git");
        assert_eq!(shown("web/", UnsavedReason::OwnRepository), "`web/` is a repository of its own");
        let many: Vec<_> =
            (0..7).map(|n| UnsavedFile { path: format!("{n}/").into(), why: UnsavedReason::OwnRepository }).collect();
        assert!(UnsavedFile::named(&many).ends_with("`4/` is a repository of its own, and 2 more"));
    }
}
