//! The names of the fleet's refs, in one place [F3].

use std::fmt;

use domain::{BranchName, Epoch, JobId, RunKey};

/// A full ref name made by the factory, so it needs no quoting and cannot be an option.
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

/// One of the fleet's refs, and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OurRef {
    /// What a run made.
    Run(RunKey),
    /// What a run saved.
    Wip(RunKey),
    /// The branch of a job's pull request.
    Job(JobId),
}

impl OurRef {
    /// The job that it belongs to.
    pub(crate) fn job(self) -> JobId {
        match self {
            Self::Run(run) | Self::Wip(run) => run.job,
            Self::Job(job) => job,
        }
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

    /// Where a worker pushes its result: one ref per epoch, so a stale worker can only reach its own.
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

    /// Patterns of all of our refs.
    pub(crate) fn patterns(&self) -> [String; 3] {
        ["run", "wip", "job"].map(|family| format!("refs/heads/{}/{family}/*", self.prefix))
    }

    /// Which of our refs a name is. One in another spelling is not ours.
    pub(crate) fn parse(&self, name: &str) -> Option<(OurRef, RefName)> {
        let rest = name.strip_prefix(&format!("refs/heads/{}/", self.prefix))?;
        let (family, rest) = rest.split_once('/')?;
        let (ours, made) = match family {
            "run" => {
                let (job, epoch) = rest.split_once("/e")?;
                let run = RunKey { job: job.parse().ok()?, epoch: Epoch(epoch.parse().ok()?) };
                (OurRef::Run(run), self.run(run))
            }
            "wip" => {
                let run: RunKey = rest.parse().ok()?;
                (OurRef::Wip(run), self.wip(run))
            }
            "job" => {
                let job: JobId = rest.parse().ok()?;
                (OurRef::Job(job), self.pr_branch(job))
            }
            _ => return None,
        };
        (made.as_str() == name).then_some((ours, made))
    }

    /// Patterns of refs that a general fetch excludes: there is one per run, and they are not all needed.
    pub(crate) fn per_run_patterns(&self) -> [String; 2] {
        [format!("refs/heads/{}/run/*", self.prefix), format!("refs/heads/{}/wip/*", self.prefix)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_would_write_are_ours() {
        let job: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();
        let run = RunKey { job, epoch: Epoch(3) };
        let refs = RefNames::under("aq".parse().unwrap());

        assert_eq!(refs.parse(refs.run(run).as_str()), Some((OurRef::Run(run), refs.run(run))));
        assert_eq!(refs.parse(refs.wip(run).as_str()), Some((OurRef::Wip(run), refs.wip(run))));
        assert_eq!(refs.parse(refs.pr_branch(job).as_str()), Some((OurRef::Job(job), refs.pr_branch(job))));
        for name in [
            "refs/heads/main".to_owned(),
            "refs/heads/aq/job/main".to_owned(),
            format!("refs/heads/aq/run/{job}/e03"),
            format!("refs/heads/aq/run/{job}/e3/more"),
            format!("refs/heads/aq/wip/{job}"),
            format!("refs/heads/other/job/{job}"),
            format!("refs/tags/aq/job/{job}"),
        ] {
            assert_eq!(refs.parse(&name), None, "{name}");
        }
    }

    // [F3] [§12]
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
