//! The parameters of the fleet's tools. Unknown names are rejected: an ignored one would look like success.

use domain::{ProductId, RepoName, StageName};
use schemars::JsonSchema;
use serde::Deserialize;

/// A manifest to submit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// Markdown with YAML front matter; `profile: NAME` there adds a persona
    pub(super) manifest: String,
    /// Idempotency key (default: derived from the manifest)
    pub(super) key: Option<String>,
    /// Parent of a child job: its id, or `key:` and its key
    pub(super) parent: Option<String>,
    /// Product, if the manifest names none
    #[schemars(with = "Option<String>")]
    pub(super) product: Option<ProductId>,
}

/// A manifest to check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckedManifest {
    /// Markdown with YAML front matter
    pub(super) manifest: String,
    /// Product, if the manifest names none
    #[schemars(with = "Option<String>")]
    pub(super) product: Option<ProductId>,
}

/// The jobs to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobQuery {
    /// Only these stages
    #[schemars(with = "Option<Vec<Stage>>")]
    #[serde(default)]
    pub(super) stages: Vec<StageName>,
    #[schemars(with = "Option<String>")]
    pub(super) product: Option<ProductId>,
    #[schemars(with = "Option<String>")]
    pub(super) repo: Option<RepoName>,
    /// Only jobs with all of these tags
    #[schemars(with = "Option<Vec<String>>")]
    #[serde(default)]
    pub(super) tags: Vec<String>,
    /// Words of the title, or the beginning or end of an id
    pub(super) text: Option<String>,
    /// Page size (default 20)
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: Option<u16>,
    /// `next` of the previous page
    pub(super) cursor: Option<String>,
}

/// A stage, for the schema.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum Stage {
    Queued,
    Blocked,
    Assigned,
    Building,
    Review,
    Testing,
    Shipped,
    Failed,
    DeadLetter,
}

/// The budgets to show.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetQuery {
    /// Product (default: all)
    #[schemars(with = "Option<String>")]
    pub(super) product: Option<ProductId>,
}

/// One job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneJob {
    pub(super) id: String,
}

/// The events to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventQuery {
    pub(super) id: String,
    /// `next` of the previous page, or a `cursor` of wait_for_job
    pub(super) after: Option<String>,
    /// Page size (default 20)
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: Option<u16>,
}

/// The part of a log to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogQuery {
    pub(super) id: String,
    /// Run number from 1 (default: the latest)
    #[schemars(range(min = 1))]
    pub(super) run: Option<u32>,
    /// Length of the tail (default 8000)
    #[schemars(range(min = 1, max = 64_000))]
    pub(super) tail_bytes: Option<u32>,
}

/// What to wait for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    pub(super) id: String,
    /// finished (default): done, failed, or waiting for a person; testing: verified; shipped: merged
    #[serde(default)]
    #[schemars(with = "Option<Until>")]
    pub(super) until: Until,
    /// Seconds (default 45)
    #[schemars(range(min = 1))]
    pub(super) timeout_s: Option<u64>,
}

/// The state that a wait ends with. A job that cannot get there without a person ends it too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Until {
    #[default]
    Finished,
    Testing,
    Shipped,
}

/// The answer to a job's question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub(super) id: String,
    /// Empty: the agent decides by itself
    pub(super) answer: String,
}

/// The job to cancel.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancellation {
    pub(super) id: String,
    pub(super) reason: Option<String>,
}

/// No parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}
