//! The constraints of a job, resolved against the fleet's index.

use std::time::Duration;

use domain::{Capability, EngineName, FactoryId, RepoName, Shape, Timestamp};

use crate::engine_unavailable::EngineUnavailable;
use crate::fleet::{Availability, CapabilityClass, CapabilityId, Fleet, RepoId, repo_of_token};
use crate::score::Weights;
use crate::view::{Demand, FleetView};

/// The constraints of a job, resolved once per decision.
pub(crate) struct Constraints<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) avoid: Option<&'a FactoryId>,
    pub(crate) age: Duration,
    /// Whether the product is paused, or waits for money.
    pub(crate) paused: bool,
    /// Whether it waits for money.
    pub(crate) out_of_money: bool,
    /// Whether the repository's fleet-wide limit is reached.
    pub(crate) repo_full: bool,
    /// Required capabilities, without repositories.
    pub(crate) tokens: Vec<CapabilityId>,
    /// Whether a required capability or repository is unknown in the fleet.
    pub(crate) unknown: bool,
    /// Repositories that the factory must have cloned, because the job requires their capability.
    pub(crate) held: Vec<RepoId>,
    /// The job's repository, if a factory has it.
    pub(crate) repo: Option<RepoId>,
    /// The weights of the score for the job's product.
    pub(crate) weights: Weights,
    /// Capabilities that the job uses: the required ones and those of its engines.
    pub(crate) asked: Vec<CapabilityId>,
}

/// The engine of a factory for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnginePick<'a> {
    /// The first engine with a free seat, in the job's order of preference, or by name if it has none.
    One(&'a EngineName),
    /// Every acceptable engine is unavailable or has no free seat.
    Busy,
    /// Every acceptable engine is unavailable.
    Resting,
    /// The factory has none of the acceptable engines.
    Absent,
}

impl<'a> Constraints<'a> {
    /// `repo_used` is the number of jobs in the fleet that use the job's repository.
    pub(crate) fn of(demand: Demand<'a>, view: &FleetView, repo_used: impl Fn(&RepoName) -> u32) -> Self {
        let shape = demand.shape;
        let limit = shape.repo.as_ref().and_then(|repo| Some((repo, view.repo_limit(&shape.product, repo)?)));
        let mut constraints = Self {
            shape,
            avoid: demand.avoid,
            age: view.now.since(demand.since),
            paused: view.paused(&shape.product),
            out_of_money: view.is_out_of_money(&shape.product),
            repo_full: limit.is_some_and(|(repo, limit)| repo_used(repo) >= limit),
            tokens: Vec::with_capacity(shape.capabilities.len()),
            unknown: false,
            held: Vec::new(),
            repo: shape.repo.as_ref().and_then(|repo| view.fleet.repo(repo, shape.identity.as_ref())),
            weights: view.weights_of(&shape.product),
            asked: Vec::with_capacity(shape.capabilities.len() + shape.engines.len()),
        };
        constraints.look_up(view.fleet);
        constraints
    }

    pub(crate) fn engine<'e>(&self, kind: &'e CapabilityClass, load_state: &Availability) -> EnginePick<'e>
    where
        'a: 'e,
    {
        let named = &self.shape.engines;
        let mut offered = kind.engines().iter();
        let mut wanted = named.iter().filter(|engine| kind.runs(engine)).peekable();
        // A job without named engines still needs one.
        let is_absent = if named.is_empty() { kind.engines().is_empty() } else { wanted.peek().is_none() };
        if is_absent {
            return EnginePick::Absent;
        }
        let awake = |engine: &&EngineName| !load_state.resting.contains_key(*engine);
        let free = |engine: &&EngineName| awake(engine) && !load_state.busy_engines.contains(engine);
        let pick = if named.is_empty() { offered.find(free) } else { wanted.find(free) };
        match pick {
            Some(engine) => EnginePick::One(engine),
            None if self.candidates(kind).any(|engine| awake(&engine)) => EnginePick::Busy,
            None => EnginePick::Resting,
        }
    }

    /// The acceptable engines of a factory, available or not.
    pub(crate) fn candidates<'e>(&'e self, kind: &'e CapabilityClass) -> impl Iterator<Item = &'e EngineName> {
        let named = &self.shape.engines;
        kind.engines().iter().filter(move |engine| named.is_empty() || named.contains(engine))
    }

    /// Why acceptable engines are unavailable, the earliest retry first.
    pub(crate) fn unavailable<'e>(
        &'e self,
        kind: &'e CapabilityClass,
        load_state: &'e Availability,
    ) -> Vec<(&'e EngineUnavailable, &'e EngineName)> {
        let resting = self.candidates(kind).filter_map(|engine| Some((load_state.resting.get(engine)?, engine)));
        let mut resting: Vec<_> = resting.collect();
        resting.sort_by_key(|(rest, engine)| (soonest(rest), *engine));
        resting
    }

    /// Whether a factory that can clone is eligible without the repository. Not for saved work: the identity of the
    /// clone is unknown.
    pub(crate) fn may_be_cloned(&self, kind: &CapabilityClass) -> bool {
        kind.clones() && self.shape.identity.is_none()
    }

    fn look_up(&mut self, fleet: &Fleet) {
        for capability in &self.shape.capabilities {
            let known = match repo_of_token(capability) {
                Some(repo) => fleet.repo(&repo, None).map(|repo| self.held.push(repo)),
                None => fleet.kinds().token(&capability.clone().canonical()).map(|token| self.tokens.push(token)),
            };
            self.unknown |= known.is_none();
        }
        self.asked.extend(&self.tokens);
        let engines = self.shape.engines.iter().filter_map(|engine| fleet.kinds().token(&Capability::engine(engine)));
        self.asked.extend(engines);
    }
}

/// Sort key: the end of the unavailability; those that need an operator come last.
pub(crate) fn soonest(rest: &EngineUnavailable) -> (bool, Option<Timestamp>) {
    let until = rest.until();
    (until.is_none(), until)
}
