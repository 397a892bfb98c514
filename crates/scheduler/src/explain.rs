//! Explains where a job would be placed and why [S4].

use domain::{EngineName, FactoryId, Shape};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::constraints::Constraints;
use crate::diagnose::diagnose;
use crate::fleet::{IndexedFactory, Load};
use crate::ineligible::Ineligible;
use crate::overlay::FleetOverlay;
use crate::score::{Score, Weights};
use crate::unplaced::Unplaced;
use crate::view::{Demand, FleetView};

/// Where a job would be placed now, with every factory's eligibility and score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The job's constraints.
    pub shape: Shape,
    /// The placement, or why the job waits.
    pub answer: ExplainedOutcome,
    /// The outcome in one sentence.
    pub text: String,
    /// The weights of the score.
    pub weights: Weights,
    /// Every factory, by id. Empty in the answer to a submit.
    pub factories: Vec<FactoryFit>,
}

/// The outcome of a placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "outcome")]
pub enum ExplainedOutcome {
    /// The job would run on this factory.
    Goes {
        /// The factory.
        factory: FactoryId,
        /// The engine whose seat it would use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        engine: Option<EngineName>,
    },
    /// No factory is eligible now.
    Waits {
        /// The reason.
        why: Unplaced,
        /// Whether an operator has to act: a free seat will not help.
        unplaceable: bool,
    },
}

/// Eligibility and score of one factory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactoryFit {
    /// The factory.
    pub factory: FactoryId,
    /// Whether the factory is eligible.
    pub eligible: bool,
    /// Whether the factory is the last resort, because the job avoids it.
    pub avoided: bool,
    /// Reasons against the factory, the most severe first.
    pub unfit: Vec<Ineligible>,
    /// The score, eligible or not.
    pub score: Score,
    /// Rank among the eligible factories, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

impl Explanation {
    /// The explanation of a job that is already placed.
    pub fn placed(shape: Shape, factory: FactoryId, engine: Option<EngineName>, weights: &Weights) -> Self {
        Self::of(shape, ExplainedOutcome::Goes { factory, engine }, weights, Vec::new())
    }

    fn of(shape: Shape, answer: ExplainedOutcome, weights: &Weights, factories: Vec<FactoryFit>) -> Self {
        let text = match &answer {
            ExplainedOutcome::Goes { factory, engine: Some(engine) } => {
                format!("will run on {factory} with engine {engine}")
            }
            ExplainedOutcome::Goes { factory, engine: None } => format!("will run on {factory}"),
            ExplainedOutcome::Waits { why, .. } => why.to_string(),
        };
        Self { shape, answer, text, weights: *weights, factories }
    }
}

/// Where a job would be placed now, computed from the indexes only: as fast as the decision itself.
pub fn forecast(view: &FleetView, demand: Demand) -> Explanation {
    explanation(&FleetOverlay::of(view), demand, Vec::new())
}

/// Explains where a job would be placed now. Visits every factory: for people, not for decisions.
pub fn explain(view: &FleetView, demand: Demand) -> Explanation {
    let overlay = FleetOverlay::of(view);
    let constraints = overlay.constraints(demand);
    let mut rows: Vec<(Load, FactoryFit)> =
        view.fleet.members().map(|member| row(&overlay, &constraints, member)).collect();
    rank(&mut rows);
    explanation(&overlay, demand, rows.into_iter().map(|(_, fit)| fit).collect())
}

fn explanation(overlay: &FleetOverlay, demand: Demand, factories: Vec<FactoryFit>) -> Explanation {
    let constraints = overlay.constraints(demand);
    let answer = match overlay.choose(&constraints) {
        Some(choice) => ExplainedOutcome::Goes { factory: choice.factory.clone(), engine: choice.engine.cloned() },
        None => {
            let why = diagnose(overlay, &constraints);
            ExplainedOutcome::Waits { unplaceable: why.is_unplaceable(), why }
        }
    };
    Explanation::of(demand.shape.clone(), answer, &constraints.weights, factories)
}

fn row(overlay: &FleetOverlay, constraints: &Constraints, member: &IndexedFactory) -> (Load, FactoryFit) {
    let factory = member.rank.factory.clone();
    let unfit = Ineligible::all(member, &overlay.candidate(member, constraints), constraints);
    let fit = FactoryFit {
        eligible: unfit.is_empty(),
        avoided: constraints.avoid == Some(&factory),
        unfit,
        score: overlay.assess(member, constraints).score,
        rank: None,
        factory,
    };
    (overlay.rank(member).load, fit)
}

/// Orders factories as the decision does: avoided last, then higher score, lower load, id.
fn rank(rows: &mut [(Load, FactoryFit)]) {
    let mut eligible: Vec<&mut (Load, FactoryFit)> = rows.iter_mut().filter(|(_, fit)| fit.eligible).collect();
    eligible.sort_by(|(left_load, left), (right_load, right)| {
        let by_score = right.score.total.total_cmp(&left.score.total);
        left.avoided
            .cmp(&right.avoided)
            .then(by_score)
            .then(left_load.cmp(right_load))
            .then(left.factory.cmp(&right.factory))
    });
    for (at, (_, fit)) in eligible.into_iter().enumerate() {
        fit.rank = u32::try_from(at + 1).ok();
    }
}
