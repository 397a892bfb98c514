//! Which job for this factory.

use domain::{FactoryId, JobId, ProductId};

use crate::draft::Draft;
use crate::plan::Placement;
use crate::turn::{Service, Turns};
use crate::unfit::Unfit;
use crate::view::FleetView;

/// A waiting job that a factory that asks is not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// The job: the first of its shape.
    pub job: JobId,
    /// Everything that is in the way, the gravest first. Empty if it only waits for somebody whom it does not avoid.
    pub unfit: Vec<Unfit>,
}

/// The job that a factory gets when it asks for one of some products: the first in the order of service that it may take
/// [S3].
///
/// A job that avoids the factory is passed over while anybody else can take it.
pub fn claim(view: &FleetView, factory: &FactoryId, is_asked: impl Fn(&ProductId) -> bool) -> Option<Placement> {
    if !view.fleet.member(factory)?.standing.is_ready() {
        return None;
    }
    let draft = Draft::of(view);
    let mut claimed = None;
    Turns::asked(view, is_asked).serve(|next, _| {
        let waiting = view.queue.get(&next.job)?;
        let needs = draft.needs(waiting.demand());
        let Some(choice) = draft.consider(factory, &needs) else { return Some(Service::SkipShape) };
        if needs.avoid == Some(factory) && draft.best(&needs).is_some() {
            return Some(Service::SkipJob);
        }
        claimed = Some(choice.placement(next.job));
        None
    });
    claimed
}

/// The first job of each shape of some products that a factory is not given, in the order of service, `limit` at most. For
/// people, not for decisions.
pub fn passed_over(
    view: &FleetView,
    factory: &FactoryId,
    is_asked: impl Fn(&ProductId) -> bool,
    limit: usize,
) -> Vec<PassedOver> {
    let Some(member) = view.fleet.member(factory) else { return Vec::new() };
    let draft = Draft::of(view);
    let mut passed = Vec::new();
    Turns::asked_or_paused(view, is_asked).serve(|next, _| {
        if passed.len() >= limit {
            return None;
        }
        let waiting = view.queue.get(&next.job)?;
        let needs = draft.needs(waiting.demand());
        let unfit = Unfit::all(member, &draft.candidate(member, &needs), &needs);
        let is_avoided = needs.avoid == Some(factory) && draft.best(&needs).is_some();
        if !unfit.is_empty() || is_avoided {
            passed.push(PassedOver { job: next.job, unfit });
        }
        Some(Service::SkipShape)
    });
    passed
}
