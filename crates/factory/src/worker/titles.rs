//! The titles of this factory's recent jobs, for its log.

use std::collections::VecDeque;

use domain::JobId;
use parking_lot::Mutex;
use protocol::Assignment;

/// More than the seats of a large machine; reports about a job may follow its run.
const KEPT_MAX: usize = 256;

/// Titles by job, the latest last.
#[derive(Debug, Default)]
pub(super) struct Titles {
    kept: Mutex<VecDeque<(JobId, String)>>,
}

impl Titles {
    pub(super) fn keep(&self, assignment: &Assignment) {
        let mut kept = self.kept.lock();
        kept.retain(|(job, _)| *job != assignment.job_id);
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((assignment.job_id, assignment.spec.title.clone()));
    }

    /// The job by its short id, and by its title if known.
    pub(super) fn label(&self, job: JobId) -> String {
        let kept = self.kept.lock();
        let title = kept.iter().find(|(known, _)| *known == job).map(|(_, title)| title.as_str());
        job.perhaps_titled(title).to_string()
    }
}
