//! The key of one run, which names its directories and files.

use std::fmt;
use std::str::FromStr;

use crate::{Epoch, JobId};

/// A job and the epoch of its lease: the name of a worktree, its metadata directory and its ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The job.
    pub job: JobId,
    /// The epoch.
    pub epoch: Epoch,
}

/// A name that is not `<job>-e<epoch>`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a run: expected `<job>-e<epoch>`")]
pub struct RunKeyError(String);

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-e{}", self.job, self.epoch)
    }
}

impl FromStr for RunKey {
    type Err = RunKeyError;

    fn from_str(text: &str) -> Result<Self, RunKeyError> {
        let parsed = text
            .rsplit_once("-e")
            .and_then(|(job, epoch)| Some(Self { job: job.parse().ok()?, epoch: Epoch(epoch.parse().ok()?) }));
        // `e007` and `e7` would be two directories for one run: only the canonical spelling counts.
        parsed.filter(|key| key.to_string() == text).ok_or_else(|| RunKeyError(crate::escape_for_terminal(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";

    #[test]
    fn a_key_survives_being_a_name() {
        let key = RunKey { job: JOB.parse().unwrap(), epoch: Epoch(12) };

        assert_eq!(key.to_string(), format!("{JOB}-e12"));
        assert_eq!(key.to_string().parse(), Ok(key));
    }

    #[test]
    fn a_run_has_one_name() {
        for name in ["", "..", "x-e1", &format!("{JOB}-e007"), &format!("{JOB}-e"), &format!("{JOB}-e1/..")] {
            assert!(name.parse::<RunKey>().is_err(), "{name:?}");
        }
    }
}
