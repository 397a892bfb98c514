//! Selects a factory for a job: filter and score over groups of similar factories.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use domain::{EngineName, FactoryId, JobId};

use crate::constraints::{Constraints, EnginePick};
use crate::filter::{Candidate, FilterCondition, RepoFit};
use crate::fleet::{Availability, CapabilityClass, IndexedFactory, Load, LoadRank};
use crate::overlay::{FactoryGroup, FleetOverlay};
use crate::plan::{Placement, RunnerUp};
use crate::score::{Score, Terms, Weights};

/// Runners-up of a decision that are recorded.
const RUNNERS_UP_MAX: usize = 5;

/// Groups of similar factories that are searched for runners-up: this bounds what a record costs.
const RUNNER_UP_GROUPS_MAX: usize = 8;

/// Members of one group that are searched for runners-up.
const RUNNER_UP_MEMBERS_MAX: usize = 32;

/// A candidate factory for a job, with its score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'d> {
    pub(crate) factory: &'d FactoryId,
    pub(crate) engine: Option<&'d EngineName>,
    pub(crate) score: Score,
    load: Load,
}

impl Choice<'_> {
    /// The higher score wins, then the lower load, then the id.
    pub(crate) fn beats(&self, other: &Self) -> bool {
        let by_score = self.score.total.total_cmp(&other.score.total);
        by_score.then_with(|| (other.load, other.factory).cmp(&(self.load, self.factory))).is_gt()
    }

    pub(crate) fn placement(&self, job: JobId, weights: Weights) -> Placement {
        Placement {
            job,
            factory: self.factory.clone(),
            engine: self.engine.cloned(),
            score: self.score,
            weights,
            runners_up: Vec::new(),
        }
    }
}

impl FleetOverlay<'_> {
    /// Selects the factory for a job. The avoided factory is the last resort.
    pub(crate) fn choose<'d>(&'d self, constraints: &Constraints<'d>) -> Option<Choice<'d>> {
        if let Some(pin) = &constraints.shape.pin {
            return self.consider(pin, constraints);
        }
        self.best(constraints).or_else(|| self.consider(constraints.avoid?, constraints))
    }

    /// The best factory, except the avoided one.
    pub(crate) fn best<'d>(&'d self, constraints: &Constraints<'d>) -> Option<Choice<'d>> {
        let mut best: Option<Choice> = None;
        if constraints.unknown || constraints.paused || constraints.repo_full || constraints.shape.pin.is_some() {
            return best;
        }
        for (id, kind) in self.view.fleet.kinds().offering(&constraints.tokens) {
            for alike in self.ready(id, kind) {
                // The repositories differ between members, so they are checked last.
                let load_state = alike.load_state;
                let candidate = Candidate { kind, load_state, repo: RepoFit::WHOLE, pinned_elsewhere: false };
                if FilterCondition::stopping(&candidate, constraints).is_some()
                    || best.is_some_and(|best| self.scores_below(&alike, constraints, &best))
                {
                    continue;
                }
                for rank in self.least_loaded(&alike, constraints).into_iter().flatten() {
                    let has_repo = constraints.repo.is_some_and(|repo| alike.bucket.holds(rank, repo));
                    let choice = self.choice(kind, load_state, rank, has_repo, constraints);
                    if best.is_none_or(|best| choice.beats(&best)) {
                        best = Some(choice);
                    }
                }
            }
        }
        best
    }

    /// A placement with the factories that came next: what the decision is explained by later [S4].
    pub(crate) fn recorded(&self, placement: Placement, constraints: &Constraints) -> Placement {
        let runners_up = self.runners_up(&placement.factory, constraints);
        Placement { runners_up, ..placement }
    }

    /// The next best factories, best first. In a large fleet some groups are not searched: it is a record, not a
    /// decision.
    fn runners_up(&self, chosen: &FactoryId, constraints: &Constraints) -> Vec<RunnerUp> {
        if constraints.shape.pin.is_some() {
            return Vec::new();
        }
        let mut next: Vec<Choice> = Vec::new();
        let groups = self.view.fleet.kinds().offering(&constraints.tokens);
        let groups = groups.flat_map(|(id, kind)| self.ready(id, kind).map(move |alike| (kind, alike)));
        for (kind, alike) in groups.take(RUNNER_UP_GROUPS_MAX) {
            let load_state = alike.load_state;
            let candidate = Candidate { kind, load_state, repo: RepoFit::WHOLE, pinned_elsewhere: false };
            if FilterCondition::stopping(&candidate, constraints).is_some() {
                continue;
            }
            let holders = constraints.repo.and_then(|repo| alike.bucket.holders.get(&repo)).into_iter().flatten();
            let members = holders.take(RUNNER_UP_MEMBERS_MAX);
            let members = members.chain(alike.bucket.by_load.iter().take(RUNNER_UP_MEMBERS_MAX));
            let fits = |rank: &&LoadRank| {
                rank.factory != *chosen
                    && !self.moved(&alike, rank)
                    && self.repo_fit(kind, &rank.factory, constraints, |repo| alike.bucket.holds(rank, repo))
                        == RepoFit::WHOLE
            };
            for rank in members.filter(fits) {
                if next.iter().all(|known| known.factory != &rank.factory) {
                    let has_repo = constraints.repo.is_some_and(|repo| alike.bucket.holds(rank, repo));
                    next.push(self.choice(kind, load_state, rank, has_repo, constraints));
                }
            }
        }
        next.sort_by(|one, other| if one.beats(other) { Ordering::Less } else { Ordering::Greater });
        let next = next.into_iter().take(RUNNERS_UP_MAX);
        next.map(|choice| RunnerUp { factory: choice.factory.clone(), total: choice.score.total }).collect()
    }

    /// Whether even the least loaded factory of the group scores below `best`, with or without the repository.
    fn scores_below(&self, alike: &FactoryGroup, constraints: &Constraints, best: &Choice) -> bool {
        let Some(rank) = alike.bucket.by_load.first() else { return true };
        let bound = self.score(alike.kind, alike.load_state, rank.load, constraints.repo.is_some(), constraints);
        bound.total < best.score.total
    }

    /// One factory, if it is eligible.
    pub(crate) fn consider<'d>(&'d self, factory: &FactoryId, constraints: &Constraints<'d>) -> Option<Choice<'d>> {
        let member = self.view.fleet.member(factory)?;
        match FilterCondition::stopping(&self.candidate(member, constraints), constraints) {
            None => Some(self.assess(member, constraints)),
            Some(_) => None,
        }
    }

    /// One factory with its score, eligible or not.
    pub(crate) fn assess<'d>(&'d self, member: &'d IndexedFactory, constraints: &Constraints<'d>) -> Choice<'d> {
        let Candidate { kind, load_state, .. } = self.candidate(member, constraints);
        let has_repo = constraints.repo.is_some_and(|repo| member.repos.contains(&repo));
        self.choice(kind, load_state, self.rank(member), has_repo, constraints)
    }

    /// The engine and the score of a factory in a hypothetical state.
    pub(crate) fn assess_at(
        &self,
        member: &IndexedFactory,
        load_state: &Availability,
        load: Load,
        constraints: &Constraints,
    ) -> (Option<EngineName>, Score) {
        let kind = self.view.fleet.kinds().get(member.kind);
        let has_repo = constraints.repo.is_some_and(|repo| member.repos.contains(&repo));
        let engine = match constraints.engine(kind, load_state) {
            EnginePick::One(engine) => Some(engine.clone()),
            EnginePick::Busy | EnginePick::Resting | EnginePick::Absent => None,
        };
        (engine, self.score(kind, load_state, load, has_repo, constraints))
    }

    /// The member of a group that passes the most repository conditions; `None` if all members moved to the overlay.
    ///
    /// Only for groups without an eligible member: a repository at its limit is a valid reason too.
    pub(crate) fn foremost<'d>(
        &self,
        alike: &FactoryGroup<'d>,
        constraints: &Constraints,
    ) -> Option<(RepoFit, &'d LoadRank)> {
        let FactoryGroup { kind, bucket, .. } = *alike;
        let stayed = |rank: &&LoadRank| !self.moved(alike, rank);
        let wanted = constraints.held.iter().chain(&constraints.repo);
        let holders = wanted.filter_map(|repo| bucket.holders.get(repo)).flatten().filter(stayed);
        // Members without any of the repositories pass equally many conditions.
        let other = bucket.by_load.iter().find(stayed);
        let mut foremost: Option<(RepoFit, &LoadRank)> = None;
        for rank in holders.chain(other) {
            let fit = self.repo_fit(kind, &rank.factory, constraints, |repo| bucket.holds(rank, repo));
            if foremost.is_none_or(|(furthest, _)| fit > furthest) {
                foremost = Some((fit, rank));
            }
            if fit.tokens && fit.there {
                break;
            }
        }
        foremost
    }

    /// The least loaded member with the job's repository, or of all members if they can clone it.
    fn least_loaded<'d>(&self, alike: &FactoryGroup<'d>, constraints: &Constraints) -> [Option<&'d LoadRank>; 2] {
        let FactoryGroup { kind, bucket, .. } = *alike;
        let fits = |rank: &&LoadRank| {
            constraints.avoid != Some(&rank.factory)
                && !self.moved(alike, rank)
                && self.repo_fit(kind, &rank.factory, constraints, |repo| bucket.holds(rank, repo)) == RepoFit::WHOLE
        };
        let first = |ranks: Option<&'d BTreeSet<LoadRank>>| ranks.and_then(|ranks| ranks.iter().find(fits));
        let all = match constraints.held.first() {
            Some(repo) => bucket.holders.get(repo),
            None => Some(&bucket.by_load),
        };
        let holders = constraints.repo.and_then(|repo| first(bucket.holders.get(&repo)));
        let any_will_do = constraints.may_be_cloned(kind) || constraints.shape.repo.is_none();
        [holders, if any_will_do { first(all) } else { None }]
    }

    fn choice<'d>(
        &self,
        kind: &'d CapabilityClass,
        load_state: &Availability,
        rank: &'d LoadRank,
        has_repo: bool,
        constraints: &Constraints<'d>,
    ) -> Choice<'d> {
        let engine = match constraints.engine(kind, load_state) {
            EnginePick::One(engine) => Some(engine),
            EnginePick::Busy | EnginePick::Resting | EnginePick::Absent => None,
        };
        let score = self.score(kind, load_state, rank.load, has_repo, constraints);
        Choice { factory: &rank.factory, engine, score, load: rank.load }
    }

    fn score(
        &self,
        kind: &CapabilityClass,
        load_state: &Availability,
        load: Load,
        has_repo: bool,
        constraints: &Constraints,
    ) -> Score {
        let terms = Terms {
            spare: self.view.fleet.kinds().spare(kind, &constraints.asked),
            has_repo,
            load: load.value(),
            cost: kind.cost(),
            health: load_state.health(),
            age: constraints.age,
        };
        Score::of(&terms, &constraints.weights)
    }
}
