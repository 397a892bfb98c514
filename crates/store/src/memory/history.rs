//! Queries about jobs, by full scans.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    Body, Cursor, Job, JobFilter, JobHistory, JobId, Page, Position, ProductId, Run, Scope, StageName, StoreError,
    StoredEvent, Summary,
};

use super::MemoryStore;
use crate::cursor::ListPosition;

#[async_trait]
impl JobHistory for MemoryStore {
    async fn body(&self, id: JobId) -> Result<Option<Body>, StoreError> {
        Ok(self.fleet.lock().jobs.get(&id).and_then(|kept| kept.body.clone()))
    }

    async fn jobs(&self, filter: &JobFilter, after: Option<Cursor>, limit: u16) -> Result<Page<Summary>, StoreError> {
        let (after, limit) = (ListPosition::after(after.as_ref())?, usize::from(limit.max(1)));
        let fleet = self.fleet.lock();
        let jobs = fleet.jobs.values().map(|kept| &kept.job);
        let mut rest: Vec<_> = jobs.filter(|job| place(&job.value) < after && filter.matches(&job.value)).collect();
        rest.sort_unstable_by_key(|job| Reverse(place(&job.value)));
        let more = rest.len() > limit;
        rest.truncate(limit);
        let next = rest.last().filter(|_| more).map(|job| place(&job.value).cursor());
        let items = rest.into_iter().cloned().map(|job| Summary { job: job.value, revision: job.revision });
        Ok(Page { items: items.collect(), next })
    }

    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<StoredEvent>, StoreError> {
        let fleet = self.fleet.lock();
        let read = usize::try_from(after.0).unwrap_or(usize::MAX);
        let rest = fleet.log.iter().skip(read).filter(|event| is_in_scope(scope, event));
        Ok(rest.take(usize::from(limit)).cloned().collect())
    }

    async fn runs(&self, id: JobId, after: u32, limit: u16) -> Result<Vec<Run>, StoreError> {
        let fleet = self.fleet.lock();
        let runs = fleet.jobs.get(&id).into_iter().flat_map(|kept| &kept.runs).filter(|run| run.n > after);
        Ok(runs.take(usize::from(limit)).cloned().collect())
    }

    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError> {
        let mut counts = BTreeMap::new();
        for kept in self.fleet.lock().jobs.values() {
            let job = &kept.job.value;
            *counts.entry((job.product().clone(), job.stage().name())).or_default() += 1;
        }
        Ok(counts.into_iter().map(|((product, stage), n)| (product, stage, n)).collect())
    }

    /// Operations in memory cost nothing, so none are counted.
    fn operations(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

fn place(job: &Job) -> ListPosition {
    ListPosition { created: job.created_at(), id: job.id() }
}

fn is_in_scope(scope: &Scope, event: &StoredEvent) -> bool {
    match scope {
        Scope::Fleet => true,
        Scope::Products(products) => products.contains(&event.product),
        Scope::Job(job) => *job == event.job,
    }
}
