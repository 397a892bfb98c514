//! The simulated database has the weak guarantees of a real one.

use std::collections::BTreeSet;

use store::document::simulated::Faults;
use store::document::{
    BATCH_OPS_MAX, BatchError, Condition, Container, Document, DocumentDatabase as _, FeedPage, Key, Op, Partition,
    RequestError,
};

use super::Cloud;

const JOBS: Container = Container::Jobs;

fn partition(job: &str) -> Partition {
    Partition::of(["notes", job])
}

fn op(job: &str, id: &str, condition: Condition, text: &str) -> Op {
    Op { id: id.to_owned(), condition, document: Document::of(JOBS, &partition(job)).with("text", text) }
}

fn key(job: &str, id: &str) -> Key {
    Key { container: JOBS, partition: partition(job), id: id.to_owned() }
}

/// Everything that the feed returns from the beginning, in its order.
async fn feed(cloud: &Cloud) -> Vec<(String, String)> {
    let (mut shown, mut after) = (Vec::new(), None);
    while let FeedPage::Changes(items, next) = cloud.database.changes(after.as_ref(), 10).await.unwrap() {
        shown.extend(
            items.into_iter().map(|item| (item.key.partition.last().to_owned(), item.document.text("text").to_owned())),
        );
        after = Some(next);
    }
    shown
}

// [§9]
#[tokio::test]
async fn a_batch_is_atomic() {
    let cloud = Cloud::new(Faults::default(), 0);
    let at = partition("a");
    let batch = |ops| cloud.database.batch(JOBS, &at, ops);
    let etags =
        batch(vec![op("a", "job", Condition::Absent, "1"), op("a", "e:1", Condition::Absent, "1")]).await.unwrap();

    let repeated =
        batch(vec![op("a", "job", Condition::At(etags[0].clone()), "2"), op("a", "e:1", Condition::Absent, "2")]).await;
    let outdated =
        batch(vec![op("a", "e:2", Condition::Absent, "2"), op("a", "job", Condition::At(etags[1].clone()), "2")]).await;
    let twice = batch(vec![op("a", "e:2", Condition::Absent, "2"), op("a", "e:2", Condition::Any, "3")]).await;
    let many = (0..=BATCH_OPS_MAX).map(|n| op("a", &format!("m:{n}"), Condition::Absent, "2")).collect();

    assert_eq!(repeated, Err(BatchError::Refused { at: 1 }));
    assert_eq!(outdated, Err(BatchError::Refused { at: 1 }));
    assert_eq!(twice, Err(BatchError::Refused { at: 1 }));
    assert_eq!(batch(many).await, Err(BatchError::TooLarge));
    let all = cloud.database.range(JOBS, &at, String::new()..="~".to_owned(), 1_000).await.unwrap();
    let texts: Vec<_> = all.iter().map(|item| (item.key.id.as_str(), item.document.text("text"))).collect();
    assert_eq!(texts, [("e:1", "1"), ("job", "1")]);
}

// [row 26]
#[tokio::test]
async fn the_feed_returns_latest_versions_and_empty_pages() {
    let chaos = Faults { empty_pages: 0.7, ..Faults::default() };
    let cloud = Cloud::new(chaos, 3);
    for text in ["1", "2", "3"] {
        for job in ["a", "b", "c", "d", "e"] {
            cloud.database.batch(JOBS, &partition(job), vec![op(job, "job", Condition::Any, text)]).await.unwrap();
        }
    }

    let mut shown = feed(&cloud).await;
    shown.sort();

    let latest = ["a", "b", "c", "d", "e"].map(|job| (job.to_owned(), "3".to_owned()));
    assert_eq!(shown, latest);
}

#[tokio::test]
async fn the_feed_repeats_and_has_no_order_across_partitions() {
    let chaos = Faults { repeated_pages: 0.5, ..Faults::default() };
    let cloud = Cloud::new(chaos, 3);
    let jobs: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    for job in &jobs {
        cloud.database.batch(JOBS, &partition(job), vec![op(job, "job", Condition::Any, "1")]).await.unwrap();
    }

    let shown: Vec<String> = feed(&cloud).await.into_iter().map(|(job, _)| job).collect();

    let each: BTreeSet<_> = shown.iter().cloned().collect();
    assert_eq!(each.into_iter().collect::<Vec<_>>(), jobs);
    assert!(shown.len() > jobs.len(), "nothing was repeated");
    assert!(!shown.is_sorted(), "it was in order");
}

#[tokio::test]
async fn a_timed_out_write_may_have_been_executed() {
    let lossy = Faults { answers_lost: 0.4, requests_lost: 0.4, ..Faults::default() };
    let cloud = Cloud::new(lossy, 7);
    let (mut happened, mut lost) = (0, 0);

    for n in 0..200 {
        let job = format!("{n}");
        let answer = cloud.database.batch(JOBS, &partition(&job), vec![op(&job, "job", Condition::Absent, "1")]).await;
        let is_there = cloud.database.read(&key(&job, "job")).await.unwrap().is_some();
        match (answer, is_there) {
            (Ok(_), true) => {}
            (Err(BatchError::Request(RequestError::TimedOut)), true) => happened += 1,
            (Err(BatchError::Request(RequestError::TimedOut)), false) => lost += 1,
            other => panic!("{other:?}"),
        }
    }

    assert!(happened > 30 && lost > 30, "{happened} happened, {lost} did not");
}

#[tokio::test]
async fn a_request_that_a_real_database_rejects_is_rejected() {
    let cloud = Cloud::new(Faults::default(), 0);
    let elsewhere = cloud.database.batch(JOBS, &partition("a"), vec![op("b", "job", Condition::Any, "1")]).await;
    let without_index = store::document::Query {
        container: JOBS,
        filters: vec![store::document::Filter::is("text", "1")],
        order_by: "jobId",
        range: String::new()..="~".to_owned(),
        order: store::document::Order::Rising,
        limit: 1,
    };

    let without_index = cloud.database.query(without_index).await;

    assert!(matches!(elsewhere, Err(BatchError::Request(RequestError::Invalid(_)))), "{elsewhere:?}");
    assert!(matches!(without_index, Err(RequestError::Invalid(_))), "{without_index:?}");
}
