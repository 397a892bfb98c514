//! Publishing: an outage of the broker costs time and no job, and nothing waits for a slow broker [I4].

use std::sync::Arc;
use std::time::Duration;

use domain::{Broker as _, EventKind, StageName};

use super::{lasting, quick};
use crate::fleet::{Fleet, IN_REPO, PLAIN};
use crate::idle::settle;
use crate::machine::{Machine, Offers, drain, sha};

const ACCEPT_WITHIN: Duration = Duration::from_secs(15);
const PUBLISH_WITHIN: Duration = Duration::from_secs(2);

/// The fleet's tasks, until the test ends.
fn run(fleet: &Fleet) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    tasks
}

// [I4] [row 22]
#[tokio::test]
async fn a_broker_that_is_away_for_an_hour_dead_letters_nothing() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 4, ..Offers::default() }).await;
    let mut inbox = mac.open_inbox(&fleet, 8).await;
    fleet.builder.broker().set(|faults| faults.is_down = true);
    let jobs = [fleet.submit(PLAIN).await, fleet.submit(PLAIN).await, fleet.submit(PLAIN).await];

    for _ in 0..240 {
        fleet.dispatch().await;
        fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
    }
    fleet.builder.broker().heal();
    for job in jobs {
        let view = fleet.job(job).await;
        assert_eq!((view.stage, view.attempts), (StageName::Queued, 0));
        assert!(fleet.count(job, EventKind::Dispatched).await >= 200, "it was offered all the time");
    }
    fleet.dispatch().await;

    assert_eq!(drain(&mut inbox).await.0.len(), jobs.len());
    for job in jobs {
        mac.run(&fleet, job).await;
    }
}

// [I4]
#[tokio::test]
async fn the_job_does_not_avoid_the_target_of_an_unpublished_offer() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let _inbox = mac.open_inbox(&fleet, 4).await;
    fleet.builder.broker().set(|faults| faults.is_down = true);
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    fleet.pass(ACCEPT_WITHIN, &[&mac]).await;

    let events = fleet.coordinator.events(&fleet.admin, job, domain::Position(0), 100).await.unwrap().items;
    let end = events.iter().rfind(|event| event.kind == EventKind::DispatchExpired).expect("the offer ended");
    assert_eq!(end.data["message"], "the broker did not accept the offer");
    assert_eq!(end.data["unaccepted"], 0);
    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    assert!(alerts.is_empty(), "the factory is not blamed: {alerts:?}");
}

// [J3] [I4]
#[tokio::test]
async fn a_broker_that_never_answers_delays_neither_submits_nor_the_dispatcher() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 200, ..Offers::default() }).await;
    let mut inbox = mac.open_inbox(&fleet, 300).await;
    fleet.builder.broker().set(|faults| faults.hangs = true);
    let tasks = run(&fleet);

    let mut jobs = Vec::new();
    for _ in 0..100 {
        jobs.push(fleet.submit(PLAIN).await);
    }
    settle().await;
    let mut offered = 0;
    for job in &jobs {
        offered += usize::from(fleet.job(*job).await.target_factory_id.is_some());
    }
    assert_eq!(offered, jobs.len(), "every job is offered while the first messages still wait");
    // Two waves of messages time out.
    for _ in 0..3 {
        fleet.builder.clock.advance(PUBLISH_WITHIN);
        settle().await;
    }
    fleet.builder.broker().heal();
    for _ in 0..ACCEPT_WITHIN.as_secs() {
        fleet.builder.clock.advance(Duration::from_secs(1));
        settle().await;
    }

    fleet.coordinator.stop();
    tasks.join_all().await;
    assert_eq!(drain(&mut inbox).await.0.len(), 0, "the stream ends with the coordinator");
    assert_eq!(
        fleet.builder.broker().depths().await.unwrap().get(&mac.id).copied().unwrap_or(0),
        100,
        "each was offered again"
    );
}

// [§9]
#[tokio::test]
async fn a_dead_letter_that_could_not_be_mirrored_is_mirrored_later() {
    let fleet = Fleet::warm(quick().with(|settings| settings.retry.unaccepted_max = 1)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let tasks = run(&fleet);
    let job = fleet.submit(PLAIN).await;
    settle().await;
    fleet.builder.broker().set(|faults| faults.is_down = true);
    fleet.builder.clock.advance(ACCEPT_WITHIN);
    settle().await;
    assert_eq!(fleet.stage(job).await, StageName::DeadLetter);
    let mirrored = async || fleet.builder.broker().dead_letters(10).await.unwrap().len();
    assert_eq!(mirrored().await, 0);
    fleet.builder.broker().heal();

    fleet.builder.clock.advance(fleet.coordinator.settings().sweep_every);
    settle().await;

    assert_eq!(mirrored().await, 1);
    fleet.coordinator.stop();
    tasks.join_all().await;
    drop(mac);
}

// [§9]
#[tokio::test]
async fn a_start_mirrors_the_dead_letters_that_the_broker_lacks() {
    let fleet = Fleet::warm(lasting().with(|settings| settings.retry.unaccepted_max = 1)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    fleet.builder.broker().set(|faults| faults.is_down = true);
    fleet.pass(ACCEPT_WITHIN, &[]).await;
    assert_eq!(fleet.stage(job).await, StageName::DeadLetter);
    drop(mac);

    let fleet = fleet.restarted().await;
    let again = fleet.builder.open().await;

    let letters = again.coordinator.dead_letters(&again.admin, None, 10).await.unwrap();
    assert_eq!(letters.mirrored.iter().map(|message| message.job_id).collect::<Vec<_>>(), vec![job], "and only once");
}

// [F5] [I4]
#[tokio::test]
async fn a_promotion_that_cannot_be_published_is_offered_again() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, job).await;
    let order = mac.complete(&fleet, grip, Some(sha(1))).await.unwrap().promote.unwrap();
    let held = crate::machine::Grip { job, epoch: order.lease_epoch };
    mac.promote(&fleet, held, protocol::ErrandOutcome::Done).await.unwrap();
    fleet.builder.broker().set(|faults| faults.is_down = true);
    let before = fleet.builder.broker().depths().await.unwrap().get(&mac.id).copied().unwrap_or(0);

    for _ in 0..30 {
        fleet.dispatch().await;
        fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
    }
    fleet.builder.broker().heal();
    fleet.dispatch().await;

    assert_eq!(fleet.stage(job).await, StageName::Testing);
    assert_eq!(fleet.builder.broker().depths().await.unwrap().get(&mac.id).copied().unwrap_or(0), before + 1);
    let events = fleet.coordinator.events(&fleet.admin, job, domain::Position(0), 100).await.unwrap().items;
    assert!(events.iter().any(|event| event.data["message"] == "the broker did not accept the offer"));
}
