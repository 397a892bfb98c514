//! Jobs that this process wrote and whose events may not be in the log yet. The process reads its own writes in order,
//! whatever the feed returns.

use std::collections::VecDeque;

use domain::EventSeq;
use parking_lot::Mutex;

use super::database::Partition;

/// More than this accumulate only if the process does not read the log; then the writer appends them.
const WAITING_MAX: usize = 4_096;

/// A job, and the number of its last event that was written.
pub(super) type PendingJob = (Partition, EventSeq);

/// Job writes in order.
#[derive(Default)]
pub(super) struct PendingWrites {
    waiting: Mutex<VecDeque<PendingJob>>,
}

impl PendingWrites {
    /// Records these writes when the guard is dropped: the log gets their events even if a response is lost or the
    /// caller is cancelled.
    pub(super) fn after(&self, jobs: Vec<Option<PendingJob>>) -> Writing<'_> {
        Writing { pending: self, jobs }
    }

    pub(super) fn are_many(&self) -> bool {
        self.waiting.lock().len() > WAITING_MAX
    }

    /// Takes all of them; they are put back unless [`PendingBatch::finish`] is reached.
    pub(super) fn take(&self) -> PendingBatch<'_> {
        PendingBatch { pending: self, jobs: std::mem::take(&mut *self.waiting.lock()) }
    }
}

/// Writes whose requests are under way.
pub(super) struct Writing<'a> {
    pending: &'a PendingWrites,
    jobs: Vec<Option<PendingJob>>,
}

impl Writing<'_> {
    /// The write at this index did not happen.
    pub(super) fn forget(&mut self, at: usize) {
        self.jobs[at] = None;
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.pending.waiting.lock().extend(self.jobs.drain(..).flatten());
    }
}

/// Writes that are being appended to the log.
pub(super) struct PendingBatch<'a> {
    pending: &'a PendingWrites,
    pub(super) jobs: VecDeque<PendingJob>,
}

impl PendingBatch<'_> {
    pub(super) fn finish(mut self) {
        self.jobs.clear();
    }
}

impl Drop for PendingBatch<'_> {
    fn drop(&mut self) {
        let mut waiting = self.pending.waiting.lock();
        while let Some(job) = self.jobs.pop_back() {
            waiting.push_front(job);
        }
    }
}
