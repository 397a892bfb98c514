//! Leases: renewed in memory, reaped by one conditional write, and fenced after they are lost.

use std::time::Duration;

use coordinator::Error;
use domain::{EventKind, FailureReason, Refusal, StageName};
use protocol::{ErrandOutcome, HeldJob, JobView};

use super::{lasting, quick, retold};
use crate::fleet::{Fleet, IN_REPO, PLAIN};
use crate::machine::{Grip, Machine, Offers, sha};

const LEASE_TTL: Duration = Duration::from_secs(90);
const RENEW_EVERY: Duration = Duration::from_secs(30);

fn is_fenced(error: &Error) -> bool {
    matches!(error, Error::Refused(Refusal::StaleEpoch { .. } | Refusal::NotHolder { .. }))
}

/// A write that a worker made once, and that the network may repeat.
#[derive(Debug, Clone, Copy)]
enum Write {
    Start(Grip),
    Save(Grip),
    Fail(Grip),
    Release(Grip),
    Complete(Grip),
    Promote(Grip),
}

async fn write(fleet: &Fleet, machine: &Machine, write: Write) -> Result<(), Error> {
    match write {
        Write::Start(grip) => machine.start(fleet, grip).await.map(drop),
        Write::Save(grip) => machine.save(fleet, grip, &sha(7)).await.map(drop),
        Write::Fail(grip) => machine.fail(fleet, grip, FailureReason::Crash).await.map(drop),
        Write::Release(grip) => machine.release(fleet, grip).await.map(drop),
        Write::Complete(grip) => machine.complete(fleet, grip, Some(sha(1))).await.map(drop),
        Write::Promote(grip) => machine.promote(fleet, grip, ErrandOutcome::Done).await.map(drop),
    }
}

/// Repeats each past write up to three times, in random order; the job must not change, except by its own checkpoints.
async fn replay(fleet: &Fleet, machine: &Machine, past: &[Write], job: domain::JobId) {
    let mut again = Vec::new();
    for past in past {
        again.extend(std::iter::repeat_n(*past, fleet.any(4)));
    }
    fleet.shuffle(&mut again);
    for late in again {
        let before = fleet.job(job).await;
        let outcome = write(fleet, machine, late).await;
        let after = fleet.job(job).await;
        if let Err(error) = &outcome {
            assert!(is_fenced(error), "{late:?}: {error}");
        }
        match late {
            // A checkpoint that the live holder saves twice is the same work.
            Write::Save(_) if outcome.is_ok() => {
                let expected = JobView { rev: after.rev, seq: after.seq, updated_at: after.updated_at, ..before };
                assert_eq!(after, expected);
            }
            _ => assert_eq!(after, before, "{late:?}"),
        }
    }
}

#[tokio::test]
async fn row_07_a_late_or_repeated_write_changes_nothing() {
    let fleet = Fleet::warm(quick().with(|settings| settings.retry.attempts_max = 4)).await;
    let mac = Machine::join(&fleet, "mac").await;

    for _ in 0..retold(60) {
        let job = fleet.submit(IN_REPO).await;
        let mut past = Vec::new();
        for attempt in 0..4 {
            let grip = mac.take(&fleet, job).await;
            replay(&fleet, &mac, &past, job).await;
            let end = match attempt {
                0 | 2 => Write::Fail(grip),
                1 => Write::Release(grip),
                _ => Write::Complete(grip),
            };
            for step in [Write::Start(grip), Write::Save(grip), end] {
                write(&fleet, &mac, step).await.unwrap();
                past.push(step);
                replay(&fleet, &mac, &past, job).await;
            }
            fleet.pass(Duration::from_secs(150), &[&mac]).await;
        }
        assert_eq!(fleet.job(job).await.attempts, 2);
        // The promotion expired meanwhile: it needs another grant.
        fleet.dispatch().await;
        let grip = mac.try_take(&fleet, job).await.unwrap();
        write(&fleet, &mac, Write::Promote(grip)).await.unwrap();
        past.push(Write::Promote(grip));
        replay(&fleet, &mac, &past, job).await;
        assert_eq!(fleet.count(job, EventKind::AttemptFailed).await, 2);
        assert_eq!(fleet.count(job, EventKind::Completed).await, 1);
        assert_eq!(fleet.count(job, EventKind::Promoted).await, 1);
    }
}

#[tokio::test]
async fn row_07_a_fenced_failure_counts_no_attempt_and_no_backoff() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let old = mac.build(&fleet, job).await;
    mac.release(&fleet, old).await.unwrap();
    mac.build(&fleet, job).await;
    let before = fleet.job(job).await;

    let refused = mac.fail(&fleet, old, FailureReason::Crash).await.unwrap_err();

    assert!(is_fenced(&refused), "{refused}");
    assert_eq!(fleet.job(job).await, before);
}

#[tokio::test]
async fn row_09_a_failed_reap_does_not_stop_the_reaper() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 20, ..Offers::default() }).await;
    let mut jobs = Vec::new();
    for _ in 0..20 {
        let job = fleet.submit(PLAIN).await;
        mac.build(&fleet, job).await;
        jobs.push(job);
    }
    let poisoned = jobs[7];
    fleet.store().set(|faults| {
        faults.unwritable.insert(poisoned);
    });

    fleet.pass(LEASE_TTL * 2, &[]).await;

    for job in &jobs {
        let expected = if *job == poisoned { StageName::Building } else { StageName::Queued };
        assert_eq!(fleet.stage(*job).await, expected);
    }
    fleet.store().heal();
    fleet.pass(RENEW_EVERY, &[]).await;
    assert_eq!(fleet.stage(poisoned).await, StageName::Queued);
}

#[tokio::test]
async fn row_10_factory_clocks_an_hour_off_expire_no_lease_early() {
    let hour = Duration::from_secs(3_600);
    let fleet = Fleet::warm(lasting()).await;
    let ahead = Machine::join(&fleet, "ahead").await;
    let ahead = Machine::clone_of(&fleet, &ahead, hour);
    ahead.beat(&fleet).await;
    let job = fleet.submit(PLAIN).await;
    let grip = ahead.build(&fleet, job).await;

    fleet.pass(Duration::from_secs(600), &[&ahead]).await;

    assert_eq!((fleet.stage(job).await, fleet.job(job).await.lost_leases), (StageName::Building, 0));
    ahead.complete(&fleet, grip, None).await.unwrap();
}

#[tokio::test]
async fn row_10_a_new_process_with_an_older_clock_is_the_newest() {
    let fleet = Fleet::warm(quick()).await;
    let first = Machine::join(&fleet, "mac").await;
    let before = Machine::clone_of(&fleet, &first, Duration::from_secs(3_600));
    before.beat(&fleet).await;

    let restarted = Machine::clone_of(&fleet, &first, Duration::ZERO);
    let answer = restarted.beat(&fleet).await;

    assert!(!answer.superseded);
    let job = fleet.submit(PLAIN).await;
    restarted.run(&fleet, job).await;
    assert!(before.beat(&fleet).await.superseded);
}

#[tokio::test]
async fn row_11_a_paused_coordinator_reaps_no_lease_at_once() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    fleet.pass(RENEW_EVERY, &[&mac]).await;

    fleet.builder.clock.advance(LEASE_TTL * 3);
    fleet.coordinator.tick().await;
    let after_the_pause = fleet.stage(job).await;
    fleet.pass(LEASE_TTL - RENEW_EVERY, &[]).await;
    let renewed = mac.renew(&fleet).await;
    fleet.pass(LEASE_TTL, &[&mac]).await;

    assert_eq!(after_the_pause, StageName::Building);
    assert_eq!(renewed.lost, vec![]);
    assert_eq!(fleet.count(job, EventKind::Reaped).await, 0);
    mac.complete(&fleet, grip, None).await.unwrap();
}

#[tokio::test]
async fn row_11_a_pause_before_the_first_reaper_pass_reaps_none() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.coordinator.tick().await;
    let job = fleet.submit(PLAIN).await;
    mac.build(&fleet, job).await;

    fleet.builder.clock.advance(LEASE_TTL * 3);
    fleet.coordinator.tick().await;

    assert_eq!(fleet.stage(job).await, StageName::Building);
    fleet.pass(LEASE_TTL * 2, &[]).await;
    assert_eq!(fleet.stage(job).await, StageName::Queued);
}

#[tokio::test]
async fn row_11_after_a_restart_nothing_is_reaped_for_one_lease() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    fleet.builder.clock.advance(LEASE_TTL * 10);

    let fleet = fleet.restarted().await;
    fleet.coordinator.tick().await;
    fleet.pass(LEASE_TTL - RENEW_EVERY, &[]).await;
    mac.beat(&fleet).await;
    let renewed = mac.renew(&fleet).await;

    assert_eq!(renewed.lost, vec![]);
    fleet.pass(LEASE_TTL * 2, &[&mac]).await;
    mac.complete(&fleet, grip, None).await.unwrap();
}

#[tokio::test]
async fn row_22_a_job_that_kills_its_factories_is_dead_lettered() {
    let fleet = Fleet::warm(quick().with(|settings| settings.retry.lost_leases_max = 3)).await;
    fleet.ship_everything().await;
    let poison = fleet.submit(PLAIN).await;

    for n in 0..3 {
        let victim = Machine::join(&fleet, &format!("victim-{n}")).await;
        victim.build(&fleet, poison).await;
        fleet.pass(LEASE_TTL * 2, &[]).await;
    }

    let view = fleet.job(poison).await;
    assert_eq!((view.stage, view.reason), (StageName::DeadLetter, Some(FailureReason::RetriesExhausted)));
    assert_eq!((view.attempts, view.lost_leases), (0, 3));
    let survivor = Machine::join(&fleet, "survivor").await;
    let job = fleet.submit(PLAIN).await;
    survivor.run(&fleet, job).await;
    assert_eq!(fleet.stage(job).await, StageName::Shipped);
    assert_eq!(fleet.dispatch().await, 0);
    fleet.act(poison, protocol::Action::Requeue).await.unwrap();
    assert_eq!(fleet.job(poison).await.lost_leases, 0);
    survivor.run(&fleet, poison).await;
}

#[tokio::test]
async fn row_31_a_checkpoint_of_a_former_holder_is_fenced() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let linux = Machine::join(&fleet, "linux").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let (first, second) = match fleet.job(job).await.target_factory_id {
        Some(target) if target == mac.id => (&mac, &linux),
        _ => (&linux, &mac),
    };
    let old = first.build(&fleet, job).await;
    first.save(&fleet, old, &sha(1)).await.unwrap();
    fleet.pass(LEASE_TTL * 2, &[second]).await;
    let new = second.build(&fleet, job).await;
    second.save(&fleet, new, &sha(2)).await.unwrap();

    let refused = first.save(&fleet, old, &sha(3)).await.unwrap_err();

    assert!(is_fenced(&refused), "{refused}");
    assert_eq!(fleet.job(job).await.checkpoint.map(|saved| saved.sha), Some(sha(2)));
    let taken = HeldJob { job_id: job, lease_epoch: old.epoch };
    assert_eq!(first.renew_only(&fleet, vec![taken]).await.lost, vec![taken]);
}

// [F4]
#[tokio::test]
async fn the_next_holder_gets_the_checkpoint() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let old = mac.build(&fleet, job).await;
    mac.save(&fleet, old, &sha(1)).await.unwrap();
    fleet.pass(LEASE_TTL * 2, &[]).await;
    mac.beat(&fleet).await;
    fleet.dispatch().await;

    let claim = mac.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
    let accepted = mac.accept(&fleet, &claim).await.unwrap();

    assert_eq!(accepted.assignment.checkpoint, Some(crate::machine::checkpoint(old, &sha(1))));
}

#[tokio::test]
async fn a_lease_omitted_from_two_renewals_is_revoked() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    mac.build(&fleet, job).await;

    mac.renew_only(&fleet, Vec::new()).await;
    let after_one = fleet.stage(job).await;
    mac.renew_only(&fleet, Vec::new()).await;

    assert_eq!(after_one, StageName::Building);
    assert_eq!((fleet.stage(job).await, fleet.job(job).await.lost_leases), (StageName::Queued, 1));
}

// [F6]
#[tokio::test]
async fn a_failure_is_retried_with_backoff_up_to_the_limit() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let mut pauses = Vec::new();

    for _ in 0..2 {
        let grip = mac.build(&fleet, job).await;
        let failed = mac.fail(&fleet, grip, FailureReason::Crash).await.unwrap();
        assert_eq!((failed.stage, fleet.dispatch().await), (StageName::Queued, 0));
        let pause = failed.not_before.unwrap().since(fleet.coordinator.clock().now());
        pauses.push(pause.as_secs());
        fleet.pass(pause + Duration::from_millis(1), &[&mac]).await;
    }
    let grip = mac.build(&fleet, job).await;
    let failed = mac.fail(&fleet, grip, FailureReason::Crash).await.unwrap();

    assert_eq!((failed.stage, failed.not_before), (StageName::DeadLetter, None));
    assert!((30..=36).contains(&pauses[0]) && (60..=72).contains(&pauses[1]), "{pauses:?}");
}

// [I8]
#[tokio::test]
async fn a_final_failure_frees_the_seat_at_once() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let next = fleet.submit(PLAIN).await;
    assert_eq!(fleet.dispatch().await, 0);

    let failed = mac.fail(&fleet, grip, FailureReason::BudgetExceeded).await.unwrap();

    assert_eq!(failed.stage, StageName::Failed);
    mac.run(&fleet, next).await;
}

#[tokio::test]
async fn a_worker_cannot_report_a_coordinators_reason() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;

    for reason in FailureReason::ALL.into_iter().filter(|reason| !reason.may_be_reported()) {
        let refused = mac.fail(&fleet, grip, reason).await.unwrap_err();

        assert!(matches!(refused, Error::Refused(Refusal::NotAWorkersReason(_))), "{refused}");
    }
    assert_eq!(fleet.stage(job).await, StageName::Building);
}
