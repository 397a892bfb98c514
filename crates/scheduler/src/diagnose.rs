//! Diagnoses why no factory is eligible for a job.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use domain::{Capability, EngineName, FactoryId, RepoName};

use crate::constraints::{Constraints, soonest};
use crate::engine_unavailable::EngineUnavailable;
use crate::filter::{Candidate, FilterCondition, RepoFit};
use crate::fleet::{IndexedFactory, OfferPause, Presence, repo_of_token};
use crate::ineligible::{Ineligible, missing};
use crate::overlay::FleetOverlay;
use crate::unplaced::{ClosestMatch, Unplaced};

/// Maximum number of repository identities in a reason.
const IDENTITIES_MAX: usize = 3;

/// Why `choose` found no factory: the condition that rejected the closest factory.
pub(crate) fn diagnose(draft: &FleetOverlay, needs: &Constraints) -> Unplaced {
    let shape = needs.shape;
    if needs.paused {
        return Unplaced::ProductPaused { product: shape.product.clone() };
    }
    if let Some(pin) = &shape.pin {
        return match draft.view.fleet.member(pin) {
            Some(member) => pinned(draft, needs, member),
            None => Unplaced::PinnedToAbsent { factory: pin.clone() },
        };
    }
    match furthest(draft, needs) {
        Some((gate, factory)) => because(gate, factory, draft, needs),
        None => Unplaced::NoFactories,
    }
}

fn pinned(draft: &FleetOverlay, needs: &Constraints, member: &IndexedFactory) -> Unplaced {
    let candidate = draft.candidate(member, needs);
    let factory = &member.rank.factory;
    let gate = FilterCondition::stopping(&candidate, needs).unwrap_or(FilterCondition::Seats);
    let why = because(gate, factory, draft, needs);
    if why.is_unplaceable() {
        return Unplaced::PinnedToUnfit { factory: factory.clone(), why: Ineligible::all(member, &candidate, needs) };
    }
    why
}

/// The last condition reached and the factory that reached it; of several the one with the lowest id, if the reason
/// names one.
fn furthest<'d>(draft: &'d FleetOverlay, needs: &Constraints) -> Option<(FilterCondition, &'d FactoryId)> {
    let mut furthest: Option<(FilterCondition, Reverse<&FactoryId>)> = None;
    for (id, kind) in draft.view.fleet.kinds().iter() {
        for alike in draft.alike(id, kind) {
            let whole = Candidate { kind, standing: alike.standing, repo: RepoFit::WHOLE, pinned_elsewhere: false };
            let bound = FilterCondition::stopping(&whole, needs).unwrap_or(FilterCondition::FleetRepoSeats);
            let gains = |(gate, _): (FilterCondition, _)| bound > gate || (bound == gate && names_factory(gate));
            if !furthest.is_none_or(gains) {
                continue;
            }
            let Some((repo, rank)) = draft.foremost(&alike, needs) else { continue };
            let gate = FilterCondition::stopping(&Candidate { repo, ..whole }, needs).unwrap_or(FilterCondition::Seats);
            furthest = furthest.max(Some((gate, Reverse(&rank.factory))));
        }
    }
    furthest.map(|(gate, Reverse(factory))| (gate, factory))
}

/// Whether the reason of a condition names a factory.
fn names_factory(gate: FilterCondition) -> bool {
    matches!(
        gate,
        FilterCondition::There
            | FilterCondition::Open
            | FilterCondition::Disk
            | FilterCondition::Responsive
            | FilterCondition::EngineAwake
    )
}

fn because(gate: FilterCondition, factory: &FactoryId, draft: &FleetOverlay, needs: &Constraints) -> Unplaced {
    let shape = needs.shape;
    let factory = factory.clone();
    match (gate, &shape.repo) {
        (FilterCondition::Product, _) => Unplaced::ProductPaused { product: shape.product.clone() },
        (FilterCondition::Capabilities, _) => no_factory_offers(draft, needs),
        (FilterCondition::Engine, _) => Unplaced::NoFactoryRunsEngine { engines: shape.engines.clone() },
        (FilterCondition::Repo, Some(repo)) => no_factory_has(draft, needs, repo),
        (FilterCondition::Scope, _) => Unplaced::OutOfScope { product: shape.product.clone() },
        (FilterCondition::There, _) => {
            let presence = draft.view.fleet.member(&factory).map_or(Presence::Down, |member| member.state.presence);
            Unplaced::Away { factory, presence }
        }
        (FilterCondition::Heard, _) => Unplaced::Warming,
        (FilterCondition::Open, _) => Unplaced::Draining { factory },
        (FilterCondition::Disk, _) => Unplaced::DiskLow { factory },
        (FilterCondition::Responsive, _) => {
            let member = draft.view.fleet.member(&factory);
            match member.and_then(|member| member.state.unresponsive.clone()) {
                Some(OfferPause { problem, is_busy: false }) => Unplaced::Unresponsive { factory, problem },
                _ => Unplaced::AllBusy,
            }
        }
        (FilterCondition::EngineAwake, _) => engines_rest(draft, needs),
        (FilterCondition::EngineSeats, _) => Unplaced::EngineBusy { engines: shape.engines.clone() },
        (FilterCondition::RepoSeats | FilterCondition::FleetRepoSeats, Some(repo)) => {
            Unplaced::RepoBusy { repo: repo.clone() }
        }
        (
            FilterCondition::Seats
            | FilterCondition::Pin
            | FilterCondition::Repo
            | FilterCondition::RepoSeats
            | FilterCondition::FleetRepoSeats,
            _,
        ) => Unplaced::AllBusy,
    }
}

/// No factory has the repository, or those configured with it cannot reach its remote.
fn no_factory_has(draft: &FleetOverlay, needs: &Constraints, repo: &RepoName) -> Unplaced {
    let (product, identity) = (&needs.shape.product, needs.shape.identity.as_ref());
    let serving = draft.view.fleet.iter().filter(|state| state.products.is_empty() || state.products.contains(product));
    let unavailable = serving.into_iter().find_map(|state| {
        let found = state.factory.unavailable_repos.get(repo)?;
        Some((state.factory.id.clone(), found.message.clone()))
    });
    match unavailable {
        Some((factory, message)) => Unplaced::RemoteUnavailable { repo: repo.clone(), factory, message },
        None => match identity.filter(|_| draft.view.fleet.repo(repo, None).is_some()) {
            Some(identity) => {
                let states = draft.view.fleet.iter();
                let serving = states.filter(|state| state.products.is_empty() || state.products.contains(product));
                let found = serving.filter_map(|state| state.factory.repo_identities.get(repo));
                let found: BTreeSet<_> = found.filter(|found| *found != identity).cloned().collect();
                let found = found.into_iter().take(IDENTITIES_MAX).collect();
                Unplaced::RepoDiffers { repo: repo.clone(), identity: identity.clone(), found }
            }
            None => Unplaced::NoFactoryHasRepo { repo: repo.clone() },
        },
    }
}

/// Of the factories rejected only for unavailable engines, the one with the earliest retry.
fn engines_rest(draft: &FleetOverlay, needs: &Constraints) -> Unplaced {
    let fleet = draft.view.fleet;
    let mut first: Option<(EngineUnavailable, EngineName, FactoryId)> = None;
    let mut weigh = |candidate: &Candidate, factory: &FactoryId| {
        if FilterCondition::stopping(candidate, needs) != Some(FilterCondition::EngineAwake) {
            return;
        }
        for (rest, engine) in needs.rests(candidate.kind, candidate.standing) {
            let place = (soonest(rest), engine, factory);
            if first.as_ref().is_none_or(|(rest, engine, factory)| place < (soonest(rest), engine, factory)) {
                first = Some((rest.clone(), engine.clone(), factory.clone()));
            }
        }
    };
    match needs.shape.pin.as_ref().and_then(|pin| fleet.member(pin)) {
        Some(member) => weigh(&draft.candidate(member, needs), &member.rank.factory),
        None => {
            for alike in fleet.kinds().iter().flat_map(|(id, kind)| draft.alike(id, kind)) {
                let Some((repo, rank)) = draft.foremost(&alike, needs) else { continue };
                let (kind, standing) = (alike.kind, alike.standing);
                weigh(&Candidate { kind, standing, repo, pinned_elsewhere: false }, &rank.factory);
            }
        }
    }
    match first {
        Some((EngineUnavailable::Window(window), ..)) => Unplaced::UsageWindow { window },
        Some((EngineUnavailable::Paused { until, problem }, engine, factory)) => {
            Unplaced::EnginePaused { factory, engine, problem, until }
        }
        Some((EngineUnavailable::Unusable { problem }, engine, factory)) => {
            Unplaced::EngineUnusable { factory, engine, problem }
        }
        None => Unplaced::AllBusy,
    }
}

fn no_factory_offers(draft: &FleetOverlay, needs: &Constraints) -> Unplaced {
    let nearest = nearest(draft, needs);
    let needed = needs.shape.capabilities.iter().cloned().map(Capability::canonical);
    let offered = |token: &Capability| match repo_of_token(token) {
        Some(repo) => draft.view.fleet.repo(&repo, None).is_some(),
        None => draft.view.fleet.kinds().token(token).is_some(),
    };
    let mut nowhere: Vec<Capability> = needed.filter(|token| !offered(token)).collect();
    if nowhere.is_empty() {
        nowhere = nearest.as_ref().map(|nearest| nearest.missing.clone()).unwrap_or_default();
    }
    Unplaced::NoFactoryOffers { missing: nowhere, nearest }
}

/// The factory that lacks the fewest capabilities; of several a live one, then by id. Factories of other products are
/// not named: the submitter must not see them [T3].
fn nearest(draft: &FleetOverlay, needs: &Constraints) -> Option<ClosestMatch> {
    let fleet = draft.view.fleet;
    let serving = fleet.kinds().iter().filter(|(_, kind)| kind.covers(&needs.shape.product));
    let groups = serving.flat_map(|(id, kind)| draft.alike(id, kind));
    let ranks = groups.flat_map(|alike| {
        let wanted = needs.held.iter().filter_map(move |repo| alike.cohort.holders.get(repo)?.first());
        alike.cohort.by_load.first().into_iter().chain(wanted).map(move |rank| (alike, rank))
    });
    let lacking = ranks.filter_map(|(alike, rank)| {
        let lacks = missing(fleet.member(&rank.factory)?, alike.kind, needs);
        Some((lacks.len(), alike.standing.presence, &rank.factory, lacks))
    });
    lacking.min().map(|(.., factory, missing)| ClosestMatch { factory: factory.clone(), missing })
}
