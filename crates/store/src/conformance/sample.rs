//! Sample jobs for tests of a store.

use std::time::Duration;

use domain::{
    Actor, Body, ClaimNonce, Commit, DepsState, Dispatch, EngineName, Expected, FactoryId, FailureDetails,
    FailureReason, Holder, InstanceId, Job, JobId, Lease, RetryDecision, Revision, RunInsights, Spec, StageEvent,
    Submission, Timestamp,
};

/// When the first sample was submitted.
pub const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// This many seconds after [`START`].
pub fn seconds(n: u64) -> Timestamp {
    START.after(Duration::from_secs(n))
}

/// The id of the `n`th sample.
pub fn id(n: u32) -> JobId {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&n.to_be_bytes());
    JobId::new(START.after(Duration::from_millis(n.into())), random)
}

/// The submission of the `n`th sample: product `notes`, no repository.
pub fn submission(n: u32) -> Submission {
    Submission {
        id: id(n),
        product: "notes".parse().unwrap(),
        spec: Spec { title: format!("Sample {n}"), ..Spec::default() },
        deps: Vec::new(),
        tree: None,
        profile: None,
        item: None,
        idempotency_key: None,
        body_sha256: "0".repeat(64),
        by: "ada".to_owned(),
        owner: None,
        at: START.after(Duration::from_millis(n.into())),
    }
}

/// The `n`th sample, queued.
pub fn job(n: u32) -> Job {
    Job::submit(submission(n), DepsState::Met)
}

/// The first write of a job, with a body.
pub fn create(job: Job) -> Commit {
    let body = Body(format!("# {}\n", job.spec().title).into());
    job.commit_at(Expected::Absent, Some(body))
}

/// A later write of a job.
pub fn replace(job: Job, revision: Revision) -> Commit {
    job.commit_at(Expected::At(revision), None)
}

/// Applies `event` to the job, as the coordinator does.
pub fn after(job: Job, event: StageEvent, at: Timestamp) -> Job {
    job.apply(event, at, Actor::Coordinator).unwrap()
}

/// Cancels the job.
pub fn cancelled(job: Job) -> Job {
    after(job, StageEvent::Cancelled { message: None }, seconds(1))
}

/// Offers the job to a factory, with this deadline to accept.
pub fn dispatched(job: Job, accept_by: Timestamp) -> Job {
    let seq = job.dispatch_seq().next();
    let dispatch = Dispatch { seq, target: factory(), accept_by, score: 1.5 };
    after(job, StageEvent::Dispatched { dispatch }, seconds(2))
}

/// Grants the job to the factory that it was offered to.
pub fn granted(job: Job) -> Job {
    let lease = Lease {
        factory: factory(),
        instance: InstanceId::from_bytes([1; 16]),
        epoch: job.epoch().next(),
        nonce: ClaimNonce::from_bytes([2; 16]),
        seq: job.dispatch_seq(),
        granted_at: seconds(3),
    };
    after(job, StageEvent::Granted { lease }, seconds(3))
}

/// Starts the job's run.
pub fn started(job: Job) -> Job {
    let started = StageEvent::Started { holder: holder(&job), engine: EngineName::command() };
    after(job, started, seconds(4))
}

/// Fails the job for good.
pub fn failed(job: Job) -> Job {
    let granted = granted(dispatched(job, seconds(9)));
    let reason = FailureReason::Crash;
    let failed = StageEvent::AttemptFailed {
        holder: holder(&granted),
        reason,
        account: FailureDetails::default(),
        verdict: RetryDecision::Fail { reason },
    };
    after(granted, failed, seconds(5))
}

/// Releases the job, which ends its run.
pub fn released(job: Job) -> Job {
    let released = StageEvent::Released {
        holder: holder(&job),
        message: Some("another time".to_owned()),
        insights: RunInsights::default(),
        not_before: None,
    };
    after(job, released, seconds(5))
}

/// The factory and epoch of the job's lease.
pub fn holder(job: &Job) -> Holder {
    Holder { epoch: job.epoch(), factory: factory() }
}

fn factory() -> FactoryId {
    "forge".parse().unwrap()
}
