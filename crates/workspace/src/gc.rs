//! Clean-up: refs on the remotes, and worktrees, mirrors and leftovers on this host [F7].
//!
//! Nothing is removed that could be an only copy [I11]. First everything is proved: by the coordinator's state of the
//! job, by git's commits, by the run's records on disk. Then, one after the other, each proof is made again and the
//! thing removed. A ref is deleted only if the remote still has it at the commit of the proof, and is restored if its
//! job became active meanwhile. What cannot be proved stays, and the report gives the reason.

mod engine_credentials;
mod job_status;
mod leftovers;
mod merged;
mod mirrors;
mod remote_refs;
mod report;
mod worktrees;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::{BranchTemplate, RepoName, Timestamp};
use sandbox::FileLock;

pub use engine_credentials::EngineCredentials;
pub use job_status::{JobLookup, JobRecord, JobStatus};
pub use report::{GcItem, GcKind, GcReport};

use crate::config::RepoConfig;
use crate::error::Error;
use crate::host::Host;
use crate::mirror::Mirror;
use crate::state::StateDir;
use crate::worktree::Worktree;
use leftovers::Leftover;
use mirrors::IdleMirror;
use remote_refs::DoomedRef;
use report::KeptItem;
use worktrees::DoomedWorktree;

/// One clean-up of one host. Safe beside a running factory, and beside other clean-ups.
pub struct Gc {
    host: Host,
    repos: BTreeMap<RepoName, RepoConfig>,
    branches: BTreeMap<RepoName, BranchTemplate>,
    jobs: Arc<dyn JobLookup>,
    credentials: Arc<dyn EngineCredentials>,
    retention: Duration,
}

/// What can be removed, and what stays and why. Only a proposal: each item is proved again before its removal.
#[derive(Debug, Default)]
pub struct GcPlan {
    worktrees: Vec<DoomedWorktree>,
    refs: Vec<DoomedRef>,
    mirrors: Vec<IdleMirror>,
    leftovers: Vec<Leftover>,
    kept: Vec<KeptItem>,
}

impl Gc {
    /// A clean-up of `host`, which works on `repos` and names the branches of pull requests by `branches`, where that is
    /// not the default; `jobs` returns the state of jobs. What failed or was fenced stays for `retention`.
    pub fn new(
        host: Host,
        repos: BTreeMap<RepoName, RepoConfig>,
        branches: BTreeMap<RepoName, BranchTemplate>,
        (jobs, credentials): (Arc<dyn JobLookup>, Arc<dyn EngineCredentials>),
        retention: Duration,
    ) -> Self {
        Self { host, repos, branches, jobs, credentials, retention }
    }

    /// Cleans up.
    pub async fn run(&self) -> Result<GcReport, Error> {
        let plan = self.plan().await?;
        self.carry_out(plan).await
    }

    /// Reports what a clean-up would do, and does nothing.
    pub async fn dry_run(&self) -> Result<GcReport, Error> {
        Ok(self.plan().await?.into_report())
    }

    /// Proves what can be removed.
    pub async fn plan(&self) -> Result<GcPlan, Error> {
        let mut plan = GcPlan::default();
        self.plan_worktrees(&mut plan).await?;
        for (repo, config) in &self.repos {
            let Some(mirror) = self.mirror(repo) else {
                plan.keep(GcKind::Ref, format!("{repo}: all refs"), "the repository has no usable address");
                continue;
            };
            if !mirror.path().is_dir() {
                continue;
            }
            if let Err(error) = self.plan_refs(&mirror, config, &mut plan).await {
                plan.keep(GcKind::Ref, format!("{repo}: all refs"), format!("they cannot be looked at: {error}"));
            }
        }
        self.plan_mirrors(&mut plan)?;
        self.plan_leftovers(&mut plan)?;
        Ok(plan)
    }

    /// Proves everything once more, and removes what is still proved.
    pub async fn carry_out(&self, plan: GcPlan) -> Result<GcReport, Error> {
        let path = self.host.state.gc_lock();
        let Some(lock) = FileLock::try_take(&path)? else { return Err(Error::Locked { path }) };
        lock.sign().map_err(Error::disk("write", &path))?;
        let mut report = GcReport::default();
        let GcPlan { worktrees, refs, mirrors, leftovers, kept } = plan;
        report.kept.extend(kept.into_iter().map(GcItem::from));
        for doomed in worktrees {
            self.remove_worktree(doomed, &mut report).await;
        }
        self.remove_refs(refs, &mut report).await;
        for doomed in mirrors {
            self.tidy_mirror(doomed, &mut report).await;
        }
        // A home that is removed may hold the only copy of a credential that its engine has refreshed.
        let is_active = |home: &Path| self.is_at_work(home);
        self.credentials.recover_credentials(&self.host.state.sessions(), &*self.host.clock, &is_active);
        for doomed in leftovers {
            self.remove_leftover(&doomed, &mut report);
        }
        Ok(report)
    }

    /// How long ago the last clean-up of a directory was; since its first start if there was none.
    pub fn last_was(state: &StateDir, now: Timestamp) -> Duration {
        let path = state.gc_lock();
        if !path.exists() {
            // Nothing is left in a new directory. An I/O error shows when there is something to clean up.
            let _ = FileLock::try_take(&path);
        }
        let now = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
        worktrees::modified(&path).map_or(Duration::ZERO, |last| now.saturating_sub(last))
    }

    /// The mirror of a repository that is configured here.
    fn mirror(&self, repo: &RepoName) -> Option<Mirror> {
        let config = self.repos.get(repo)?;
        self.host.mirror(repo, config).ok().map(|mirror| self.named(mirror))
    }

    /// The mirror of a worktree whose repository is configured here, and is still the same.
    fn mirror_of(&self, worktree: &Worktree) -> Option<Mirror> {
        self.mirror(worktree.repo())?.of_worktree(worktree)
    }

    fn named(&self, mirror: Mirror) -> Mirror {
        let branch = self.branches.get(mirror.repo()).cloned();
        mirror.named(branch, None)
    }
}

impl GcPlan {
    /// The plan as the report of a clean-up that did nothing.
    pub fn into_report(self) -> GcReport {
        let removed = self.worktrees.iter().map(DoomedWorktree::item).chain(self.refs.iter().map(DoomedRef::item));
        let removed = removed.chain(self.mirrors.iter().map(IdleMirror::item));
        let removed: Vec<GcItem> = removed.chain(self.leftovers.iter().map(Leftover::item)).collect();
        let freed_bytes = removed.iter().map(|item| item.bytes).sum();
        let kept = self.kept.into_iter().map(GcItem::from).collect();
        GcReport { dry_run: true, freed_bytes, removed, kept }
    }

    fn keep(&mut self, kind: GcKind, name: impl Into<String>, why: impl Into<String>) {
        self.kept.push(KeptItem { kind, name: name.into(), bytes: 0, why: why.into() });
    }
}
