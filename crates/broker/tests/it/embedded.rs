//! Conformance and limits of the embedded broker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::conformance::Harness;
use broker::conformance::sample::{PATIENCE, depth, factory, message, publish, receive};
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
async fn an_id_expires() {
    let (broker, clock) = with(Settings { window: Duration::from_secs(60), ..Settings::default() });
    publish(&broker, &message(1, 1, "forge")).await;

    clock.advance(Duration::from_secs(59));
    assert_eq!(broker.publish(message(1, 1, "forge")).await.unwrap(), PublishOutcome::Duplicate);
    clock.advance(Duration::from_secs(1));

    assert_eq!(broker.publish(message(1, 1, "forge")).await.unwrap(), PublishOutcome::Accepted);
}

#[tokio::test]
async fn the_oldest_ids_are_evicted() {
    let (broker, _) = with(Settings { window_max: 2, ..Settings::default() });
    for job in 1..=3 {
        publish(&broker, &message(job, 1, "forge")).await;
    }

    assert_eq!(broker.publish(message(3, 1, "forge")).await.unwrap(), PublishOutcome::Duplicate);
    assert_eq!(broker.publish(message(2, 1, "forge")).await.unwrap(), PublishOutcome::Duplicate);
    assert_eq!(broker.publish(message(1, 1, "forge")).await.unwrap(), PublishOutcome::Accepted);
}

#[tokio::test]
async fn a_full_queue_rejects_a_message_and_its_retry_passes() {
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
async fn the_number_of_dead_letters_is_bounded() {
    let (broker, _) = with(Settings { dead_letters_max: 2, ..Settings::default() });
    for job in 1..=3 {
        broker.mirror_dead_letter(message(job, 1, "forge"), "undeliverable").await.unwrap();
    }

    let kept: Vec<_> = broker.dead_letters(100).await.unwrap().into_iter().map(|(message, _)| message).collect();

    assert_eq!(kept, [message(2, 1, "forge"), message(3, 1, "forge")]);
}

#[tokio::test]
async fn closing_the_broker_closes_every_subscription() {
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
async fn an_abandoned_message_is_requeued_at_the_end() {
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
async fn repeated_reconnects_dead_letter_a_message() {
    let (broker, _) = with(Settings { deliveries_max: 3, ..Settings::default() });
    publish(&broker, &message(1, 1, "forge")).await;

    for _ in 0..3 {
        receive(&*broker.subscribe(&factory("forge")).await.unwrap()).await;
    }

    assert_eq!(depth(&broker, "forge").await, 0);
    assert_eq!(broker.dead_letters(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn dropping_a_replaced_subscription_keeps_the_new_one() {
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
async fn an_unknown_receipt_is_expired() {
    let (broker, _) = with(Settings::default());
    let forge = broker.subscribe(&factory("forge")).await.unwrap();

    let answer = forge.complete(&domain::Receipt("not ours".into())).await;

    assert!(matches!(answer, Err(BrokerError::Expired)));
}

// [D2]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_messages_are_delivered_exactly_once() {
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
        while depth(&broker, "forge").await > 0 {
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
