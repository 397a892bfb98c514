//! The embedded broker keeps every promise, and some of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::conformance::Harness;
use broker::conformance::sample::{PATIENCE, factory, message, publish, receive};
use broker::{Embedded, Settings};
use clock::ManualClock;
use domain::{Broker, BrokerError, MessageId, PublishOutcome};
use tokio::task::JoinSet;

struct InMemory;

#[async_trait]
impl Harness for InMemory {
    async fn open(&mut self, deliveries_max: u32) -> Arc<dyn Broker> {
        Arc::new(with(Settings { deliveries_max, ..Settings::default() }).0)
    }
}

fn with(settings: Settings) -> (Embedded, ManualClock) {
    let clock = ManualClock::default();
    (Embedded::new(settings, Arc::new(clock.clone())), clock)
}

mod conformance {
    broker::broker_conformance!(super::InMemory);
}

#[tokio::test]
async fn an_id_is_forgotten_when_its_time_is_over() {
    let (broker, clock) = with(Settings { window: Duration::from_secs(60), ..Settings::default() });
    publish(&broker, &message(1, 1, "forge")).await;

    clock.advance(Duration::from_secs(59));
    assert_eq!(broker.publish(message(1, 1, "forge")).await.unwrap(), PublishOutcome::Duplicate);
    clock.advance(Duration::from_secs(1));

    assert_eq!(broker.publish(message(1, 1, "forge")).await.unwrap(), PublishOutcome::Accepted);
}

#[tokio::test]
async fn the_oldest_ids_are_forgotten_when_there_are_too_many() {
    let (broker, _) = with(Settings { window_max: 2, ..Settings::default() });
    for job in 1..=3 {
        publish(&broker, &message(job, 1, "forge")).await;
    }

    assert_eq!(broker.publish(message(3, 1, "forge")).await.unwrap(), PublishOutcome::Duplicate);
    assert_eq!(broker.publish(message(2, 1, "forge")).await.unwrap(), PublishOutcome::Duplicate);
    assert_eq!(broker.publish(message(1, 1, "forge")).await.unwrap(), PublishOutcome::Accepted);
}

#[tokio::test]
async fn a_full_queue_refuses_a_message_without_remembering_it() {
    let (broker, _) = with(Settings { queue_max: 1, ..Settings::default() });
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&broker, &message(1, 1, "forge")).await;
    let delivery = receive(&*forge).await;

    let refused = broker.publish(message(2, 1, "forge")).await;
    publish(&broker, &message(3, 1, "mill")).await;
    forge.complete(&delivery.receipt).await.unwrap();

    assert!(matches!(refused, Err(BrokerError::Unavailable(_))));
    assert_eq!(broker.publish(message(2, 1, "forge")).await.unwrap(), PublishOutcome::Accepted);
}

#[tokio::test]
async fn only_so_many_dead_letters_are_kept() {
    let (broker, _) = with(Settings { dead_letters_max: 2, ..Settings::default() });
    for job in 1..=3 {
        broker.mirror_dead_letter(message(job, 1, "forge"), "undeliverable").await.unwrap();
    }

    let kept: Vec<_> = broker.dead_letters(100).await.unwrap().into_iter().map(|(message, _)| message).collect();

    assert_eq!(kept, [message(2, 1, "forge"), message(3, 1, "forge")]);
}

#[tokio::test]
async fn a_closed_broker_sends_every_receiver_home() {
    let (broker, _) = with(Settings::default());
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let mut waiting = JoinSet::new();
    let receiver = Arc::clone(&forge);
    waiting.spawn(async move { receiver.receive().await.map(drop) });
    tokio::task::yield_now().await;

    broker.close();

    let told = tokio::time::timeout(PATIENCE, waiting.join_next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(told, Err(BrokerError::Closed)));
    assert!(matches!(forge.receive().await, Err(BrokerError::Closed)));
    assert!(matches!(broker.subscribe(&factory("mill")).await.map(drop), Err(BrokerError::Closed)));
    assert!(matches!(broker.publish(message(1, 1, "forge")).await, Err(BrokerError::Unavailable(_))));
}

#[tokio::test]
async fn an_abandoned_message_lets_the_others_go_first() {
    let (broker, _) = with(Settings::default());
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&broker, &message(1, 1, "forge")).await;
    publish(&broker, &message(2, 1, "forge")).await;

    let first = receive(&*forge).await;
    forge.abandon(&first.receipt).await.unwrap();

    assert_eq!(receive(&*forge).await.message, message(2, 1, "forge"));
    assert_eq!(receive(&*forge).await.message, message(1, 1, "forge"));
}

#[tokio::test]
async fn subscriptions_that_break_again_and_again_do_not_keep_a_message_for_ever() {
    let (broker, _) = with(Settings { deliveries_max: 3, ..Settings::default() });
    publish(&broker, &message(1, 1, "forge")).await;

    for _ in 0..3 {
        receive(&*broker.subscribe(&factory("forge")).await.unwrap()).await;
    }

    assert_eq!(broker.depth(&factory("forge")).await.unwrap(), 0);
    assert_eq!(broker.dead_letters(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_end_of_a_replaced_subscription_does_not_touch_the_new_one() {
    let (broker, _) = with(Settings::default());
    let old = broker.subscribe(&factory("forge")).await.unwrap();
    let new = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&broker, &message(1, 1, "forge")).await;
    let delivery = receive(&*new).await;

    drop(old);

    new.complete(&delivery.receipt).await.unwrap();
    publish(&broker, &message(2, 1, "forge")).await;
    assert_eq!(receive(&*new).await.attempt, 1);
}

#[tokio::test]
async fn a_receipt_that_we_never_gave_is_expired() {
    let (broker, _) = with(Settings::default());
    let forge = broker.subscribe(&factory("forge")).await.unwrap();

    let answer = forge.complete(&domain::Receipt("not ours".into())).await;

    assert!(matches!(answer, Err(BrokerError::Expired)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_publishers_and_receivers_deliver_everything_exactly_once() {
    const PUBLISHERS: u8 = 4;
    const EACH: u64 = 500;
    let (broker, _) = with(Settings::default());
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let mut publishers = JoinSet::new();
    for job in 0..PUBLISHERS {
        let broker = broker.clone();
        publishers.spawn(async move {
            for seq in 0..EACH {
                publish(&broker, &message(job, seq, "forge")).await;
            }
        });
    }
    let mut receivers = JoinSet::new();
    for _ in 0..3 {
        let forge = Arc::clone(&forge);
        receivers.spawn(async move {
            let mut seen: Vec<MessageId> = Vec::new();
            while let Ok(delivery) = forge.receive().await {
                seen.push(delivery.message.id());
                forge.complete(&delivery.receipt).await.unwrap();
            }
            seen
        });
    }

    tokio::time::timeout(PATIENCE, publishers.join_all()).await.unwrap();
    let drained = async {
        while broker.depth(&factory("forge")).await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, drained).await.unwrap();
    broker.close();

    let mut times: BTreeMap<MessageId, u32> = BTreeMap::new();
    for id in receivers.join_all().await.into_iter().flatten() {
        *times.entry(id).or_default() += 1;
    }
    assert_eq!(times.len() as u64, u64::from(PUBLISHERS) * EACH);
    assert!(times.values().all(|count| *count == 1));
}
