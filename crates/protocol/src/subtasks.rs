//! Subtasks that the agent of a run creates [B11].

use domain::{Checkpoint, CommitSha, Epoch, JobId, RunInsights, StageName, TotalSpend};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum length of the instructions of a subtask.
pub const SUBTASK_INSTRUCTIONS_LEN_MAX: usize = 32 * 1024;

/// Maximum length of the key of a subtask.
pub const SUBTASK_KEY_LEN_MAX: usize = 64;

/// Maximum length of the title of a subtask.
pub const SUBTASK_TITLE_CHARS_MAX: usize = 200;

/// What an agent says about a subtask. Everything else is its parent's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewSubtask {
    /// One line for people.
    pub title: String,
    /// The instructions for its agent, in Markdown.
    pub instructions: String,
    /// US dollars to reserve for it of the parent's budget. Required if that has a limit; what is left, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 1_000_000_000)]
    pub usd: Option<f64>,
    /// Tokens to reserve for it of the parent's budget. Required if that has a limit; what is left, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Whether it may finish without changing a file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_empty: bool,
    /// Its name among the subtasks of the parent: the same key gives the same subtask. Made of title and instructions
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Creates a subtask of a running job, for its agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubtaskRequest {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// The subtask.
    pub subtask: NewSubtask,
    /// What the run has cost so far.
    #[serde(default)]
    pub insights: RunInsights,
}

/// The answer to the creation of a subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubtaskResponse {
    /// The subtask.
    pub id: JobId,
    /// Its stage.
    pub stage: StageName,
    /// Whether this call created it.
    pub created: bool,
    /// US dollars reserved for it; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens reserved for it; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What is left for the parent and further subtasks.
    pub left: SubtaskBudget,
}

/// What is left for further subtasks of a job. An absent limit is no limit; a limit that is used up is 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubtaskBudget {
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// How many more subtasks the job can have.
    pub subtasks: u32,
}

/// The subtasks of a job, in the order of their creation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubtaskList {
    /// The subtasks.
    pub items: Vec<SubtaskView>,
    /// What is left for further subtasks, without what the current run has cost since its last report.
    pub left: SubtaskBudget,
}

/// A subtask, for the agent that created it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubtaskView {
    /// Its id.
    pub id: JobId,
    /// Title.
    pub title: String,
    /// The current stage.
    pub stage: StageName,
    /// Whether its work is verified or it has ended: `wait_for_subtasks` waits for it no more.
    pub settled: bool,
    /// The commit that it completed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitSha>,
    /// The final message of its last run's agent, why it failed, or what it asks a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The cost of its ended runs.
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    pub spent: TotalSpend,
}

/// Ends a run whose agent waits for its subtasks. Frees lease and seat, and counts no attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubtaskWaitReport {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// Saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Cost of the run.
    #[serde(default)]
    pub insights: RunInsights,
}
