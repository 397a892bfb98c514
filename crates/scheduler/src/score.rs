//! The score of a factory for a job [S3].

use std::time::Duration;

use domain::ScoreWeights;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// After this waiting time the starvation penalty is zero.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// The cost of the most expensive seat.
const COST_MAX: f64 = 100.0;

/// Weights of the score's terms. Negative weights count as zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Weights {
    /// Weight of few unused capabilities.
    pub capability_fit: f64,
    /// Weight of having the repository.
    pub affinity: f64,
    /// Weight of low load.
    pub idleness: f64,
    /// Weight of low cost.
    pub cost_fit: f64,
    /// Weight of successful runs.
    pub health: f64,
    /// Weight of the penalty for jobs that started to wait recently.
    pub starvation_penalty: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { capability_fit: 1.0, affinity: 0.5, idleness: 1.0, cost_fit: 0.75, health: 1.0, starvation_penalty: 1.5 }
    }
}

impl Weights {
    /// These weights, with the own ones of a product.
    #[must_use]
    pub fn with(&self, own: &ScoreWeights) -> Self {
        Self {
            capability_fit: own.capability_fit.unwrap_or(self.capability_fit),
            affinity: own.affinity.unwrap_or(self.affinity),
            idleness: own.idleness.unwrap_or(self.idleness),
            cost_fit: own.cost_fit.unwrap_or(self.cost_fit),
            health: own.health.unwrap_or(self.health),
            starvation_penalty: own.starvation_penalty.unwrap_or(self.starvation_penalty),
        }
    }
}

/// The score of a factory for a job: terms from 0 to 1, and their weighted sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// 1 ÷ (1 + rarity of the capabilities that the job does not use). The rarity of a capability is the share of live
    /// factories without it: rare capabilities stay free for the jobs that need them.
    pub capability_fit: f64,
    /// 1 if the factory has the repository.
    pub affinity: f64,
    /// 1 ÷ (1 + load), where the load is the reported one or the share of used seats, whichever is higher.
    pub idleness: f64,
    /// 1 − cost ÷ 100.
    pub cost_fit: f64,
    /// Success rate of its runs.
    pub health: f64,
    /// max(0, 1 − age ÷ 30 minutes): equal for all factories.
    pub starvation_penalty: f64,
    /// The weighted sum, minus the penalty.
    pub total: f64,
}

/// Inputs of a score.
pub(crate) struct Terms {
    /// Rarity of the unused capabilities.
    pub(crate) spare: f64,
    pub(crate) has_repo: bool,
    pub(crate) load: f64,
    pub(crate) cost: u8,
    pub(crate) health: f64,
    pub(crate) age: Duration,
}

impl Score {
    pub(crate) fn of(terms: &Terms, weights: &Weights) -> Self {
        let capability_fit = 1.0 / (1.0 + terms.spare);
        let affinity = if terms.has_repo { 1.0 } else { 0.0 };
        let idleness = 1.0 / (1.0 + terms.load);
        let cost_fit = 1.0 - (f64::from(terms.cost) / COST_MAX).min(1.0);
        let health = terms.health;
        let starvation_penalty = (1.0 - terms.age.as_secs_f64() / PATIENCE.as_secs_f64()).max(0.0);
        let total = weigh(weights.capability_fit, capability_fit)
            + weigh(weights.affinity, affinity)
            + weigh(weights.idleness, idleness)
            + weigh(weights.cost_fit, cost_fit)
            + weigh(weights.health, health)
            - weigh(weights.starvation_penalty, starvation_penalty);
        Self { capability_fit, affinity, idleness, cost_fit, health, starvation_penalty, total }
    }
}

/// The weighted term. A negative weight would reverse the order by load that the index relies on.
fn weigh(weight: f64, term: f64) -> f64 {
    if weight > 0.0 { weight * term } else { 0.0 }
}
