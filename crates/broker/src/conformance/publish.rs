//! Publishing: targets, order and deduplication.

use std::collections::BTreeMap;

use domain::PublishOutcome;

use super::Harness;
use super::sample::{DELIVERIES_MAX, depth, factory, message, publish, receive};

/// A completed message is not delivered again.
pub async fn a_published_message_is_received_once(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let (first, second) = (message(1, 1, "forge"), message(2, 1, "forge"));
    publish(&*broker, &first).await;

    let delivery = receive(&*forge).await;
    forge.complete(&delivery.receipt).await.unwrap();
    publish(&*broker, &second).await;

    assert_eq!((delivery.message, delivery.attempt), (first, 1));
    assert_eq!(receive(&*forge).await.message, second);
}

// [D1] [row 1]
/// The first offer after a comparison of plans has the number of the last shadow message.
pub async fn a_shadow_message_makes_no_offer_a_duplicate(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let offer = message(1, 1, "forge");
    let shadow = domain::Message { shadow: true, ..offer.clone() };
    publish(&*broker, &shadow).await;
    let first = receive(&*forge).await;
    forge.complete(&first.receipt).await.unwrap();

    assert_eq!(broker.publish(shadow.clone()).await.unwrap(), PublishOutcome::Duplicate);
    publish(&*broker, &offer).await;

    assert_eq!((first.message, receive(&*forge).await.message), (shadow, offer));
}

// [I5]
/// Whether the first message is waiting, received or completed.
pub async fn a_repeated_publish_is_deduplicated(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let (first, second) = (message(1, 1, "forge"), message(2, 1, "forge"));
    publish(&*broker, &first).await;

    assert_eq!(broker.publish(first.clone()).await.unwrap(), PublishOutcome::Duplicate);
    let delivery = receive(&*forge).await;
    assert_eq!(broker.publish(first.clone()).await.unwrap(), PublishOutcome::Duplicate);
    forge.complete(&delivery.receipt).await.unwrap();
    assert_eq!(broker.publish(first).await.unwrap(), PublishOutcome::Duplicate);

    assert_eq!(depth(&*broker, "forge").await, 0);
    publish(&*broker, &second).await;
    assert_eq!(receive(&*forge).await.message, second);
}

// [I5] [row 1]
/// A new dispatch of a job is delivered at once, to the same factory or another.
pub async fn a_new_dispatch_of_a_job_is_delivered(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let mill = broker.subscribe(&factory("mill")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;
    let claimed = receive(&*forge).await;
    forge.complete(&claimed.receipt).await.unwrap();

    publish(&*broker, &message(1, 2, "forge")).await;
    publish(&*broker, &message(1, 3, "mill")).await;

    assert_eq!(receive(&*forge).await.message, message(1, 2, "forge"));
    assert_eq!(receive(&*mill).await.message, message(1, 3, "mill"));
}

/// A factory receives only its own messages.
pub async fn a_message_is_delivered_only_to_its_target(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let mill = broker.subscribe(&factory("mill")).await.unwrap();
    publish(&*broker, &message(1, 1, "mill")).await;
    publish(&*broker, &message(2, 1, "forge")).await;
    publish(&*broker, &message(3, 1, "mill")).await;

    assert_eq!(receive(&*forge).await.message, message(2, 1, "forge"));
    assert_eq!(receive(&*mill).await.message, message(1, 1, "mill"));
    assert_eq!(receive(&*mill).await.message, message(3, 1, "mill"));
    assert_eq!(depth(&*broker, "forge").await, 1);
}

/// A factory that subscribes later receives earlier messages.
pub async fn a_message_waits_for_a_disconnected_factory(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    publish(&*broker, &message(1, 1, "forge")).await;

    let forge = broker.subscribe(&factory("forge")).await.unwrap();

    assert_eq!(receive(&*forge).await.message, message(1, 1, "forge"));
}

/// Order per factory; redeliveries may come later.
pub async fn first_deliveries_keep_the_publish_order(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let jobs: Vec<u8> = vec![9, 3, 7, 1, 5];
    for job in &jobs {
        publish(&*broker, &message(*job, 1, "forge")).await;
    }

    let mut received = Vec::new();
    for _ in &jobs {
        received.push(receive(&*forge).await.message);
    }

    assert_eq!(received, jobs.iter().map(|job| message(*job, 1, "forge")).collect::<Vec<_>>());
}

/// The messages of a factory that was removed are gone; one that comes back starts with an empty queue.
pub async fn a_dismissed_factory_leaves_no_messages(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;
    publish(&*broker, &message(2, 1, "mill")).await;
    receive(&*forge).await;
    publish(&*broker, &message(3, 1, "forge")).await;

    broker.dismiss(&factory("forge")).await.unwrap();
    broker.dismiss(&factory("smithy")).await.unwrap();

    assert_eq!((depth(&*broker, "forge").await, depth(&*broker, "mill").await), (0, 1));
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 2, "forge")).await;
    assert_eq!(receive(&*forge).await.message, message(1, 2, "forge"));
}

/// Waiting and received messages count until they are completed.
pub async fn depth_counts_incomplete_messages(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let waiting = async || depth(&*broker, "forge").await;
    assert_eq!(waiting().await, 0);

    publish(&*broker, &message(1, 1, "forge")).await;
    publish(&*broker, &message(2, 1, "forge")).await;
    assert_eq!(waiting().await, 2);
    let delivery = receive(&*forge).await;
    assert_eq!(waiting().await, 2);
    forge.complete(&delivery.receipt).await.unwrap();
    publish(&*broker, &message(3, 1, "mill")).await;

    assert_eq!(waiting().await, 1);
    let depths = broker.depths().await.unwrap();
    assert_eq!(depths, BTreeMap::from([(factory("forge"), 1), (factory("mill"), 1)]));
}
