//! Open promotions and merges: which ones a factory can get next.
//!
//! Merges into one repository run one after the other: each moves the base branch, and concurrent ones would merge onto
//! an outdated base. A factory gets a few errands at a time, so that none times out in its queue.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Errand, ErrandKind, ErrandState, FactoryId, Job, JobId, RepoName};
use foldhash::HashMap;

use super::FleetState;

/// Errands of one factory at a time. They are short, and share the machine with its runs.
const PER_FACTORY_MAX: usize = 4;

/// The errands of open jobs.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    /// Merges without a factory, by repository.
    merges: BTreeMap<RepoName, BTreeSet<JobId>>,
    /// Promotions without a factory. Each has its own branch.
    promotions: BTreeSet<JobId>,
    /// The repository of each waiting merge, so that removing one searches one repository only.
    waits_in: HashMap<JobId, RepoName>,
    /// Errands that a factory was offered or works on.
    out: HashMap<JobId, OpenErrand>,
    merging: HashMap<RepoName, usize>,
    load: HashMap<FactoryId, usize>,
}

#[derive(Debug)]
struct OpenErrand {
    factory: FactoryId,
    merges_into: Option<RepoName>,
}

impl Errands {
    /// Records a job's errand; `is_ripe` when its backoff is over. Returns whether it can be offered now.
    pub(crate) fn note(&mut self, job: &Job, errand: &Errand, is_ripe: bool) -> bool {
        let Some(repo) = &job.spec().repo else { return false };
        let merges_into = (errand.kind == ErrandKind::Ship).then(|| repo.clone());
        let factory = match &errand.state {
            ErrandState::Waiting { .. } if !is_ripe => return false,
            ErrandState::Waiting { .. } => {
                match merges_into {
                    Some(repo) => {
                        self.merges.entry(repo.clone()).or_default().insert(job.id());
                        self.waits_in.insert(job.id(), repo);
                    }
                    None => {
                        self.promotions.insert(job.id());
                    }
                }
                return true;
            }
            ErrandState::Dispatched { dispatch } => dispatch.target.clone(),
            ErrandState::Held { lease, .. } => lease.factory.clone(),
        };
        if let Some(repo) = &merges_into {
            *self.merging.entry(repo.clone()).or_default() += 1;
        }
        *self.load.entry(factory.clone()).or_default() += 1;
        self.out.insert(job.id(), OpenErrand { factory, merges_into });
        false
    }

    /// Removes a job's errand.
    pub(crate) fn remove(&mut self, job: JobId) {
        self.promotions.remove(&job);
        if let Some(repo) = self.waits_in.remove(&job)
            && let Some(jobs) = self.merges.get_mut(&repo)
        {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.merges.remove(&repo);
            }
        }
        let Some(out) = self.out.remove(&job) else { return };
        subtract(&mut self.load, &out.factory);
        if let Some(repo) = &out.merges_into {
            subtract(&mut self.merging, repo);
        }
    }

    /// The errands that can be offered now: one merge per repository, and promotions.
    pub(crate) fn ready(&self, limit: usize) -> Vec<JobId> {
        let is_free = |repo: &RepoName| !self.merging.contains_key(repo);
        let merges = self.merges.iter().filter(|(repo, _)| is_free(repo)).filter_map(|(_, jobs)| jobs.first());
        merges.chain(&self.promotions).take(limit).copied().collect()
    }

    /// Whether a factory can take one more errand, when `planned` are planned for it.
    pub(crate) fn has_capacity(&self, factory: &FactoryId, planned: usize) -> bool {
        self.load.get(factory).copied().unwrap_or(0) + planned < PER_FACTORY_MAX
    }
}

impl FleetState {
    /// The errands that can be offered now: one merge per repository, and promotions.
    pub(crate) fn ready_errands(&self, limit: usize) -> Vec<JobId> {
        self.errands.ready(limit)
    }

    /// Whether a factory can take one more errand, when `planned` are planned for it.
    pub(crate) fn has_errand_capacity(&self, factory: &FactoryId, planned: usize) -> bool {
        self.errands.has_capacity(factory, planned)
    }

    /// The errands that a factory was offered or works on.
    pub(crate) fn errand_load(&self, factory: &FactoryId) -> usize {
        self.errands.load.get(factory).copied().unwrap_or(0)
    }

    /// The jobs whose errands a factory was offered or works on.
    pub(crate) fn errands_of(&self, factory: &FactoryId) -> Vec<JobId> {
        let own = self.errands.out.iter().filter(|(_, out)| out.factory == *factory);
        own.map(|(job, _)| *job).collect()
    }
}

fn subtract<K: std::hash::Hash + Eq + Clone>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
