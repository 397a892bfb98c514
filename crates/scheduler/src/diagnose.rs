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

/// Why `choose` found no factory. Where another machine would help and a pool starts one, that is the reason.
pub(crate) fn diagnose(overlay: &FleetOverlay, constraints: &Constraints) -> Unplaced {
    let why = obstacle(overlay, constraints);
    match overlay.view.pools.starting(&overlay.view, constraints.shape, &why) {
        Some((pool, since)) => Unplaced::Starting { pool, since },
        None => why,
    }
}

/// The condition that rejected the closest factory.
fn obstacle(overlay: &FleetOverlay, constraints: &Constraints) -> Unplaced {
    let shape = constraints.shape;
    if constraints.paused {
        return overlay.view.why_paused(&shape.product);
    }
    if let Some(pin) = &shape.pin {
        let serves = |member: &&IndexedFactory| {
            let products = &member.state.products;
            products.is_empty() || products.contains(&shape.product)
        };
        return match overlay.view.fleet.member(pin).filter(serves) {
            Some(member) => pinned(overlay, constraints, member),
            None => Unplaced::PinnedToAbsent { factory: pin.clone() },
        };
    }
    match furthest(overlay, constraints) {
        Some((condition, factory)) => because(condition, factory, overlay, constraints),
        None => Unplaced::NoFactories,
    }
}

fn pinned(overlay: &FleetOverlay, constraints: &Constraints, member: &IndexedFactory) -> Unplaced {
    let candidate = overlay.candidate(member, constraints);
    let factory = &member.rank.factory;
    let condition = FilterCondition::stopping(&candidate, constraints).unwrap_or(FilterCondition::Seats);
    let why = because(condition, factory, overlay, constraints);
    if why.is_unplaceable() {
        return Unplaced::PinnedToUnfit {
            factory: factory.clone(),
            why: Ineligible::all(member, &candidate, constraints),
        };
    }
    why
}

/// The last condition reached and the factory that reached it; of several the one with the lowest id, if the reason
/// names one.
fn furthest<'d>(overlay: &'d FleetOverlay, constraints: &Constraints) -> Option<(FilterCondition, &'d FactoryId)> {
    let mut furthest: Option<(FilterCondition, Reverse<&FactoryId>)> = None;
    for (id, kind) in overlay.view.fleet.kinds().iter() {
        for alike in overlay.alike(id, kind) {
            let whole = Candidate { kind, load_state: alike.load_state, repo: RepoFit::WHOLE, pinned_elsewhere: false };
            let bound = FilterCondition::stopping(&whole, constraints).unwrap_or(FilterCondition::FleetRepoSeats);
            let gains = |(condition, _): (FilterCondition, _)| {
                bound > condition || (bound == condition && names_factory(condition))
            };
            if !furthest.is_none_or(gains) {
                continue;
            }
            let Some((repo, rank)) = overlay.foremost(&alike, constraints) else { continue };
            let condition =
                FilterCondition::stopping(&Candidate { repo, ..whole }, constraints).unwrap_or(FilterCondition::Seats);
            furthest = furthest.max(Some((condition, Reverse(&rank.factory))));
        }
    }
    furthest.map(|(condition, Reverse(factory))| (condition, factory))
}

/// Whether the reason of a condition names a factory.
fn names_factory(condition: FilterCondition) -> bool {
    matches!(
        condition,
        FilterCondition::There
            | FilterCondition::Open
            | FilterCondition::Disk
            | FilterCondition::Responsive
            | FilterCondition::EngineAwake
    )
}

fn because(
    condition: FilterCondition,
    factory: &FactoryId,
    overlay: &FleetOverlay,
    constraints: &Constraints,
) -> Unplaced {
    let shape = constraints.shape;
    let factory = factory.clone();
    match (condition, &shape.repo) {
        (FilterCondition::Product, _) => overlay.view.why_paused(&shape.product),
        (FilterCondition::Capabilities, _) => no_factory_offers(overlay, constraints),
        (FilterCondition::Engine, _) => Unplaced::NoFactoryRunsEngine { engines: shape.engines.clone() },
        (FilterCondition::Repo, Some(repo)) => no_factory_has(overlay, constraints, repo),
        (FilterCondition::Scope, _) => Unplaced::OutOfScope { product: shape.product.clone() },
        (FilterCondition::There, _) => {
            let presence = overlay.view.fleet.member(&factory).map_or(Presence::Down, |member| member.state.presence);
            Unplaced::Away { factory, presence }
        }
        (FilterCondition::Heard, _) => Unplaced::Warming,
        (FilterCondition::Open, _) => Unplaced::Draining { factory },
        (FilterCondition::Disk, _) => Unplaced::DiskLow { factory },
        (FilterCondition::Responsive, _) => {
            let member = overlay.view.fleet.member(&factory);
            match member.and_then(|member| member.state.unresponsive.clone()) {
                Some(OfferPause { problem, is_busy: false }) => Unplaced::Unresponsive { factory, problem },
                _ => Unplaced::AllBusy,
            }
        }
        (FilterCondition::EngineAwake, _) => engines_unavailable(overlay, constraints),
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
fn no_factory_has(overlay: &FleetOverlay, constraints: &Constraints, repo: &RepoName) -> Unplaced {
    let (product, identity) = (&constraints.shape.product, constraints.shape.identity.as_ref());
    let serving =
        overlay.view.fleet.iter().filter(|state| state.products.is_empty() || state.products.contains(product));
    let unavailable = serving.into_iter().find_map(|state| {
        let found = state.factory.unavailable_repos.get(repo)?;
        Some((state.factory.id.clone(), found.message.clone()))
    });
    match unavailable {
        Some((factory, message)) => Unplaced::RemoteUnavailable { repo: repo.clone(), factory, message },
        None => match identity.filter(|_| overlay.view.fleet.repo(repo, None).is_some()) {
            Some(identity) => {
                let states = overlay.view.fleet.iter();
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
fn engines_unavailable(overlay: &FleetOverlay, constraints: &Constraints) -> Unplaced {
    let fleet = overlay.view.fleet;
    let mut first: Option<(EngineUnavailable, EngineName, FactoryId)> = None;
    let mut weigh = |candidate: &Candidate, factory: &FactoryId| {
        if FilterCondition::stopping(candidate, constraints) != Some(FilterCondition::EngineAwake) {
            return;
        }
        for (rest, engine) in constraints.unavailable(candidate.kind, candidate.load_state) {
            let place = (soonest(rest), engine, factory);
            if first.as_ref().is_none_or(|(rest, engine, factory)| place < (soonest(rest), engine, factory)) {
                first = Some((rest.clone(), engine.clone(), factory.clone()));
            }
        }
    };
    match constraints.shape.pin.as_ref().and_then(|pin| fleet.member(pin)) {
        Some(member) => weigh(&overlay.candidate(member, constraints), &member.rank.factory),
        None => {
            for alike in fleet.kinds().iter().flat_map(|(id, kind)| overlay.alike(id, kind)) {
                let Some((repo, rank)) = overlay.foremost(&alike, constraints) else { continue };
                let (kind, load_state) = (alike.kind, alike.load_state);
                weigh(&Candidate { kind, load_state, repo, pinned_elsewhere: false }, &rank.factory);
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

fn no_factory_offers(overlay: &FleetOverlay, constraints: &Constraints) -> Unplaced {
    let nearest = closest_match(overlay, constraints);
    let needed = constraints.shape.capabilities.iter().cloned().map(Capability::canonical);
    let offered = |token: &Capability| match repo_of_token(token) {
        Some(repo) => overlay.view.fleet.repo(&repo, None).is_some(),
        None => overlay.view.fleet.kinds().token(token).is_some(),
    };
    let mut nowhere: Vec<Capability> = needed.filter(|token| !offered(token)).collect();
    if nowhere.is_empty() {
        nowhere = nearest.as_ref().map(|nearest| nearest.missing.clone()).unwrap_or_default();
    }
    Unplaced::NoFactoryOffers { missing: nowhere, nearest }
}

/// The factory that lacks the fewest capabilities; of several a live one, then by id. Factories of other products are
/// not named: the submitter must not see them [T3].
fn closest_match(overlay: &FleetOverlay, constraints: &Constraints) -> Option<ClosestMatch> {
    let fleet = overlay.view.fleet;
    let serving = fleet.kinds().iter().filter(|(_, kind)| kind.covers(&constraints.shape.product));
    let groups = serving.flat_map(|(id, kind)| overlay.alike(id, kind));
    let ranks = groups.flat_map(|alike| {
        let wanted = constraints.held.iter().filter_map(move |repo| alike.bucket.holders.get(repo)?.first());
        alike.bucket.by_load.first().into_iter().chain(wanted).map(move |rank| (alike, rank))
    });
    let lacking = ranks.filter_map(|(alike, rank)| {
        let lacks = missing(fleet.member(&rank.factory)?, alike.kind, constraints);
        Some((lacks.len(), alike.load_state.presence, &rank.factory, lacks))
    });
    lacking.min().map(|(.., factory, missing)| ClosestMatch { factory: factory.clone(), missing })
}
