//! How well a factory suits a job [S3].

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A job that waited this long is not held back any more.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// The cost at which a seat is the dearest.
const COST_MAX: f64 = 100.0;

/// What counts how much. A weight below zero counts as zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Weights {
    /// Of a factory that offers little beyond what is asked for.
    pub capability_fit: f64,
    /// Of having the repository.
    pub affinity: f64,
    /// Of being idle.
    pub idleness: f64,
    /// Of being cheap.
    pub cost_fit: f64,
    /// Of runs that end well.
    pub health: f64,
    /// Against jobs that have only just begun to wait.
    pub starvation_penalty: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { capability_fit: 1.0, affinity: 0.5, idleness: 1.0, cost_fit: 0.75, health: 1.0, starvation_penalty: 1.5 }
    }
}

/// How well a factory suits a job: each term from 0 to 1, and their weighted sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// 1 ÷ (1 + rarity of what it offers and the job does not ask for). A token's rarity is the share of live
    /// factories that do not offer it, so what few have is kept for the jobs that need it.
    pub capability_fit: f64,
    /// 1 if the factory has the repository.
    pub affinity: f64,
    /// 1 ÷ (1 + load), where the load is the reported one or the share of taken seats, whichever is more.
    pub idleness: f64,
    /// 1 − cost ÷ 100.
    pub cost_fit: f64,
    /// How well its runs end.
    pub health: f64,
    /// max(0, 1 − age ÷ 30 minutes): the same for every factory.
    pub starvation_penalty: f64,
    /// The weighted sum. The penalty is taken off.
    pub total: f64,
}

/// What a score is made of.
pub(crate) struct Terms {
    /// Rarity of what is offered and not asked for.
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

/// The weighted term. Weights below zero would turn the order by load around, on which the index rests.
fn weigh(weight: f64, term: f64) -> f64 {
    if weight > 0.0 { weight * term } else { 0.0 }
}
