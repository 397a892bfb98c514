//! Reads an agent's work, without trusting anything that it could have edited.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use domain::CommitSha;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::git::{GitCommand, GitError, clear_lock};
use crate::mirror::{Mirror, quiet};
use crate::remote::Transport;
use crate::unsaved_files::{UnsavedFile, UnsavedReason};
use crate::worktree::{FOR_THE_FACTORY, Worktree};

/// The content of a worktree at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// The agent's last commit, or where it started if its repository is unreadable or has another history.
    pub(crate) head: CommitSha,
    /// The tree of that commit.
    pub(crate) head_tree: CommitSha,
    /// The tree of all files, committed or not, except ignored ones.
    pub(crate) tree: CommitSha,
    /// The commit of the base branch that the work builds upon: a later one than at the start if the agent merged it.
    pub(crate) fork: CommitSha,
    /// The tree of that commit.
    pub(crate) fork_tree: CommitSha,
    /// Files that are in none of these trees and yet may be work.
    pub(crate) left_out: Vec<UnsavedFile>,
    /// The commit of the base branch that the agent has merged without committing the merge.
    #[serde(default)]
    pub(crate) merged: Option<CommitSha>,
    /// The unresolved files of a merge in progress.
    #[serde(default)]
    pub(crate) unresolved: Vec<String>,
}

/// Serves an agent's repository without access to any other: a git that lazily fetches what a repository lacks, as its
/// settings say, has no transport to do it.
pub(crate) const SERVE_ALONE: &str = "--upload-pack=GIT_ALLOW_PROTOCOL=none git-upload-pack";

/// The limit of git hosts, with a margin; a larger file is a core dump or a disk image.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The `ls-files` options for untracked files that are not ignored.
const UNTRACKED: [&str; 3] = ["--others", "--exclude-standard", "-z"];

impl Mirror {
    /// Takes the final snapshot of the worktree: what commands write to it later is not part of the work.
    pub async fn freeze(&self, worktree: &Worktree) -> Result<(), Error> {
        let snapshot = self.snapshot(worktree).await?;
        worktree.freeze(&snapshot)
    }

    /// The work in a worktree. A frozen one returns its frozen snapshot.
    pub(crate) async fn snapshot(&self, worktree: &Worktree) -> Result<Snapshot, Error> {
        match worktree.frozen()? {
            Some(frozen) => self.seal().map(|()| frozen),
            None => self.live_snapshot(worktree).await,
        }
    }

    /// Copies the agent's commits into the mirror and its files into a tree. The worktree and its index stay unchanged.
    pub(crate) async fn live_snapshot(&self, worktree: &Worktree) -> Result<Snapshot, Error> {
        self.seal()?;
        let is_folder = fs::symlink_metadata(worktree.path()).is_ok_and(|found| found.is_dir());
        if !is_folder {
            return Err(Error::NotOurWorktree { path: worktree.path().to_owned() });
        }
        let head = self.adopt(worktree).await?;
        let fork = self.fork_of(worktree, &head).await?;
        let (tree, left_out) = self.tree_of_files(worktree, &head, &fork).await?;
        let head_tree = self.tree_of(&head).await?;
        let fork_tree = self.tree_of(&fork).await?;
        let snapshot =
            Snapshot { head, head_tree, tree, fork, fork_tree, left_out, merged: None, unresolved: Vec::new() };
        self.with_pending_merge(worktree, snapshot).await
    }

    /// A snapshot with the merge that the agent has resolved and not committed, or with its unresolved files.
    async fn with_pending_merge(&self, worktree: &Worktree, snapshot: Snapshot) -> Result<Snapshot, Error> {
        let Some(merged) = self.merge_head(worktree, &snapshot.head, &snapshot.fork).await? else {
            return Ok(snapshot);
        };
        let merged_tree = self.tree_of(&merged).await?;
        let sides = [&snapshot.head_tree, &merged_tree];
        match self.unresolved(worktree, sides, &snapshot.tree).await? {
            None => Ok(snapshot),
            Some(unresolved) if !unresolved.is_empty() => Ok(Snapshot { unresolved, ..snapshot }),
            Some(_) => {
                // Files for the factory alone are as in the new fork.
                let (tree, left_out) = self.tree_of_files(worktree, &snapshot.head, &merged).await?;
                let (fork, fork_tree) = (merged.clone(), merged_tree);
                Ok(Snapshot { tree, left_out, fork, fork_tree, merged: Some(merged), ..snapshot })
            }
        }
    }

    /// The commit of the base branch that `head` builds upon.
    pub async fn fork_of(&self, worktree: &Worktree, head: &CommitSha) -> Result<CommitSha, Error> {
        let shared = self.call("merge-base").args([worktree.base_head().as_str(), head.as_str()]).object().await;
        match shared {
            Ok(fork) => Ok(fork),
            Err(GitError::Failed { .. }) => Ok(worktree.fork().clone()),
            Err(error) => Err(error.into()),
        }
    }

    /// Records which repositories are in a worktree before its agent starts: what setup commands fetched is not the
    /// agent's work.
    pub async fn remember_given(&self, worktree: &Worktree) -> Result<(), Error> {
        self.seal()?;
        let index = ScratchIndex::copied(worktree)?;
        let untracked = self.call_on_files(worktree, &index, "ls-files").args(UNTRACKED).output().await?;
        worktree.remember_given(&untracked)
    }

    pub(crate) async fn tree_of(&self, commit: &CommitSha) -> Result<CommitSha, Error> {
        let tree = format!("{commit}^{{tree}}");
        Ok(self.call("rev-parse").args(["--verify", "--end-of-options", &tree]).object().await?)
    }

    /// Fetches the agent's head as from an untrusted remote: git's serving side runs nothing that a repository
    /// configures.
    async fn adopt(&self, worktree: &Worktree) -> Result<CommitSha, Error> {
        let head_ref = worktree.head_ref();
        let lock = worktree.lock(&*self.host.clock).await?;
        let left = self.path().join(format!("{head_ref}.lock"));
        clear_lock(&left).map_err(Error::disk("clear", &left))?;
        let trust = worktree.trust();
        let fetch = self.call("fetch").under(&lock).on_agents_files(self.host.sandbox(worktree));
        let fetch = quiet(fetch.transport(Transport::Folder));
        let fetch = if self.host.account.is_some() { fetch.trusting(&trust) } else { fetch };
        let fetch = fetch.args([SERVE_ALONE, "--end-of-options"]);
        let fetched = fetch.arg(worktree.repository()).arg(format!("+HEAD:{head_ref}")).done().await;
        match fetched {
            Ok(()) => {}
            // An agent that broke its repository loses its commits' messages, not its files.
            Err(GitError::Failed { .. } | GitError::TimedOut { .. }) => return Ok(worktree.start().clone()),
            Err(error) => return Err(error.into()),
        }
        let head = self.call("rev-parse").args(["--verify", "--end-of-options", &head_ref]).object().await?;
        let related = self.call("merge-base").args([worktree.fork().as_str(), head.as_str()]).holds().await?;
        Ok(if related { head } else { worktree.start().clone() })
    }

    async fn tree_of_files(
        &self,
        worktree: &Worktree,
        head: &CommitSha,
        fork: &CommitSha,
    ) -> Result<(CommitSha, Vec<UnsavedFile>), Error> {
        let index = ScratchIndex::copied(worktree)?;
        let call = |verb| self.call_on_files(worktree, &index, verb);
        call("read-tree").args(["-m", "-i", head.as_str()]).done().await?;
        // Nested repositories are not entered: they show as directories here, and are left out.
        let changed =
            call("diff-files").args(["--name-only", "-z", "--no-ext-diff", "--ignore-submodules=all"]).output().await?;
        let untracked = call("ls-files").args(UNTRACKED).output().await?;
        let mut left_out = Vec::new();
        let paths = paths_to_take(&changed, &untracked, |path| {
            let path = Path::new(OsStr::from_bytes(path));
            let Ok(found) = fs::symlink_metadata(worktree.path().join(path)) else { return false };
            if found.is_file() && found.len() > FILE_BYTES_MAX {
                left_out.push(UnsavedFile { path: path.to_owned(), why: UnsavedReason::TooLarge });
                return true;
            }
            self.is_foreign(&found)
        });
        call("update-index").args(["--add", "--remove", "--replace", "-z", "--stdin"]).stdin(paths).done().await?;
        for file in FOR_THE_FACTORY {
            self.put_file_back(worktree, &index, file, fork).await?;
        }
        // Reads no file of the agent, and may have to fetch contents of the tree from the remote.
        let tree = self.call("write-tree").index(index.path()).object().await?;
        left_out.extend(self.own_repositories(worktree, &untracked, fork, &tree).await?);
        Ok((tree, left_out))
    }

    /// A git command on a worktree's files. Large files go into the mirror's own storage, without a remote.
    fn call_on_files<'a>(
        &'a self,
        worktree: &'a Worktree,
        index: &'a ScratchIndex,
        verb: &'static str,
    ) -> GitCommand<'a> {
        let call = self.call(verb).work_tree(worktree.path()).index(index.path());
        let call = call.on_agents_files(self.host.sandbox(worktree));
        if worktree.has_large_files() { call.large_files(self.remote()) } else { call }
    }

    /// Whether a file belongs to neither the factory nor the agent: a hard link to a file that only the factory can
    /// read.
    pub(crate) fn is_foreign(&self, found: &fs::Metadata) -> bool {
        self.host.account.as_ref().is_some_and(|account| found.is_file() && found.uid() != account.uid())
    }

    /// An agent commits a file for the factory alone only by mistake: the tree has the base's version, mostly none.
    async fn put_file_back(
        &self,
        worktree: &Worktree,
        index: &ScratchIndex,
        file: &str,
        fork: &CommitSha,
    ) -> Result<(), Error> {
        let at_fork = self.call("ls-tree").args(["-z", fork.as_str(), file]).output().await?;
        let update = self.call_on_files(worktree, index, "update-index");
        if at_fork.is_empty() {
            return Ok(update.args(["--force-remove", file]).done().await?);
        }
        Ok(update.args(["--add", "-z", "--index-info"]).stdin(at_fork).done().await?)
    }
}

/// The names in both lists, except nested repositories, files for the factory alone and rejected files.
fn paths_to_take(changed: &[u8], untracked: &[u8], mut is_refused: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut taken = Vec::with_capacity(changed.len() + untracked.len());
    for path in changed.split(|byte| *byte == 0).chain(untracked.split(|byte| *byte == 0)) {
        let is_for_us = FOR_THE_FACTORY.iter().any(|file| file.as_bytes() == path);
        if path.is_empty() || path.ends_with(b"/") || is_for_us || is_refused(path) {
            continue;
        }
        taken.extend_from_slice(path);
        taken.push(0);
    }
    taken
}

/// A temporary copy of the metadata directory's index for one snapshot.
pub(crate) struct ScratchIndex(PathBuf);

impl ScratchIndex {
    fn copied(worktree: &Worktree) -> Result<Self, Error> {
        let scratch = Self::named(worktree)?;
        copy_index(&worktree.index(), scratch.path()).map_err(Error::disk("write", scratch.path()))?;
        Ok(scratch)
    }

    /// One with the given content.
    pub(crate) fn holding(worktree: &Worktree, bytes: &[u8]) -> Result<Self, Error> {
        let scratch = Self::named(worktree)?;
        fs::write(scratch.path(), bytes).map_err(Error::disk("write", scratch.path()))?;
        Ok(scratch)
    }

    fn named(worktree: &Worktree) -> Result<Self, Error> {
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        let path = worktree.metadata().join(format!("scratch-{}-{number}.index", std::process::id()));
        let scratch = Self(path);
        // After a restart the same number may be used again, with the lock file of a killed git.
        clear_lock(&scratch.lock()).map_err(Error::disk("clear", scratch.path()))?;
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn lock(&self) -> PathBuf {
        self.0.with_extension("index.lock")
    }
}

impl Drop for ScratchIndex {
    fn drop(&mut self) {
        // Leftovers are removed with the metadata directory.
        let _ = fs::remove_file(&self.0);
        let _ = clear_lock(&self.lock());
    }
}

/// Copies git's index. The copy keeps the modification time: git compares it with those of the files to decide which to
/// read again.
pub(crate) fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let written_at = fs::metadata(from)?.modified()?;
    File::options().write(true).open(to)?.set_modified(written_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_repositories_and_the_request_text_are_left_out() {
        let taken =
            paths_to_take(b"a\0.aq_pr.md\0.aq_question.md\0", b"nested/\0b c\0sub/.aq_pr.md\0shadow\0", |path| {
                path == b"shadow"
            });

        assert_eq!(taken, b"a\0b c\0sub/.aq_pr.md\0");
    }
}
