//! The parsed manifest of a job [J1]. Immutable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::JobId;
use crate::names::{BranchName, Capability, EngineName, ProductId, RepoName, Tag};
use crate::profile::ProfileRef;
use crate::review::Review;

/// A parsed manifest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Title. Taken from the first heading if the front matter has none.
    pub title: String,
    /// The product that owns the job; the submitter's product when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<ProductId>,
    /// The repository. Without one the job runs in an empty directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The branch to start from and merge into; the repository's default branch when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<BranchName>,
    /// The profile whose defaults are in this manifest, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileRef>,
    /// Required capabilities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// Engines that may run it, in order of preference; any when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineName>,
    /// The model for the job's only engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model by engine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<EngineName, String>,
    /// Priority in the queue.
    pub priority: Priority,
    /// Cost limits.
    pub budget: Budget,
    /// Jobs that must ship first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<Dep>,
    /// Whether all of `deps` are needed, or any one.
    pub deps_mode: DepsMode,
    /// What happens if a dependency fails.
    pub on_dep_failure: OnDepFailure,
    /// Task or composite.
    pub kind: Kind,
    /// Commands between the agent and the commit: their changes are part of the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Commands that must succeed before the job completes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
    /// Globs of files to attach to the job after a run: paths from the top of the worktree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// Whether a run without changed files completes too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_empty: bool,
    /// Required review; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// Retry policy; the fleet's policy when absent.
    pub retry: Retry,
    /// Whether a critical job may preempt this one.
    pub preemptible: bool,
    /// Globs of the files that the job will change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<String>,
    /// Labels for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Unknown keys, unchanged.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, serde_json::Value>,
}

impl Spec {
    /// The model for an engine: from `models`, or `model` if this is the job's only engine.
    pub fn model_for(&self, engine: &EngineName) -> Option<&str> {
        let only = || self.model.as_ref().filter(|_| self.engines == [engine.clone()]);
        self.models.get(engine).or_else(only).map(String::as_str)
    }
}

/// Priority of a job. The order is the order of service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// First; may preempt other jobs.
    Critical,
    /// Before normal work.
    High,
    /// The default.
    #[default]
    Normal,
    /// After all other jobs.
    Low,
}

impl Priority {
    /// All of them, most urgent first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Normal, Self::Low];

    /// The name in manifests and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    /// 0 for the most urgent.
    pub fn rank(self) -> u8 {
        self as u8
    }
}

/// Cost limits of a job. An absent limit is the product's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Wall-clock time of the engine, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Input and output tokens together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// A dependency, by id or by idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Dep {
    /// The job itself.
    Id(JobId),
    /// A job that the same product submitted with this idempotency key; written `key:<idempotencyKey>`.
    Key(String),
}

impl Dep {
    /// The id of the dependency, for a job of `product`.
    pub fn job(&self, product: &ProductId) -> JobId {
        match self {
            Self::Id(id) => *id,
            Self::Key(key) => JobId::derived(product, key),
        }
    }
}

impl utoipa::PartialSchema for Dep {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let text = utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::schema::Type::String);
        let text = text.description(Some("A job's id, or `key:` and the idempotency key it was submitted with."));
        text.examples(["key:ticket-42"]).into()
    }
}

impl ToSchema for Dep {}

impl From<Dep> for String {
    fn from(dep: Dep) -> String {
        match dep {
            Dep::Id(id) => id.to_string(),
            Dep::Key(key) => format!("key:{key}"),
        }
    }
}

impl TryFrom<String> for Dep {
    type Error = crate::ids::IdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.strip_prefix("key:") {
            Some(key) if !key.is_empty() => Ok(Self::Key(key.to_owned())),
            _ => text.parse().map(Self::Id),
        }
    }
}

/// Whether all dependencies are needed, or any one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DepsMode {
    /// Every dependency must be shipped.
    #[default]
    All,
    /// One shipped dependency is enough.
    Any,
}

/// What happens to a job if a dependency fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDepFailure {
    /// It stays blocked and reports the dependency.
    #[default]
    Block,
    /// It fails with `dep_failed`.
    Fail,
    /// It runs as if the dependency were met.
    Ignore,
}

/// Task or composite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Work for one agent.
    #[default]
    Task,
    /// Consists of child jobs and follows their progress.
    Composite,
}

/// Retry policy of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    /// Maximum number of attempts, including the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The first backoff; it doubles with each retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
}
