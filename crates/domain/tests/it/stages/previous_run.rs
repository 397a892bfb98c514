//! The previous run, as kept for the next agent [F2b].

use domain::{
    Actor, CommandStep, Evidence, FailureDetails, FailureReason, Job, KeepCheckpoint, MergeConflict, RetryDecision,
    RunEnd, RunInsights, StageEvent,
};

use super::sample::{
    NOW, assigned, building, completed, errand_granted, failed, holder, mac, promoted, queued, quota_hit, sha, then,
};

const RETRY: RetryDecision = RetryDecision::Retry { not_before: None };

fn end(job: &Job) -> Option<RunEnd> {
    job.previous_run().map(|previous| previous.end.clone())
}

fn requeued(job: Job, checkpoint: KeepCheckpoint, message: Option<&str>) -> Job {
    then(job, StageEvent::Requeued { checkpoint, message: message.map(str::to_owned) })
}

fn verify_failed(job: Job, verdict: RetryDecision) -> Job {
    let evidence =
        Evidence { command: "make test".to_owned(), exit: Some(1), output: "no".to_owned(), ..Evidence::default() };
    let account = FailureDetails { evidence: vec![evidence], ..FailureDetails::default() };
    let event =
        StageEvent::AttemptFailed { holder: holder(&job), reason: FailureReason::VerifyFailed, account, verdict };
    then(job, event)
}

fn conflicted(job: Job) -> (Job, MergeConflict) {
    let job = errand_granted(then(promoted(job), StageEvent::ShipRequested));
    let conflict = MergeConflict { base: "main".parse().unwrap(), base_sha: sha(9), files: vec!["a.rs".to_owned()] };
    let event = StageEvent::ErrandFailed {
        holder: holder(&job),
        message: conflict.to_string(),
        retry_at: None,
        conflict: Some(conflict.clone()),
    };
    (then(job, event), conflict)
}

#[test]
fn a_failed_command_is_kept_with_its_exit_and_output() {
    let job = verify_failed(building(queued()), RETRY);

    let previous = job.previous_run().unwrap();
    assert_eq!((previous.n, &previous.factory, previous.engine.is_some()), (1, &mac(), true));
    let RunEnd::CommandFailed(failed) = &previous.end else { panic!("{previous:?}") };
    assert_eq!((failed.step, failed.command.as_str()), (CommandStep::Verify, "make test"));
    assert_eq!((failed.ended.as_str(), failed.output.as_str()), ("exit code 1", "no"));
}

#[test]
fn each_run_end_is_recorded() {
    let job = building(queued());
    let (epoch, held) = (job.epoch(), holder(&job));
    let message = Some("the factory is stopping".to_owned());
    let released = StageEvent::Released {
        holder: held.clone(),
        message: message.clone(),
        insights: RunInsights::default(),
        not_before: None,
    };
    let question = "Which?".to_owned();
    let asked = StageEvent::Asked { holder: held, question: question.clone(), account: FailureDetails::default() };
    let after = |event| end(&then(job.clone(), event)).unwrap();

    assert_eq!(after(StageEvent::Reaped { epoch, verdict: RETRY }), RunEnd::LeaseExpired);
    assert_eq!(after(StageEvent::Preempted { epoch }), RunEnd::Preempted);
    assert_eq!(after(released), RunEnd::Released { message });
    assert_eq!(after(asked), RunEnd::Asked { question });
    assert!(matches!(after(quota_hit(&job)), RunEnd::QuotaExhausted { .. }));
    assert_eq!(after(StageEvent::Cancelled { message: None }), RunEnd::Cancelled { message: None });
    assert!(matches!(after(failed(&job, FailureReason::Timeout, RETRY)), RunEnd::TimedOut { .. }));
    assert_eq!(end(&completed(queued())), Some(RunEnd::Completed));
}

#[test]
fn a_run_without_an_engine_keeps_the_earlier_failure() {
    let job = assigned(verify_failed(building(queued()), RETRY));
    let before = end(&job);
    let event = failed(&job, FailureReason::NoEngine, RETRY);

    let job = then(job, event);

    assert_eq!(end(&job), before);
}

#[test]
fn an_operator_message_is_kept_until_completion() {
    let dead = RetryDecision::DeadLetter { reason: FailureReason::RetriesExhausted };
    let job = verify_failed(building(queued()), dead);

    let job = requeued(job, KeepCheckpoint::Keep, Some("try harder"));

    assert_eq!(job.operator_message(), Some("try harder"));
    assert!(matches!(end(&job), Some(RunEnd::CommandFailed(_))));
    assert_eq!(completed(job).operator_message(), None);
}

#[test]
fn a_fresh_start_discards_the_work_and_its_conflict() {
    let (job, conflict) = conflicted(queued());
    assert_eq!(job.merge_conflict(), Some(&conflict));

    let job = then(job, StageEvent::ChangesRequested { message: None }).without_checkpoint();

    assert_eq!((job.checkpoint(), job.merge_conflict()), (None, None));
    assert!(job.previous_run().unwrap().work_discarded);
    let job = building(job);
    let event = failed(&job, FailureReason::Timeout, RETRY);
    assert!(!then(job, event).previous_run().unwrap().work_discarded, "the next run has work of its own");
}

#[test]
fn a_conflict_rework_keeps_the_conflict_until_completion() {
    let (job, conflict) = conflicted(queued());
    assert!(job.is_merge_failed());

    let job = job.reworked_for_conflict("rework".to_owned(), NOW, Actor::Coordinator).unwrap();
    assert_eq!((job.merge_conflict(), job.conflict_rounds(), job.changes()), (Some(&conflict), 1, None));
    assert!(job.ships_after_rework());
    let job = verify_failed(building(job), RETRY);
    assert_eq!(job.merge_conflict(), Some(&conflict), "a failed rework is told of it again");

    let job = completed(job);
    assert_eq!((job.merge_conflict(), job.is_merge_failed(), job.conflict_rounds()), (None, false, 1));
    let shipped = then(job, StageEvent::ShipRequested);
    assert!(!shipped.ships_after_rework());
}

#[test]
fn a_rejection_is_about_the_completed_work() {
    let message = Some("too large".to_owned());
    let job = then(promoted(queued()), StageEvent::Rejected { message: message.clone() });

    let job = requeued(job, KeepCheckpoint::Keep, None);

    assert_eq!(end(&job), Some(RunEnd::Rejected { message }));
}

#[test]
fn a_previous_run_round_trips_and_old_documents_load() {
    let job = requeued(
        verify_failed(building(queued()), RetryDecision::Fail { reason: FailureReason::VerifyFailed }),
        KeepCheckpoint::Keep,
        Some("again"),
    );
    let written = job.state_json().unwrap();

    let read = Job::from_stored(std::sync::Arc::clone(job.submission()), &written).unwrap();
    let mut old: serde_json::Value = serde_json::from_str(&written).unwrap();
    for key in ["previousRun", "operatorMessage"] {
        assert!(old.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    let old = Job::from_stored(std::sync::Arc::clone(job.submission()), &old.to_string()).unwrap();

    assert_eq!((read.previous_run(), read.operator_message()), (job.previous_run(), Some("again")));
    assert_eq!((old.previous_run(), old.operator_message()), (None, None));
}
