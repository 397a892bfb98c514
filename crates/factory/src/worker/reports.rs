//! Reports: each is on disk before it is sent, and stays there until the coordinator answered it [F6].

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use client::ClientError;
use clock::Backoff;
use domain::{Epoch, JobId, RunInsights, RunKey};
use protocol::{CompletionReport, WorkOperation};
use protocol::{
    CompletionResponse, ErrandReport, FailureReport, FailureResponse, QuotaResponse, ReleaseReport, StageResponse,
    UsageRequest, UsageResponse,
};
use serde_json::Value;
use tracing::info;

use super::held_leases::StopCause;
use super::run_journal::PendingReport;
use super::{RECONNECT_MAX, Worker};

/// How often a report is tried before the run abandons it; the outbox continues.
const DELIVERY_TRIES_MAX: u32 = 5;

/// How often it is tried while the lease lasts: five minutes, after which a coordinator that renews but accepts no
/// report gets the seat back.
const HELD_TRIES_MAX: u32 = 60;

/// The pause between two passes over a non-empty outbox.
const REPLAY_EVERY: Duration = Duration::from_secs(2);

/// The coordinator's answer to a report.
#[derive(Debug)]
pub(super) enum ReportResponse {
    /// A completion was accepted.
    Completed(CompletionResponse),
    /// Another report was accepted.
    Taken,
    /// It was refused: fenced, or no longer allowed. A retry gives the same answer.
    Refused(String),
    /// The coordinator did not answer; the report waits in the outbox.
    Waiting,
}

/// Whether a job's older reports are delivered.
#[derive(Debug, PartialEq, Eq)]
enum QueueState {
    Clear,
    Blocked,
}

/// A report whose caller did not wait for the answer, and that answer.
type LateReport = (WorkOperation, ReportResponse);

impl Worker {
    /// Records a report on disk, then delivers it. What cannot be delivered now waits, and survives this process.
    pub(super) async fn report(&self, operation: WorkOperation) -> ReportResponse {
        self.report_after(async {}, operation, || false).await
    }

    /// Like [`Worker::report`], but delivers something else `first`, and retries for as long as the caller would lose
    /// something by giving up.
    pub(super) async fn report_after(
        &self,
        first: impl Future<Output = ()> + Send,
        operation: WorkOperation,
        is_worth_it: impl Fn() -> bool + Send + Sync,
    ) -> ReportResponse {
        let operation = self.scrubbed(operation);
        let lane = self.ledger.lane(job_of(&operation));
        // Numbered under the lane's lock, so that a job's reports are numbered in the order in which they are made.
        let mut turn = lane.lock().await;
        let number = self.ledger.append(&operation).await;
        first.await;
        let mut backoff = Backoff::new(Duration::from_millis(100), RECONNECT_MAX);
        let mut tries = 0;
        loop {
            let (late, answered) = self.deliver_in_order(number, &operation).await;
            drop(turn);
            self.act_on_late_answers(late).await;
            if let Some(answered) = answered {
                return answered;
            }
            tries += 1;
            let tries_max = if is_worth_it() { HELD_TRIES_MAX } else { DELIVERY_TRIES_MAX };
            if tries >= tries_max {
                break;
            }
            self.clock.sleep(backoff.next_pause()).await;
            turn = lane.lock().await;
        }
        if let Some(number) = number {
            self.ledger.hand_over(number);
        }
        ReportResponse::Waiting
    }

    /// A report with secrets removed: messages quote program output.
    fn scrubbed(&self, operation: WorkOperation) -> WorkOperation {
        let Ok(mut document) = serde_json::to_value(&operation) else { return operation };
        self.scrubber.document(&mut document);
        serde_json::from_value(document).unwrap_or(operation)
    }

    /// The job's older reports first, then this one: a completion that overtakes its start is refused. The caller must
    /// hold the job's lane.
    async fn deliver_in_order(
        &self,
        number: Option<u64>,
        operation: &WorkOperation,
    ) -> (Vec<LateReport>, Option<ReportResponse>) {
        let (late, path) = self.deliver_older(job_of(operation), number.unwrap_or(u64::MAX)).await;
        if path == QueueState::Blocked {
            return (late, None);
        }
        let answered = settled(self.deliver(operation).await);
        self.report_refused_cost(operation, answered.as_ref()).await;
        if let (Some(_), Some(number)) = (&answered, number) {
            self.ledger.tick_off(number).await;
        }
        (late, answered)
    }

    /// Delivers what a job's runs reported before `number`, in order, up to the first that is not answered.
    async fn deliver_older(&self, job: JobId, number: u64) -> (Vec<LateReport>, QueueState) {
        let mut late = Vec::new();
        // An I/O error is no reason to hold the newest report back.
        let waiting = self.ledger.waiting().await.unwrap_or_default();
        for older in waiting.into_iter().filter(|older| job_of(&older.operation) == job && older.number < number) {
            if self.is_in_hand(&older) {
                return (late, QueueState::Blocked);
            }
            let Some(answered) = settled(self.deliver(&older.operation).await) else {
                return (late, QueueState::Blocked);
            };
            self.report_refused_cost(&older.operation, Some(&answered)).await;
            self.ledger.tick_off(older.number).await;
            late.push((older.operation, answered));
        }
        (late, QueueState::Clear)
    }

    /// A refused result had a cost all the same: the coordinator counts it apart from the result (row 18). If this report
    /// is lost, the cost is the last one that a renewal told.
    async fn report_refused_cost(&self, operation: &WorkOperation, answered: Option<&ReportResponse>) {
        let (Some(ReportResponse::Refused(_)), Some(insights)) = (answered, insights_of(operation)) else { return };
        let (Some(cost_usd), Some(lease_epoch)) = (insights.cost_usd, epoch_of(operation)) else { return };
        let (tokens_in, tokens_out) = (insights.tokens_in, insights.tokens_out);
        let usage = UsageRequest { lease_epoch, usage_id: None, cost_usd: Some(cost_usd), tokens_in, tokens_out };
        let job = job_of(operation);
        if let Err(error) = self.post::<_, UsageResponse>(&job, "usage", &usage).await {
            info!(job.id = %job, %error, "Could not report the cost of an ended run of job {}", self.titles.label(job));
        }
    }

    async fn deliver(&self, operation: &WorkOperation) -> Result<ReportResponse, ClientError> {
        match operation {
            WorkOperation::Complete { job_id, request } => {
                self.post(job_id, "complete", request).await.map(ReportResponse::Completed)
            }
            WorkOperation::Promote { job_id, request } => {
                self.post(job_id, "promote", request).await.map(taken::<StageResponse>)
            }
            WorkOperation::Quota { job_id, request } => {
                self.post(job_id, "quota", request).await.map(taken::<QuotaResponse>)
            }
            WorkOperation::Ask { job_id, request } => {
                self.post(job_id, "ask", request).await.map(taken::<StageResponse>)
            }
            WorkOperation::AwaitSubtasks { job_id, request } => {
                self.post(job_id, "subtasks/wait", request).await.map(taken::<StageResponse>)
            }
            WorkOperation::Release { job_id, request } => {
                self.post(job_id, "lease/release", request).await.map(taken::<StageResponse>)
            }
            WorkOperation::Start { job_id, request } => {
                self.post(job_id, "start", request).await.map(taken::<StageResponse>)
            }
            WorkOperation::Fail { job_id, request } => {
                let mut body = serde_json::to_value(request).unwrap_or_default();
                body["jobId"] = Value::String(job_id.to_string());
                self.client.post("/fail", &body).await.map(taken::<FailureResponse>)
            }
            WorkOperation::Patch { job_id, request } => {
                let path = format!("/jobs/{job_id}");
                self.client.call(http::Method::PATCH, &path, Some(request)).await.map(taken::<StageResponse>)
            }
            WorkOperation::Accept { .. } | WorkOperation::Decline { .. } => {
                Ok(ReportResponse::Refused("the answer to an offer is never put off".to_owned()))
            }
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

    /// Delivers the outbox whenever it has reports and the coordinator is available.
    pub(super) async fn replay_for_ever(&self) {
        loop {
            self.replay().await;
            self.clock.sleep(REPLAY_EVERY).await;
        }
    }

    /// One pass over the outbox: each job's reports in order, and no job waits for another's.
    pub(super) async fn replay(&self) {
        let Ok(waiting) = self.ledger.waiting().await else { return };
        let jobs: BTreeSet<JobId> = waiting.iter().map(|report| job_of(&report.operation)).collect();
        for job in jobs {
            let lane = self.ledger.lane(job);
            // The holder of the lane delivers what is in it.
            let Ok(turn) = lane.try_lock() else { continue };
            let (late, _) = self.deliver_older(job, u64::MAX).await;
            drop(turn);
            self.act_on_late_answers(late).await;
        }
    }

    /// Whether every report has been answered. After an I/O error it counts as empty.
    pub(super) async fn is_outbox_empty(&self) -> bool {
        self.ledger.waiting().await.map_or(true, |waiting| waiting.is_empty())
    }

    /// Whether a caller still waits for the answer. A run cleans up after its last report before any other task may.
    fn is_in_hand(&self, report: &PendingReport) -> bool {
        let is_last = ends_a_run(&report.operation);
        let is_held = || epoch_of(&report.operation).is_some_and(|e| self.holdings.holds(job_of(&report.operation), e));
        self.ledger.is_in_hand(report.number) || (is_last && is_held())
    }

    /// Handles the answers to reports whose callers had stopped waiting. Boxed, because handling one may make another
    /// report.
    fn act_on_late_answers(&self, late: Vec<LateReport>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            for (operation, answered) in late {
                self.act_on_late_answer(&operation, answered).await;
            }
        })
    }

    async fn act_on_late_answer(&self, operation: &WorkOperation, answered: ReportResponse) {
        let Some(epoch) = epoch_of(operation) else { return };
        let run = RunKey { job: job_of(operation), epoch };
        let job = run.job;
        match answered {
            ReportResponse::Refused(why) => {
                info!(job.id = %job, %why, "Ignored an outdated report for job {}", self.titles.label(job));
                if !ends_a_run(operation) {
                    self.holdings.stop(job, epoch, StopCause::Lost);
                }
                return;
            }
            // A completion that was delivered late still grants the promotion.
            ReportResponse::Completed(CompletionResponse { promote: Some(order), .. }) => {
                self.promote_late(run, &order).await;
            }
            ReportResponse::Completed(_) | ReportResponse::Taken | ReportResponse::Waiting => {}
        }
        info!(job.id = %job, "A late report of job {} was delivered", self.titles.label(job));
        if ends_a_run(operation) {
            self.finish_late(run).await;
        }
    }

    /// Whether a run's worktree holds files that could not be saved when it ended, and cannot be saved now either.
    async fn is_only_copy(&self, run: RunKey) -> bool {
        let Ok(Some(worktree)) = self.host.worktree(run) else { return false };
        match self.mirror(&worktree.repo().clone()) {
            Ok((mirror, _)) => match mirror.of_worktree(&worktree) {
                Some(mirror) => !mirror.checkpoint(&worktree).await.is_ok_and(|saved| saved.is_whole()),
                None => true,
            },
            Err(_) => true,
        }
    }

    /// The worktree was kept until its report was answered. Other runs of the same job keep theirs [I11].
    async fn finish_late(&self, run: RunKey) {
        let Ok(listing) = self.ledger.records().await else { return };
        for record in listing.records.into_iter().filter(|record| record.is_of(run)) {
            if self.is_only_copy(run).await {
                continue;
            }
            self.clear(run).await;
            self.ledger.forget(&record).await;
        }
    }
}

fn taken<A>(_: A) -> ReportResponse {
    ReportResponse::Taken
}

/// The answer, if the coordinator gave one.
fn settled(answer: Result<ReportResponse, ClientError>) -> Option<ReportResponse> {
    match answer {
        Ok(answered) => Some(answered),
        Err(error) if error.is_final() => Some(ReportResponse::Refused(error.to_string())),
        Err(_) => None,
    }
}

/// What the run of a report has cost.
fn insights_of(operation: &WorkOperation) -> Option<&RunInsights> {
    match operation {
        WorkOperation::Complete { request, .. } => Some(&request.insights),
        WorkOperation::Fail { request, .. } => Some(&request.insights),
        WorkOperation::Quota { request, .. } => Some(&request.insights),
        WorkOperation::Ask { request, .. } => Some(&request.insights),
        WorkOperation::AwaitSubtasks { request, .. } => Some(&request.insights),
        WorkOperation::Release { request, .. } => Some(&request.insights),
        _ => None,
    }
}

fn job_of(operation: &WorkOperation) -> JobId {
    match operation {
        WorkOperation::Accept { request } => request.job_id,
        WorkOperation::Decline { request } => request.job_id,
        WorkOperation::Start { job_id, .. }
        | WorkOperation::Patch { job_id, .. }
        | WorkOperation::Complete { job_id, .. }
        | WorkOperation::Promote { job_id, .. }
        | WorkOperation::Fail { job_id, .. }
        | WorkOperation::Quota { job_id, .. }
        | WorkOperation::Ask { job_id, .. }
        | WorkOperation::AwaitSubtasks { job_id, .. }
        | WorkOperation::Release { job_id, .. } => *job_id,
    }
}

/// The fence of a report. That of a promotion is its errand's, not that of the run whose commit is promoted.
fn epoch_of(operation: &WorkOperation) -> Option<Epoch> {
    match operation {
        WorkOperation::Accept { .. } | WorkOperation::Decline { .. } => None,
        WorkOperation::Start { request, .. } => Some(request.lease_epoch),
        WorkOperation::Patch { request, .. } => Some(request.lease_epoch),
        WorkOperation::Complete { request, .. } => Some(request.lease_epoch),
        WorkOperation::Promote { request, .. } => Some(request.lease_epoch),
        WorkOperation::Fail { request, .. } => Some(request.lease_epoch),
        WorkOperation::Quota { request, .. } => Some(request.lease_epoch),
        WorkOperation::Ask { request, .. } => Some(request.lease_epoch),
        WorkOperation::AwaitSubtasks { request, .. } => Some(request.lease_epoch),
        WorkOperation::Release { request, .. } => Some(request.lease_epoch),
    }
}

/// Whether a report, once accepted, ends all work under its fence.
fn ends_a_run(operation: &WorkOperation) -> bool {
    match operation {
        WorkOperation::Complete { .. }
        | WorkOperation::Promote { .. }
        | WorkOperation::Fail { .. }
        | WorkOperation::Quota { .. }
        | WorkOperation::Ask { .. }
        | WorkOperation::AwaitSubtasks { .. }
        | WorkOperation::Release { .. } => true,
        WorkOperation::Accept { .. }
        | WorkOperation::Decline { .. }
        | WorkOperation::Start { .. }
        | WorkOperation::Patch { .. } => false,
    }
}

/// Whether a run's last report is pending.
pub(super) fn is_reported(waiting: &[PendingReport], run: RunKey) -> bool {
    let operations = waiting.iter().map(|report| &report.operation);
    operations
        .filter(|operation| ends_a_run(operation))
        .any(|operation| job_of(operation) == run.job && epoch_of(operation) == Some(run.epoch))
}

/// The reports of a run, as operations.
pub(super) fn complete(job_id: JobId, request: CompletionReport) -> WorkOperation {
    WorkOperation::Complete { job_id, request }
}

pub(super) fn fail(job_id: JobId, request: FailureReport) -> WorkOperation {
    WorkOperation::Fail { job_id, request }
}

pub(super) fn release(job_id: JobId, request: ReleaseReport) -> WorkOperation {
    WorkOperation::Release { job_id, request }
}

pub(super) fn promote(job_id: JobId, request: ErrandReport) -> WorkOperation {
    WorkOperation::Promote { job_id, request }
}
