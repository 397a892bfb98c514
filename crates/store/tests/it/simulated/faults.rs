//! The adapter on a failing database.

use std::time::Duration;

use domain::{Clock as _, Collection, CommitError, Expected, FleetStore, JobStore, Revision, StoreError};
use serde_json::json;
use store::conformance::sample::{create, dispatched, id, job, replace, seconds};
use store::document::simulated::Faults;

use super::Cloud;

#[tokio::test]
async fn a_throttled_request_is_retried_after_its_delay() {
    let cloud = Cloud::new(Faults { throttled: 0.3, refused: 0.2, ..Faults::default() }, 11);
    let store = cloud.open().await;

    for n in 0..200 {
        let outcomes = store.commit(vec![create(job(n))]).await;
        assert!(matches!(outcomes[..], [Ok(Revision(1))]), "{outcomes:?}");
    }

    assert!(cloud.clock.monotonic() > Duration::from_secs(1), "the store did not wait");
}

#[tokio::test]
async fn retries_end_in_bounded_time() {
    let cloud = Cloud::new(Faults::default(), 11);
    let store = cloud.open().await;
    cloud.database.set_faults(Faults { throttled: 1.0, ..Faults::default() });

    let read = store.job(id(1)).await;
    let written = store.commit(vec![create(job(1))]).await;

    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert!(matches!(written[..], [Err(CommitError::Store(StoreError::Unavailable(_)))]), "{written:?}");
    assert!(cloud.clock.monotonic() < Duration::from_secs(10));
}

#[tokio::test]
async fn row_32_a_timed_out_write_is_unknown_until_a_fresh_read() {
    let cloud = Cloud::new(Faults::default(), 11);
    let store = cloud.open().await;
    let lossy = Faults { answers_lost: 0.3, requests_lost: 0.3, ..Faults::default() };
    let (mut happened, mut lost) = (0, 0);

    for n in 0..200 {
        cloud.database.set_faults(Faults::default());
        assert!(store.commit(vec![create(job(n))]).await[0].is_ok());
        let seen = store.job(id(n)).await.unwrap().unwrap();
        let offered = replace(dispatched(seen.value.clone(), seconds(9)), seen.revision);
        cloud.database.set_faults(lossy);
        let outcome = store.commit(vec![offered.clone()]).await.remove(0);
        cloud.database.set_faults(Faults::default());

        let found = store.job(id(n)).await.unwrap().unwrap();
        match outcome {
            Ok(revision) => assert_eq!((revision, &found.value), (Revision(2), &offered.job)),
            Err(CommitError::Unknown) if found.value == offered.job => happened += 1,
            Err(CommitError::Unknown) => {
                assert_eq!(found, seen);
                lost += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }

    assert!(happened > 20 && lost > 20, "{happened} happened, {lost} did not");
}

#[tokio::test]
async fn a_write_after_a_stale_read_conflicts() {
    let cloud = Cloud::new(Faults::default(), 11);
    let store = cloud.open().await;
    assert!(store.commit(vec![create(job(1))]).await[0].is_ok());
    let first = store.job(id(1)).await.unwrap().unwrap();
    let offered = replace(dispatched(first.value.clone(), seconds(9)), first.revision);
    assert!(store.commit(vec![offered.clone()]).await[0].is_ok());
    cloud.database.set_faults(Faults { stale_reads: 1.0, ..Faults::default() });

    let seen = store.job(id(1)).await.unwrap().unwrap();
    let late = store.commit(vec![replace(dispatched(seen.value.clone(), seconds(5)), seen.revision)]).await;
    cloud.database.set_faults(Faults::default());

    assert_eq!(seen, first);
    assert!(matches!(late[..], [Err(CommitError::Stale)]), "{late:?}");
    assert_eq!(store.job(id(1)).await.unwrap().unwrap().value, offered.job);
}

// [§9] [row 26]
#[tokio::test]
async fn a_removed_document_keeps_its_revision_count() {
    let cloud = Cloud::new(Faults::default(), 11);
    let store = cloud.open().await;
    let put = async |expected, value| store.put(Collection::Factories, "forge", expected, value).await;
    put(Expected::Absent, Some(json!(1))).await.unwrap();
    put(Expected::At(Revision(1)), None).await.unwrap();

    let again = put(Expected::Absent, Some(json!(2))).await.unwrap();
    let late = put(Expected::At(Revision(1)), Some(json!(3))).await;

    assert_eq!(again, Revision(3));
    assert!(matches!(late, Err(CommitError::Stale)), "{late:?}");
}
