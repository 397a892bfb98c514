//! Selects jobs for a factory that polls.

use domain::{FactoryId, JobId, ProductId};

use crate::fair_share::{FairShare, ServiceOutcome};
use crate::ineligible::Ineligible;
use crate::overlay::FleetOverlay;
use crate::plan::Placement;
use crate::view::FleetView;

/// A waiting job that a polling factory does not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedJob {
    /// The job: the first of its shape.
    pub job: JobId,
    /// All reasons, the most severe first. Empty if the job only prefers another factory.
    pub unfit: Vec<Ineligible>,
}

/// The job for a factory that polls for work of some products: the first in the order of service that it is eligible
/// for [S3].
///
/// A job that avoids the factory is skipped while another factory is eligible.
pub fn claim(view: &FleetView, factory: &FactoryId, is_asked: impl Fn(&ProductId) -> bool) -> Option<Placement> {
    let member = view.fleet.member(factory)?;
    let overlay = FleetOverlay::of(view);
    if let Some(kept) = reserved(view, &overlay, factory, &is_asked) {
        return Some(kept);
    }
    if !member.load_state.is_ready() {
        return None;
    }
    let mut claimed = None;
    FairShare::asked(view, is_asked).serve(|next, _| {
        let waiting = view.queue.get(&next.job)?;
        let constraints = overlay.constraints(waiting.demand());
        let Some(choice) = overlay.consider(factory, &constraints) else { return Some(ServiceOutcome::SkipShape) };
        if constraints.avoid == Some(factory) && overlay.best(&constraints).is_some() {
            return Some(ServiceOutcome::SkipJob);
        }
        claimed = Some(overlay.recorded(choice.placement(next.job, constraints.weights), &constraints));
        None
    });
    claimed
}

/// A job whose seat on this factory is kept for it.
fn reserved(
    view: &FleetView,
    overlay: &FleetOverlay,
    factory: &FactoryId,
    is_asked: impl Fn(&ProductId) -> bool,
) -> Option<Placement> {
    let mut kept = view.fleet.reservations().iter().filter(|(_, seat)| seat.factory == *factory);
    kept.find_map(|(job, seat)| {
        let waiting = view.queue.get(job).filter(|waiting| is_asked(&waiting.shape.product))?;
        overlay.at_reserved_seat(waiting, seat)
    })
}

/// The first job of each shape that a factory does not get, in the order of service, at most `limit`. For explanations,
/// not for decisions.
pub fn skipped(
    view: &FleetView,
    factory: &FactoryId,
    is_asked: impl Fn(&ProductId) -> bool,
    limit: usize,
) -> Vec<SkippedJob> {
    let Some(member) = view.fleet.member(factory) else { return Vec::new() };
    let overlay = FleetOverlay::of(view);
    let mut passed = Vec::new();
    FairShare::asked_or_paused(view, is_asked).serve(|next, _| {
        if passed.len() >= limit {
            return None;
        }
        let waiting = view.queue.get(&next.job)?;
        let constraints = overlay.constraints(waiting.demand());
        let unfit = Ineligible::all(member, &overlay.candidate(member, &constraints), &constraints);
        let is_avoided = constraints.avoid == Some(factory) && overlay.best(&constraints).is_some();
        if !unfit.is_empty() || is_avoided {
            passed.push(SkippedJob { job: next.job, unfit });
        }
        Some(ServiceOutcome::SkipShape)
    });
    passed
}
