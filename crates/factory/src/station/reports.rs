//! Reports: each is on disk before it is sent, and stays there until it was answered [F6].

use std::sync::Arc;
use std::time::Duration;

use domain::JobId;
use protocol::{ClientError, Completed, ErrandReport, FailWork, Failed, ReleaseWork, StageAnswer};
use protocol::{CompleteWork, WorkOperation};
use serde_json::Value;
use tracing::{info, warn};

use super::{RECONNECT_MAX, Station};
use crate::outbox::OutboxEntry;
use crate::run_key::RunKey;

/// How often a report is tried before the run lets go of it; the outbox goes on.
const DELIVERY_TRIES_MAX: u32 = 5;

/// How long the outbox rests between two looks while something waits in it.
const REPLAY_EVERY: Duration = Duration::from_secs(2);

/// What the coordinator answered to a report.
#[derive(Debug)]
pub(super) enum Answered {
    /// A completion was taken.
    Completed(Completed),
    /// Another report was taken.
    Taken,
    /// It was refused: fenced, or not allowed any more. Asking again gives the same.
    Refused(String),
    /// Nobody answered; it waits in the outbox.
    Waiting,
}

impl Station {
    /// Writes a report down, then delivers it. What cannot be delivered now waits, and survives this process.
    pub(super) async fn report(&self, operation: WorkOperation) -> Answered {
        let number = match serde_json::to_value(&operation).map(|report| self.outbox.append(&report)) {
            Ok(Ok(number)) => Some(number),
            Ok(Err(error)) => {
                warn!(%error, "Cannot write a report down; sending it all the same");
                None
            }
            Err(error) => return Answered::Refused(error.to_string()),
        };
        let mut pause = Duration::from_millis(100);
        for _ in 0..DELIVERY_TRIES_MAX {
            let answer = self.deliver(&operation).await;
            if let Some(answered) = settled(answer) {
                if let Some(number) = number {
                    self.tick_off(number);
                }
                return answered;
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(RECONNECT_MAX);
        }
        Answered::Waiting
    }

    async fn deliver(&self, operation: &WorkOperation) -> Result<Answered, ClientError> {
        let _one_at_a_time = self.delivering.lock().await;
        match operation {
            WorkOperation::Complete { job_id, request } => {
                self.post(job_id, "complete", request).await.map(Answered::Completed)
            }
            WorkOperation::Promote { job_id, request } => {
                self.post(job_id, "promote", request).await.map(taken::<StageAnswer>)
            }
            WorkOperation::Release { job_id, request } => {
                self.post(job_id, "lease/release", request).await.map(taken::<StageAnswer>)
            }
            WorkOperation::Start { job_id, request } => {
                self.post(job_id, "start", request).await.map(taken::<StageAnswer>)
            }
            WorkOperation::Fail { job_id, request } => {
                let mut body = serde_json::to_value(request).unwrap_or_default();
                body["jobId"] = Value::String(job_id.to_string());
                self.client.post("/fail", &body).await.map(taken::<Failed>)
            }
            WorkOperation::Patch { job_id, request } => {
                let path = format!("/jobs/{job_id}");
                self.client.call(http::Method::PATCH, &path, Some(request)).await.map(taken::<StageAnswer>)
            }
            WorkOperation::Accept { .. } => Ok(Answered::Refused("an accept is never put off".to_owned())),
        }
    }

    async fn post<R: serde::Serialize + Sync, A: serde::de::DeserializeOwned>(
        &self,
        job: &JobId,
        step: &str,
        request: &R,
    ) -> Result<A, ClientError> {
        self.client.post(&format!("/jobs/{job}/{step}"), request).await
    }

    /// Delivers what waits in the outbox, in order, whenever there is something and somebody to take it.
    pub(super) async fn replay_for_ever(self: &Arc<Self>) {
        loop {
            self.replay().await;
            self.clock.sleep(REPLAY_EVERY).await;
        }
    }

    /// One pass over the outbox. Stops at the first report that nobody answers, so that the order is kept.
    pub(super) async fn replay(self: &Arc<Self>) {
        let Ok(listing) = self.outbox.list() else { return };
        for OutboxEntry { number, report } in listing.entries {
            let Ok(operation) = serde_json::from_value::<WorkOperation>(report) else {
                warn!(number, "A report in the outbox cannot be read any more");
                self.tick_off(number);
                continue;
            };
            if self.is_in_hand(&operation) {
                continue;
            }
            match settled(self.deliver(&operation).await) {
                Some(answered) => {
                    self.tick_off(number);
                    self.act_on_late_answer(&operation, answered).await;
                }
                None => return,
            }
        }
    }

    /// Whether everything that was reported has been answered. A disk that does not tell counts as empty.
    pub(super) fn is_outbox_empty(&self) -> bool {
        self.outbox.list().map_or(true, |listing| listing.entries.is_empty())
    }

    /// A run that is still going on delivers its own reports.
    fn is_in_hand(&self, operation: &WorkOperation) -> bool {
        let job = job_of(operation);
        self.taking.lock().iter().any(|(taken, _)| *taken == job)
    }

    /// A completion that was delivered late still brings the right to move the branch.
    async fn act_on_late_answer(self: &Arc<Self>, operation: &WorkOperation, answered: Answered) {
        match (operation, answered) {
            (WorkOperation::Complete { job_id, .. }, Answered::Completed(Completed { promote: Some(order), .. })) => {
                info!(job.id = %job_id, "A late report of job `{job_id}` was delivered");
                self.promote_late(*job_id, &order).await;
            }
            (_, Answered::Refused(why)) => {
                info!(%why, "A late report came too late");
                return;
            }
            _ => {}
        }
        self.finish_late(operation).await;
    }

    /// The worktree was kept for as long as its report was on the way.
    async fn finish_late(&self, operation: &WorkOperation) {
        let Ok(listing) = self.runs.list() else { return };
        let job = job_of(operation);
        for record in listing.records.into_iter().filter(|record| record.job == job) {
            if let Some(epoch) = record.epoch {
                self.clear(RunKey { job, epoch }).await;
            }
            self.forget(&record);
        }
    }

    fn tick_off(&self, number: u64) {
        if let Err(error) = self.outbox.remove(number) {
            warn!(%error, "Cannot remove a delivered report: it will be delivered again, which changes nothing");
        }
    }
}

fn taken<A>(_: A) -> Answered {
    Answered::Taken
}

/// The answer, unless nobody gave one.
fn settled(answer: Result<Answered, ClientError>) -> Option<Answered> {
    match answer {
        Ok(answered) => Some(answered),
        Err(error) if error.is_final() => Some(Answered::Refused(error.to_string())),
        Err(_) => None,
    }
}

fn job_of(operation: &WorkOperation) -> JobId {
    match operation {
        WorkOperation::Accept { request } => request.job_id,
        WorkOperation::Start { job_id, .. }
        | WorkOperation::Patch { job_id, .. }
        | WorkOperation::Complete { job_id, .. }
        | WorkOperation::Promote { job_id, .. }
        | WorkOperation::Fail { job_id, .. }
        | WorkOperation::Release { job_id, .. } => *job_id,
    }
}

/// The reports of a run, as operations.
pub(super) fn complete(job_id: JobId, request: CompleteWork) -> WorkOperation {
    WorkOperation::Complete { job_id, request }
}

pub(super) fn fail(job_id: JobId, request: FailWork) -> WorkOperation {
    WorkOperation::Fail { job_id, request }
}

pub(super) fn release(job_id: JobId, request: ReleaseWork) -> WorkOperation {
    WorkOperation::Release { job_id, request }
}

pub(super) fn promote(job_id: JobId, request: ErrandReport) -> WorkOperation {
    WorkOperation::Promote { job_id, request }
}
