//! The next deadline of each job: one per job, sorted by time.

use std::collections::BTreeSet;

use domain::{JobId, Timestamp};
use foldhash::HashMap;

/// The deadlines of open jobs.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    by_time: BTreeSet<(Timestamp, JobId)>,
    by_job: HashMap<JobId, Timestamp>,
}

impl Deadlines {
    /// Sets a job's deadline; replaces the former one.
    pub(crate) fn set(&mut self, job: JobId, at: Timestamp) {
        self.clear(job);
        self.by_time.insert((at, job));
        self.by_job.insert(job, at);
    }

    /// Removes a job's deadline.
    pub(crate) fn clear(&mut self, job: JobId) {
        if let Some(at) = self.by_job.remove(&job) {
            self.by_time.remove(&(at, job));
        }
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Jobs whose deadline has passed, most overdue first.
    pub(crate) fn expired(&self, now: Timestamp, limit: usize) -> Vec<JobId> {
        self.by_time.iter().take_while(|(at, _)| *at <= now).take(limit).map(|(_, job)| *job).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postponed_deadline_replaces_the_former_one() {
        let (job, at) = (JobId::from_bytes([1; 16]), Timestamp::from_millis);
        let mut deadlines = Deadlines::default();
        deadlines.set(job, at(10));

        deadlines.set(job, at(20));

        assert_eq!(deadlines.expired(at(15), 9), vec![]);
        assert_eq!(deadlines.expired(at(20), 9), vec![job]);
        deadlines.clear(job);
        assert_eq!((deadlines.next(), deadlines.expired(at(99), 9)), (None, vec![]));
    }
}
