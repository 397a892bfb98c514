//! Weighs a claim against the plan, to compare the two ways of dispatch [D1].

use domain::{FactoryId, JobId};

use crate::diagnose::diagnose;
use crate::ineligible::Ineligible;
use crate::overlay::FleetOverlay;
use crate::score::Score;
use crate::unplaced::Unplaced;
use crate::view::FleetView;

/// What a plan would do with a job that a factory claims.
#[derive(Debug, Clone, PartialEq)]
pub struct WeighedClaim {
    /// The factory that the plan would choose, with its score, or why it has none.
    pub planned: Result<(FactoryId, Score), Unplaced>,
    /// The reasons against the claiming factory. Empty if it is eligible.
    pub against: Vec<Ineligible>,
}

/// Weighs one waiting job as if it were planned now, whatever the mode of its product; `None` if it does not wait.
pub fn weigh(view: &FleetView, job: JobId, claimant: &FactoryId) -> Option<WeighedClaim> {
    let waiting = view.queue.get(&job)?;
    let overlay = FleetOverlay::of(view);
    if let Some(placement) =
        view.fleet.reservations().get(&job).and_then(|seat| overlay.at_reserved_seat(waiting, seat))
    {
        // The seat is kept for this job: no other factory counts, and this one has no free seat for any other job.
        let is_its = placement.factory == *claimant;
        let against = if is_its { Vec::new() } else { reasons(view, &overlay, job, claimant) };
        return Some(WeighedClaim { planned: Ok((placement.factory, placement.score)), against });
    }
    let constraints = overlay.constraints(waiting.demand());
    let planned = match overlay.choose(&constraints) {
        Some(choice) => Ok((choice.factory.clone(), choice.score)),
        None => Err(diagnose(&overlay, &constraints)),
    };
    Some(WeighedClaim { planned, against: reasons(view, &overlay, job, claimant) })
}

fn reasons(view: &FleetView, overlay: &FleetOverlay, job: JobId, factory: &FactoryId) -> Vec<Ineligible> {
    let (Some(waiting), Some(member)) = (view.queue.get(&job), view.fleet.member(factory)) else { return Vec::new() };
    let constraints = overlay.constraints(waiting.demand());
    Ineligible::all(member, &overlay.candidate(member, &constraints), &constraints)
}
