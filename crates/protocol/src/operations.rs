//! Operations: alerts, dead letters, products, tokens, health.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    FactoryId, FailureReason, Generation, JobId, Message, Product, ProductId, RepoName, ScoreWeights, Timestamp,
    TokenId, TokenScope,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::JobView;
use crate::metrics_history::StoreOperationCounts;

/// An alert for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// The kind of alert.
    pub code: AlertCode,
    /// The alert with its remedy.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// The affected job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The title of the affected job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_title: Option<String>,
    /// The affected factory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// The affected product: of the job, or of the alert as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProductId>,
    /// The credential, tracker, webhook, repository or document that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Number of affected jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// Time of the next automatic retry, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

/// The kinds of alerts [D4].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertCode {
    /// A job has waited too long for a seat.
    QueueStarvation,
    /// Jobs are waiting and no factory is live.
    NoLiveFactory,
    /// No live factory is eligible for a job.
    Unplaceable,
    /// No recent heartbeat from a factory.
    StaleFactory,
    /// A connected factory leaves offers unanswered, or declines them.
    UnresponsiveFactory,
    /// A pool should have started a factory, and none has joined in time, or one that does not fit.
    PoolNotStarting,
    /// A job is dead-lettered.
    DeadLetter,
    /// Jobs of a product failed in the last 24 hours.
    JobsFailed,
    /// Dispatching takes too long.
    DispatchLag,
    /// The broker deduplicated a new dispatch.
    DuplicateDispatch,
    /// A pull request used up its feedback rounds.
    ChangesExhausted,
    /// A job waits for an answer to its question.
    QuestionWaiting,
    /// The work of a job waits for review.
    ReviewWaiting,
    /// A factory cannot reach the remote of a repository.
    RemoteUnavailable,
    /// The coordinator stopped retrying a promotion or merge.
    MergeFailed,
    /// A job is blocked on a failed dependency.
    DependencyFailed,
    /// The state disk of a factory is too full for jobs, or the coordinator's disk is full.
    DiskFull,
    /// Jobs wait for an engine whose provider has an outage. The factory retries.
    EnginePaused,
    /// The account of a credential has no credit left.
    CredentialExhausted,
    /// A tracker does not take the status of jobs.
    TrackerUnreachable,
    /// An item of a tracker became no job.
    ItemRejected,
    /// The receiver of a webhook does not take its deliveries.
    WebhookFailing,
    /// A budget is nearly exhausted.
    BudgetWarning,
    /// A product is paused by its budget.
    BudgetPaused,
    /// An integrity check found the store damaged.
    StoreDamaged,
    /// A stored document is unreadable and was skipped.
    UnreadableDocument,
}

/// The open alerts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertList {
    /// Ordered by kind, then oldest first.
    pub items: Vec<Alert>,
}

/// A dead-lettered job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The job.
    pub job: JobView,
    /// Why.
    pub reason: FailureReason,
}

/// Dead-lettered jobs that were not dismissed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterList {
    /// The jobs, newest first.
    pub items: Vec<DeadLetter>,
    /// The `cursor` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Messages in the broker's dead-letter queue.
    pub mirrored: Vec<Message>,
}

/// Settings of a product.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProductSettings {
    /// The repositories it owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repos: Option<BTreeSet<RepoName>>,
    /// Whether the product is paused: it starts no new runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Whether promoted jobs are shipped without a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_ship: Option<bool>,
    /// Its share of the seats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Maximum number of concurrent jobs by repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_seats: Option<BTreeMap<RepoName, u32>>,
    /// The weights of its placement score, all of them: a term that is not in it gets the fleet's weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score_weights: Option<ScoreWeights>,
}

/// All products.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProductList {
    /// Ordered by name.
    pub items: Vec<Product>,
}

/// Queue state of a product; the version rises with every change [D1].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// The product.
    pub product_id: ProductId,
    /// Rises on every submit and stage change.
    pub version: u64,
    /// Number of jobs waiting for a seat.
    pub pending_count: u64,
}

/// A token to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateTokenRequest {
    /// Its name. Events record it as their actor.
    pub name: String,
    /// What it allows.
    pub grant: TokenScope,
    /// Lifetime in seconds. Absent: never expires, or one hour for a join token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// The person that the token belongs to. All tokens of one owner are one reviewer, and one author. The token's name
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The person's login on the forge: approvals of pull requests by it count as the person's votes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forge_login: Option<String>,
}

/// A new token: the secret is shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateTokenResponse {
    /// The token's metadata.
    pub token: TokenView,
    /// The secret.
    pub secret: String,
    /// For a join token: how another machine reaches this coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<CoordinatorAddress>,
}

/// How another machine reaches a coordinator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorAddress {
    /// Base addresses, the preferred one first; empty if only local programs can reach the coordinator.
    pub addresses: Vec<String>,
    /// `sha256:` and the fingerprint of its certificate, unless a public authority issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// Metadata of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    /// Its public id.
    pub id: TokenId,
    /// Its name. Events record it as their actor.
    pub name: String,
    /// What it allows.
    pub grant: TokenScope,
    /// When the token was created.
    pub created_at: Timestamp,
    /// When the token expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The person that the token belongs to; the token's name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The person's login on the forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forge_login: Option<String>,
}

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenList {
    /// Oldest first.
    pub items: Vec<TokenView>,
}

/// Health of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok`, or the error.
    pub status: String,
    /// The program's version.
    pub version: String,
    /// The wire protocol's version.
    pub protocol: u32,
    /// The generation of the store.
    #[serde(default)]
    pub generation: Generation,
    /// Its role among several coordinators; absent where there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<CoordinatorRole>,
    /// The number of the leadership: it rises when another coordinator takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
}

/// The role of one of several coordinators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoordinatorRole {
    /// It decides, and answers every request itself.
    Leader,
    /// It forwards requests to the leader.
    Follower,
}

/// Metrics of the fleet [D4].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Jobs by stage.
    pub jobs: BTreeMap<String, u64>,
    /// Number of jobs waiting for a seat.
    pub waiting: u64,
    /// Number of published messages that are not accepted.
    pub depth: u64,
    /// Seats in use.
    pub seats_used: u64,
    /// Total number of seats.
    pub seats: u64,
    /// Time from dispatchable to dispatched of the last dispatched job, in milliseconds.
    pub dispatch_lag_ms: u64,
    /// Number of claims and writes refused as fenced or superseded.
    pub conflicts: u64,
    /// Number of dead-lettered jobs.
    pub dead_letters: u64,
    /// Store operations by kind, since the start.
    pub store_operations: BTreeMap<String, u64>,
    /// What the coordinator used the store for since the start: reads and written records by purpose.
    #[serde(default)]
    pub store_use: BTreeMap<String, StoreOperationCounts>,
    /// Unknown request keys and query parameters of workers since the start. They were ignored.
    #[serde(default)]
    pub ignored_request_keys: u64,
}
