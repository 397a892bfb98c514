//! Commits that an agent left on other branches than its last one: kept with the run, and reported.

use domain::CommitSha;

use crate::error::Error;
use crate::git::GitCommand;
use crate::mirror::{Mirror, quiet};
use crate::publish::with_trailers;
use crate::refs::RefName;
use crate::remote::Transport;
use crate::snapshot::SERVE_ALONE;
use crate::worktree::Worktree;

/// A branch of an agent's repository with commits that are neither part of the work nor on the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrayBranch {
    /// Its name, safe to print.
    pub name: String,
    /// Its last commit.
    pub sha: CommitSha,
}

/// Branches that are kept; an agent can make any number.
const STRAYS_MAX: usize = 20;

impl Mirror {
    /// The stray branches of a worktree, after a snapshot of it. Their commits are copied into the mirror. An
    /// unreadable repository has none.
    pub async fn stray_branches(&self, worktree: &Worktree) -> Vec<StrayBranch> {
        // The agent's own last commit, which may have been made again with trailers.
        let head_ref = worktree.head_ref();
        let head = self.call("rev-parse").args(["--verify", "--end-of-options", &head_ref]).object().await;
        let head = &head.unwrap_or_else(|_| worktree.start().clone());
        let trust = worktree.trust();
        let listed =
            self.on_repository(worktree, "ls-remote", &trust).args([SERVE_ALONE, "--heads", "--end-of-options"]);
        let Ok(listing) = listed.arg(worktree.repository()).output().await else { return Vec::new() };
        let own = [head, worktree.start(), worktree.fork()];
        let mut found: Vec<StrayBranch> = Vec::new();
        for branch in branches(&listing) {
            let is_known = own.contains(&&branch.sha) || found.iter().any(|known| known.sha == branch.sha);
            if !is_known && found.len() < STRAYS_MAX {
                found.push(branch);
            }
        }
        if found.is_empty() {
            return found;
        }
        let fetch = quiet(self.on_repository(worktree, "fetch", &trust)).args([SERVE_ALONE, "--end-of-options"]);
        let fetch = fetch.arg(worktree.repository());
        let fetch = found.iter().fold(fetch, |fetch, branch| fetch.arg(branch.sha.as_str()));
        if fetch.done().await.is_err() {
            return Vec::new();
        }
        let mut strays = Vec::new();
        for branch in found {
            if self.is_stray(worktree, head, &branch.sha).await.unwrap_or(false) {
                strays.push(branch);
            }
        }
        strays
    }

    /// Whether a commit builds upon the job's start, and part of it is neither in the work nor on the remote.
    async fn is_stray(&self, worktree: &Worktree, head: &CommitSha, tip: &CommitSha) -> Result<bool, Error> {
        if !self.call("merge-base").args([worktree.fork().as_str(), tip.as_str()]).holds().await? {
            return Ok(false);
        }
        let known = ["--not", head.as_str(), worktree.start().as_str(), "--remotes"];
        let new = self.call("rev-list").args(["--max-count=1", tip.as_str()]).args(known).output().await?;
        Ok(!new.is_empty())
    }

    /// Pushes the commits of stray branches to the run's wip ref, beside the completed work.
    pub async fn keep_strays(
        &self,
        worktree: &Worktree,
        work: &CommitSha,
        strays: &[StrayBranch],
    ) -> Result<RefName, Error> {
        let names: Vec<String> = strays.iter().map(|stray| format!("{} {}", stray.sha, stray.name)).collect();
        let message = format!("Commits that the agent left on other branches\n\n{}", names.join("\n"));
        let parents: Vec<CommitSha> =
            [work.clone()].into_iter().chain(strays.iter().map(|stray| stray.sha.clone())).collect();
        let tree = self.tree_of(work).await?;
        let sha = self.commit_tree(&tree, &parents, &with_trailers(&message, worktree.run())).await?;
        let name = self.host.refs.wip(worktree.run());
        self.push_own(&sha, &name).await?;
        Ok(name)
    }

    /// A git command that reads an agent's repository as untrusted.
    fn on_repository<'a>(
        &'a self,
        worktree: &'a Worktree,
        verb: &'static str,
        trust: &'a std::path::Path,
    ) -> GitCommand<'a> {
        let call = self.call(verb).on_agents_files(self.host.sandbox(worktree)).transport(Transport::Folder);
        if self.host.account.is_some() { call.trusting(trust) } else { call }
    }
}

/// Parses lines of `sha TAB refs/heads/name`. Others are skipped.
fn branches(listing: &[u8]) -> Vec<StrayBranch> {
    let listing = String::from_utf8_lossy(listing);
    let branch = |line: &str| {
        let (sha, name) = line.split_once('\t')?;
        let name = domain::escape_for_terminal(name.strip_prefix("refs/heads/")?);
        Some(StrayBranch { name, sha: sha.parse().ok()? })
    };
    listing.lines().filter_map(branch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_branches_are_read_from_a_listing() {
        let sha = "0123456789abcdef0123456789abcdef01234567";
        let listing = format!("{sha}\trefs/heads/feature/x\nnonsense\n{sha}\trefs/tags/v1\nx\trefs/heads/y\n");

        let found = branches(listing.as_bytes());

        assert_eq!(found, [StrayBranch { name: "feature/x".to_owned(), sha: sha.parse().unwrap() }]);
    }
}
