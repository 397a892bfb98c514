//! Dead letters.

use super::Harness;
use super::sample::{DELIVERIES_MAX, depth, factory, message, publish, receive};

/// A message that is never completed is dead-lettered and does not block others.
pub async fn too_many_deliveries_dead_letter_a_message(bench: &mut dyn Harness) {
    let broker = bench.open(2).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;

    for attempt in 1..=2 {
        let delivery = receive(&*forge).await;
        assert_eq!(delivery.attempt, attempt);
        forge.abandon(&delivery.receipt).await.unwrap();
    }

    assert_eq!(depth(&*broker, "forge").await, 0);
    let dead: Vec<_> = broker.dead_letters(10).await.unwrap().into_iter().map(|(message, _)| message).collect();
    assert_eq!(dead, [message(1, 1, "forge")]);
    publish(&*broker, &message(1, 2, "forge")).await;
    assert_eq!(receive(&*forge).await.message, message(1, 2, "forge"));
}

/// Dead letters of factories and mirrored ones, each with its reason.
pub async fn dead_letters_are_listed_newest_last(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&*broker, &message(1, 1, "forge")).await;
    let delivery = receive(&*forge).await;

    forge.dead_letter(&delivery.receipt, "cannot be read").await.unwrap();
    broker.mirror_dead_letter(message(2, 4, "mill"), "retries_exhausted").await.unwrap();

    let expected = vec![
        (message(1, 1, "forge"), "cannot be read".to_owned()),
        (message(2, 4, "mill"), "retries_exhausted".to_owned()),
    ];
    assert_eq!(broker.dead_letters(10).await.unwrap(), expected);
    assert_eq!(depth(&*broker, "forge").await, 0);
    assert_eq!(depth(&*broker, "mill").await, 0);
}

/// A limited list contains the newest entries.
pub async fn a_limited_list_of_dead_letters_has_the_newest(bench: &mut dyn Harness) {
    let broker = bench.open(DELIVERIES_MAX).await;
    for job in 1..=5 {
        broker.mirror_dead_letter(message(job, 1, "forge"), "undeliverable").await.unwrap();
    }

    let jobs: Vec<_> = broker.dead_letters(2).await.unwrap().into_iter().map(|(message, _)| message.job_id).collect();

    assert_eq!(jobs, [message(4, 1, "forge").job_id, message(5, 1, "forge").job_id]);
}
