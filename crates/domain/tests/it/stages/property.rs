//! Any sequence of events: no panic, monotonic counters stay monotonic, and a refusal changes nothing.

use std::sync::Arc;

use domain::{
    Actor, DepsState, DispatchSeq, Epoch, Expected, Holder, Job, Preemption, Refusal, Revision, StageEvent, StageName,
};
use proptest::prelude::*;

use super::sample::{NOW, ballot, fitting, linux, submitted};

/// A flaw injected into an event.
#[derive(Debug, Clone, Copy)]
enum Flaw {
    None,
    OldEpoch(u64),
    OtherFactory,
    OldNumber,
}

fn flaws() -> impl Strategy<Value = Flaw> {
    prop_oneof![
        6 => Just(Flaw::None),
        1 => (1_u64..5).prop_map(Flaw::OldEpoch),
        1 => Just(Flaw::OtherFactory),
        1 => Just(Flaw::OldNumber),
    ]
}

/// The holder that a worker's event presents.
pub(super) fn holder_mut(event: &mut StageEvent) -> Option<&mut Holder> {
    match event {
        StageEvent::Started { holder, .. }
        | StageEvent::Checkpointed { holder, .. }
        | StageEvent::Completed { holder, .. }
        | StageEvent::Asked { holder, .. }
        | StageEvent::QuotaHit { holder, .. }
        | StageEvent::Released { holder, .. }
        | StageEvent::AttemptFailed { holder, .. }
        | StageEvent::ErrandDone { holder }
        | StageEvent::ErrandFailed { holder, .. }
        | StageEvent::ErrandPutOff { holder, .. } => Some(holder),
        _ => None,
    }
}

/// The event with its flaw, and whether the flaw applies to it.
fn flawed(mut event: StageEvent, flaw: Flaw) -> (StageEvent, bool) {
    let older = |epoch: Epoch, by: u64| epoch.0.checked_sub(by).map_or(Epoch(u64::MAX), Epoch);
    let took = match (flaw, &mut event) {
        (Flaw::None, _) => false,
        (
            Flaw::OldEpoch(by),
            StageEvent::Reaped { epoch, .. }
            | StageEvent::Preempted { epoch }
            | StageEvent::PreemptionRequested { preemption: Preemption { epoch, .. } }
            | StageEvent::ErrandExpired { epoch, .. },
        ) => {
            *epoch = older(*epoch, by);
            true
        }
        (Flaw::OldEpoch(by), event) => match holder_mut(event) {
            Some(holder) => {
                holder.epoch = older(holder.epoch, by);
                true
            }
            None => false,
        },
        (Flaw::OtherFactory, StageEvent::Granted { lease } | StageEvent::ErrandGranted { lease, .. }) => {
            lease.factory = linux();
            true
        }
        (Flaw::OtherFactory, event) => match holder_mut(event) {
            Some(holder) => {
                holder.factory = linux();
                true
            }
            None => false,
        },
        (Flaw::OldNumber, StageEvent::Granted { lease } | StageEvent::ErrandGranted { lease, .. }) => {
            lease.seq = DispatchSeq(lease.seq.0 + 100);
            true
        }
        (Flaw::OldNumber, StageEvent::DispatchExpired { seq, .. } | StageEvent::ErrandExpired { seq, .. }) => {
            *seq = DispatchSeq(seq.0 + 100);
            true
        }
        (Flaw::OldNumber, _) => false,
    };
    (event, took)
}

/// Invariants of a job.
fn check(job: &Job) {
    let stage = job.stage().name();
    if let Some(lease) = job.lease() {
        assert_eq!(lease.epoch, job.epoch());
        assert_eq!(job.dispatch(), None);
    }
    match stage {
        StageName::Assigned | StageName::Building => {
            assert_eq!(job.run().map(|run| run.epoch), Some(job.epoch()));
            assert!(job.seat().is_some());
        }
        StageName::Review | StageName::Testing => {
            assert!(job.run().is_none_or(|run| run.outcome.is_some() && job.errand().is_some()));
        }
        StageName::Queued | StageName::Blocked => assert_eq!((job.run(), job.lease()), (None, None)),
        StageName::Shipped | StageName::Failed | StageName::DeadLetter => {
            assert_eq!((job.run(), job.lease(), job.dispatch()), (None, None, None));
        }
    }
    assert_eq!(job.facts().stage, stage);
}

/// Invariants between a job and its successor.
fn check_step(before: &Job, after: &Job) {
    let (from, to) = (before.stage().name(), after.stage().name());
    assert!(from == to || from.moves().contains(&to), "{from} went to {to}");
    assert_eq!(after.seq(), before.seq().next());
    let has_changed_hands = before.lease() != after.lease();
    let is_lifted = before.generation() != after.generation();
    let expected = match (is_lifted, has_changed_hands) {
        (true, _) => Epoch::first_of(after.generation()),
        (false, true) => before.epoch().next(),
        (false, false) => before.epoch(),
    };
    assert_eq!(after.epoch(), expected);
    assert!(after.dispatch_seq() >= before.dispatch_seq());
    assert!(after.runs() >= before.runs());
}

/// The job after a round trip through the store.
fn stored(job: &Job) -> Job {
    Job::from_stored(Arc::clone(job.submission()), &job.state_json().unwrap()).unwrap()
}

fn live(mut job: Job, steps: &[(usize, Flaw)]) {
    let mut runs_ended = 0;
    let mut last_event = job.seq().0;
    for (choice, flaw) in steps {
        let events = fitting(&job);
        let (event, is_flawed) = flawed(events[choice % events.len()].1.clone(), *flaw);
        let name = event.name();
        let outcome = job.clone().apply(event, NOW, Actor::Coordinator);
        let after = match outcome {
            Ok(after) => after,
            Err(refusal) => {
                if matches!(flaw, Flaw::OldEpoch(_)) && is_flawed {
                    assert!(matches!(refusal, Refusal::StaleEpoch { .. }), "{name}: {refusal}");
                }
                continue;
            }
        };
        assert!(!is_flawed, "{name} was allowed although {flaw:?}");
        check_step(&job, &after);
        check(&after);
        let unit = after.commit_at(Expected::At(Revision(1)), None);
        for event in &unit.events {
            assert_eq!(event.seq.0, last_event + 1);
            last_event = event.seq.0;
        }
        for run in &unit.runs {
            assert_eq!(run.n, runs_ended + 1);
            assert!(run.ended_at.is_some() && run.outcome.is_some());
            runs_ended = run.n;
        }
        job = unit.job;
        assert_eq!(runs_ended + u32::from(job.run().is_some()), job.runs());
        assert_eq!(stored(&job), job);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // [J5]
    #[test]
    fn any_sequence_of_events_keeps_the_invariants(
        steps in prop::collection::vec((0_usize..1_000, flaws()), 1..120),
        is_blocked in any::<bool>(),
        is_reviewed in any::<bool>(),
    ) {
        let deps = if is_blocked { DepsState::Unmet } else { DepsState::Met };
        let job = submitted(deps, is_reviewed.then(ballot));
        let job = job.commit_at(Expected::Absent, None);
        prop_assert_eq!(job.events.len(), 1);
        live(job.job, &woven(&steps));
    }
}

/// Interleaves random events with the usual sequence, because a random walk rarely gets far.
fn woven(steps: &[(usize, Flaw)]) -> Vec<(usize, Flaw)> {
    let ordinary = ["dispatched", "granted", "started", "completed with a commit", "errand done"];
    let names: Vec<&str> = fitting(&submitted(DepsState::Met, None)).iter().map(|(name, _)| *name).collect();
    let path = ordinary.iter().filter_map(|name| names.iter().position(|known| known == name));
    steps.iter().copied().zip(path.cycle()).flat_map(|(step, next)| [(next, Flaw::None), step]).collect()
}
