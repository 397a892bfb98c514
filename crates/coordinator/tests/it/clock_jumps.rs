//! A wall clock that jumps: it reorders no queue, freezes no backoff and no offer (row 36).

use std::time::Duration;

use domain::{FailureReason, JobId, StageName};
use protocol::AlertCode;

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::Machine;

const ACCEPT_WITHIN: Duration = Duration::from_secs(15);
const BACKOFF: Duration = Duration::from_secs(60);

/// Submits one job while the coordinator's clock is an hour ahead, then others when it is right again.
async fn jobs_across_a_jump(fleet: &Fleet) -> Vec<JobId> {
    *fleet.builder.ahead.lock() = Duration::from_hours(1);
    let mut jobs = vec![fleet.submit(PLAIN).await];
    *fleet.builder.ahead.lock() = Duration::ZERO;
    for _ in 0..5 {
        fleet.builder.clock.advance(Duration::from_secs(1));
        jobs.push(fleet.submit(PLAIN).await);
    }
    jobs
}

/// The jobs in the order in which a factory with one seat gets them.
async fn order_of_service(fleet: &Fleet, machine: &Machine, count: usize) -> Vec<JobId> {
    let mut served = Vec::new();
    for _ in 0..count {
        fleet.dispatch().await;
        let view = fleet.coordinator.factory_view(&fleet.admin, &machine.id).unwrap();
        let job = view.seats[0].job_id.unwrap();
        machine.run(fleet, job).await;
        served.push(job);
    }
    served
}

async fn join(fleet: &Fleet) -> Machine {
    Machine::join_with(fleet, "mac", crate::machine::Offers { seats: 1, ..Default::default() }).await
}

#[tokio::test]
async fn row_36_a_job_of_a_clock_ahead_is_not_overtaken() {
    let fleet = Fleet::warm(quick()).await;
    let jobs = jobs_across_a_jump(&fleet).await;
    let mac = join(&fleet).await;

    assert_eq!(order_of_service(&fleet, &mac, jobs.len()).await, jobs);
}

#[tokio::test]
async fn row_36_a_restart_keeps_the_order_of_the_queue() {
    let fleet = Fleet::warm(lasting()).await;
    let jobs = jobs_across_a_jump(&fleet).await;

    let fleet = fleet.restarted().await;
    fleet.warm_up();
    let mac = join(&fleet).await;

    assert_eq!(order_of_service(&fleet, &mac, jobs.len()).await, jobs);
}

#[tokio::test]
async fn row_36_a_job_of_a_clock_ahead_starves_visibly() {
    let fleet = Fleet::warm(quick()).await;
    *fleet.builder.ahead.lock() = Duration::from_hours(1);
    let mac = join(&fleet).await;
    let running = fleet.submit(PLAIN).await;
    mac.take(&fleet, running).await;
    fleet.submit(PLAIN).await;
    *fleet.builder.ahead.lock() = Duration::ZERO;

    fleet.pass(fleet.coordinator.settings().starving_after + BACKOFF, &[&mac]).await;

    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    assert_eq!(alerts.iter().map(|alert| alert.code).collect::<Vec<_>>(), vec![AlertCode::QueueStarvation]);
    let waited = domain::Clock::now(&fleet.builder.clock).since(alerts[0].since);
    assert!(waited >= fleet.coordinator.settings().starving_after, "the alert says {waited:?}");
}

#[tokio::test]
async fn row_36_a_clock_jump_does_not_change_a_backoff() {
    for restarts in [false, true] {
        let fleet = Fleet::warm(lasting()).await;
        let mac = join(&fleet).await;
        let job = fleet.submit(PLAIN).await;
        let grip = mac.build(&fleet, job).await;
        *fleet.builder.ahead.lock() = Duration::from_hours(1);
        mac.fail(&fleet, grip, FailureReason::Crash).await.unwrap();
        *fleet.builder.ahead.lock() = Duration::ZERO;

        let fleet = if restarts { fleet.restarted().await } else { fleet };
        mac.beat(&fleet).await;
        fleet.pass(BACKOFF, &[&mac]).await;

        mac.take(&fleet, job).await;
        assert_eq!(fleet.stage(job).await, StageName::Assigned, "restarts: {restarts}");
    }
}

#[tokio::test]
async fn row_36_a_clock_jump_does_not_change_an_offers_expiry() {
    let fleet = Fleet::warm(quick()).await;
    let mac = join(&fleet).await;
    *fleet.builder.ahead.lock() = Duration::from_hours(1);
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    *fleet.builder.ahead.lock() = Duration::ZERO;
    let linux = Machine::join(&fleet, "linux").await;

    fleet.pass(ACCEPT_WITHIN, &[&mac, &linux]).await;
    fleet.dispatch().await;

    assert_eq!(fleet.job(job).await.target_factory_id, Some(linux.id.clone()));
}

#[tokio::test]
async fn row_36_a_clock_set_forward_expires_no_offer() {
    let fleet = Fleet::warm(quick()).await;
    let mac = join(&fleet).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    *fleet.builder.ahead.lock() = Duration::from_hours(1);
    fleet.coordinator.tick().await;

    assert_eq!(fleet.job(job).await.target_factory_id, Some(mac.id.clone()));
}
