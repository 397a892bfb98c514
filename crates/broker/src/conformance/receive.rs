//! Deliveries that are not completed.

use std::sync::Arc;

use domain::BrokerError;
use tokio::task::JoinSet;

use super::Harness;
use super::sample::{DELIVERIES_MAX, PATIENCE, depth, factory, message, publish, receive};

/// The redelivery has attempt number 2.
pub async fn an_abandoned_message_is_redelivered_with_its_attempt(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;

    let first = receive(&*forge).await;
    forge.abandon(&first.receipt).await.unwrap();
    let second = receive(&*forge).await;

    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(second.message, first.message);
    forge.complete(&second.receipt).await.unwrap();
    assert_eq!(depth(&*broker, "forge").await, 0);
}

/// The newest process of a factory wins; the old subscription returns `Closed`. Whether the new one counts the old one's
/// deliveries is up to the broker.
pub async fn a_new_subscription_replaces_the_old_one(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let old = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;
    publish(&*broker, &message(2, 1, "forge")).await;
    let unfinished = receive(&*old).await;

    let new = broker.subscribe(&factory("forge")).await.unwrap();

    let mut received = [receive(&*new).await, receive(&*new).await];
    received.sort_by_key(|delivery| delivery.message.job_id);
    assert_eq!(received[0].message, unfinished.message);
    let told = tokio::time::timeout(PATIENCE, old.receive()).await.expect("the old one is told");
    assert!(matches!(told, Err(BrokerError::Closed)));
    assert!(old.complete(&unfinished.receipt).await.is_err());
    assert_eq!(depth(&*broker, "forge").await, 2);
}

/// A broken connection loses no message.
pub async fn a_dropped_subscription_requeues_its_messages(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let first = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;
    receive(&*first).await;

    drop(first);
    let second = broker.subscribe(&factory("forge")).await.unwrap();

    let delivery = receive(&*second).await;
    assert_eq!(delivery.message, message(1, 1, "forge"));
}

/// The second call may return `Expired` and has no effect.
pub async fn completing_twice_is_harmless(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;
    publish(&*broker, &message(2, 1, "forge")).await;
    let delivery = receive(&*forge).await;
    forge.complete(&delivery.receipt).await.unwrap();

    let again = forge.complete(&delivery.receipt).await;

    assert!(matches!(again, Ok(()) | Err(BrokerError::Expired)));
    assert_eq!(depth(&*broker, "forge").await, 1);
    assert_eq!(receive(&*forge).await.message, message(2, 1, "forge"));
}

/// Only the receipt of the latest delivery completes a message.
pub async fn a_receipt_is_invalid_for_a_later_delivery(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;
    let first = receive(&*forge).await;
    forge.abandon(&first.receipt).await.unwrap();
    let second = receive(&*forge).await;

    let late = forge.complete(&first.receipt).await;

    assert!(matches!(late, Err(BrokerError::Expired)));
    assert_eq!(depth(&*broker, "forge").await, 1);
    forge.complete(&second.receipt).await.unwrap();
    assert_eq!(depth(&*broker, "forge").await, 0);
}

/// The message wakes the receiver, not a timer.
pub async fn a_waiting_receiver_wakes_at_once(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();

    for seq in 1..=50 {
        let mut waiting = JoinSet::new();
        let receiver = Arc::clone(&forge);
        waiting.spawn(async move { receive(&*receiver).await });
        tokio::task::yield_now().await;
        publish(&*broker, &message(1, seq, "forge")).await;
        let delivery = waiting.join_next().await.expect("it was spawned").unwrap();

        assert_eq!(delivery.message, message(1, seq, "forge"));
        forge.complete(&delivery.receipt).await.unwrap();
    }
}
