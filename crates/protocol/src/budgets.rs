//! Budgets of products, what they have spent, and reports of costs [T2].

use domain::{
    BudgetPeriod, Epoch, LedgerEntry, MoneyWait, Pause, PausePeriod, ProductId, RunningWork, SpendProjection,
    StageName, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The budget of a product, with what it has spent in the current period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetView {
    /// The product.
    pub product_id: ProductId,
    /// The most that the product may spend per period, in US dollars; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_usd: Option<f64>,
    /// The period, in UTC.
    pub period: BudgetPeriod,
    /// What a job without `budget.usd` reserves while it runs, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_usd: Option<f64>,
    /// What happens to running jobs when the product is paused.
    pub running: RunningWork,
    /// Whether ceilings are enforced.
    pub enforced: bool,
    /// Whether a person paused the product.
    pub paused: bool,
    /// Who paused it, when and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Why jobs of the product wait for money; absent while they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<MoneyWait>,
    /// When the period began; absent if it has no beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// When the next period begins; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Spent in the period, in US dollars, running jobs included.
    pub spent_usd: f64,
    /// The part of it that running jobs have spent so far.
    pub running_usd: f64,
    /// Reserved for running jobs beyond what they have spent.
    pub reserved_usd: f64,
    /// Left of the ceiling after what is spent and reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_usd: Option<f64>,
    /// The spent share of the ceiling, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<f64>,
    /// What subscriptions covered in the period, in US dollars. It does not count against the ceiling.
    pub subscription_usd: f64,
    /// Where the spending leads.
    pub projection: SpendProjection,
    /// Runs that ended in the period.
    #[schema(minimum = 0)]
    pub runs: u64,
    /// Those that failed, or lost their lease.
    #[schema(minimum = 0)]
    pub failed_runs: u64,
    /// Those whose engine did not report its cost.
    #[schema(minimum = 0)]
    pub runs_without_cost: u64,
    /// Jobs whose commit was merged in the period.
    #[schema(minimum = 0)]
    pub merged: u64,
    /// The cost of a merged pull request, failed attempts included; absent if none was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_merged_usd: Option<f64>,
    /// By engine, the most expensive one first.
    pub by_engine: Vec<SpendShare>,
    /// By repository, the most expensive one first.
    pub by_repo: Vec<SpendShare>,
    /// By profile, the most expensive one first.
    pub by_profile: Vec<SpendShare>,
    /// The latest recorded costs, newest first.
    pub recent: Vec<LedgerEntry>,
}

/// What one engine, repository or profile has spent in the period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpendShare {
    /// Its name.
    pub name: String,
    /// US dollars.
    pub usd: f64,
    /// What subscriptions covered.
    pub subscription_usd: f64,
    /// Runs that ended.
    #[schema(minimum = 0)]
    pub runs: u64,
    /// Those that failed, or lost their lease.
    #[schema(minimum = 0)]
    pub failed_runs: u64,
}

/// The budgets of all products that the caller may see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetList {
    /// In order of name.
    pub items: Vec<BudgetView>,
}

/// How the money of a period was spent over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BurnDown {
    /// The product.
    pub product_id: ProductId,
    /// The period.
    pub period: BudgetPeriod,
    /// When the first point is.
    pub from: Timestamp,
    /// When the period ends; absent if it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The ceiling; absent if there is none, or if it is for another period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_usd: Option<f64>,
    /// What had been spent, oldest first, from the begin of the period up to now.
    pub points: Vec<BurnDownPoint>,
    /// Where it leads.
    pub projection: SpendProjection,
    /// Pauses by people that overlap the period.
    pub pauses: Vec<PausePeriod>,
}

/// What had been spent at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BurnDownPoint {
    /// The time.
    pub at: Timestamp,
    /// US dollars since the begin of the period.
    pub spent_usd: f64,
}

/// Pauses a product.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PauseRequest {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 10_000)]
    pub reason: Option<String>,
}

/// Reports what a run has cost so far, also of a run whose lease has ended: it was spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageRequest {
    /// The epoch of the run's lease.
    pub lease_epoch: Epoch,
    /// The meter that counted it, for what the run's own sums do not include. Its sums only grow: repeated and reordered
    /// reports change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = "^[!-~]{1,64}$")]
    pub usage_id: Option<String>,
    /// US dollars since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Input tokens since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Output tokens since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
}

/// The answer to a usage report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageResponse {
    /// The job's stage, which the report did not change.
    pub stage: StageName,
    /// What the job's ended runs have cost, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_usd: Option<f64>,
}
