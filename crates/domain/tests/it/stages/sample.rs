//! Sample jobs in every stage, and every event for them.

use std::time::Duration;

use domain::{
    Actor, Checkpoint, ClaimNonce, CommitSha, Completion, DepsState, Dispatch, DispatchSeq, EngineName, Epoch,
    FactoryId, FailureDetails, FailureReason, Generation, Holder, InstanceId, Job, JobId, KeepCheckpoint, Kind, Lease,
    OfferEnd, Preemption, ProductId, RetryDecision, Review, RunInsights, Spec, StageEvent, Submission, Timestamp,
    UsageWindow,
};

/// Why an errand expired.
const LATE: &str = "no report in time";

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

pub(super) fn later() -> Timestamp {
    NOW.after(Duration::from_secs(60))
}

pub(super) fn mac() -> FactoryId {
    "mac".parse().unwrap()
}

pub(super) fn linux() -> FactoryId {
    "linux".parse().unwrap()
}

pub(super) fn sha(n: u8) -> CommitSha {
    format!("{n:040x}").parse().unwrap()
}

pub(super) fn submitted(deps: DepsState, review: Option<Review>) -> Job {
    let spec =
        Spec { title: "Mend the gate".to_owned(), repo: Some("notes".parse().unwrap()), review, ..Spec::default() };
    Job::submit(submission(spec), deps)
}

/// A composite: it follows its children.
pub(super) fn composite() -> Job {
    let spec = Spec { title: "Mend all gates".to_owned(), kind: Kind::Composite, ..Spec::default() };
    Job::submit(submission(spec), DepsState::Children)
}

fn submission(spec: Spec) -> Submission {
    Submission {
        id: JobId::new(NOW, [7; 10]),
        product: ProductId::default_product(),
        spec,
        deps: Vec::new(),
        tree: None,
        profile: None,
        item: None,
        idempotency_key: None,
        body_sha256: "00".repeat(32),
        by: "ada".to_owned(),
        owner: None,
        at: NOW,
    }
}

pub(super) fn queued() -> Job {
    submitted(DepsState::Met, None)
}

pub(super) fn ballot() -> Review {
    Review { quorum: 2, reviewers: Vec::new() }
}

/// Applies an event that must be allowed.
pub(super) fn then(job: Job, event: StageEvent) -> Job {
    let stage = job.stage().name();
    let name = event.name();
    match job.apply(event, NOW, Actor::Coordinator) {
        Ok(job) => job,
        Err(refusal) => panic!("{stage} was not {name}: {refusal}"),
    }
}

pub(super) fn offered(job: Job) -> Job {
    let event = dispatched(&job);
    then(job, event)
}

pub(super) fn assigned(job: Job) -> Job {
    let job = offered(job);
    let event = granted(&job);
    then(job, event)
}

pub(super) fn building(job: Job) -> Job {
    let job = assigned(job);
    let event = started(&job);
    then(job, event)
}

/// Completed with a commit: the holder has the lease for the promotion.
pub(super) fn completed(job: Job) -> Job {
    let job = building(job);
    let event = completed_with(&job, Some(sha(1)));
    then(job, event)
}

/// Completed and promoted.
pub(super) fn promoted(job: Job) -> Job {
    let job = completed(job);
    let event = StageEvent::ErrandDone { holder: holder(&job) };
    then(job, event)
}

/// The errand waits for a factory.
pub(super) fn errand_expired(job: Job) -> Job {
    let event = StageEvent::ErrandExpired { epoch: job.epoch(), seq: open_seq(&job), message: LATE.to_owned() };
    then(job, event)
}

pub(super) fn errand_granted(job: Job) -> Job {
    let job = offered(job);
    let event = StageEvent::ErrandGranted { lease: lease(&job), until: later() };
    then(job, event)
}

/// The holder of the job's lease; a sample one if there is no lease.
pub(super) fn holder(job: &Job) -> Holder {
    Holder { epoch: job.epoch(), factory: job.lease().map_or_else(mac, |lease| lease.factory.clone()) }
}

/// The number of the pending or accepted offer.
pub(super) fn open_seq(job: &Job) -> DispatchSeq {
    match (job.dispatch(), job.lease()) {
        (Some(offer), _) => offer.seq,
        (None, Some(lease)) => lease.seq,
        (None, None) => job.dispatch_seq(),
    }
}

pub(super) fn lease(job: &Job) -> Lease {
    Lease {
        factory: job.dispatch().map_or_else(mac, |offer| offer.target.clone()),
        instance: InstanceId::from_bytes([1; 16]),
        epoch: job.epoch().next(),
        nonce: ClaimNonce::from_bytes([2; 16]),
        seq: open_seq(job),
        granted_at: NOW,
    }
}

pub(super) fn checkpoint(epoch: Epoch) -> Checkpoint {
    let (git_ref, session) = ("aq/wip/x-e1".to_owned(), Some("s-1".to_owned()));
    Checkpoint { git_ref, sha: sha(9), session, epoch, repository: None }
}

pub(super) fn dispatched(job: &Job) -> StageEvent {
    let dispatch = Dispatch { seq: job.dispatch_seq().next(), target: mac(), accept_by: later(), score: 2.5 };
    StageEvent::Dispatched { dispatch }
}

pub(super) fn granted(job: &Job) -> StageEvent {
    StageEvent::Granted { lease: lease(job) }
}

pub(super) fn started(job: &Job) -> StageEvent {
    StageEvent::Started { holder: holder(job), engine: EngineName::command() }
}

pub(super) fn completed_with(job: &Job, sha: Option<CommitSha>) -> StageEvent {
    let completion = Completion { sha, ..Completion::default() };
    StageEvent::Completed { holder: holder(job), completion, promote_until: later() }
}

pub(super) fn failed(job: &Job, reason: FailureReason, verdict: RetryDecision) -> StageEvent {
    StageEvent::AttemptFailed { holder: holder(job), reason, account: FailureDetails::default(), verdict }
}

pub(super) fn quota_hit(job: &Job) -> StageEvent {
    let window = UsageWindow { engine: EngineName::command(), window: None, until: Some(later()), exhausted: false };
    let insights = RunInsights { cost_usd: Some(0.25), ..RunInsights::default() };
    StageEvent::QuotaHit {
        holder: holder(job),
        window,
        account: FailureDetails { insights, ..FailureDetails::default() },
        not_before: None,
    }
}

pub(super) const RETRY: RetryDecision = RetryDecision::Retry { not_before: None };
pub(super) const EXHAUSTED: RetryDecision = RetryDecision::DeadLetter { reason: FailureReason::RetriesExhausted };

pub(super) fn expired(seq: DispatchSeq, why: OfferEnd, verdict: RetryDecision) -> StageEvent {
    StageEvent::DispatchExpired { seq, why, verdict }
}

/// Every event, with the holder, epoch and number that match the job.
pub(super) fn fitting(job: &Job) -> Vec<(&'static str, StageEvent)> {
    use StageEvent as E;
    let (holder, epoch, seq) = (holder(job), job.epoch(), open_seq(job));
    let errand_failed = |retry_at| E::ErrandFailed {
        holder: holder.clone(),
        message: "no such ref".to_owned(),
        retry_at,
        conflict: None,
    };
    vec![
        ("unblocked", E::Unblocked),
        ("dependency failed", E::DepFailed { dep: JobId::new(NOW, [8; 10]) }),
        ("children added", E::ChildrenAdded { count: 2 }),
        ("children shipped", E::ChildrenShipped { count: 2 }),
        (
            "subtask added",
            E::SubtaskAdded {
                holder: holder.clone(),
                subtask: JobId::new(NOW, [9; 10]),
                title: "Mend one gate".to_owned(),
            },
        ),
        ("subtasks awaited", E::SubtasksAwaited { holder: holder.clone(), account: FailureDetails::default() }),
        ("dispatched", dispatched(job)),
        ("dispatch expired, again", expired(seq, OfferEnd::Undelivered, RETRY)),
        ("dispatch expired, enough", expired(seq, OfferEnd::Undelivered, EXHAUSTED)),
        ("dispatch unanswered", expired(seq, OfferEnd::Unanswered, RETRY)),
        ("dispatch declined", expired(seq, OfferEnd::Declined("no space left".to_owned()), RETRY)),
        ("granted", granted(job)),
        ("started", started(job)),
        ("checkpointed", E::Checkpointed { holder: holder.clone(), checkpoint: checkpoint(epoch) }),
        ("completed with a commit", completed_with(job, Some(sha(1)))),
        ("completed without one", completed_with(job, None)),
        (
            "asked",
            E::Asked { holder: holder.clone(), question: "Which gate?".to_owned(), account: FailureDetails::default() },
        ),
        ("quota hit", quota_hit(job)),
        (
            "released",
            E::Released { holder: holder.clone(), message: None, insights: RunInsights::default(), not_before: None },
        ),
        ("attempt failed, again", failed(job, FailureReason::Crash, RETRY)),
        ("attempt failed, enough", failed(job, FailureReason::Crash, EXHAUSTED)),
        (
            "attempt failed for good",
            failed(job, FailureReason::BudgetExceeded, RetryDecision::Fail { reason: FailureReason::BudgetExceeded }),
        ),
        ("reaped, again", E::Reaped { epoch, verdict: RETRY }),
        ("reaped, enough", E::Reaped { epoch, verdict: EXHAUSTED }),
        ("preemption requested", preemption_requested(job)),
        ("preempted", E::Preempted { epoch }),
        ("errand granted", E::ErrandGranted { lease: lease(job), until: later() }),
        ("errand done", E::ErrandDone { holder: holder.clone() }),
        ("errand failed, again", errand_failed(Some(later()))),
        ("errand failed, given up", errand_failed(None)),
        (
            "errand put off",
            E::ErrandPutOff { holder: holder.clone(), message: "checks are running".to_owned(), retry_at: later() },
        ),
        ("errand expired", E::ErrandExpired { epoch, seq, message: LATE.to_owned() }),
        ("ship requested", E::ShipRequested),
        ("merged on the forge", E::Merged { merge: Some(sha(9)), message: None }),
        ("review requested", E::ReviewRequested { ballot: ballot(), message: None }),
        ("question expired", E::QuestionExpired { message: "no answer".to_owned() }),
        ("approved", E::Approved),
        ("changes requested", E::ChangesRequested { message: None }),
        ("rejected", E::Rejected { message: None }),
        ("cancelled", E::Cancelled { message: None }),
        ("requeued", E::Requeued { checkpoint: KeepCheckpoint::Keep, message: None }),
        ("requeued, work discarded", E::Requeued { checkpoint: KeepCheckpoint::Drop, message: None }),
        ("restored", E::Restored { generation: Generation(job.generation().0 + 1) }),
    ]
}

/// A request to give up the seat of the job's current lease.
pub(super) fn preemption_requested(job: &Job) -> StageEvent {
    let preemption = Preemption {
        for_job: JobId::new(NOW, [7; 10]),
        factory: mac(),
        engine: None,
        epoch: job.epoch(),
        until: later(),
        keep_until: later().after(Duration::from_secs(60)),
    };
    StageEvent::PreemptionRequested { preemption }
}

/// A job in every state that the transition table distinguishes.
pub(super) fn situations() -> Vec<(&'static str, Job)> {
    let in_review = || completed(submitted(DepsState::Met, Some(ballot())));
    let shipping = || then(promoted(queued()), StageEvent::ShipRequested);
    let asked = || {
        let job = building(queued());
        let event = StageEvent::Asked {
            holder: holder(&job),
            question: "Which gate?".to_owned(),
            account: FailureDetails::default(),
        };
        then(job, event)
    };
    let shipped = || {
        let job = errand_granted(shipping());
        let event = StageEvent::ErrandDone { holder: holder(&job) };
        then(job, event)
    };
    let dead = || {
        let job = building(queued());
        let event = StageEvent::Reaped { epoch: job.epoch(), verdict: EXHAUSTED };
        then(job, event)
    };
    vec![
        ("queued", queued()),
        ("queued, offered", offered(queued())),
        ("blocked on dependencies", submitted(DepsState::Unmet, None)),
        ("blocked on a question", asked()),
        ("composite, blocked on its children", composite()),
        ("composite, failed", then(composite(), StageEvent::Cancelled { message: None })),
        ("assigned", assigned(queued())),
        ("building", building(queued())),
        ("building, review wanted", building(submitted(DepsState::Met, Some(ballot())))),
        ("review, promotion held", in_review()),
        ("review, promotion waiting", errand_expired(in_review())),
        ("review, promotion offered", offered(errand_expired(in_review()))),
        ("review, promoted", promoted(submitted(DepsState::Met, Some(ballot())))),
        ("testing, promotion held", completed(queued())),
        ("testing, promotion waiting", errand_expired(completed(queued()))),
        ("testing, promotion offered", offered(errand_expired(completed(queued())))),
        ("testing, promotion held, ship wanted", then(completed(queued()), StageEvent::ShipRequested)),
        ("testing, promoted", promoted(queued())),
        ("testing, nothing to promote", {
            let job = building(queued());
            let event = completed_with(&job, None);
            then(job, event)
        }),
        ("testing, ship waiting", shipping()),
        ("testing, ship offered", offered(shipping())),
        ("testing, ship held", errand_granted(shipping())),
        ("shipped", shipped()),
        ("failed", then(queued(), StageEvent::Cancelled { message: None })),
        ("dead letter", dead()),
    ]
}
