//! What a job asks for: the parsed snapshot of its manifest [J1]. Written once, with the job; never changed afterwards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::JobId;
use crate::names::{BranchName, Capability, EngineName, ProductId, RepoName, Tag};

/// The parsed snapshot of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// One line for people. Taken from the first heading when the front matter has none.
    pub title: String,
    /// The product that the job belongs to; the submitter's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<ProductId>,
    /// The repository to work in. Without one the job runs in an empty folder and changes no repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The branch to start from and merge into; the repository's own default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<BranchName>,
    /// The named persona with its defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Tokens that a factory must advertise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// Engines that may run it, in order of preference; any when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineName>,
    /// The model that the job's one engine is asked to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that each engine is asked to use.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<EngineName, String>,
    /// How urgent the job is.
    pub priority: Priority,
    /// What the job may cost.
    pub budget: Budget,
    /// Jobs that must end well first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<Dep>,
    /// Whether all of `deps` are needed, or any one.
    pub deps_mode: DepsMode,
    /// What a failed dependency does to this job.
    pub on_dep_failure: OnDepFailure,
    /// Whether the job is work itself or follows its children.
    pub kind: Kind,
    /// Commands that run after the agent and before the commit: what they change is part of the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Commands that must succeed before the work counts as done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
    /// Whether work that changes no file of its repository counts as done too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_empty: bool,
    /// Who must approve; nobody when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// How often and how fast a failure is tried again; the fleet's own policy when absent.
    pub retry: Retry,
    /// Whether a critical job may take this one's seat.
    pub preemptible: bool,
    /// Globs of the files that the job will change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<String>,
    /// Labels for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Keys that we do not know, kept as they were.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, serde_json::Value>,
}

impl Spec {
    /// The model that an engine is asked to use: its own of `models`, or `model` if the job names this engine alone.
    pub fn model_for(&self, engine: &EngineName) -> Option<&str> {
        let only = || self.model.as_ref().filter(|_| self.engines == [engine.clone()]);
        self.models.get(engine).or_else(only).map(String::as_str)
    }
}

/// How urgent a job is. The order is the order of service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Before everything else; may preempt.
    Critical,
    /// Before normal work.
    High,
    /// The ordinary case.
    #[default]
    Normal,
    /// When nothing else waits.
    Low,
}

impl Priority {
    /// All of them, most urgent first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Normal, Self::Low];

    /// The word in manifests and JSON.
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

/// What a job may cost. Absent means the product's own limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Wall-clock time of the engine, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Tokens in and out together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// A job that must end well first, by id or by the idempotency key it was submitted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Dep {
    /// The job itself.
    Id(JobId),
    /// The job that the same product submitted under this key; written `key:<idempotencyKey>`.
    Key(String),
}

impl Dep {
    /// The job that is meant, seen from a job of `product`.
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

/// What a failed dependency does to the job that waits for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDepFailure {
    /// It stays blocked, and says on what.
    #[default]
    Block,
    /// It fails with `dep_failed`.
    Fail,
    /// It runs as if the dependency had been met.
    Ignore,
}

/// Whether a job is work itself or follows its children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Work for one agent.
    #[default]
    Task,
    /// Fans out to children and follows them.
    Composite,
}

/// Who must approve before a job is tested and shipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// How many approvals are needed.
    pub quorum: u32,
    /// Who may approve; anybody but the author when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
}

/// How often and how fast a failure is tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    /// Attempts in all, the first included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The first pause; each further one is twice as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
}
