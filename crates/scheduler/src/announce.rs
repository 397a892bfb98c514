//! Self-selection: which waiting job is announced to which factory [D1].

use domain::{FactoryId, JobId, ProductId};

use crate::fair_share::{FairShare, ServiceOutcome};
use crate::overlay::FleetOverlay;
use crate::plan::Placement;
use crate::queue::WaitingJob;
use crate::view::FleetView;

/// What was announced before.
pub trait PastAnnouncements {
    /// The factory that has a job's announcement now.
    fn current(&self, job: JobId) -> Option<&FactoryId>;
    /// Whether a job is left alone for now: every eligible factory knows it.
    fn rests(&self, job: JobId) -> bool;
    /// Whether a factory had its turn for a job, or cannot be told.
    fn is_past(&self, job: JobId, factory: &FactoryId) -> bool;
}

/// Announcements to make.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnnouncementPlan {
    /// Jobs, each with the factory whose turn it is.
    pub announced: Vec<(JobId, FactoryId)>,
    /// Jobs that every eligible factory had its turn for.
    pub exhausted: Vec<JobId>,
}

/// Announces waiting jobs of products in self-select mode, in the order of service, each to one eligible factory with a
/// free seat. A seat is announced once; at most `limit` announcements are open.
pub fn announce(view: &FleetView, past: &impl PastAnnouncements) -> AnnouncementPlan {
    let mut plan = AnnouncementPlan::default();
    let mut overlay = FleetOverlay::of(view);
    let mut open = 0;
    FairShare::self_selected(view).serve(|next, _| {
        if open >= view.limit {
            return None;
        }
        let waiting = view.queue.get(&next.job)?;
        if past.rests(next.job) {
            return Some(ServiceOutcome::SkipJob);
        }
        let current = past.current(next.job);
        let turn = match current {
            Some(factory) => at(view, &overlay, waiting, factory),
            None => match next_turn(view, &overlay, waiting, past) {
                Turn::Of(placement) => Some(placement),
                Turn::Over => {
                    plan.exhausted.push(next.job);
                    return Some(ServiceOutcome::SkipJob);
                }
                Turn::NoFactory => return Some(ServiceOutcome::SkipShape),
            },
        };
        open += 1;
        let Some(placement) = turn else { return Some(ServiceOutcome::SkipJob) };
        if view.fleet.reservations().contains_key(&next.job) {
            // The seat is counted already.
            plan.announced.extend(current.is_none().then_some((next.job, placement.factory)));
            return Some(ServiceOutcome::SkipJob);
        }
        overlay.occupy(&placement, &next.shape);
        plan.announced.extend(current.is_none().then_some((next.job, placement.factory)));
        Some(ServiceOutcome::Placed)
    });
    plan
}

/// One waiting job for a factory that claims it by id, if the factory is eligible and has a free seat for it. The order
/// of service and the score do not count.
pub fn claim_named(
    view: &FleetView,
    factory: &FactoryId,
    job: JobId,
    is_asked: impl Fn(&ProductId) -> bool,
) -> Option<Placement> {
    let waiting = view.queue.get(&job).filter(|waiting| is_asked(&waiting.shape.product))?;
    at(view, &FleetOverlay::of(view), waiting, factory)
}

/// Whose turn it is.
enum Turn {
    Of(Placement),
    /// Every eligible factory had its turn.
    Over,
    /// No factory is eligible.
    NoFactory,
}

/// The best eligible factory that did not have its turn; with many equal ones any of them.
fn next_turn(view: &FleetView, overlay: &FleetOverlay, waiting: &WaitingJob, past: &impl PastAnnouncements) -> Turn {
    if let Some(seat) = view.fleet.reservations().get(&waiting.job) {
        return match overlay.at_reserved_seat(waiting, seat) {
            Some(placement) if !past.is_past(waiting.job, &placement.factory) => Turn::Of(placement),
            Some(_) => Turn::Over,
            None => Turn::NoFactory,
        };
    }
    let constraints = overlay.constraints(waiting.demand());
    let Some(best) = overlay.choose(&constraints) else { return Turn::NoFactory };
    let best = overlay.recorded(best.placement(waiting.job, constraints.weights), &constraints);
    let ranked = std::iter::once(&best.factory).chain(best.runners_up.iter().map(|next| &next.factory));
    let others = view.fleet.members().map(|member| &member.rank.factory);
    let mut turns = ranked.chain(others).filter(|factory| !past.is_past(waiting.job, factory));
    match turns.find_map(|factory| at(view, overlay, waiting, factory)) {
        Some(placement) => Turn::Of(placement),
        None => Turn::Over,
    }
}

/// A job on one factory, if that is eligible and has a seat for it.
fn at(view: &FleetView, overlay: &FleetOverlay, waiting: &WaitingJob, factory: &FactoryId) -> Option<Placement> {
    if let Some(seat) = view.fleet.reservations().get(&waiting.job) {
        return overlay.at_reserved_seat(waiting, seat).filter(|placement| placement.factory == *factory);
    }
    let constraints = overlay.constraints(waiting.demand());
    let choice = overlay.consider(factory, &constraints)?;
    Some(overlay.recorded(choice.placement(waiting.job, constraints.weights), &constraints))
}
