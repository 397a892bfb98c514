//! Selects a factory for an errand.

use domain::{FactoryId, ProductId, Shape};

use crate::fleet::{Availability, CapabilityClass, LoadBucket, LoadRank, Presence, RepoId};
use crate::view::FleetView;

/// A live factory for an errand on a repository, such as a promotion [F5].
///
/// An errand uses no seat, so a full factory is eligible. A factory with the repository is preferred to one that has to
/// clone it, then the least loaded; `avoid` is the last resort. Pushed work goes only to factories with the same
/// repository identity. `None` for a job without a repository.
pub fn errand(view: &FleetView, shape: &Shape, avoid: Option<&FactoryId>) -> Option<FactoryId> {
    let repo = view.fleet.repo(shape.repo.as_ref()?, shape.identity.as_ref());
    let least = |allowed: &dyn Fn(&LoadRank) -> bool| {
        let offers =
            groups(view, &shape.product).flat_map(|group| group.offers(repo, shape.identity.is_none(), allowed));
        offers.min().map(|(_, rank)| rank.factory.clone())
    };
    least(&|rank| Some(&rank.factory) != avoid).or_else(|| least(&|_| true))
}

/// What the factory has to do first. Ordered by preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effort {
    Nothing,
    Clone,
}

struct EffortGroup<'a> {
    kind: &'a CapabilityClass,
    load_state: &'a Availability,
    bucket: &'a LoadBucket,
}

fn groups<'a>(view: &FleetView<'a>, product: &ProductId) -> impl Iterator<Item = EffortGroup<'a>> {
    let kinds = view.fleet.kinds().iter().map(|(_, kind)| kind).filter(|kind| kind.covers(product));
    let groups = kinds
        .flat_map(|kind| kind.buckets.iter().map(move |(load_state, bucket)| EffortGroup { kind, load_state, bucket }));
    groups.filter(|group| {
        group.load_state.presence == Presence::Live && !group.load_state.draining && !group.load_state.unresponsive
    })
}

impl<'a> EffortGroup<'a> {
    /// The least loaded factory with the repository, and the least loaded one that can clone it.
    fn offers(
        &self,
        repo: Option<RepoId>,
        any_clone: bool,
        allowed: &dyn Fn(&LoadRank) -> bool,
    ) -> impl Iterator<Item = (Effort, &'a LoadRank)> + use<'a> {
        let first = |mut ranks: std::collections::btree_set::Iter<'a, LoadRank>| ranks.find(|rank| allowed(rank));
        let holder = repo.and_then(|repo| self.bucket.holders.get(&repo)).and_then(|ranks| first(ranks.iter()));
        let clones = any_clone && self.kind.clones() && !self.load_state.disk_low;
        let cloner = if clones { first(self.bucket.by_load.iter()) } else { None };
        let holder = holder.map(|rank| (Effort::Nothing, rank));
        holder.into_iter().chain(cloner.map(|rank| (Effort::Clone, rank)))
    }
}
