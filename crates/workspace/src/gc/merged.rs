//! Whether work is in a branch, by merge, rebase or squash.

use std::collections::BTreeSet;

use domain::CommitSha;

use crate::error::Error;
use crate::mirror::Mirror;

/// How work was merged into a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merged {
    /// The branch holds the very commit.
    Itself,
    /// The branch holds one commit that makes the same change: it was squashed.
    Squashed,
    /// The branch holds each of its commits, made again: it was rebased.
    Rebased,
    /// Not found.
    No,
}

/// A change of more files is not compared; the author of the squash deletes its branches.
const FILES_MAX: usize = 500;
/// How many commits of the branch are compared, of those that change the same files.
const CANDIDATES_MAX: &str = "--max-count=64";

impl Mirror {
    /// Whether `tip` contains the changes of `sha`.
    pub(super) async fn merged_into(&self, tip: &CommitSha, sha: &CommitSha) -> Result<Merged, Error> {
        self.require(sha).await?;
        if self.contains(tip, sha).await? {
            return Ok(Merged::Itself);
        }
        let Ok(fork) = self.call("merge-base").args([tip.as_str(), sha.as_str()]).object().await else {
            return Ok(Merged::No);
        };
        let files = self.files_between(&fork, sha).await?;
        if files.is_empty() || files.len() > FILES_MAX {
            return Ok(Merged::No);
        }
        let wanted = self.patch_id(&fork, sha, &files).await?;
        let range = format!("{fork}..{tip}");
        let mut list =
            self.call("rev-list").args(["--first-parent", "--no-merges", CANDIDATES_MAX, "--end-of-options"]);
        list = list.arg(range).arg("--");
        for file in &files {
            list = list.arg(file);
        }
        let listing = String::from_utf8_lossy(&list.output().await?).into_owned();
        for candidate in listing.lines().filter_map(|line| line.parse::<CommitSha>().ok()) {
            let parent = format!("{candidate}^1");
            let parent = self.call("rev-parse").args(["--verify", "--end-of-options", &parent]).object().await?;
            if wanted.is_some() && self.patch_id(&parent, &candidate, &files).await? == wanted {
                return Ok(Merged::Squashed);
            }
        }
        Ok(if self.is_rebased_onto(tip, &fork, sha).await? { Merged::Rebased } else { Merged::No })
    }

    /// Whether each commit between `fork` and `sha` has an equivalent in `tip`. A merge's resolution cannot be
    /// compared, so it counts as missing.
    async fn is_rebased_onto(&self, tip: &CommitSha, fork: &CommitSha, sha: &CommitSha) -> Result<bool, Error> {
        let range = format!("{fork}..{sha}");
        let merges =
            self.call("rev-list").args(["--merges", "--max-count=1", "--end-of-options", &range]).output().await?;
        if !merges.is_empty() {
            return Ok(false);
        }
        let listing = self.call("cherry").args([tip.as_str(), sha.as_str()]).output().await?;
        let listing = String::from_utf8_lossy(&listing).into_owned();
        // `- <commit>` has an equivalent, `+ <commit>` has none.
        Ok(!listing.is_empty() && listing.lines().all(|line| line.starts_with("- ")))
    }

    async fn files_between(&self, from: &CommitSha, to: &CommitSha) -> Result<BTreeSet<String>, Error> {
        let options = ["-r", "-z", "--name-only", "--no-renames"];
        let listing = self.call("diff-tree").args(options).args([from.as_str(), to.as_str()]).output().await?;
        // A name that is not UTF-8 cannot be passed here; the comparison then finds nothing.
        let names = String::from_utf8_lossy(&listing).into_owned();
        Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// A change of these files, regardless of position and whitespace.
    async fn patch_id(
        &self,
        from: &CommitSha,
        to: &CommitSha,
        files: &BTreeSet<String>,
    ) -> Result<Option<String>, Error> {
        let options = ["-r", "-p", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index", "--binary"];
        let mut diff = self.call("diff-tree").args(options).args([from.as_str(), to.as_str(), "--"]);
        for file in files {
            diff = diff.arg(file);
        }
        let patch = diff.output().await?;
        let answer = self.call("patch-id").arg("--stable").stdin(patch).output().await?;
        Ok(String::from_utf8_lossy(&answer).split_whitespace().next().map(str::to_owned))
    }
}
