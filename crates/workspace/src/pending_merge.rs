//! A merge of the base branch that an agent has left uncommitted. The agent can write its repository, so nothing in it
//! is trusted beyond what the mirror confirms.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use domain::CommitSha;
use sandbox::DirFd;

use crate::error::Error;
use crate::git::GitError;
use crate::mirror::Mirror;
use crate::snapshot::ScratchIndex;
use crate::worktree::Worktree;

/// `MERGE_HEAD` of one merged commit is one object name and a line break.
const MERGE_HEAD_BYTES_MAX: u64 = 130;

/// A longer index is not read, and its merge not completed.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What is read of a file to find conflict markers.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Files that are read to find conflict markers, and files that are named.
const FILES_MAX: usize = 2_000;
const NAMED_MAX: usize = 20;

impl Mirror {
    /// The commit of the base branch that a merge in progress merges, if it adds anything: later than `fork`, and in
    /// the base branch as it was fetched.
    pub(crate) async fn merge_head(
        &self,
        worktree: &Worktree,
        head: &CommitSha,
        fork: &CommitSha,
    ) -> Result<Option<CommitSha>, Error> {
        let Some(merged) = read_merge_head(worktree) else { return Ok(None) };
        let is_in = |older: &CommitSha, newer: &CommitSha| {
            let (older, newer) = (older.clone(), newer.clone());
            async move {
                let call = self.call("merge-base").args(["--is-ancestor", older.as_str(), newer.as_str()]);
                match call.holds().await {
                    // The mirror has no such commit.
                    Err(GitError::Failed { .. }) => Ok(false),
                    held => held,
                }
            }
        };
        let is_news =
            is_in(&merged, worktree.base_head()).await? && is_in(fork, &merged).await? && !is_in(&merged, head).await?;
        Ok(is_news.then_some(merged))
    }

    /// The unresolved files of a merge in progress: those with conflict markers, and those in conflict that equal one
    /// of the sides, in `trees`. `None` if that is unknown.
    pub(crate) async fn unresolved(
        &self,
        worktree: &Worktree,
        trees: [&CommitSha; 2],
        tree: &CommitSha,
    ) -> Result<Option<Vec<String>>, Error> {
        let Some(unmerged) = self.unmerged(worktree).await? else { return Ok(None) };
        let mut changed = BTreeSet::new();
        for (number, before) in trees.into_iter().enumerate() {
            let options = ["-r", "--name-only", "-z", "--no-renames", "--no-ext-diff"];
            let listing = self.call("diff-tree").args(options).args([before.as_str(), tree.as_str()]).output().await?;
            let names: BTreeSet<Vec<u8>> = listing.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
            changed = if number == 0 { names } else { changed.intersection(&names).cloned().collect() };
        }
        // A file that equals one side has no markers of the merge.
        let Ok(folder) = DirFd::open(worktree.path()) else { return Ok(None) };
        let marked = changed.iter().filter(|name| !name.is_empty()).take(FILES_MAX);
        let marked = marked.filter(|name| content(&folder, name).is_some_and(|bytes| has_markers(&bytes)));
        let untouched = unmerged.iter().filter(|name| !changed.contains(*name));
        let unresolved: BTreeSet<&Vec<u8>> = marked.chain(untouched).collect();
        let shown = unresolved.into_iter().take(NAMED_MAX);
        Ok(Some(shown.map(|name| domain::escape_for_terminal(&String::from_utf8_lossy(name))).collect()))
    }

    /// The files in conflict by the agent's own index. `None` if it is unreadable.
    async fn unmerged(&self, worktree: &Worktree) -> Result<Option<BTreeSet<Vec<u8>>>, Error> {
        let read = DirFd::open(worktree.path()).and_then(|folder| folder.enter(".git")?.read("index", INDEX_BYTES_MAX));
        let Ok(bytes) = read else { return Ok(None) };
        let index = ScratchIndex::holding(worktree, &bytes)?;
        let call = self.call("ls-files").index(index.path()).on_agents_files(self.host.sandbox(worktree));
        match call.args(["--unmerged", "-z"]).output().await {
            Ok(listing) => Ok(Some(unmerged_names(&listing))),
            Err(GitError::Failed { .. } | GitError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn read_merge_head(worktree: &Worktree) -> Option<CommitSha> {
    let bytes = DirFd::open(worktree.path()).ok()?.enter(".git").ok()?.read("MERGE_HEAD", MERGE_HEAD_BYTES_MAX).ok()?;
    parse_merge_head(&bytes)
}

/// The one merged commit. The factory never requests a merge of several.
fn parse_merge_head(bytes: &[u8]) -> Option<CommitSha> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.strip_suffix('\n').unwrap_or(text).parse().ok()
}

/// The names in lines of `mode SP object SP stage TAB name NUL`.
fn unmerged_names(listing: &[u8]) -> BTreeSet<Vec<u8>> {
    let name = |entry: &[u8]| entry.iter().position(|byte| *byte == b'\t').map(|tab| entry[tab + 1..].to_vec());
    listing.split(|byte| *byte == 0).filter_map(name).collect()
}

/// The content of a regular file of a worktree. No part of its path is a link.
fn content(folder: &DirFd, name: &[u8]) -> Option<Vec<u8>> {
    let path = Path::new(OsStr::from_bytes(name));
    let mut parts = path.parent()?.components();
    let first = match parts.next() {
        None => return folder.read(path.file_name()?, FILE_BYTES_MAX).ok(),
        Some(Component::Normal(part)) => folder.enter(part).ok()?,
        Some(_) => return None,
    };
    let last = parts.try_fold(first, |folder, part| match part {
        Component::Normal(part) => folder.enter(part).ok(),
        _ => None,
    })?;
    last.read(path.file_name()?, FILE_BYTES_MAX).ok()
}

/// Whether the three markers of a conflict follow one another.
fn has_markers(bytes: &[u8]) -> bool {
    let mut found = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_next = match found {
            0 => line.starts_with(b"<<<<<<< "),
            1 => line == b"=======",
            2 => line.starts_with(b">>>>>>> "),
            _ => return true,
        };
        found += u8::from(is_next);
    }
    found > 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_object_name_is_a_merge_head() {
        let sha = "a".repeat(40);

        assert_eq!(parse_merge_head(format!("{sha}\n").as_bytes()), Some(sha.parse().unwrap()));
        for hostile in [format!("{sha}\n{sha}\n"), "--all\n".to_owned(), "HEAD\n".to_owned(), String::new()] {
            assert_eq!(parse_merge_head(hostile.as_bytes()), None, "{hostile:?}");
        }
        assert_eq!(parse_merge_head(b"\xff\xfe"), None);
    }

    #[test]
    fn a_conflict_has_three_markers_in_order() {
        assert!(has_markers(b"a\r\n<<<<<<< HEAD\r\nb\r\n=======\r\nc\r\n>>>>>>> origin/main\r\n"));
        assert!(!has_markers(b"Title\n=======\n\n>>>>>>> quoted\n"));
        assert!(!has_markers(b"<<<<<<< HEAD\n>>>>>>> origin/main\n"));
    }
}
