//! What this process remembers of jobs: their product, which is a part of their address, and the version that the next
//! write has to name.

use std::collections::HashMap;

use domain::{EventSeq, JobId, ProductId, Revision};
use parking_lot::Mutex;

use super::database::Etag;

/// Number of cached jobs: a few megabytes. Others are read again.
const JOBS_MAX: usize = 32_768;

/// The versions of jobs as of the last request. Another process may have changed them since: each write names the etag
/// that it depends on, and the database refuses a wrong one.
#[derive(Default)]
pub(super) struct JobCache {
    jobs: Mutex<HashMap<JobId, CachedJob>>,
}

struct CachedJob {
    product: ProductId,
    /// Absent for ended jobs, and after an unknown outcome.
    version: Option<JobVersion>,
}

/// A version of a job's item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobVersion {
    pub(super) revision: Revision,
    pub(super) etag: Etag,
    /// The number of the job's last event.
    pub(super) seq: EventSeq,
}

impl JobCache {
    pub(super) fn product(&self, id: JobId) -> Option<ProductId> {
        self.jobs.lock().get(&id).map(|job| job.product.clone())
    }

    pub(super) fn version(&self, id: JobId) -> Option<JobVersion> {
        self.jobs.lock().get(&id).and_then(|job| job.version.clone())
    }

    pub(super) fn remember(&self, id: JobId, product: &ProductId, version: Option<JobVersion>) {
        let mut jobs = self.jobs.lock();
        if jobs.len() >= JOBS_MAX && !jobs.contains_key(&id) {
            jobs.clear();
        }
        jobs.insert(id, CachedJob { product: product.clone(), version });
    }

    /// Forgets the version of a job, but not its address.
    pub(super) fn forget_version(&self, id: JobId) {
        if let Some(job) = self.jobs.lock().get_mut(&id) {
            job.version = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_and_keeps_the_newest() {
        let cache = JobCache::default();
        let id = |n: usize| JobId::from_bytes((n as u128).to_be_bytes());
        for n in 0..=JOBS_MAX {
            cache.remember(id(n), &ProductId::default_product(), None);
        }

        assert_eq!(cache.product(id(JOBS_MAX)), Some(ProductId::default_product()));
        assert!(cache.jobs.lock().len() <= JOBS_MAX);
    }
}
