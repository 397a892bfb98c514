//! A reference scheduler without indexes: the indexes must not change a decision.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{Capability, EngineName, FactoryId, JobId, Product, ProductId, RepoName, Shape};
use scheduler::{EngineUnavailable, FactoryState, Presence, Seat, WaitingJob};

use crate::scenario::{NOW, Scenario};

/// A fleet that is searched exhaustively.
pub(crate) struct Naive<'a> {
    scenario: &'a Scenario,
    pub(crate) seats: Vec<Seat>,
}

/// The placements, and the reason for each job left waiting.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct NaivePlan {
    pub(crate) placements: Vec<(JobId, FactoryId, Option<EngineName>)>,
    pub(crate) unplaced: Vec<(JobId, &'static str)>,
}

impl<'a> Naive<'a> {
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        let seats = scenario.seats.iter().map(|(_, seat)| seat.clone()).collect();
        Self { scenario, seats }
    }

    pub(crate) fn plan(mut self) -> NaivePlan {
        let mut plan = NaivePlan::default();
        let mut left: Vec<&WaitingJob> = self.scenario.jobs.iter().collect();
        left.retain(|waiting| !self.product(&waiting.shape.product).paused);
        while let Some(next) = self.next(&left) {
            if plan.placements.len() >= self.scenario.limit {
                return plan;
            }
            match self.choose(next) {
                Some((factory, engine)) => {
                    left.retain(|waiting| waiting.job != next.job);
                    self.seats.push(Seat {
                        factory: factory.clone(),
                        product: next.shape.product.clone(),
                        repo: next.shape.repo.clone(),
                        engine: engine.clone(),
                    });
                    plan.placements.push((next.job, factory, engine));
                }
                None => {
                    let alike = left.iter().filter(|waiting| waiting.shape == next.shape);
                    let oldest = alike.min_by_key(|waiting| (waiting.since, waiting.job)).unwrap();
                    plan.unplaced.push((oldest.job, self.reason(next)));
                    left.retain(|waiting| waiting.shape != next.shape);
                }
            }
        }
        plan
    }

    /// The first job in the order of service.
    pub(crate) fn next<'w>(&self, left: &[&'w WaitingJob]) -> Option<&'w WaitingJob> {
        let products: BTreeSet<&ProductId> = left.iter().map(|waiting| &waiting.shape.product).collect();
        let share = |product: &ProductId| {
            let seats = self.seats.iter().filter(|seat| seat.product == *product).count();
            seats as f64 / f64::from(self.product(product).weight.max(1))
        };
        let product = products.into_iter().min_by(|a, b| share(a).total_cmp(&share(b)).then(a.cmp(b)))?;
        let own = left.iter().filter(|waiting| waiting.shape.product == *product);
        own.min_by_key(|waiting| {
            let steps = NOW.since(waiting.since).as_secs() / 1_800;
            (u64::from(waiting.priority.rank()).saturating_sub(steps), waiting.since, waiting.job)
        })
        .copied()
    }

    pub(crate) fn choose(&self, waiting: &WaitingJob) -> Option<(FactoryId, Option<EngineName>)> {
        let mut fit: Vec<&FactoryState> = self.eligible(waiting);
        if fit.iter().any(|state| Some(&state.factory.id) != waiting.avoid.as_ref()) {
            fit.retain(|state| Some(&state.factory.id) != waiting.avoid.as_ref());
        }
        let best = fit.into_iter().max_by(|a, b| {
            let by_score = self.score(a, waiting).total_cmp(&self.score(b, waiting));
            by_score.then(self.load(b).total_cmp(&self.load(a))).then(b.factory.id.cmp(&a.factory.id))
        })?;
        Some((best.factory.id.clone(), self.engine(best, waiting).unwrap()))
    }

    pub(crate) fn eligible(&self, waiting: &WaitingJob) -> Vec<&'a FactoryState> {
        let all = self.scenario.factories.iter();
        all.filter(|state| self.gates(state, waiting).iter().all(|(open, _)| *open)).collect()
    }

    fn reason(&self, waiting: &WaitingJob) -> &'static str {
        if let Some(pin) = &waiting.shape.pin {
            let product = &waiting.shape.product;
            let serves = |state: &FactoryState| state.products.is_empty() || state.products.contains(product);
            let pinned = self.scenario.factories.iter().find(|state| state.factory.id == *pin && serves(state));
            let Some(state) = pinned else { return "pinned_to_absent" };
            let (_, code) = self.gates(state, waiting).into_iter().find(|(open, _)| !open).unwrap();
            let passing = ["warming", "usage_window", "all_busy", "engine_busy", "repo_busy"];
            return if passing.contains(&code) { code } else { "pinned_to_unfit" };
        }
        let stops = |state| self.gates(state, waiting).iter().position(|(open, _)| !open).unwrap();
        let furthest = self.scenario.factories.iter().max_by_key(|state| stops(state));
        furthest.map_or("no_factories", |state| self.gates(state, waiting)[stops(state)].1)
    }

    /// Every condition in the order of the filter, with its reason.
    fn gates(&self, state: &FactoryState, waiting: &WaitingJob) -> Vec<(bool, &'static str)> {
        let (factory, shape) = (&state.factory, &waiting.shape);
        let repo_limit = |repo: &RepoName| self.product(&shape.product).repo_seats.get(repo).copied();
        let here = |seat: &&Seat| seat.factory == factory.id;
        let mut gates = self.graver_gates(state, waiting);
        gates.extend([
            (is_awake(state, waiting), self.unavailability_for(waiting)),
            (self.seats.iter().filter(here).count() < factory.seat_limit as usize, "all_busy"),
            (self.engine(state, waiting).is_some(), "engine_busy"),
            (
                shape.repo.as_ref().is_none_or(|repo| {
                    let used = self.seats.iter().filter(here).filter(|seat| seat.repo.as_ref() == Some(repo)).count();
                    factory.repo_seats.get(repo).is_none_or(|limit| used < *limit as usize)
                }),
                "repo_busy",
            ),
            (
                shape.repo.as_ref().is_none_or(|repo| {
                    let used = self.seats.iter().filter(|seat| seat.repo.as_ref() == Some(repo)).count();
                    repo_limit(repo).is_none_or(|limit| used < limit as usize)
                }),
                "repo_busy",
            ),
        ]);
        gates
    }

    fn without_repo(&self, shape: &Shape) -> &'static str {
        let is_named = |state: &FactoryState| shape.repo.as_ref().is_some_and(|repo| has(state, repo));
        match shape.identity.is_some() && self.scenario.factories.iter().any(is_named) {
            true => "repo_differs",
            false => "no_factory_has_repo",
        }
    }

    /// The conditions more severe than an unavailable engine.
    fn graver_gates(&self, state: &FactoryState, waiting: &WaitingJob) -> Vec<(bool, &'static str)> {
        let (factory, shape) = (&state.factory, &waiting.shape);
        let offered = advertised(state);
        let needed = shape.capabilities.iter().cloned().map(Capability::canonical);
        vec![
            (!self.product(&shape.product).paused, "product_paused"),
            (shape.pin.as_ref().is_none_or(|pin| *pin == factory.id), "pinned_elsewhere"),
            (needed.into_iter().all(|token| offered.contains(&token)), "no_factory_offers"),
            (engines(state).any(|e| shape.engines.is_empty() || shape.engines.contains(&e)), "no_factory_runs_engine"),
            (is_there(state, shape), self.without_repo(shape)),
            (state.products.is_empty() || state.products.contains(&shape.product), "out_of_scope"),
            (matches!(state.presence, Presence::Live | Presence::Warming), "away"),
            (state.presence == Presence::Live, "warming"),
            (!factory.draining, "draining"),
            (!state.disk_low, "disk_low"),
            (state.unresponsive.is_none(), "unresponsive"),
        ]
    }

    /// The reason for a job whose engines are all unavailable: that of the factory rejected only for it, with the
    /// earliest retry.
    fn unavailability_for(&self, waiting: &WaitingJob) -> &'static str {
        let pinned = |state: &&FactoryState| waiting.shape.pin.as_ref().is_none_or(|pin| *pin == state.factory.id);
        let stopped = self.scenario.factories.iter().filter(pinned).filter(|state| {
            let before = self.graver_gates(state, waiting).iter().all(|(open, _)| *open);
            before && !is_awake(state, waiting)
        });
        let is_unavailable = stopped.flat_map(|state| usable(state, waiting).filter_map(|e| state.resting.get(&e)));
        let first = is_unavailable.filter_map(|rest| match rest {
            EngineUnavailable::Window(window) => window.until,
            EngineUnavailable::Paused { until, .. } => Some(*until),
            EngineUnavailable::Unusable { .. } => None,
        });
        if first.min().is_some() { "usage_window" } else { "engine_unusable" }
    }

    /// The engine for the job; `None` if no engine is available.
    fn engine(&self, state: &FactoryState, waiting: &WaitingJob) -> Option<Option<EngineName>> {
        let offered: Vec<EngineName> = engines(state).collect();
        let wanted = &waiting.shape.engines;
        if wanted.is_empty() && offered.is_empty() {
            return Some(None);
        }
        let free = |engine: &&EngineName| {
            let here = self.seats.iter().filter(|seat| seat.factory == state.factory.id);
            let used = here.filter(|seat| seat.engine.as_ref() == Some(engine)).count();
            let has_seat = state.factory.engine_seats.get(engine).is_none_or(|limit| used < *limit as usize);
            has_seat && !state.resting.contains_key(*engine)
        };
        let mut usable: Vec<&EngineName> = wanted.iter().filter(|engine| offered.contains(engine)).collect();
        if wanted.is_empty() {
            usable = offered.iter().collect();
        }
        usable.into_iter().find(free).cloned().map(Some)
    }

    fn score(&self, state: &FactoryState, waiting: &WaitingJob) -> f64 {
        let product = self.scenario.products.get(&waiting.shape.product);
        let weights =
            product.map_or(self.scenario.weights, |product| self.scenario.weights.with(&product.score_weights));
        let weigh = |weight: f64, term: f64| weight.max(0.0) * term;
        let age = NOW.since(waiting.since);
        let starved = (1.0 - age.as_secs_f64() / Duration::from_secs(1_800).as_secs_f64()).max(0.0);
        let affinity = waiting.shape.repo.as_ref().is_some_and(|repo| is_the_one(state, repo, &waiting.shape));
        weigh(weights.capability_fit, 1.0 / (1.0 + self.spare(state, waiting)))
            + weigh(weights.affinity, if affinity { 1.0 } else { 0.0 })
            + weigh(weights.idleness, 1.0 / (1.0 + self.load(state)))
            + weigh(weights.cost_fit, 1.0 - f64::from(state.factory.cost) / 100.0)
            + weigh(weights.health, state.health)
            - weigh(weights.starvation_penalty, starved)
    }

    fn spare(&self, state: &FactoryState, waiting: &WaitingJob) -> f64 {
        let live: Vec<&FactoryState> =
            self.scenario.factories.iter().filter(|state| state.presence == Presence::Live).collect();
        if live.is_empty() {
            return 0.0;
        }
        let needed = waiting.shape.capabilities.iter().cloned().map(Capability::canonical);
        let asked: BTreeSet<Capability> = needed.chain(waiting.shape.engines.iter().map(Capability::engine)).collect();
        let spare = advertised(state).into_iter().filter(|token| !token.as_str().starts_with("repo:"));
        let without = spare
            .filter(|token| !asked.contains(token))
            .map(|token| live.iter().filter(|state| !advertised(state).contains(&token)).count());
        without.sum::<usize>() as f64 / live.len() as f64
    }

    fn load(&self, state: &FactoryState) -> f64 {
        let used = self.seats.iter().filter(|seat| seat.factory == state.factory.id).count();
        match state.factory.seat_limit {
            0 => state.load,
            limit => state.load.max(used as f64 / f64::from(limit)),
        }
    }

    fn product(&self, id: &ProductId) -> Product {
        self.scenario.products.get(id).cloned().unwrap_or_else(|| Product::new(id.clone()))
    }
}

fn advertised(state: &FactoryState) -> BTreeSet<Capability> {
    let tokens = state.factory.capabilities.iter().cloned().map(Capability::canonical);
    tokens.chain(state.factory.repos.iter().map(Capability::repo)).collect()
}

/// Whether the factory has the repository of a shape, or can clone it.
fn is_there(state: &FactoryState, shape: &Shape) -> bool {
    let may_be_cloned = state.factory.clones && shape.identity.is_none();
    may_be_cloned || shape.repo.as_ref().is_none_or(|repo| is_the_one(state, repo, shape))
}

fn is_the_one(state: &FactoryState, repo: &RepoName, shape: &Shape) -> bool {
    has(state, repo) && (shape.identity.is_none() || state.factory.repo_identities.get(repo) == shape.identity.as_ref())
}

fn has(state: &FactoryState, repo: &RepoName) -> bool {
    advertised(state).contains(&Capability::repo(repo))
}

fn engines(state: &FactoryState) -> impl Iterator<Item = EngineName> {
    state.factory.engines()
}

/// The acceptable engines of a factory.
fn usable(state: &FactoryState, waiting: &WaitingJob) -> impl Iterator<Item = EngineName> {
    let named = waiting.shape.engines.clone();
    engines(state).filter(move |engine| named.is_empty() || named.contains(engine))
}

/// Whether the job needs no engine, or an acceptable one is available.
fn is_awake(state: &FactoryState, waiting: &WaitingJob) -> bool {
    let mut usable = usable(state, waiting).peekable();
    let needs_none = waiting.shape.engines.is_empty() && usable.peek().is_none();
    needs_none || usable.any(|engine| !state.resting.contains_key(&engine))
}
