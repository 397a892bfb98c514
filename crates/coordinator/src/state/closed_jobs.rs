//! Jobs that ended recently, so that an older revision of one cannot reopen it.

use std::collections::VecDeque;

use domain::{JobId, Revision};
use foldhash::HashMap;

/// A revision is late by a few commits at most; this many cover minutes on a busy fleet.
const KEPT_MAX: usize = 16_384;

/// The revisions at which jobs ended.
#[derive(Debug, Default)]
pub(crate) struct ClosedJobs {
    revisions: HashMap<JobId, Revision>,
    order: VecDeque<JobId>,
}

impl ClosedJobs {
    /// Records the revision at which a job ended.
    pub(crate) fn note(&mut self, job: JobId, revision: Revision) {
        if self.revisions.insert(job, revision).is_none() {
            self.order.push_back(job);
        }
        if self.order.len() > KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.revisions.remove(&oldest);
        }
    }

    /// The revision at which a job ended, if it ended recently.
    pub(crate) fn revision(&self, job: JobId) -> Option<Revision> {
        self.revisions.get(&job).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_closed_jobs_are_evicted_first() {
        let job = |n: usize| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(n as u64).to_be_bytes());
            JobId::from_bytes(bytes)
        };
        let mut closed = ClosedJobs::default();

        for n in 0..=KEPT_MAX {
            closed.note(job(n), Revision(7));
        }

        assert_eq!(closed.revision(job(0)), None);
        assert_eq!(closed.revision(job(1)), Some(Revision(7)));
        assert_eq!(closed.revision(job(KEPT_MAX)), Some(Revision(7)));
    }
}
