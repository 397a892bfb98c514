//! Running the fleet: alerts, dead letters, products, tokens, health.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    FactoryId, FailureReason, Generation, JobId, Message, Product, ProductId, RepoName, Timestamp, TokenId, TokenScope,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::JobView;

/// Something that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// What kind.
    pub code: AlertCode,
    /// In words, with the remedy.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// The job it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The title of that job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_title: Option<String>,
    /// The factory it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// How many jobs it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// When what it is about is tried again by itself, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

/// The kinds of alerts [D4].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertCode {
    /// A job has waited too long for a seat.
    QueueStarvation,
    /// There is work and no factory.
    NoLiveFactory,
    /// No live factory can run a job.
    Unplaceable,
    /// A factory has gone silent.
    StaleFactory,
    /// A connected factory leaves offers unanswered, or declines them.
    UnresponsiveFactory,
    /// A job is in the dead letters.
    DeadLetter,
    /// Jobs of a product failed in the last 24 hours.
    JobsFailed,
    /// Dispatching takes too long.
    DispatchLag,
    /// A broker called a new dispatch a duplicate.
    DuplicateDispatch,
    /// A pull request has sent its job back too often.
    ChangesExhausted,
    /// A job waits for a person's answer.
    Question,
    /// A factory cannot reach the remote of a repository.
    RemoteUnavailable,
    /// A job is done and its promotion or merge was given up.
    MergeFailed,
    /// A job is blocked on a dependency that failed.
    DependencyFailed,
    /// The state disk of a factory is too full for work, or the coordinator's disk has no space left.
    DiskFull,
    /// Jobs wait for an engine whose provider is not available; its factory tries it again by itself.
    EnginePaused,
    /// The account behind a credential has no credit left.
    CredentialExhausted,
    /// A budget is nearly used up.
    BudgetWarning,
    /// A product is paused by its budget.
    BudgetPaused,
    /// A check found the store damaged.
    StoreDamaged,
    /// A stored document cannot be read and is passed over.
    UnreadableDocument,
}

/// What a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertList {
    /// By kind, then oldest first.
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
    /// What to pass as `cursor` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What the broker's own dead-letter channel shows.
    pub mirrored: Vec<Message>,
}

/// What can be set about a product.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProductSettings {
    /// The repositories it owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repos: Option<BTreeSet<RepoName>>,
    /// Starts nothing new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Ships by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_ship: Option<bool>,
    /// Its share of the seats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Jobs at one time by repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_seats: Option<BTreeMap<RepoName, u32>>,
}

/// All products.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProductList {
    /// In order of name.
    pub items: Vec<Product>,
}

/// What waits, by product; the version rises with every change [D1].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// The product.
    pub product_id: ProductId,
    /// Rises on job create and every stage change.
    pub version: u64,
    /// Jobs that wait for a seat.
    pub pending_count: u64,
}

/// A token to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateTokenRequest {
    /// For people: whose it is.
    pub name: String,
    /// What it allows.
    pub grant: TokenScope,
    /// How long it lives, in seconds; for ever when absent, one hour for a join token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// A new token: the secret is shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateTokenResponse {
    /// What is known about it.
    pub token: TokenView,
    /// The secret.
    pub secret: String,
    /// Of a join token: how another machine reaches this coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<CoordinatorAddress>,
}

/// How another machine reaches a coordinator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorAddress {
    /// Base addresses, the best first; none where only programs of its own machine reach it.
    pub addresses: Vec<String>,
    /// `sha256:` and the fingerprint of its certificate, where no public authority vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// What is known about a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    /// Its public name.
    pub id: TokenId,
    /// Whose it is.
    pub name: String,
    /// What it allows.
    pub grant: TokenScope,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenList {
    /// Oldest first.
    pub items: Vec<TokenView>,
}

/// Whether the coordinator can serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok`, or what is wrong.
    pub status: String,
    /// The program's version.
    pub version: String,
    /// The wire protocol's version.
    pub protocol: u32,
    /// How often the store was put back from a backup.
    #[serde(default)]
    pub generation: Generation,
}

/// The figures of the fleet [D4].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Jobs by stage.
    pub jobs: BTreeMap<String, u64>,
    /// Jobs that wait for a seat.
    pub waiting: u64,
    /// Messages that are out and not accepted.
    pub depth: u64,
    /// Seats in use.
    pub seats_used: u64,
    /// Seats in all.
    pub seats: u64,
    /// How long the last dispatched job had waited since it became dispatchable, in milliseconds.
    pub dispatch_lag_ms: u64,
    /// Claims and writes that were refused as fenced or superseded.
    pub conflicts: u64,
    /// Jobs in the dead letters.
    pub dead_letters: u64,
    /// Store operations by kind, since the start.
    pub store_operations: BTreeMap<String, u64>,
    /// Request keys and query parameters of workers that this release does not know, since the start: they were ignored.
    #[serde(default)]
    pub ignored_request_keys: u64,
}
