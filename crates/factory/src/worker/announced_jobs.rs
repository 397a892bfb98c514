//! Jobs that the coordinator announced, until they are claimed [D1].

use std::collections::VecDeque;

use domain::JobId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Announced jobs that wait to be claimed. The coordinator repeats announcements beyond it.
const JOBS_MAX: usize = 1_000;

/// The announced jobs, oldest first.
#[derive(Debug, Default)]
pub(super) struct AnnouncedJobs {
    jobs: Mutex<VecDeque<JobId>>,
    added: Notify,
}

impl AnnouncedJobs {
    pub(super) fn add(&self, job: JobId) {
        {
            let mut jobs = self.jobs.lock();
            if jobs.len() >= JOBS_MAX || jobs.contains(&job) {
                return;
            }
            jobs.push_back(job);
        }
        self.added.notify_one();
    }

    /// Waits for announced jobs, and takes all of them.
    pub(super) async fn next(&self) -> Vec<JobId> {
        loop {
            let jobs: Vec<JobId> = self.jobs.lock().drain(..).collect();
            if !jobs.is_empty() {
                return jobs;
            }
            self.added.notified().await;
        }
    }
}
