//! The running coordinator, counted in turns of the only thread: on stores that answer within some.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::quick;
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, drain};

#[tokio::test]
async fn row_03_a_failed_sweep_is_retried() {
    let builder = Arc::new(quick());
    let fleet = builder.open().await;
    fleet.warm_up();
    let mac = Machine::join(&fleet, "mac").await;
    let elsewhere = builder.open().await;
    let job = elsewhere.submit(PLAIN).await;
    fleet.store().set(|faults| faults.is_down = true);
    fleet.coordinator.sweep().await;
    fleet.store().heal();

    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    let mut inbox = mac.open_inbox(&fleet, 1).await;
    let mut offered = Vec::new();
    // No job is open in memory: only the failed sweep is a reason to read the store.
    for _ in 0..12 {
        builder.clock.advance(Duration::from_secs(20));
        mac.renew(&fleet).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        offered.extend(drain(&mut inbox).await.0.into_iter().map(|message| message.job_id));
    }

    assert_eq!(offered.first(), Some(&job));
    fleet.coordinator.stop();
    tasks.join_all().await;
}

#[tokio::test]
async fn row_32_a_lost_offer_write_is_retried_before_the_sweep() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let jobs = [fleet.submit(PLAIN).await, fleet.submit(PLAIN).await];
    fleet.store().set(|faults| {
        faults.commits_lost = 1.0;
        faults.unwritable.insert(jobs[1]);
    });
    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    turns().await;
    fleet.store().heal();

    let mut offered = BTreeSet::new();
    for _ in 0..10 {
        fleet.builder.clock.advance(Duration::from_secs(1));
        turns().await;
        offered.extend(drain(&mut inbox).await.0.into_iter().map(|message| message.job_id));
    }

    assert_eq!(offered, BTreeSet::from(jobs));
    fleet.coordinator.stop();
    tasks.join_all().await;
}

/// Runs all woken tasks until they sleep again.
async fn turns() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
