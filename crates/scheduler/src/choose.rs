//! Selects a factory for a job: filter and score over groups of similar factories.

use std::collections::BTreeSet;

use domain::{EngineName, FactoryId, JobId};

use crate::constraints::{Constraints, EnginePick};
use crate::filter::{Candidate, FilterCondition, RepoFit};
use crate::fleet::{Availability, CapabilityClass, IndexedFactory, Load, LoadRank};
use crate::overlay::{FactoryGroup, FleetOverlay};
use crate::plan::Placement;
use crate::score::{Score, Terms};

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

    pub(crate) fn placement(&self, job: JobId) -> Placement {
        Placement { job, factory: self.factory.clone(), engine: self.engine.cloned(), score: self.score }
    }
}

impl FleetOverlay<'_> {
    /// Selects the factory for a job. The avoided factory is the last resort.
    pub(crate) fn choose<'d>(&'d self, needs: &Constraints<'d>) -> Option<Choice<'d>> {
        if let Some(pin) = &needs.shape.pin {
            return self.consider(pin, needs);
        }
        self.best(needs).or_else(|| self.consider(needs.avoid?, needs))
    }

    /// The best factory, except the avoided one.
    pub(crate) fn best<'d>(&'d self, needs: &Constraints<'d>) -> Option<Choice<'d>> {
        let mut best: Option<Choice> = None;
        if needs.unknown || needs.paused || needs.repo_full || needs.shape.pin.is_some() {
            return best;
        }
        for (id, kind) in self.view.fleet.kinds().offering(&needs.tokens) {
            for alike in self.ready(id, kind) {
                // The repositories differ between members, so they are checked last.
                let standing = alike.standing;
                let candidate = Candidate { kind, standing, repo: RepoFit::WHOLE, pinned_elsewhere: false };
                if FilterCondition::stopping(&candidate, needs).is_some()
                    || best.is_some_and(|best| self.trails(&alike, needs, &best))
                {
                    continue;
                }
                for rank in self.least_loaded(&alike, needs).into_iter().flatten() {
                    let has_repo = needs.repo.is_some_and(|repo| alike.cohort.holds(rank, repo));
                    let choice = self.choice(kind, standing, rank, has_repo, needs);
                    if best.is_none_or(|best| choice.beats(&best)) {
                        best = Some(choice);
                    }
                }
            }
        }
        best
    }

    /// Whether even the least loaded factory of the group scores below `best`, with or without the repository.
    fn trails(&self, alike: &FactoryGroup, needs: &Constraints, best: &Choice) -> bool {
        let Some(rank) = alike.cohort.by_load.first() else { return true };
        let bound = self.score(alike.kind, alike.standing, rank.load, needs.repo.is_some(), needs);
        bound.total < best.score.total
    }

    /// One factory, if it is eligible.
    pub(crate) fn consider<'d>(&'d self, factory: &FactoryId, needs: &Constraints<'d>) -> Option<Choice<'d>> {
        let member = self.view.fleet.member(factory)?;
        match FilterCondition::stopping(&self.candidate(member, needs), needs) {
            None => Some(self.assess(member, needs)),
            Some(_) => None,
        }
    }

    /// One factory with its score, eligible or not.
    pub(crate) fn assess<'d>(&'d self, member: &'d IndexedFactory, needs: &Constraints<'d>) -> Choice<'d> {
        let Candidate { kind, standing, .. } = self.candidate(member, needs);
        let has_repo = needs.repo.is_some_and(|repo| member.repos.contains(&repo));
        self.choice(kind, standing, self.rank(member), has_repo, needs)
    }

    /// The member of a group that passes the most repository conditions; `None` if all members moved to the overlay.
    ///
    /// Only for groups without an eligible member: a repository at its limit is a valid reason too.
    pub(crate) fn foremost<'d>(
        &self,
        alike: &FactoryGroup<'d>,
        needs: &Constraints,
    ) -> Option<(RepoFit, &'d LoadRank)> {
        let FactoryGroup { kind, cohort, .. } = *alike;
        let stayed = |rank: &&LoadRank| !self.moved(alike, rank);
        let wanted = needs.held.iter().chain(&needs.repo);
        let holders = wanted.filter_map(|repo| cohort.holders.get(repo)).flatten().filter(stayed);
        // Members without any of the repositories pass equally many conditions.
        let other = cohort.by_load.iter().find(stayed);
        let mut foremost: Option<(RepoFit, &LoadRank)> = None;
        for rank in holders.chain(other) {
            let fit = self.repo_fit(kind, &rank.factory, needs, |repo| cohort.holds(rank, repo));
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
    fn least_loaded<'d>(&self, alike: &FactoryGroup<'d>, needs: &Constraints) -> [Option<&'d LoadRank>; 2] {
        let FactoryGroup { kind, cohort, .. } = *alike;
        let fits = |rank: &&LoadRank| {
            needs.avoid != Some(&rank.factory)
                && !self.moved(alike, rank)
                && self.repo_fit(kind, &rank.factory, needs, |repo| cohort.holds(rank, repo)) == RepoFit::WHOLE
        };
        let first = |ranks: Option<&'d BTreeSet<LoadRank>>| ranks.and_then(|ranks| ranks.iter().find(fits));
        let all = match needs.held.first() {
            Some(repo) => cohort.holders.get(repo),
            None => Some(&cohort.by_load),
        };
        let holders = needs.repo.and_then(|repo| first(cohort.holders.get(&repo)));
        let any_will_do = needs.may_be_cloned(kind) || needs.shape.repo.is_none();
        [holders, if any_will_do { first(all) } else { None }]
    }

    fn choice<'d>(
        &self,
        kind: &'d CapabilityClass,
        standing: &Availability,
        rank: &'d LoadRank,
        has_repo: bool,
        needs: &Constraints<'d>,
    ) -> Choice<'d> {
        let engine = match needs.engine(kind, standing) {
            EnginePick::One(engine) => Some(engine),
            EnginePick::Busy | EnginePick::Resting | EnginePick::Absent => None,
        };
        let score = self.score(kind, standing, rank.load, has_repo, needs);
        Choice { factory: &rank.factory, engine, score, load: rank.load }
    }

    fn score(
        &self,
        kind: &CapabilityClass,
        standing: &Availability,
        load: Load,
        has_repo: bool,
        needs: &Constraints,
    ) -> Score {
        let terms = Terms {
            spare: self.view.fleet.kinds().spare(kind, &needs.asked),
            has_repo,
            load: load.value(),
            cost: kind.cost(),
            health: standing.health(),
            age: needs.age,
        };
        Score::of(&terms, self.view.weights)
    }
}
