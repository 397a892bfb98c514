//! Which job for this factory.

use domain::FactoryId;

use crate::draft::Draft;
use crate::plan::Placement;
use crate::turn::{Service, Turns};
use crate::view::FleetView;

/// The job that a factory gets when it asks for one: the first in the order of service that it may take [S3].
///
/// A job that avoids the factory is passed over while anybody else can take it.
pub fn claim(view: &FleetView, factory: &FactoryId) -> Option<Placement> {
    if !view.fleet.member(factory)?.standing.is_ready() {
        return None;
    }
    let draft = Draft::of(view);
    let mut claimed = None;
    Turns::of(view).serve(|next, _| {
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
