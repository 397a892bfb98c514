//! The names of our refs, in one place [F3].

use std::fmt;

use domain::{BranchName, JobId};

use crate::run_key::RunKey;

/// A full ref name that we made ourselves, so it needs no quoting and cannot be an option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(String);

impl RefName {
    /// The branch `name` on the remote.
    pub fn branch(name: &BranchName) -> Self {
        Self(format!("refs/heads/{name}"))
    }

    /// The ref as git spells it: `refs/heads/…`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The branch without `refs/heads/`.
    pub fn short(&self) -> &str {
        self.0.strip_prefix("refs/heads/").unwrap_or(&self.0)
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The three families of refs under one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefNames {
    prefix: BranchName,
}

impl RefNames {
    /// Refs under `prefix/…`.
    pub fn under(prefix: BranchName) -> Self {
        Self { prefix }
    }

    /// Where a worker pushes what it made: one ref per epoch, so a stale worker can only reach its own.
    pub fn run(&self, run: RunKey) -> RefName {
        RefName(format!("refs/heads/{}/run/{}/e{}", self.prefix, run.job, run.epoch))
    }

    /// Where a worker saves work in progress.
    pub fn wip(&self, run: RunKey) -> RefName {
        RefName(format!("refs/heads/{}/wip/{run}", self.prefix))
    }

    /// The pull request's branch, which only a granted promotion moves.
    pub fn pr_branch(&self, job: JobId) -> RefName {
        RefName(format!("refs/heads/{}/job/{job}", self.prefix))
    }

    /// Patterns of refs that a general fetch leaves out: there is one per run, and nobody needs them all.
    pub(crate) fn per_run_patterns(&self) -> [String; 2] {
        [format!("refs/heads/{}/run/*", self.prefix), format!("refs/heads/{}/wip/*", self.prefix)]
    }
}

#[cfg(test)]
mod tests {
    use domain::Epoch;

    use super::*;

    #[test]
    fn refs_are_named_as_agreed() {
        let job: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();
        let run = RunKey { job, epoch: Epoch(3) };
        let refs = RefNames::under("aq".parse().unwrap());

        assert_eq!(refs.run(run).as_str(), format!("refs/heads/aq/run/{job}/e3"));
        assert_eq!(refs.wip(run).as_str(), format!("refs/heads/aq/wip/{job}-e3"));
        assert_eq!(refs.pr_branch(job).as_str(), format!("refs/heads/aq/job/{job}"));
        assert_eq!(refs.pr_branch(job).short(), format!("aq/job/{job}"));
    }
}
