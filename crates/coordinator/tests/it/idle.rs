//! Without work the coordinator is idle [I14]; after a start no factory counts as missing before it had time to report.

use std::sync::Arc;
use std::time::Duration;

use domain::StageName;
use protocol::Presence;

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, drain};

pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(30);

/// Runs all woken tasks until they sleep again.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

// [D1]
#[tokio::test]
async fn wake_ups_alone_take_a_job_to_its_end() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });

    let job = fleet.submit(PLAIN).await;
    let offer = tokio::time::timeout(Duration::from_secs(10), inbox.next()).await.unwrap();

    assert!(matches!(offer, Some(protocol::InboxEvent::Dispatch(message)) if message.job_id == job));
    let grip = mac.try_take(&fleet, job).await.unwrap();
    mac.start(&fleet, grip).await.unwrap();
    mac.complete(&fleet, grip, None).await.unwrap();
    assert_eq!(fleet.stage(job).await, StageName::Shipped);
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [I14]
#[tokio::test]
async fn an_idle_timer_sleeps() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    // Offered during the warm-up of the next coordinator, and accepted before its postponed deadline.
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    fleet.builder.clock.advance(Duration::from_secs(16));
    let fleet = fleet.restarted().await;
    mac.beat(&fleet).await;
    fleet.coordinator.tick().await;
    let grip = mac.try_take(&fleet, job).await.unwrap();
    mac.start(&fleet, grip).await.unwrap();
    fleet.builder.clock.advance(Duration::from_secs(60));
    mac.renew(&fleet).await;
    fleet.coordinator.tick().await;

    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    settle().await;
    let metrics = tokio::runtime::Handle::current().metrics();

    // A task that never sleeps keeps the only thread of this runtime from parking.
    let parked = metrics.worker_park_count(0);
    let rested = async {
        while metrics.worker_park_count(0) == parked {
            tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
        }
    };
    tokio::time::timeout(Duration::from_secs(5), rested).await.unwrap();
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [I14]
#[tokio::test]
async fn during_warm_up_no_offer_expires_and_no_factory_is_missing() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    fleet.builder.clock.advance(Duration::from_secs(600));

    let fleet = fleet.restarted().await;
    fleet.coordinator.tick().await;
    fleet.builder.clock.advance(RENEW_EVERY - Duration::from_millis(1));
    fleet.coordinator.tick().await;

    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
    assert_eq!(fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().presence, Presence::Warming);
    assert_eq!(fleet.job(job).await.target_factory_id, Some(mac.id.clone()));
    mac.beat(&fleet).await;
    let mut inbox = mac.open_inbox(&fleet, 1).await;
    assert_eq!(drain(&mut inbox).await.0.len(), 1);
    mac.try_take(&fleet, job).await.unwrap();
}

// [D4] [alert: stale_factory]
#[tokio::test]
async fn after_warm_up_a_silent_factory_is_missing_and_loses_offers() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    let fleet = fleet.restarted().await;
    fleet.pass(RENEW_EVERY * 2, &[]).await;

    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    let codes: Vec<_> = alerts.iter().map(|alert| alert.code).collect();
    assert_eq!(codes, vec![protocol::AlertCode::NoLiveFactory, protocol::AlertCode::StaleFactory]);
    let words = "`mac` has not connected since the coordinator restarted at";
    assert!(alerts[1].message.contains(words), "{}", alerts[1].message);
    assert_eq!(fleet.job(job).await.target_factory_id, None);
    let linux = Machine::join(&fleet, "linux").await;
    linux.take(&fleet, job).await;
    assert_eq!(fleet.job(job).await.holder_factory_id, Some(linux.id.clone()));
    mac.beat(&fleet).await;
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
}

// [I14] [row 10]
#[tokio::test]
async fn a_wall_clock_set_back_does_not_prolong_the_warm_up() {
    let builder = quick();
    *builder.ahead.lock() = Duration::from_hours(1);
    let fleet = Arc::new(builder).open().await;
    fleet.submit(PLAIN).await;

    *fleet.builder.ahead.lock() = Duration::ZERO;
    fleet.warm_up();

    let codes: Vec<_> =
        fleet.coordinator.alerts(&fleet.admin).await.unwrap().items.into_iter().map(|alert| alert.code).collect();
    assert_eq!(codes, vec![protocol::AlertCode::NoLiveFactory]);
}
