//! The worker's records on disk: its runs and its reports. Disks are slow, so every call leaves the async threads.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::{DispatchSeq, JobId};
use parking_lot::Mutex;
use protocol::WorkOperation;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use workspace::{BranchIntent, BranchIntents, Error, Outbox, OutboxEntry, RunListing, RunRecord, Runs};

/// The records of runs and the pending reports, for async callers.
pub(super) struct RunJournal {
    runs: Runs,
    outbox: Outbox,
    branches: BranchIntents,
    /// Reports whose caller still waits for the answer: no other task may deliver them.
    in_hand: Mutex<HashSet<u64>>,
    lanes: Mutex<HashMap<JobId, DeliveryLane>>,
    /// Records that could not be written, as they should be; `None` for those that should be removed.
    unsettled: Mutex<HashMap<(JobId, DispatchSeq), Option<RunRecord>>>,
}

/// The right to deliver reports of one job. Other jobs' reports are delivered concurrently.
pub(super) type DeliveryLane = Arc<AsyncMutex<()>>;

/// A report that was not answered yet.
#[derive(Debug)]
pub(super) struct PendingReport {
    pub(super) number: u64,
    pub(super) operation: WorkOperation,
}

impl RunJournal {
    pub(super) fn new(runs: Runs, outbox: Outbox, branches: BranchIntents) -> Self {
        Self { runs, outbox, branches, in_hand: Mutex::default(), lanes: Mutex::default(), unsettled: Mutex::default() }
    }

    /// Writes a record.
    pub(super) async fn save(&self, record: &RunRecord) -> Result<(), Error> {
        let (runs, copy) = (self.runs.clone(), record.clone());
        off_thread(move || runs.save(&copy)).await
    }

    /// [`RunJournal::save`]; `false` on an I/O error, which ends the run before it does harm. [`RunJournal::settle`]
    /// writes the missing record later.
    pub(super) async fn remember(&self, record: &RunRecord) -> bool {
        let key = (record.job, record.dispatch_seq);
        match self.save(record).await {
            Ok(()) => {
                self.unsettled.lock().remove(&key);
                true
            }
            Err(error) => {
                warn!(job.id = %record.job, %error, "Cannot write the run record of job {}", record.job.short());
                self.unsettled.lock().insert(key, Some(record.clone()));
                false
            }
        }
    }

    pub(super) async fn forget(&self, record: &RunRecord) {
        let (job, seq) = (record.job, record.dispatch_seq);
        match self.remove(job, seq).await {
            Ok(()) => drop(self.unsettled.lock().remove(&(job, seq))),
            Err(error) => {
                warn!(job.id = %job, %error, "Cannot remove the run record of job {}", job.short());
                self.unsettled.lock().insert((job, seq), None);
            }
        }
    }

    async fn remove(&self, job: JobId, seq: DispatchSeq) -> Result<(), Error> {
        let runs = self.runs.clone();
        off_thread(move || runs.remove(job, seq)).await
    }

    /// Writes and removes the records that failed before: a stale record of an active run would keep its worktree
    /// forever. Idempotent.
    pub(super) async fn settle(&self) {
        let unsettled: Vec<_> = self.unsettled.lock().iter().map(|(key, record)| (*key, record.clone())).collect();
        for ((job, seq), record) in unsettled {
            let settled = match &record {
                Some(record) => self.save(record).await,
                None => self.remove(job, seq).await,
            };
            let mut unsettled = self.unsettled.lock();
            // The run may have continued meanwhile.
            if settled.is_ok() && unsettled.get(&(job, seq)) == Some(&record) {
                unsettled.remove(&(job, seq));
                info!(job.id = %job, "The run record of job {} is written after all", job.short());
            }
        }
    }

    pub(super) async fn records(&self) -> Result<RunListing, Error> {
        let runs = self.runs.clone();
        off_thread(move || runs.list()).await
    }

    /// Records that a branch is about to be made.
    pub(super) async fn about_to_make(&self, note: &BranchIntent) -> Result<(), Error> {
        let (branches, note) = (self.branches.clone(), note.clone());
        off_thread(move || branches.save(&note)).await
    }

    /// No branch needs to be removed any more.
    pub(super) async fn branch_is_settled(&self, note: &BranchIntent) {
        let (branches, copy) = (self.branches.clone(), note.clone());
        if let Err(error) = off_thread(move || branches.remove(&copy)).await {
            warn!(job.id = %note.job, %error, "Cannot remove the note on the branch of job {}", note.job.short());
        }
    }

    /// Branches that were about to be made.
    pub(super) async fn branches(&self) -> Result<Vec<BranchIntent>, Error> {
        let branches = self.branches.clone();
        off_thread(move || branches.list()).await
    }

    /// Records a report on disk; only its caller delivers it until [`RunJournal::hand_over`].
    pub(super) async fn append(&self, operation: &WorkOperation) -> Option<u64> {
        let outbox = self.outbox.clone();
        let report = serde_json::to_value(operation).ok()?;
        match off_thread(move || outbox.append(&report)).await {
            Ok(number) => {
                self.in_hand.lock().insert(number);
                Some(number)
            }
            Err(error) => {
                warn!(%error, "Cannot write a report down; sending it all the same");
                None
            }
        }
    }

    /// Pending reports, oldest first. An unreadable report is dropped here.
    pub(super) async fn waiting(&self) -> Result<Vec<PendingReport>, Error> {
        let outbox = self.outbox.clone();
        let listing = off_thread(move || outbox.list()).await?;
        let mut waiting = Vec::new();
        for OutboxEntry { number, report } in listing.entries {
            match serde_json::from_value(current(report)) {
                Ok(operation) => waiting.push(PendingReport { number, operation }),
                Err(error) => {
                    warn!(number, %error, "A report in the outbox cannot be read any more");
                    self.tick_off(number).await;
                }
            }
        }
        Ok(waiting)
    }

    /// A report was answered.
    pub(super) async fn tick_off(&self, number: u64) {
        let outbox = self.outbox.clone();
        if let Err(error) = off_thread(move || outbox.remove(number)).await {
            warn!(%error, "Cannot remove a delivered report: it will be delivered again, which changes nothing");
        }
        self.hand_over(number);
    }

    /// The caller of a report no longer waits for its answer.
    pub(super) fn hand_over(&self, number: u64) {
        self.in_hand.lock().remove(&number);
    }

    pub(super) fn is_in_hand(&self, number: u64) -> bool {
        self.in_hand.lock().contains(&number)
    }

    /// The lane of a job. Unused lanes are removed on the way.
    pub(super) fn lane(&self, job: JobId) -> DeliveryLane {
        let mut lanes = self.lanes.lock();
        lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        Arc::clone(lanes.entry(job).or_default())
    }
}

/// Runs disk work where it may block.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        // Only a panic of the work, or the end of the runtime, leads here.
        Err(gone) => Err(Error::disk("reach", "the state folder")(std::io::Error::other(gone))),
    }
}

/// A stored report in today's form: earlier versions tagged the operation with `do`.
fn current(mut report: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = report.as_object_mut()
        && !fields.contains_key("op")
        && let Some(operation) = fields.remove("do")
    {
        fields.insert("op".to_owned(), operation);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use workspace::StateDir;

    // [F6]
    #[tokio::test]
    async fn one_delivery_at_a_time_for_a_job_and_none_waits_for_another_job() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::new(folder.path()).unwrap();
        let ledger = RunJournal::new(Runs::under(&state), Outbox::open(&state).unwrap(), BranchIntents::under(&state));
        let (one, other) = (JobId::from_bytes([1; 16]), JobId::from_bytes([2; 16]));

        let lane = ledger.lane(one);
        let _turn = lane.lock().await;

        assert!(ledger.lane(one).try_lock().is_err());
        assert!(ledger.lane(other).try_lock().is_ok());
    }

    #[test]
    fn a_report_of_an_earlier_version_is_read() {
        let stored = serde_json::json!({ "do": "start", "jobId": "01a1e12f-541d-73dc-aa3c-29452d1c6894", "leaseEpoch": 1, "engine": "demo" });

        let read: Result<WorkOperation, _> = serde_json::from_value(current(stored));

        assert!(matches!(read, Ok(WorkOperation::Start { .. })), "{read:?}");
    }
}
