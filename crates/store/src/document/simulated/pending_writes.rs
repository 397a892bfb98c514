//! Jobs that this process wrote and whose events may not be in the log yet. The process reads its own writes in order,
//! whatever the feed returns.

use std::collections::VecDeque;

use domain::{EventSeq, JobId};
use parking_lot::Mutex;

/// More than this accumulate only if the process does not read the log; then the writer appends them.
const WAITING_MAX: usize = 4_096;

/// Job writes in order, each with the number of its last event.
#[derive(Default)]
pub(super) struct PendingWrites {
    waiting: Mutex<VecDeque<(JobId, EventSeq)>>,
}

impl PendingWrites {
    /// Notes that a job is being written, up to this event.
    pub(super) fn note(&self, job: JobId, seq: EventSeq) {
        self.waiting.lock().push_back((job, seq));
    }

    pub(super) fn are_many(&self) -> bool {
        self.waiting.lock().len() > WAITING_MAX
    }

    /// Takes all of them; they are put back unless [`PendingBatch::finish`] is reached.
    pub(super) fn take(&self) -> PendingBatch<'_> {
        PendingBatch { touched: self, jobs: std::mem::take(&mut *self.waiting.lock()) }
    }
}

/// Writes that are being appended to the log.
pub(super) struct PendingBatch<'a> {
    touched: &'a PendingWrites,
    pub(super) jobs: VecDeque<(JobId, EventSeq)>,
}

impl PendingBatch<'_> {
    pub(super) fn finish(mut self) {
        self.jobs.clear();
    }
}

impl Drop for PendingBatch<'_> {
    fn drop(&mut self) {
        let mut waiting = self.touched.waiting.lock();
        while let Some(job) = self.jobs.pop_back() {
            waiting.push_front(job);
        }
    }
}
