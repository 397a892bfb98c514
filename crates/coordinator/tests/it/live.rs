//! What an open event stream tells beside events, and what it costs.

use std::time::Duration;

use coordinator::{Principal, StreamItem, Subscriber};
use domain::{Mode, TokenScope};
use protocol::{Action, AlertChange, AlertCode, DrainRequest, FactoryChange, NeedsEvent, ProductSettings, StreamEvent};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::Machine;

/// What a stream tells within the next seconds.
async fn hear_for(fleet: &Fleet, follower: &mut Subscriber, seconds: u64) -> Vec<StreamEvent> {
    let mut heard = Vec::new();
    for _ in 0..seconds {
        heard.extend(hear_now(follower).await);
        fleet.builder.clock.advance(Duration::from_secs(1));
    }
    heard.extend(hear_now(follower).await);
    heard
}

async fn hear_now(follower: &mut Subscriber) -> Vec<StreamEvent> {
    let mut heard = Vec::new();
    while let Ok(item) = tokio::time::timeout(Duration::from_millis(20), follower.next()).await {
        match item {
            Some(StreamItem::Live(news)) => heard.extend(news),
            Some(_) => {}
            None => panic!("the stream ended"),
        }
    }
    heard
}

fn factories(news: &[StreamEvent]) -> Vec<(String, FactoryChange)> {
    let told = news.iter().filter_map(|event| match event {
        StreamEvent::Factory(told) => Some((told.factory_id.to_string(), told.change)),
        _ => None,
    });
    told.collect()
}

fn alerts(news: &[StreamEvent]) -> Vec<(AlertCode, AlertChange)> {
    let told = news.iter().filter_map(|event| match event {
        StreamEvent::Alert(told) => Some((told.code, told.change)),
        _ => None,
    });
    told.collect()
}

fn needs(news: &[StreamEvent]) -> Vec<NeedsEvent> {
    let told = news.iter().filter_map(|event| match event {
        StreamEvent::Needs(told) => Some(*told),
        _ => None,
    });
    told.collect()
}

fn viewer_of(fleet: &Fleet, product: &str) -> Principal {
    Principal { grant: TokenScope::Viewer { products: [product.parse().unwrap()].into() }, ..fleet.admin.clone() }
}

// [I14] [P4]
#[tokio::test]
async fn an_open_stream_of_an_idle_fleet_costs_nothing() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.act(job, Action::Cancel).await.unwrap();
    let mut follower = fleet.coordinator.follow_fleet(&fleet.admin, None).await.unwrap();
    hear_for(&fleet, &mut follower, 3).await;
    let operations = fleet.operations();

    let mut heard = Vec::new();
    for _ in 0..40 {
        mac.renew(&fleet).await;
        fleet.coordinator.tick().await;
        fleet.builder.clock.advance(Duration::from_secs(15));
        heard.extend(hear_now(&mut follower).await);
    }

    assert_eq!((heard, fleet.operations()), (Vec::new(), operations));
}

#[tokio::test]
async fn a_factory_that_changes_is_told_once_a_second() {
    let fleet = Fleet::warm(quick()).await;
    let mut follower = fleet.coordinator.follow_fleet(&fleet.admin, None).await.unwrap();
    let mac = Machine::join(&fleet, "mac").await;
    let joined = hear_for(&fleet, &mut follower, 1).await;

    for draining in [true, false, true] {
        fleet.coordinator.drain(&fleet.admin, &mac.id, &DrainRequest { draining }).await.unwrap();
    }
    let at_once = hear_now(&mut follower).await;
    let later = hear_for(&fleet, &mut follower, 1).await;
    fleet.coordinator.deregister(&fleet.admin, &mac.id).await.unwrap();
    let removed = hear_for(&fleet, &mut follower, 1).await;

    assert_eq!(factories(&joined), [("mac".to_owned(), FactoryChange::Online)]);
    assert_eq!(factories(&at_once), []);
    assert_eq!(factories(&later), [("mac".to_owned(), FactoryChange::Draining)]);
    assert_eq!(factories(&removed), [("mac".to_owned(), FactoryChange::Removed)]);
}

// [D4] [alert: no_live_factory]
#[tokio::test]
async fn alerts_and_needs_are_told_when_they_begin_and_end() {
    let fleet = Fleet::warm(quick()).await;
    let mut follower = fleet.coordinator.follow_fleet(&fleet.admin, None).await.unwrap();

    let job = fleet.submit(PLAIN).await;
    let raised = hear_for(&fleet, &mut follower, 1).await;
    fleet.act(job, Action::Cancel).await.unwrap();
    let cleared = hear_for(&fleet, &mut follower, 1).await;

    assert_eq!(alerts(&raised), [(AlertCode::NoLiveFactory, AlertChange::Raised)]);
    assert_eq!(needs(&raised), [NeedsEvent { count: 1 }]);
    assert_eq!(alerts(&cleared), [(AlertCode::NoLiveFactory, AlertChange::Cleared)]);
    assert_eq!(needs(&cleared), [NeedsEvent { count: 0 }]);
}

#[tokio::test]
async fn metrics_and_modes_are_told_when_they_change() {
    let fleet = Fleet::warm(quick()).await;
    let viewer = viewer_of(&fleet, "default");
    let mut follower = fleet.coordinator.follow_fleet(&fleet.admin, None).await.unwrap();
    let mut watching = fleet.coordinator.follow_fleet(&viewer, None).await.unwrap();
    for _ in 0..5 {
        fleet.submit(PLAIN).await;
    }
    fleet.switch(Mode::Poll).await;

    let told = hear_for(&fleet, &mut follower, 1).await;
    let shown = hear_for(&fleet, &mut watching, 1).await;

    let waiting = told.iter().filter_map(|event| match event {
        StreamEvent::Metrics(metrics) => Some(metrics.waiting),
        _ => None,
    });
    assert_eq!(waiting.collect::<Vec<_>>(), [5]);
    let is_flags = |event: &&StreamEvent| matches!(event, StreamEvent::Flags(modes) if modes.mode == Mode::Poll);
    assert_eq!(told.iter().filter(is_flags).count(), 1);
    assert_eq!(shown.iter().filter(is_flags).count(), 0, "a viewer may not read the modes");
}

// [T3] [I12]
#[tokio::test]
async fn a_stream_tells_nothing_of_other_products() {
    let fleet = Fleet::warm(quick()).await;
    for product in ["alpha", "beta"] {
        let id = product.parse().unwrap();
        fleet.coordinator.put_product(&fleet.admin, &id, ProductSettings::default()).await.unwrap();
    }
    let alpha = viewer_of(&fleet, "alpha");
    let beta = viewer_of(&fleet, "beta");
    let mut of_alpha = fleet.coordinator.follow_fleet(&alpha, None).await.unwrap();
    let mut of_beta = fleet.coordinator.follow_fleet(&beta, None).await.unwrap();

    let waits = "---\ntitle: Waits\nproduct: alpha\n---\nWait.\n";
    fleet.submit(waits).await;
    let heard = hear_for(&fleet, &mut of_alpha, 2).await;
    let foreign = hear_for(&fleet, &mut of_beta, 2).await;

    assert_eq!(alerts(&heard), [(AlertCode::NoLiveFactory, AlertChange::Raised)]);
    assert_eq!(foreign, []);
}
