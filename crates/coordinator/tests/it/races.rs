//! Two writers, one job: the first wins, and there is one outcome [I1].

use std::collections::HashSet;
use std::time::Duration;

use domain::{EventKind, JobId};
use protocol::{Action, HeldJob};

use super::{quick, retold, share_of};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, Offers};

const LEASE_TTL: Duration = Duration::from_secs(9);

/// The number of races.
fn pairs() -> usize {
    share_of(10_000)
}

/// A fleet with short leases, and a store that yields at random.
async fn hurried() -> (Fleet, Machine) {
    let fleet = Fleet::warm(quick().with(|settings| settings.lease_ttl = LEASE_TTL)).await;
    fleet.ship_everything().await;
    let machine = Machine::join_with(&fleet, "mac", Offers { seats: 10, ..Offers::default() }).await;
    fleet.coordinator.tick().await;
    fleet.store().set(|faults| faults.yields_max = 3);
    (fleet, machine)
}

/// Advances time until a new lease expires, with the reaper running.
async fn until_expiry(fleet: &Fleet) {
    for _ in 0..2 {
        fleet.builder.clock.advance(LEASE_TTL / 3);
        fleet.coordinator.tick().await;
    }
    fleet.builder.clock.advance(LEASE_TTL / 3);
}

async fn check_outcomes(fleet: &Fleet, completed: &HashSet<JobId>, other: EventKind) {
    let stories = fleet.stories().await;
    assert_eq!(stories.len(), pairs());
    for (job, scenario) in stories {
        let outcomes: Vec<EventKind> =
            scenario.into_iter().filter(|kind| [EventKind::Completed, other].contains(kind)).collect();
        let expected = if completed.contains(&job) { EventKind::Completed } else { other };
        assert_eq!(outcomes, vec![expected], "job {job}");
    }
    let both = [completed.len(), pairs() - completed.len()];
    assert!(both.iter().all(|wins| *wins > pairs() / 20), "one side nearly always won: {both:?}");
}

#[tokio::test]
async fn row_08_a_reaper_and_a_completion_never_both_win() {
    let (fleet, mac) = hurried().await;
    let mut completed = HashSet::new();

    for _ in 0..pairs() {
        mac.beat(&fleet).await;
        let job = fleet.submit(PLAIN).await;
        let grip = mac.build(&fleet, job).await;
        until_expiry(&fleet).await;
        let (_, outcome) = tokio::join!(fleet.coordinator.tick(), mac.complete(&fleet, grip, None));
        if outcome.is_ok() {
            completed.insert(job);
        } else {
            fleet.act(job, Action::Cancel).await.unwrap();
        }
    }

    check_outcomes(&fleet, &completed, EventKind::Reaped).await;
}

#[tokio::test]
async fn row_15_a_cancellation_and_a_completion_never_both_win() {
    let (fleet, mac) = hurried().await;
    let mut completed = HashSet::new();

    for _ in 0..pairs() {
        let job = fleet.submit(PLAIN).await;
        let grip = mac.build(&fleet, job).await;
        let (cancelled, outcome) = tokio::join!(fleet.act(job, Action::Cancel), mac.complete(&fleet, grip, None));
        assert_ne!(cancelled.is_ok(), outcome.is_ok(), "each has one winner");
        if outcome.is_ok() {
            completed.insert(job);
        }
    }

    check_outcomes(&fleet, &completed, EventKind::Cancelled).await;
}

async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn row_30_a_renewed_lease_is_not_reaped_and_a_lost_one_is() {
    let (fleet, mac) = hurried().await;
    let (mut kept, mut lost) = (0, 0);

    for _ in 0..share_of(500) {
        mac.beat(&fleet).await;
        let mut held = Vec::new();
        for _ in 0..4 {
            let job = fleet.submit(PLAIN).await;
            held.push(mac.build(&fleet, job).await);
        }
        until_expiry(&fleet).await;
        let list = held.iter().map(|grip| HeldJob { job_id: grip.job, lease_epoch: grip.epoch }).collect();
        let (pause, reaper_pause) = (fleet.any(12), fleet.any(12));
        let renewal = async {
            turns(pause).await;
            mac.renew_only(&fleet, list).await
        };
        let reaper = async {
            turns(reaper_pause).await;
            fleet.coordinator.tick().await;
        };
        let ((), renewed) = tokio::join!(reaper, renewal);
        for grip in held {
            let is_lost = renewed.lost.contains(&HeldJob { job_id: grip.job, lease_epoch: grip.epoch });
            let is_reaped = fleet.job(grip.job).await.lost_leases == 1;
            assert_eq!(is_lost, is_reaped, "after {pause} turns of the renewal and {reaper_pause} of the reaper");
            if is_lost {
                lost += 1;
            } else {
                kept += 1;
            }
            fleet.act(grip.job, Action::Cancel).await.unwrap();
        }
    }

    let few = share_of(100);
    assert!(kept > few && lost > few, "one side nearly always won: {kept} kept, {lost} lost");
}

// [§9]
#[tokio::test]
async fn an_older_revision_does_not_reopen_an_ended_job() {
    let (fleet, mac) = hurried().await;

    for _ in 0..retold(300) {
        let job = fleet.submit(PLAIN).await;
        let grip = mac.build(&fleet, job).await;
        // The sweep has read the job before its end, and absorbs it afterwards.
        tokio::join!(fleet.coordinator.sweep(), async { mac.complete(&fleet, grip, None).await.unwrap() });

        let view = fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap();
        assert_eq!(view.seats, vec![], "a job that has ended holds a seat");
    }
}
