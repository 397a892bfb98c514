//! Failed promotions and merges, for lists, alerts and explanations.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::JobId;
use crate::lease::ErrandKind;
use crate::names::{BranchName, CommitSha};

/// Attempts at one promotion or merge before the coordinator stops retrying.
pub const ERRAND_TRIES_MAX: u32 = 8;

/// Maximum number of files named in a message.
const FILES_NAMED_MAX: usize = 3;

/// A failed promotion or merge. The coordinator retries while `triesLeft` is not zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MergeFailure {
    /// What failed: `promote` pushes the job's branch, `ship` merges it.
    pub errand: ErrandKind,
    /// The factory's error message.
    pub message: String,
    /// The base branch, for a merge conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BranchName>,
    /// The commit of the base branch in the failed merge, for a merge conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_sha: Option<CommitSha>,
    /// The files in conflict, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The shipped job that it conflicts with, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts_with: Option<ConflictingJob>,
    /// Number of remaining retries.
    pub tries_left: u32,
    /// Whether the coordinator stopped retrying; a maintainer has to act.
    pub given_up: bool,
}

/// A shipped job that conflicts with another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConflictingJob {
    /// The job.
    pub job_id: JobId,
    /// Its title, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The last failed promotion or merge, as stored in the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailedErrand {
    pub(crate) errand: ErrandKind,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) conflicts_with: Option<ConflictingJob>,
}

impl fmt::Display for MergeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.errand {
            ErrandKind::Promote => "push",
            ErrandKind::Ship => "merge",
        };
        write!(f, "{what} failed: ")?;
        match self.files.as_slice() {
            [] => f.write_str(&self.message)?,
            files => {
                let named = files.iter().take(FILES_NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
                write!(f, "conflict in {named}")?;
                match files.len().saturating_sub(FILES_NAMED_MAX) {
                    0 => {}
                    1 => f.write_str(" and 1 more file")?,
                    more => write!(f, " and {more} more files")?,
                }
                match &self.conflicts_with {
                    Some(other) => write!(f, " with job {}", other.job_id.perhaps_titled(other.title.as_deref()))?,
                    None => {
                        if let Some(base) = &self.base {
                            write!(f, " with `{base}`")?;
                        }
                    }
                }
            }
        }
        match self.tries_left {
            0 => Ok(()),
            1 => f.write_str(", 1 try left"),
            tries => write!(f, ", {tries} tries left"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> MergeFailure {
        MergeFailure {
            errand: ErrandKind::Ship,
            message: "the remote did not answer".to_owned(),
            base: None,
            base_sha: None,
            files: Vec::new(),
            conflicts_with: None,
            tries_left: 0,
            given_up: true,
        }
    }

    #[test]
    fn a_conflict_names_its_files_and_the_other_job() {
        let other = "0190f3a4-7c1e-7b52-9d0a-1f2e34f1c689".parse().unwrap();
        let conflicts_with = Some(ConflictingJob { job_id: other, title: Some("Fix the login".to_owned()) });
        let base = Some("main".parse().unwrap());
        let files = |count: u32| (1..=count).map(|n| format!("{n}.txt")).collect::<Vec<_>>();

        let known = MergeFailure { files: files(1), conflicts_with, base: base.clone(), ..failure() };
        let unknown = MergeFailure { files: files(5), base, ..failure() };

        assert_eq!(known.to_string(), "merge failed: conflict in 1.txt with job 4f1c689 \"Fix the login\"");
        assert_eq!(unknown.to_string(), "merge failed: conflict in 1.txt, 2.txt, 3.txt and 2 more files with `main`");
    }

    #[test]
    fn a_retried_failure_counts_its_attempts() {
        let again = MergeFailure { tries_left: 3, given_up: false, errand: ErrandKind::Promote, ..failure() };

        assert_eq!(again.to_string(), "push failed: the remote did not answer, 3 tries left");
    }
}
