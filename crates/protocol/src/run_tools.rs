//! The socket between an agent's tools and the factory that runs it: one JSON line each way per connection.
//!
//! A request names no job and shows no token: the socket belongs to one run, and the factory adds the rest.

use domain::{ArtifactName, BranchName, Checkpoint, CommitSha, FactoryId, JobId, ProductId, RepoName};
use serde::{Deserialize, Serialize};

use crate::subtasks::{NewSubtask, SubtaskList, SubtaskResponse};

/// Maximum length of a line. The longest has the instructions of a subtask, escaped.
pub const RUN_LINE_LEN_MAX: usize = 256 * 1024;

/// Maximum length of a question. People answer short ones.
pub const RUN_QUESTION_LEN_MAX: usize = 8_000;

/// A request of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "op", deny_unknown_fields)]
pub enum RunRequest {
    // Braces, because a variant without them would accept unknown members.
    /// Which tools this run has.
    Offer {},
    /// What the run is about, and what is left of its budget.
    Context {},
    /// What the agent does now.
    Progress {
        /// One line.
        text: String,
    },
    /// Parks the job with a question to a person.
    Ask {
        /// The question.
        question: String,
    },
    /// Saves the work in progress now.
    Checkpoint {},
    /// Creates a subtask.
    CreateSubtask {
        /// The subtask.
        subtask: NewSubtask,
    },
    /// Shows the subtasks.
    ListSubtasks {},
    /// Parks the job until its subtasks have ended.
    AwaitSubtasks {},
    /// Attaches a file to the job.
    Attach {
        /// The file: relative to the working directory, or absolute within it.
        path: String,
        /// The name of the artifact; the path when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

/// The factory's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase", tag = "answer")]
pub enum RunAnswer {
    /// The tools of this run.
    Offer {
        /// Their names.
        tools: Vec<RunTool>,
    },
    /// The run.
    Context(Box<RunContext>),
    /// The progress is shown.
    Noted,
    /// The job is parked: the agent should stop.
    Parked {
        /// The saved work; none without a repository, or if there was nothing to save.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<CommitSha>,
    },
    /// The work is saved.
    Saved {
        /// The commit; none if there was nothing to save.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<CommitSha>,
    },
    /// The subtask.
    Subtask(Box<SubtaskResponse>),
    /// The subtasks.
    Subtasks(Box<SubtaskList>),
    /// The file is attached.
    Attached {
        /// The name of the artifact.
        name: ArtifactName,
        /// Its size.
        bytes: u64,
    },
    /// The factory did not do it.
    Refused {
        /// The stable code.
        code: String,
        /// What happened, and the remedy.
        message: String,
    },
}

/// A tool of a run. Only those that can work are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTool {
    /// Always.
    GetContext,
    /// Always.
    ReportProgress,
    /// Where a person can answer.
    AskHuman,
    /// Where there is a repository.
    SaveCheckpoint,
    /// Where the job may have subtasks.
    CreateSubtask,
    /// Where the job may have subtasks.
    ListSubtasks,
    /// Where the job may have subtasks.
    WaitForSubtasks,
    /// Always.
    AttachArtifact,
}

impl RunTool {
    /// The name of the tool.
    pub fn name(self) -> &'static str {
        match self {
            Self::GetContext => "get_context",
            Self::ReportProgress => "report_progress",
            Self::AskHuman => "ask_human",
            Self::SaveCheckpoint => "save_checkpoint",
            Self::CreateSubtask => "create_subtask",
            Self::ListSubtasks => "list_subtasks",
            Self::WaitForSubtasks => "wait_for_subtasks",
            Self::AttachArtifact => "attach_artifact",
        }
    }
}

/// What a run is about. Absent limits are not limited; a limit that is used up is 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunContext {
    /// The job.
    pub job_id: JobId,
    /// Its title.
    pub title: String,
    /// The product that owns the job.
    pub product_id: ProductId,
    /// The factory.
    pub factory_id: FactoryId,
    /// Which attempt at the job this is, from 1.
    pub attempt: u32,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The base branch, if the job names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BranchName>,
    /// The dependencies of the job; they were merged before it started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<JobId>,
    /// US dollars left of the job's budget, as far as the engine reports its cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_left: Option<f64>,
    /// Tokens left of the job's budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_left: Option<u64>,
    /// Seconds until the run is stopped.
    pub seconds_left: u64,
    /// The last saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_names_a_job_is_rejected() {
        let with_job = r#"{"op": "checkpoint", "jobId": "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a"}"#;

        assert!(serde_json::from_str::<RunRequest>(with_job).is_err());
        assert_eq!(serde_json::from_str::<RunRequest>(r#"{"op": "checkpoint"}"#).unwrap(), RunRequest::Checkpoint {});
    }
}
