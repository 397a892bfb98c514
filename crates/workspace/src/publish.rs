//! From a worktree to the remote: saved work, commits and the run's own ref.

use domain::{Checkpoint, CommitSha, RunKey};

use crate::error::Error;
use crate::git::GitError;
use crate::mirror::Mirror;
use crate::refs::RefName;
use crate::snapshot::Snapshot;
use crate::unsaved_files::{UnsavedFile, UnsavedReason};
use crate::worktree::{FOR_THE_FACTORY, LastSave, Worktree};

/// The outcome of saving a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaveOutcome {
    /// It is on the remote.
    Pushed(Checkpoint),
    /// Nothing differs from what the work started from.
    NothingToSave,
    /// Some of it cannot be saved; the worktree stays the only copy of that.
    InPart {
        /// The saved commit, if anything differs there.
        pushed: Option<Checkpoint>,
        /// The unsaved files; never empty.
        left_out: Vec<UnsavedFile>,
    },
}

/// The outcome of committing a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The commit to push.
    Made(CommitSha),
    /// The work changed nothing.
    Empty,
    /// Some of it is in no commit.
    InPart {
        /// The commit to push, unless nothing else was changed.
        made: Option<CommitSha>,
        /// The files that are not in it; never empty.
        left_out: Vec<UnsavedFile>,
    },
    /// The agent has left a merge of the base branch with conflicts.
    Unresolved {
        /// Files in conflict; never empty.
        files: Vec<String>,
    },
}

/// The size of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffSummary {
    /// Files changed.
    pub files: u32,
    /// Lines added.
    pub insertions: u32,
    /// Lines removed.
    pub deletions: u32,
}

impl SaveOutcome {
    /// Where the next run continues, unless the work is where it started.
    pub fn checkpoint(self) -> Option<Checkpoint> {
        match self {
            Self::Pushed(checkpoint) => Some(checkpoint),
            Self::NothingToSave => None,
            Self::InPart { pushed, .. } => pushed,
        }
    }

    /// Whether nothing is lost with the worktree.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Pushed(_) | Self::NothingToSave => true,
            Self::InPart { .. } => false,
        }
    }
}

impl Mirror {
    /// Saves committed, changed and untracked files to the run's wip ref. Safe while the agent still works. What was
    /// saved before and has not changed is not pushed again.
    pub async fn checkpoint(&self, worktree: &Worktree) -> Result<SaveOutcome, Error> {
        self.save(worktree, self.snapshot(worktree).await?, worktree.last_saved()).await
    }

    /// Like [`Mirror::checkpoint`], although the remote should have it already.
    pub async fn checkpoint_anew(&self, worktree: &Worktree) -> Result<SaveOutcome, Error> {
        self.save(worktree, self.snapshot(worktree).await?, None).await
    }

    /// Like [`Mirror::checkpoint_anew`], with everything in the worktree: there is no other copy once the worktree is
    /// removed.
    pub(crate) async fn checkpoint_all_files(&self, worktree: &Worktree) -> Result<SaveOutcome, Error> {
        self.save(worktree, self.live_snapshot(worktree).await?, None).await
    }

    async fn save(
        &self,
        worktree: &Worktree,
        mut snapshot: Snapshot,
        last: Option<LastSave>,
    ) -> Result<SaveOutcome, Error> {
        let left_out = std::mem::take(&mut snapshot.left_out);
        let pushed = self.save_snapshot(worktree, snapshot, last).await?;
        Ok(match pushed {
            pushed if !left_out.is_empty() => SaveOutcome::InPart { pushed, left_out },
            Some(checkpoint) => SaveOutcome::Pushed(checkpoint),
            None => SaveOutcome::NothingToSave,
        })
    }

    async fn save_snapshot(
        &self,
        worktree: &Worktree,
        snapshot: Snapshot,
        last: Option<LastSave>,
    ) -> Result<Option<Checkpoint>, Error> {
        let strays = self.stray_branches(worktree).await;
        let strays: Vec<CommitSha> = strays.into_iter().map(|stray| stray.sha).collect();
        if snapshot.head == snapshot.fork && snapshot.tree == snapshot.fork_tree && strays.is_empty() {
            return Ok(None);
        }
        let run = worktree.run();
        let name = self.host.refs.wip(run);
        let pushed = |sha| {
            let git_ref = name.as_str().to_owned();
            let repository = Some(self.identity().clone());
            Some(Checkpoint { git_ref, sha, session: None, epoch: run.epoch, repository })
        };
        let is_saved =
            |last: &LastSave| last.head == snapshot.head && last.tree == snapshot.tree && last.strays == strays;
        if let Some(last) = last.filter(is_saved) {
            return Ok(pushed(last.sha));
        }
        let message = with_trailers("Work in progress", run);
        // The first parent is the agent's last commit: the next run finds both what was committed and what was not. The
        // others are what it left on other branches.
        let parents: Vec<CommitSha> = std::iter::once(&snapshot.head).chain(&strays).cloned().collect();
        let sha = self.commit_tree(&snapshot.tree, &parents, &message).await?;
        self.push_large_files(worktree, &sha).await?;
        self.push_own(&sha, &name).await?;
        worktree.remember_saved(&LastSave { head: snapshot.head, tree: snapshot.tree, strays, sha: sha.clone() });
        Ok(pushed(sha))
    }

    /// Commits everything that the work left, with the trailers that name the job and the epoch.
    ///
    /// Commits of the agent are kept. If nothing is uncommitted, its last commit is made again, with the trailers.
    pub async fn commit_all(&self, worktree: &Worktree, message: &str) -> Result<CommitOutcome, Error> {
        let mut snapshot = self.snapshot(worktree).await?;
        let left_out = std::mem::take(&mut snapshot.left_out);
        if let Some(giant) = left_out.iter().find(|left| left.why == UnsavedReason::TooLarge) {
            return Err(Error::TooLarge { path: giant.path.clone() });
        }
        if !snapshot.unresolved.is_empty() {
            return Ok(CommitOutcome::Unresolved { files: snapshot.unresolved });
        }
        let made = self.commit_snapshot(worktree, &snapshot, message).await?;
        Ok(match made {
            made if !left_out.is_empty() => CommitOutcome::InPart { made, left_out },
            Some(sha) => CommitOutcome::Made(sha),
            None => CommitOutcome::Empty,
        })
    }

    async fn commit_snapshot(
        &self,
        worktree: &Worktree,
        snapshot: &Snapshot,
        message: &str,
    ) -> Result<Option<CommitSha>, Error> {
        if snapshot.tree == snapshot.fork_tree {
            return Ok(None);
        }
        let run = worktree.run();
        let sha = if self.tells_what_is_for_us(snapshot).await? {
            let parent = std::slice::from_ref(&snapshot.fork);
            self.commit_tree(&snapshot.tree, parent, &with_trailers(message, run)).await?
        } else if let Some(merged) = &snapshot.merged {
            let parents = [snapshot.head.clone(), merged.clone()];
            self.commit_tree(&snapshot.tree, &parents, &with_trailers(message, run)).await?
        } else if snapshot.tree == snapshot.head_tree {
            let last = self.described(&snapshot.head).await?;
            self.commit_tree(&snapshot.tree, &last.parents, &with_trailers(&last.message, run)).await?
        } else {
            let parent = std::slice::from_ref(&snapshot.head);
            self.commit_tree(&snapshot.tree, parent, &with_trailers(message, run)).await?
        };
        Ok(Some(sha))
    }

    /// Pushes a commit to the run's own ref only.
    pub async fn push_run(&self, worktree: &Worktree, sha: &CommitSha) -> Result<RefName, Error> {
        let name = self.host.refs.run(worktree.run());
        self.push_large_files(worktree, sha).await?;
        self.push_own(sha, &name).await?;
        Ok(name)
    }

    /// The size of the change between two commits.
    pub async fn diff(&self, from: &CommitSha, to: &CommitSha) -> Result<DiffSummary, Error> {
        self.require(from).await?;
        self.require(to).await?;
        let options = ["-r", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let listing = self.call("diff-tree").args(options).args([from.as_str(), to.as_str()]).output().await?;
        Ok(summed(&listing))
    }

    pub(crate) async fn commit_tree(
        &self,
        tree: &CommitSha,
        parents: &[CommitSha],
        message: &str,
    ) -> Result<CommitSha, Error> {
        let mut commit = self.call("commit-tree");
        for parent in parents {
            commit = commit.args(["-p", parent.as_str()]);
        }
        Ok(commit.args(["-F", "-", tree.as_str()]).stdin(message).object().await?)
    }

    /// A ref of one epoch has one writer, so it may always be overwritten.
    pub(crate) async fn push_own(&self, sha: &CommitSha, name: &RefName) -> Result<(), Error> {
        Ok(self.push().args(["--end-of-options", self.url()]).arg(format!("+{sha}:{name}")).done().await?)
    }

    /// Whether a commit of the agent holds a file for the factory alone: then its commits are squashed without it.
    async fn tells_what_is_for_us(&self, snapshot: &Snapshot) -> Result<bool, Error> {
        let range = format!("{}..{}", snapshot.fork, snapshot.head);
        let touching = self
            .call("rev-list")
            .args(["--max-count=1", "--full-history", "--end-of-options", &range, "--"])
            .args(FOR_THE_FACTORY)
            .output()
            .await?;
        Ok(!touching.is_empty())
    }

    async fn described(&self, sha: &CommitSha) -> Result<CommitMessage, Error> {
        let garbled = || GitError::Garbled { verb: "rev-list" };
        let shown = self
            .call("rev-list")
            .args(["--max-count=1", "--no-commit-header", "--format=%P%n%B", sha.as_str()])
            .output()
            .await?;
        let shown = String::from_utf8_lossy(&shown);
        let (parents, message) = shown.split_once('\n').ok_or_else(garbled)?;
        let parents = parents.split_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(|_| garbled())?;
        Ok(CommitMessage { parents, message: message.to_owned() })
    }
}

struct CommitMessage {
    parents: Vec<CommitSha>,
    message: String,
}

/// A message whose last paragraph names the job and the epoch, once.
pub(crate) fn with_trailers(message: &str, run: RunKey) -> String {
    let own = |line: &&str| !line.starts_with("Gigafactory-Job:") && !line.starts_with("Gigafactory-Epoch:");
    let lines: Vec<&str> = message.lines().filter(own).collect();
    // Git reads a message up to a NUL.
    let text = lines.join("\n").replace('\0', "\u{fffd}");
    let text = text.trim();
    let text = if text.is_empty() { "Work of an agent" } else { text };
    format!("{text}\n\nGigafactory-Job: {}\nGigafactory-Epoch: {}\n", run.job, run.epoch)
}

/// Sums lines of `added TAB removed TAB path NUL`; binary files show `-` for both counts.
fn summed(listing: &[u8]) -> DiffSummary {
    let mut sum = DiffSummary::default();
    for entry in listing.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let mut counts = entry.split(|byte| *byte == b'\t').map(|count| std::str::from_utf8(count).unwrap_or_default());
        let mut count = || counts.next().and_then(|count| count.parse::<u32>().ok()).unwrap_or(0);
        sum.files = sum.files.saturating_add(1);
        sum.insertions = sum.insertions.saturating_add(count());
        sum.deletions = sum.deletions.saturating_add(count());
    }
    sum
}

#[cfg(test)]
mod tests {
    use domain::Epoch;

    use super::*;

    #[test]
    fn a_message_names_its_job_once_whatever_it_said_before() {
        let run = RunKey { job: "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap(), epoch: Epoch(2) };
        let once = "Add it\n\nGigafactory-Job: 0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a\nGigafactory-Epoch: 2\n";

        assert_eq!(with_trailers("Add it\n", run), once);
        assert_eq!(with_trailers(once, run), once);
        assert_eq!(with_trailers("Add it\n\nGigafactory-Job: another", run), once);
    }

    // [J6]
    #[test]
    fn binary_files_count_as_files_without_lines() {
        let sum = summed(b"3\t1\ta b\0-\t-\tlogo.png\0");

        assert_eq!(sum, DiffSummary { files: 2, insertions: 3, deletions: 1 });
    }
}
