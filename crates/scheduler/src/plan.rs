//! Plans placements.

use std::sync::Arc;

use domain::{EngineName, FactoryId, JobId, Shape, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::diagnose::diagnose;
use crate::fair_share::{FairShare, ServiceOutcome};
use crate::overlay::{FleetOverlay, seat_of};
use crate::queue::QueuePosition;
use crate::score::{Score, Weights};
use crate::unplaced::Unplaced;
use crate::view::FleetView;

/// A proposal. The coordinator commits each placement, which may conflict, and plans again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The placements, in the order of service.
    pub placements: Vec<Placement>,
    /// Shapes with jobs left waiting. Shapes beyond the limit are not included.
    pub unplaced: Vec<UnplacedShape>,
}

/// The placement of one job on one factory.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The job.
    pub job: JobId,
    /// The target factory.
    pub factory: FactoryId,
    /// The engine whose seat it uses; `None` if the job names none and the factory has none.
    pub engine: Option<EngineName>,
    /// The winning score.
    pub score: Score,
    /// The weights of the score.
    pub weights: Weights,
    /// The factories that came next, best first.
    pub runners_up: Vec<RunnerUp>,
}

/// A factory that came after the chosen one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerUp {
    /// The factory.
    pub factory: FactoryId,
    /// Its score.
    pub total: f64,
}

/// Waiting jobs of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct UnplacedShape {
    /// Their constraints.
    pub shape: Arc<Shape>,
    /// Why they wait.
    pub why: Unplaced,
    /// Number of jobs.
    pub jobs: usize,
    /// The job that has waited longest.
    pub oldest: JobId,
    /// When it started to wait.
    pub since: Timestamp,
}

/// Places waiting jobs of products in push mode within the seat limits, in the order of [S7].
///
/// Equal views give equal plans. Of two factories with equal scores the less loaded one wins, then the lower id.
pub fn plan(view: &FleetView) -> Plan {
    let mut plan = Plan::default();
    let mut overlay = FleetOverlay::of(view);
    place_reserved(view, &mut overlay, &mut plan);
    let reserved = plan.placements.len();
    FairShare::pushed(view).serve(|next, turn| {
        if plan.placements.len() >= view.limit {
            return None;
        }
        if plan.placements.iter().take(reserved).any(|placement| placement.job == next.job) {
            return Some(ServiceOutcome::SkipJob);
        }
        let waiting = view.queue.get(&next.job)?;
        let constraints = overlay.constraints(waiting.demand());
        if let Some(choice) = overlay.choose(&constraints) {
            let placement = overlay.recorded(choice.placement(next.job, constraints.weights), &constraints);
            if plan.placements.len() + 1 < view.limit {
                overlay.occupy(&placement, &next.shape);
            }
            plan.placements.push(placement);
            return Some(ServiceOutcome::Placed);
        }
        let why = diagnose(&overlay, &constraints);
        plan.unplaced.extend(unplaced(&next.shape, why, turn.left(&next.shape)));
        Some(ServiceOutcome::SkipShape)
    });
    plan.unplaced.extend(paused(view));
    plan
}

/// Places jobs on the seats that are kept for them.
fn place_reserved(view: &FleetView, overlay: &mut FleetOverlay, plan: &mut Plan) {
    for (job, seat) in view.fleet.reservations() {
        let Some(waiting) = view.queue.get(job).filter(|waiting| view.pushes(&waiting.shape.product)) else { continue };
        if plan.placements.len() >= view.limit {
            return;
        }
        if let Some(placement) = overlay.at_reserved_seat(waiting, seat) {
            overlay.replace(Some(seat), &seat_of(&placement, &waiting.shape));
            plan.placements.push(placement);
        }
    }
}

fn paused<'a>(view: &'a FleetView) -> impl Iterator<Item = UnplacedShape> + 'a {
    let lines = view.queue.lines().filter(|(product, _)| view.paused(product));
    lines.flat_map(|(product, line)| {
        line.shapes().filter_map(|shape| {
            let why = view.why_paused(product);
            unplaced(shape, why, (line.len(shape), line.oldest(shape)))
        })
    })
}

fn unplaced(
    shape: &Arc<Shape>,
    why: Unplaced,
    (jobs, oldest): (usize, Option<QueuePosition>),
) -> Option<UnplacedShape> {
    let (since, oldest) = oldest?;
    Some(UnplacedShape { shape: Arc::clone(shape), why, jobs, oldest, since })
}
