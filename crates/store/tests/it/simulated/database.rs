//! The simulated database has the weak guarantees of a real one.

use std::collections::BTreeSet;

use store::document::simulated::{
    BATCH_OPS_MAX, BatchError, Condition, Continuation, Document, Faults, FeedPage, Key, Op, PHYSICAL_PARTITIONS,
    RequestError,
};

use super::Cloud;

fn op(id: &str, condition: Condition, text: &str) -> Op {
    Op { id: id.to_owned(), condition, document: Document::default().with("text", text) }
}

fn key(partition: &str, id: &str) -> Key {
    Key { container: "jobs", partition: partition.to_owned(), id: id.to_owned() }
}

/// Everything that the feed returns from the beginning, in its order.
async fn feed(cloud: &Cloud) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    for partition in 0..PHYSICAL_PARTITIONS {
        let mut after = Continuation::default();
        while let FeedPage::Changes(items, next) = cloud.database.changes(partition, after, 10).await.unwrap() {
            shown.extend(items.into_iter().map(|item| (item.key.partition, item.document.text("text").to_owned())));
            after = next;
        }
    }
    shown
}

// [§9]
#[tokio::test]
async fn a_batch_is_atomic() {
    let cloud = Cloud::new(Faults::default(), 0);
    let batch = |ops| cloud.database.batch("jobs", "a", ops);
    let etags = batch(vec![op("job", Condition::Absent, "1"), op("e:1", Condition::Absent, "1")]).await.unwrap();

    let repeated = batch(vec![op("job", Condition::At(etags[0]), "2"), op("e:1", Condition::Absent, "2")]).await;
    let outdated = batch(vec![op("e:2", Condition::Absent, "2"), op("job", Condition::At(etags[1]), "2")]).await;
    let twice = batch(vec![op("e:2", Condition::Absent, "2"), op("e:2", Condition::Any, "3")]).await;
    let many = (0..=BATCH_OPS_MAX).map(|n| op(&format!("m:{n}"), Condition::Absent, "2")).collect();

    assert_eq!(repeated, Err(BatchError::Refused { at: 1 }));
    assert_eq!(outdated, Err(BatchError::Refused { at: 1 }));
    assert_eq!(twice, Err(BatchError::Refused { at: 1 }));
    assert_eq!(batch(many).await, Err(BatchError::TooLarge));
    let all = cloud.database.range("jobs", "a", String::new()..="~".to_owned(), 1_000).await.unwrap();
    let texts: Vec<_> = all.iter().map(|item| (item.key.id.as_str(), item.document.text("text"))).collect();
    assert_eq!(texts, [("e:1", "1"), ("job", "1")]);
}

// [row 26]
#[tokio::test]
async fn the_feed_returns_latest_versions_and_empty_pages() {
    let chaos = Faults { empty_pages: 0.7, ..Faults::default() };
    let cloud = Cloud::new(chaos, 3);
    for text in ["1", "2", "3"] {
        for partition in ["a", "b", "c", "d", "e"] {
            cloud.database.batch("jobs", partition, vec![op("job", Condition::Any, text)]).await.unwrap();
        }
    }

    let mut shown = feed(&cloud).await;
    shown.sort();

    let latest = ["a", "b", "c", "d", "e"].map(|partition| (partition.to_owned(), "3".to_owned()));
    assert_eq!(shown, latest);
}

#[tokio::test]
async fn the_feed_repeats_and_has_no_order_across_partitions() {
    let chaos = Faults { repeated_pages: 0.5, ..Faults::default() };
    let cloud = Cloud::new(chaos, 3);
    let partitions: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    for partition in &partitions {
        cloud.database.batch("jobs", partition, vec![op("job", Condition::Any, "1")]).await.unwrap();
    }

    let shown: Vec<String> = feed(&cloud).await.into_iter().map(|(partition, _)| partition).collect();

    let each: BTreeSet<_> = shown.iter().cloned().collect();
    assert_eq!(each.into_iter().collect::<Vec<_>>(), partitions);
    assert!(shown.len() > partitions.len(), "nothing was repeated");
    assert!(!shown.is_sorted(), "it was in order");
}

#[tokio::test]
async fn a_timed_out_write_may_have_been_executed() {
    let lossy = Faults { answers_lost: 0.4, requests_lost: 0.4, ..Faults::default() };
    let cloud = Cloud::new(lossy, 7);
    let (mut happened, mut lost) = (0, 0);

    for n in 0..200 {
        let partition = format!("{n}");
        let answer = cloud.database.batch("jobs", &partition, vec![op("job", Condition::Absent, "1")]).await;
        let is_there = cloud.database.read(&key(&partition, "job")).await.unwrap().is_some();
        match (answer, is_there) {
            (Ok(_), true) => {}
            (Err(BatchError::Request(RequestError::TimedOut)), true) => happened += 1,
            (Err(BatchError::Request(RequestError::TimedOut)), false) => lost += 1,
            other => panic!("{other:?}"),
        }
    }

    assert!(happened > 30 && lost > 30, "{happened} happened, {lost} did not");
}
