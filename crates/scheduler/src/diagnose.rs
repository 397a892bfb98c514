//! Why nobody can have a job now.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use domain::{Capability, EngineName, FactoryId, RepoName};

use crate::draft::Draft;
use crate::fleet::{Member, OfferPause, Presence, repo_of_token};
use crate::gate::{Candidate, Gate, RepoFit};
use crate::needs::{Needs, soonest};
use crate::rest::Rest;
use crate::unfit::{Unfit, missing};
use crate::unplaced::{Nearest, Unplaced};

/// Repositories of one name that a reason lists.
const IDENTITIES_MAX: usize = 3;

/// Why `choose` found no factory: the gate that stopped the factory that got furthest.
pub(crate) fn diagnose(draft: &Draft, needs: &Needs) -> Unplaced {
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

fn pinned(draft: &Draft, needs: &Needs, member: &Member) -> Unplaced {
    let candidate = draft.candidate(member, needs);
    let factory = &member.rank.factory;
    let gate = Gate::stopping(&candidate, needs).unwrap_or(Gate::Seats);
    let why = because(gate, factory, draft, needs);
    if why.is_unplaceable() {
        return Unplaced::PinnedToUnfit { factory: factory.clone(), why: Unfit::all(member, &candidate, needs) };
    }
    why
}

/// The gate that stopped the factory that got furthest, and that factory: of several the one with the lowest id, where
/// the reason names one.
fn furthest<'d>(draft: &'d Draft, needs: &Needs) -> Option<(Gate, &'d FactoryId)> {
    let mut furthest: Option<(Gate, Reverse<&FactoryId>)> = None;
    for (id, kind) in draft.view.fleet.kinds().iter() {
        for alike in draft.alike(id, kind) {
            let whole = Candidate { kind, standing: alike.standing, repo: RepoFit::WHOLE, pinned_elsewhere: false };
            let bound = Gate::stopping(&whole, needs).unwrap_or(Gate::FleetRepoSeats);
            let gains = |(gate, _): (Gate, _)| bound > gate || (bound == gate && names_factory(gate));
            if !furthest.is_none_or(gains) {
                continue;
            }
            let Some((repo, rank)) = draft.foremost(&alike, needs) else { continue };
            let gate = Gate::stopping(&Candidate { repo, ..whole }, needs).unwrap_or(Gate::Seats);
            furthest = furthest.max(Some((gate, Reverse(&rank.factory))));
        }
    }
    furthest.map(|(gate, Reverse(factory))| (gate, factory))
}

/// Whether the reason that a gate gives names a factory.
fn names_factory(gate: Gate) -> bool {
    matches!(gate, Gate::There | Gate::Open | Gate::Disk | Gate::Responsive | Gate::EngineAwake)
}

fn because(gate: Gate, factory: &FactoryId, draft: &Draft, needs: &Needs) -> Unplaced {
    let shape = needs.shape;
    let factory = factory.clone();
    match (gate, &shape.repo) {
        (Gate::Product, _) => Unplaced::ProductPaused { product: shape.product.clone() },
        (Gate::Capabilities, _) => no_factory_offers(draft, needs),
        (Gate::Engine, _) => Unplaced::NoFactoryRunsEngine { engines: shape.engines.clone() },
        (Gate::Repo, Some(repo)) => no_factory_has(draft, needs, repo),
        (Gate::Scope, _) => Unplaced::OutOfScope { product: shape.product.clone() },
        (Gate::There, _) => {
            let presence = draft.view.fleet.member(&factory).map_or(Presence::Down, |member| member.state.presence);
            Unplaced::Away { factory, presence }
        }
        (Gate::Heard, _) => Unplaced::Warming,
        (Gate::Open, _) => Unplaced::Draining { factory },
        (Gate::Disk, _) => Unplaced::DiskLow { factory },
        (Gate::Responsive, _) => {
            let member = draft.view.fleet.member(&factory);
            match member.and_then(|member| member.state.unresponsive.clone()) {
                Some(OfferPause { problem, is_busy: false }) => Unplaced::Unresponsive { factory, problem },
                _ => Unplaced::AllBusy,
            }
        }
        (Gate::EngineAwake, _) => engines_rest(draft, needs),
        (Gate::EngineSeats, _) => Unplaced::EngineBusy { engines: shape.engines.clone() },
        (Gate::RepoSeats | Gate::FleetRepoSeats, Some(repo)) => Unplaced::RepoBusy { repo: repo.clone() },
        (Gate::Seats | Gate::Pin | Gate::Repo | Gate::RepoSeats | Gate::FleetRepoSeats, _) => Unplaced::AllBusy,
    }
}

/// No factory has the repository, or those that are configured with it cannot reach its remote.
fn no_factory_has(draft: &Draft, needs: &Needs, repo: &RepoName) -> Unplaced {
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

/// Of all factories that nothing graver stops than the rest of their engines, the one whose rest is over first.
fn engines_rest(draft: &Draft, needs: &Needs) -> Unplaced {
    let fleet = draft.view.fleet;
    let mut first: Option<(Rest, EngineName, FactoryId)> = None;
    let mut weigh = |candidate: &Candidate, factory: &FactoryId| {
        if Gate::stopping(candidate, needs) != Some(Gate::EngineAwake) {
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
        Some((Rest::Window(window), ..)) => Unplaced::UsageWindow { window },
        Some((Rest::Paused { until, problem }, engine, factory)) => {
            Unplaced::EnginePaused { factory, engine, problem, until }
        }
        Some((Rest::Unusable { problem }, engine, factory)) => Unplaced::EngineUnusable { factory, engine, problem },
        None => Unplaced::AllBusy,
    }
}

fn no_factory_offers(draft: &Draft, needs: &Needs) -> Unplaced {
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

/// The factory that lacks the fewest tokens; of several a live one, then by id. Factories of other products are not named:
/// the submitter may not know of them [T3].
fn nearest(draft: &Draft, needs: &Needs) -> Option<Nearest> {
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
    lacking.min().map(|(.., factory, missing)| Nearest { factory: factory.clone(), missing })
}
