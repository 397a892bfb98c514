//! Plans in the API: one Markdown file becomes a tree of jobs [J4].

use domain::{Finding, JobId, Kind, ProductId, StageName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A plan to submit, or to check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRequest {
    /// The plan: Markdown with a `##` heading for each job, and `###` for the jobs below it.
    pub body_md: String,
    /// Beginning of the jobs' idempotency keys. Without one it follows from the text, so that the same plan is submitted
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 120)]
    pub key: Option<String>,
    /// The product, if the plan names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProductId>,
    /// Whether unknown keys are errors.
    #[serde(default)]
    pub strict: bool,
}

/// The answer to a plan: its jobs, all of them accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanResponse {
    /// The jobs, each after its parent; the root is first.
    pub jobs: Vec<PlannedJobView>,
    /// Whether this call created a job; `false` if the plan was already submitted, or on a dry run.
    pub created: bool,
    /// Warnings, each at the heading of its job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Finding>,
}

/// A job of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedJobView {
    /// The title.
    pub title: String,
    /// The line of its heading, counted from 1.
    pub line: u32,
    /// Whether it has a run of its own.
    pub kind: Kind,
    /// The place of its parent in the list; the root has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// The places of the jobs that ship first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
    /// The id, once it is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// The stage, once it is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageName>,
    /// Where it would run now; in a dry run, for a job with a run of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlannedPlacement>,
}

/// Where a job of a plan would run now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPlacement {
    /// The answer in one sentence.
    pub text: String,
    /// Whether no factory can run it: an operator has to act.
    pub unplaceable: bool,
}
