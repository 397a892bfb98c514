//! The fast path: while the queue is empty, a job is offered in the write that submits it.

use std::sync::Arc;
use std::time::Duration;

use domain::{EventKind, FactoryId, JobId, Mode};
use scheduler::ExplainedOutcome;
use tokio::task::JoinSet;

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN, submit};
use crate::machine::{Machine, Offers, drain};

const OFFERED: [EventKind; 2] = [EventKind::Submitted, EventKind::Dispatched];
const WAITING: [EventKind; 1] = [EventKind::Submitted];

/// A running dispatcher, and a factory with this many seats.
async fn running(fleet: &Fleet, seats: u32) -> (Machine, JoinSet<()>) {
    let mac = Machine::join_with(fleet, "mac", Offers { seats, ..Offers::default() }).await;
    let mut tasks = JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    turns().await;
    (mac, tasks)
}

/// Runs all woken tasks until they sleep again.
async fn turns() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Lets time pass until a job is offered: on a store with faults a refused write is repeated after a pause.
async fn offered(fleet: &Fleet, mac: &Machine, job: JobId) {
    for _ in 0..10 {
        turns().await;
        if target(fleet, job).await.is_some() {
            return;
        }
        fleet.pass(Duration::from_secs(1), &[mac]).await;
    }
}

async fn target(fleet: &Fleet, job: JobId) -> Option<FactoryId> {
    fleet.job(job).await.target_factory_id
}

// [D1] [B2] [P1]
#[tokio::test]
async fn a_submit_writes_the_offer_and_reports_the_target() {
    let fleet = Fleet::warm(lasting()).await;
    let (mac, tasks) = running(&fleet, 4).await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;

    let submitted = fleet.coordinator.submit(&fleet.admin, submit(PLAIN, None)).await.unwrap();

    let job = submitted.job.id;
    assert_eq!((submitted.job.rev.0, fleet.kinds(job).await), (1, OFFERED.to_vec()));
    assert!(matches!(submitted.forecast.answer, ExplainedOutcome::Goes { factory, .. } if factory == mac.id));
    let offered: Vec<JobId> = drain(&mut inbox).await.0.into_iter().map(|message| message.job_id).collect();
    assert_eq!(offered, [job]);
    mac.run(&fleet, job).await;
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [S7] [D1]
#[tokio::test]
async fn a_new_job_does_not_overtake_waiting_ones() {
    let fleet = Fleet::warm(quick()).await;
    let (_mac, tasks) = running(&fleet, 1).await;

    let first = fleet.submit(PLAIN).await;
    let second = fleet.submit(PLAIN).await;
    let other = Machine::join(&fleet, "other").await;
    let third = fleet.submit(PLAIN).await;

    // The second was first in the queue when a seat became free, whichever task placed it.
    turns().await;
    assert_eq!(fleet.kinds(first).await, OFFERED);
    assert_eq!(target(&fleet, second).await, Some(other.id.clone()));
    assert!(fleet.job(second).await.updated_at <= fleet.job(third).await.updated_at);
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [S6]
#[tokio::test]
async fn a_batch_fills_the_free_seats_only() {
    let fleet = Fleet::warm(lasting()).await;
    let (_mac, tasks) = running(&fleet, 3).await;

    let batch = (0..8).map(|_| submit(PLAIN, None)).collect();
    let taken = fleet.coordinator.submit_batch(&fleet.admin, batch).await.unwrap();
    turns().await;

    let mut offered = 0;
    for outcome in taken {
        let id = outcome.unwrap().0.id;
        offered += usize::from(target(&fleet, id).await.is_some());
    }
    assert_eq!(offered, 3);
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [S6]
#[tokio::test]
async fn a_failed_submit_releases_its_seat() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, tasks) = running(&fleet, 1).await;
    fleet.store().set(|faults| faults.is_down = true);

    fleet.try_submit(PLAIN, None).await.unwrap_err();
    fleet.store().heal();
    let job = fleet.submit(PLAIN).await;

    assert_eq!((fleet.kinds(job).await, target(&fleet, job).await), (OFFERED.to_vec(), Some(mac.id)));
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [S6]
#[tokio::test]
async fn concurrent_submits_of_one_job_take_one_seat() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, tasks) = running(&fleet, 2).await;
    fleet.store().set(|faults| faults.yields_max = 5);

    let same = || fleet.submit_as("gate", PLAIN);
    let (a, b, c) = tokio::join!(same(), same(), same());
    let again = same().await;
    let other = fleet.submit(PLAIN).await;
    let one_too_many = fleet.submit(PLAIN).await;

    assert_eq!((a, b, c), (again, again, again));
    assert_eq!(fleet.kinds(again).await, OFFERED);
    assert_eq!((target(&fleet, again).await, target(&fleet, other).await), (Some(mac.id.clone()), Some(mac.id)));
    assert_eq!(fleet.kinds(one_too_many).await, WAITING);
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [S6] [row 32]
#[tokio::test]
async fn the_only_seat_stays_with_the_job_in_either_write_order() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, tasks) = running(&fleet, 1).await;
    fleet.ship_everything().await;
    fleet.store().set(|faults| faults.yields_max = 5);

    for n in 0..60 {
        let key = format!("gate-{n}");
        let (a, b) = tokio::join!(fleet.submit_as(&key, PLAIN), fleet.submit_as(&key, PLAIN));
        offered(&fleet, &mac, a).await;

        assert_eq!((a, target(&fleet, a).await), (b, Some(mac.id.clone())), "after {n} jobs");
        mac.run(&fleet, a).await;
    }
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [J3] [D1]
#[tokio::test]
async fn of_two_batch_jobs_with_one_key_the_first_is_written() {
    let fleet = Fleet::warm(quick()).await;
    let (_mac, tasks) = running(&fleet, 4).await;
    let of = |os: &str| submit(&format!("---\ncapabilities: [os:{os}]\n---\n# Mend the gate\n"), Some("gate"));

    let mut taken = fleet.coordinator.submit_batch(&fleet.admin, vec![of("mac"), of("linux")]).await.unwrap();
    turns().await;

    assert!(taken.pop().unwrap().is_err());
    let first = taken.pop().unwrap().unwrap().0.id;
    assert_eq!(target(&fleet, first).await, None);
    fleet.coordinator.stop();
    tasks.join_all().await;
}

#[tokio::test]
async fn row_32_a_submit_with_a_lost_answer_is_offered_once() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, tasks) = running(&fleet, 2).await;
    let mut inbox = mac.open_inbox(&fleet, 2).await;
    fleet.store().set(|faults| faults.answers_lost = 1.0);

    let submitting = fleet.submit(PLAIN);
    let job = tokio::time::timeout(Duration::from_secs(10), submitting).await.unwrap();
    fleet.store().heal();
    turns().await;

    let offered: Vec<JobId> = drain(&mut inbox).await.0.into_iter().map(|message| message.job_id).collect();
    assert_eq!((offered, fleet.count(job, EventKind::Dispatched).await), (vec![job], 1));
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [D1]
#[tokio::test]
async fn in_poll_mode_a_new_job_is_not_offered() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, tasks) = running(&fleet, 2).await;
    fleet.switch(Mode::Poll).await;

    let job = fleet.submit(PLAIN).await;

    assert_eq!(fleet.kinds(job).await, WAITING);
    assert_eq!(mac.ask_for(&fleet, 1).await, [job]);
    fleet.coordinator.stop();
    tasks.join_all().await;
}
