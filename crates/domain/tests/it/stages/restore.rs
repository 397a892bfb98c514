//! Row 28: a restored store fences every lease of the lost history.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{
    Actor, Checkpoint, DepsState, DispatchSeq, Epoch, ErrandState, EventKind, Expected, FailureReason, Generation, Job,
    JobId, Refusal, Revision, RunOutcome, StageEvent, StageName, Timestamp,
};
use proptest::prelude::*;

use super::property::holder_mut;
use super::sample::{
    EXHAUSTED, NOW, assigned, building, checkpoint, completed, fitting, holder, offered, promoted, queued, situations,
    submitted, then,
};

const NEXT: Generation = Generation(1);

fn restored(job: Job) -> Job {
    then(job, StageEvent::Restored { generation: NEXT })
}

#[test]
fn row_28_a_holder_of_the_lost_history_is_fenced() {
    for (situation, job) in situations() {
        let right = holder(&job);
        let lifted = restored(job);

        for (name, mut event) in fitting(&lifted) {
            let Some(shown) = holder_mut(&mut event) else { continue };
            *shown = right.clone();

            let outcome = lifted.clone().apply(event, NOW, Actor::Coordinator);

            let expected = Refusal::StaleEpoch { shown: right.epoch, held: lifted.epoch() };
            assert_eq!(outcome.unwrap_err(), expected, "{situation}: {name}");
        }
    }
}

#[test]
fn row_28_a_restored_job_has_no_holder_and_no_penalty() {
    for (situation, job) in situations() {
        let before = (job.attempts(), job.lost_leases(), job.unaccepted(), job.completed().cloned());

        let lifted = restored(job);

        assert_eq!((lifted.lease(), lifted.dispatch()), (None, None), "{situation}");
        let after = (lifted.attempts(), lifted.lost_leases(), lifted.unaccepted(), lifted.completed().cloned());
        assert_eq!(after, before, "{situation}");
        assert_eq!(lifted.epoch(), Epoch::first_of(NEXT), "{situation}");
        assert_eq!(lifted.dispatch_seq(), DispatchSeq::first_of(NEXT), "{situation}");
    }
}

#[test]
fn row_28_a_running_run_ends_as_restored() {
    let job = building(queued());
    let saved = Checkpoint { epoch: job.epoch(), ..checkpoint(job.epoch()) };
    let event = StageEvent::Checkpointed { holder: holder(&job), checkpoint: saved.clone() };
    let job = then(job, event).commit_at(Expected::Absent, None).job;

    let unit = restored(job).commit_at(Expected::At(Revision(1)), None);

    assert_eq!(unit.job.stage().name(), StageName::Queued);
    assert_eq!(unit.job.checkpoint(), Some(&saved));
    assert_eq!(unit.runs.iter().map(|run| run.outcome).collect::<Vec<_>>(), [Some(RunOutcome::Restored)]);
    assert_eq!(unit.events.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::Restored]);
    let usage =
        serde_json::json!({ "run": 1, "engine": "command", "repo": "notes", "dispatchSeq": 1, "started": true });
    let expected = serde_json::json!({ "generation": 1, "factoryId": "mac", "usage": usage });
    assert_eq!(unit.events[0].data, expected);
}

#[test]
fn row_28_a_running_promotion_is_reassigned() {
    let job = restored(completed(queued()));

    let errand = job.errand().unwrap();

    assert_eq!(errand.state, ErrandState::Waiting { not_before: None });
    assert_eq!(Some(&errand.sha), job.completed());
    assert!(job.run().is_some_and(|run| run.ended_at.is_none()), "the run ends once the branch shows its work");
}

#[test]
fn row_28_an_ended_job_keeps_its_stage() {
    let dead = building(queued());
    let event = StageEvent::Reaped { epoch: dead.epoch(), verdict: EXHAUSTED };
    let dead = then(dead, event);
    let message = dead.message().map(str::to_owned);

    let lifted = restored(dead);
    let again = then(lifted.clone(), StageEvent::Requeued { checkpoint: domain::KeepCheckpoint::Keep, message: None });
    let regranted = assigned(again);

    assert_eq!(lifted.stage().name(), StageName::DeadLetter);
    assert_eq!(lifted.message().map(str::to_owned), message);
    assert_eq!(regranted.epoch(), Epoch::first_of(NEXT).next());
}

#[test]
fn a_job_enters_a_generation_once() {
    let lifted = restored(offered(queued()));

    let again = lifted.apply(StageEvent::Restored { generation: NEXT }, NOW, Actor::Coordinator);

    let at = Epoch::first_of(NEXT);
    assert_eq!(again.unwrap_err(), Refusal::StaleEpoch { shown: at, held: at });
}

#[test]
fn a_resubmitted_job_starts_above_its_lost_epochs() {
    let lost = assigned(queued());

    let job = submitted(DepsState::Met, None).begun_in(NEXT);
    let unit = job.clone().commit_at(Expected::Absent, None);
    let granted = assigned(job);

    assert_eq!(unit.events[0].epoch, Epoch::first_of(NEXT));
    assert!(granted.epoch() > lost.epoch());
    assert!(granted.dispatch_seq() > lost.dispatch_seq());
}

// [§9]
#[test]
fn a_document_without_a_generation_belongs_to_the_first() {
    let state = r#"{"v":1,"stage":{"name":"queued"},"priority":"normal","leaseEpoch":3,"dispatchSeq":2,"seq":9,"updatedAt":"2026-01-01T00:00:00.000Z"}"#;

    let job = Job::from_stored(Arc::clone(promoted(queued()).submission()), state).unwrap();

    assert_eq!((job.epoch(), job.generation(), job.dispatch_seq()), (Epoch(3), Generation(0), DispatchSeq(2)));
}

/// Leases and dispatch numbers granted by a lost store.
#[derive(Debug, Default)]
struct Given {
    epochs: BTreeSet<Epoch>,
    dispatches: BTreeSet<DispatchSeq>,
}

impl Given {
    fn note(&mut self, before: &Job, after: &Job) {
        if let Some(lease) = after.lease().filter(|lease| before.lease() != Some(lease)) {
            assert!(self.epochs.insert(lease.epoch), "epoch {} was given twice", lease.epoch);
        }
        if let Some(offer) = after.dispatch().filter(|offer| before.dispatch() != Some(offer)) {
            assert!(self.dispatches.insert(offer.seq), "dispatch {} was made twice", offer.seq);
        }
    }
}

/// One step of a fleet's life.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// An event of the job.
    Event(usize),
    /// A backup is taken.
    BackUp,
    /// The store is lost and backup `nth` is restored; the replaced store may be lost too.
    Restore { nth: usize, is_empty_disk: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let restore = (0_usize..100, any::<bool>()).prop_map(|(nth, is_empty_disk)| Step::Restore { nth, is_empty_disk });
    let step = prop_oneof![20 => (0_usize..1_000).prop_map(Step::Event), 1 => Just(Step::BackUp), 1 => restore];
    prop::collection::vec(step, 1..160)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // [I2]
    #[test]
    fn row_28_a_lost_epoch_is_never_granted_again(steps in steps()) {
        let mut given = Given::default();
        let mut job = queued().commit_at(Expected::Absent, None).job;
        let mut generation = Generation(0);
        let mut backups = vec![(job.clone(), generation)];
        let mut now = NOW;
        let ordinary = ["dispatched", "granted", "started", "dispatched", "granted", "reaped, again"];
        for (turn, step) in steps.into_iter().enumerate() {
            match step {
                Step::BackUp => backups.push((job.clone(), generation)),
                Step::Restore { nth, is_empty_disk } => {
                    // Restoring twice onto an empty disk takes longer than the clock's step.
                    now = now.after(std::time::Duration::from_secs(3));
                    let (kept, its) = backups[nth % backups.len()].clone();
                    generation = Generation::restored(its, (!is_empty_disk).then_some(generation), now);
                    job = kept;
                }
                Step::Event(choice) => {
                    job = live(job, generation, choice, ordinary[turn % ordinary.len()], now, &mut given);
                }
            }
        }
    }
}

/// Two events as the coordinator applies them, after the job enters the generation. One is the usual next event, one is
/// random.
fn live(job: Job, generation: Generation, choice: usize, next: &str, now: Timestamp, given: &mut Given) -> Job {
    let mut job = match job.generation() < generation {
        true => job.apply(StageEvent::Restored { generation }, now, Actor::Coordinator).unwrap(),
        false => job,
    };
    for is_ordinary in [true, false] {
        let events = fitting(&job);
        let chosen = match is_ordinary {
            true => events.iter().position(|(name, _)| *name == next).unwrap(),
            false => choice % events.len(),
        };
        let event = events[chosen].1.clone();
        if matches!(event, StageEvent::Restored { .. }) {
            continue;
        }
        if let Ok(after) = job.clone().apply(event, now, Actor::Coordinator) {
            given.note(&job, &after);
            job = after.commit_at(Expected::At(Revision(1)), None).job;
        }
    }
    // Restart an ended job, so that the sequence goes on.
    match job.stage().name() {
        StageName::Failed | StageName::DeadLetter => {
            let requeued = StageEvent::Requeued { checkpoint: domain::KeepCheckpoint::Keep, message: None };
            job.apply(requeued, now, Actor::Coordinator).unwrap()
        }
        _ => job,
    }
}

#[test]
fn a_repeated_report_of_a_lost_holder_is_fenced() {
    let job = building(queued());
    let right = holder(&job);
    let regranted = assigned(restored(job));

    for _ in 0..2 {
        let failed = StageEvent::AttemptFailed {
            holder: right.clone(),
            reason: FailureReason::Crash,
            account: domain::FailureDetails::default(),
            verdict: EXHAUSTED,
        };
        let outcome = regranted.clone().apply(failed, NOW, Actor::Coordinator);

        assert_eq!(outcome.unwrap_err(), Refusal::StaleEpoch { shown: right.epoch, held: regranted.epoch() });
    }
    assert_eq!(regranted.id(), JobId::new(NOW, [7; 10]));
}
