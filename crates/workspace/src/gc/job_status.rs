//! The coordinator's state of a job.

use async_trait::async_trait;
use domain::{BranchName, CommitSha, Epoch, JobId, Revision, Run, RunOutcome, StageName, Timestamp};

use super::Gc;

/// Returns the coordinator's state of jobs.
#[async_trait]
pub trait JobLookup: Send + Sync {
    /// The state of one job.
    async fn job(&self, job: JobId) -> JobStatus;
}

/// The coordinator's state of a job.
#[derive(Debug, Clone)]
pub enum JobStatus {
    /// The job exists.
    Known(Box<JobRecord>),
    /// The job does not exist, or this factory may not see it.
    Unknown,
    /// It does not answer.
    Silent(String),
}

/// A job as the coordinator has it.
#[derive(Debug, Clone)]
pub struct JobRecord {
    /// Its stage.
    pub stage: StageName,
    /// The epoch of its last lease.
    pub lease_epoch: Epoch,
    /// Its revision.
    pub rev: Revision,
    /// The base branch, if the manifest names one.
    pub base: Option<BranchName>,
    /// The completed commit.
    pub completed_sha: Option<CommitSha>,
    /// Its last change.
    pub updated_at: Timestamp,
    /// Its runs; needed only when it has shipped.
    pub runs: Vec<Run>,
}

impl JobRecord {
    /// Whether a run is active, or may start without a new request.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.stage, StageName::Shipped | StageName::Failed | StageName::DeadLetter)
    }

    /// Whether the run of this epoch holds its lease now.
    pub(super) fn is_held_under(&self, epoch: Epoch) -> bool {
        self.lease_epoch == epoch && matches!(self.stage, StageName::Assigned | StageName::Building)
    }

    /// How the run of this epoch ended; `None` while it runs, and for a run that is not listed.
    pub(super) fn outcome_of(&self, epoch: Epoch) -> Option<RunOutcome> {
        self.runs.iter().find(|run| run.epoch == epoch)?.outcome
    }

    /// Whether the run of this epoch reported its own end while it held the job: then nothing of it was cut off.
    pub(super) fn ended_orderly(&self, epoch: Epoch) -> bool {
        self.outcome_of(epoch).is_some_and(|outcome| match outcome {
            RunOutcome::Completed
            | RunOutcome::Failed(_)
            | RunOutcome::Released
            | RunOutcome::Preempted
            | RunOutcome::Asked
            | RunOutcome::AwaitedSubtasks
            | RunOutcome::QuotaWindow => true,
            RunOutcome::LeaseLost | RunOutcome::Cancelled | RunOutcome::Restored => false,
        })
    }
}

impl Gc {
    pub(super) async fn ask(&self, job: JobId) -> JobStatus {
        self.jobs.job(job).await
    }

    /// Whether a job is unchanged since the proof was made.
    pub(super) async fn is_unchanged(&self, job: JobId, rev: Revision) -> bool {
        matches!(self.ask(job).await, JobStatus::Known(known) if known.rev == rev)
    }
}
