//! The coordinator's state of a job.

use client::ClientError;
use domain::{Epoch, JobId, Revision, Run, RunOutcome, StageName};
use protocol::{JobDetail, JobView};

use super::Gc;

/// The coordinator's state of a job.
#[derive(Debug, Clone)]
pub(super) enum JobStatus {
    /// The job exists.
    Known(Box<JobRecord>),
    /// The job does not exist, or this factory may not see it.
    Unknown,
    /// It does not answer.
    Silent(String),
}

/// A job as the coordinator has it.
#[derive(Debug, Clone)]
pub(super) struct JobRecord {
    pub(super) job: JobView,
    /// Its runs; fetched only when it has shipped.
    pub(super) runs: Vec<Run>,
}

impl JobRecord {
    /// Whether a run is active, or may start without a new request.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.job.stage, StageName::Shipped | StageName::Failed | StageName::DeadLetter)
    }

    /// Whether the run of this epoch holds its lease now.
    pub(super) fn is_held_under(&self, epoch: Epoch) -> bool {
        self.job.lease_epoch == epoch && matches!(self.job.stage, StageName::Assigned | StageName::Building)
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
            | RunOutcome::QuotaWindow => true,
            RunOutcome::LeaseLost | RunOutcome::Cancelled | RunOutcome::Restored => false,
        })
    }
}

impl Gc {
    pub(super) async fn ask(&self, job: JobId) -> JobStatus {
        let answer: Result<JobDetail, ClientError> = self.client.get(&format!("/jobs/{job}")).await;
        let job = match answer {
            Ok(detail) => detail.job,
            Err(error) if error.code() == Some("no_such_job") => return JobStatus::Unknown,
            Err(error) => return JobStatus::Silent(error.to_string()),
        };
        if job.stage != StageName::Shipped {
            return JobStatus::Known(Box::new(JobRecord { job, runs: Vec::new() }));
        }
        match self.client.runs(job.id).await {
            Ok(runs) => JobStatus::Known(Box::new(JobRecord { job, runs })),
            Err(error) => JobStatus::Silent(error.to_string()),
        }
    }

    /// Whether a job is unchanged since the proof was made.
    pub(super) async fn is_unchanged(&self, job: JobId, rev: Revision) -> bool {
        matches!(self.ask(job).await, JobStatus::Known(known) if known.job.rev == rev)
    }
}
