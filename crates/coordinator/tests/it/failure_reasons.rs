//! Every reason of a failed job can be reached, and the coordinator alone decides what follows it [J5][F6].

use std::time::Duration;

use coordinator::Error;
use domain::{FailureReason, JobId, Refusal, StageName};
use protocol::Action;

use super::quick;
use crate::fleet::{Fleet, IN_REPO, PLAIN};
use crate::machine::Machine;

/// The effect of a first failure, when the policy allows three attempts.
#[derive(Debug, PartialEq)]
enum Fate {
    /// Requeued after a backoff: one attempt counts, another factory is preferred.
    Retried,
    /// Failed at once; no attempt counts.
    Final,
    /// A reason that a worker may not report.
    Refused,
}

fn fate(reason: FailureReason) -> Fate {
    use FailureReason as R;
    match reason {
        R::Timeout | R::Crash | R::VerifyFailed | R::CapabilityMismatch | R::NoEngine | R::EngineError => Fate::Retried,
        R::BudgetExceeded => Fate::Final,
        R::Rejected | R::DepFailed | R::Cancelled | R::RetriesExhausted | R::Undeliverable => Fate::Refused,
    }
}

// [J5]
#[tokio::test]
async fn worker_reasons_are_retried_or_final_and_others_rejected() {
    for reason in FailureReason::ALL {
        let fleet = Fleet::warm(quick()).await;
        let mac = Machine::join(&fleet, "mac").await;
        let job = fleet.submit(PLAIN).await;
        let grip = mac.build(&fleet, job).await;

        let answer = mac.fail(&fleet, grip, reason).await;

        let view = fleet.job(job).await;
        let found = match answer {
            Ok(failed) => {
                assert_eq!((failed.stage, failed.not_before), (view.stage, view.not_before), "{reason}");
                assert_eq!(view.holder_factory_id, None, "{reason}: the lease goes with the failure");
                match (view.stage, view.reason) {
                    (StageName::Queued, None) if view.attempts == 1 && view.not_before.is_some() => Fate::Retried,
                    (StageName::Failed, Some(found)) if found == reason && view.attempts == 0 => Fate::Final,
                    other => panic!("{reason} led to {other:?}"),
                }
            }
            Err(Error::Refused(Refusal::NotAWorkersReason(_))) => {
                assert_eq!((view.stage, view.attempts), (StageName::Building, 0), "{reason}: nothing has changed");
                Fate::Refused
            }
            Err(error) => panic!("{reason}: {error}"),
        };
        assert_eq!(found, fate(reason), "{reason}");
    }
}

// [J5]
#[tokio::test]
async fn retries_back_off_exponentially_and_end_dead_lettered() {
    for reason in FailureReason::ALL.into_iter().filter(|reason| fate(*reason) == Fate::Retried) {
        let fleet = Fleet::warm(quick()).await;
        let mac = Machine::join(&fleet, "mac").await;
        let job = fleet.submit(PLAIN).await;
        let mut pauses = Vec::new();
        for attempt in 1..=3 {
            let grip = mac.build(&fleet, job).await;
            let failed = mac.fail(&fleet, grip, reason).await.unwrap();
            assert_eq!(fleet.job(job).await.attempts, attempt, "{reason}");
            let Some(not_before) = failed.not_before else { break };
            let pause = not_before.since(fleet.coordinator.clock().now());
            pauses.push(pause);
            assert_eq!(fleet.dispatch().await, 0, "{reason}: not before its time");
            fleet.pass(pause, &[&mac]).await;
        }

        let view = fleet.job(job).await;
        assert_eq!(
            (view.stage, view.reason),
            (StageName::DeadLetter, Some(FailureReason::RetriesExhausted)),
            "{reason}"
        );
        let first = Duration::from_secs(30);
        assert!((first..=first.mul_f64(1.2)).contains(&pauses[0]), "{reason}: {pauses:?}");
        assert!((first * 2..=first.mul_f64(2.4)).contains(&pauses[1]), "{reason}: {pauses:?}");
        assert_eq!(fleet.coordinator.dead_letters(&fleet.admin, None, 10).await.unwrap().items.len(), 1, "{reason}");
        // An operator requeues it, and all counters restart.
        fleet.act(job, Action::Requeue).await.unwrap();
        assert_eq!((fleet.stage(job).await, fleet.job(job).await.attempts), (StageName::Queued, 0), "{reason}");
    }
}

// [J5]
#[tokio::test]
async fn reasons_of_the_coordinator_can_be_reached() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;

    let rejected = fleet.submit(IN_REPO).await;
    mac.run(&fleet, rejected).await;
    fleet.act(rejected, Action::Reject).await.unwrap();
    let cancelled = fleet.submit(PLAIN).await;
    mac.build(&fleet, cancelled).await;
    fleet.act(cancelled, Action::Cancel).await.unwrap();
    let follower = format!("---\ntitle: After it\ndeps: [{cancelled}]\nonDepFailure: fail\n---\n");
    let dep_failed = fleet.submit(&follower).await;
    fleet.coordinator.sweep().await;
    let exhausted = lose_every_lease(&fleet, &mac).await;
    let undeliverable = let_every_offer_expire(&fleet, &mac).await;

    let reached = [rejected, cancelled, dep_failed, exhausted, undeliverable];
    let mut reasons = Vec::new();
    for job in reached {
        let view = fleet.job(job).await;
        reasons.push((view.stage, view.reason.unwrap()));
    }
    use FailureReason as R;
    use StageName as S;
    let expected = vec![
        (S::Failed, R::Rejected),
        (S::Failed, R::Cancelled),
        (S::Failed, R::DepFailed),
        (S::DeadLetter, R::RetriesExhausted),
        (S::DeadLetter, R::Undeliverable),
    ];
    assert_eq!(reasons, expected);
}

/// A job that kills every factory that takes it.
async fn lose_every_lease(fleet: &Fleet, mac: &Machine) -> JobId {
    let job = fleet.submit(PLAIN).await;
    let settings = fleet.coordinator.settings().clone();
    for _ in 0..settings.retry.lost_leases_max {
        mac.beat(fleet).await;
        mac.build(fleet, job).await;
        fleet.pass(settings.lease_ttl * 2, &[]).await;
    }
    job
}

/// A job that no factory accepts, however often it is offered.
async fn let_every_offer_expire(fleet: &Fleet, mac: &Machine) -> JobId {
    let job = fleet.submit(PLAIN).await;
    let settings = fleet.coordinator.settings().clone();
    for _ in 0..settings.retry.unaccepted_max {
        mac.beat(fleet).await;
        fleet.dispatch().await;
        fleet.pass(settings.accept_within * 2, &[]).await;
    }
    job
}
