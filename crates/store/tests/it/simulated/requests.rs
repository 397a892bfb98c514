//! What the store asks of its database: few requests, and documents that people can read and query.

use domain::{Body, Commit, CommitError, Expected, JobHistory, JobStore, Revision, Versioned};
use store::conformance::sample::{cancelled, create, dispatched, granted, id, job, released, replace, seconds};
use store::document::Container;
use store::document::simulated::Faults;

use super::Cloud;

const KINDS: [&str; 5] = ["read", "range", "query", "batch", "feed"];

fn requests(cloud: &Cloud) -> [u64; 5] {
    KINDS.map(|kind| cloud.database.requests(kind))
}

/// The requests since an earlier count.
fn since(cloud: &Cloud, before: [u64; 5]) -> [u64; 5] {
    let mut now = requests(cloud);
    now.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
    now
}

// [D3]
#[tokio::test]
async fn each_commit_of_a_known_job_is_one_request() {
    const JOBS: u32 = 20;
    let cloud = Cloud::new(Faults::default(), 0);
    let store = cloud.open().await;
    let before = requests(&cloud);
    let mut units: Vec<Commit> = (0..JOBS).map(|n| create(job(n))).collect();

    for (revision, step) in (1..).zip([|job| dispatched(job, seconds(9)), granted, released, cancelled]) {
        let outcomes = store.commit(units.clone()).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        units = units.into_iter().map(|unit| replace(step(unit.job), Revision(revision))).collect();
    }

    assert_eq!(since(&cloud, before), [0, 0, 0, u64::from(4 * JOBS), 0]);
}

#[tokio::test]
async fn the_first_commit_after_a_start_needs_no_read() {
    let cloud = Cloud::new(Faults::default(), 0);
    assert!(cloud.open().await.commit(vec![create(job(1))]).await[0].is_ok());
    let store = cloud.open().await;
    let open = store.open(None, 10).await.unwrap().remove(0);
    let before = requests(&cloud);

    let outcome = store.commit(vec![replace(dispatched(open.value, seconds(9)), open.revision)]).await;

    assert!(outcome[0].is_ok(), "{outcome:?}");
    assert_eq!(since(&cloud, before), [0, 0, 0, 1, 0]);
}

// [row 12]
#[tokio::test]
async fn a_wrong_memory_costs_a_read_and_loses_to_the_other_writer() {
    let cloud = Cloud::new(Faults::default(), 0);
    let (one, other) = (cloud.open().await, cloud.open().await);
    assert!(one.commit(vec![create(job(1))]).await[0].is_ok());
    let Versioned { value, revision } = other.job(id(1)).await.unwrap().unwrap();
    let offered = replace(dispatched(value.clone(), seconds(9)), revision);
    assert!(other.commit(vec![offered.clone()]).await[0].is_ok());
    let before = requests(&cloud);

    let late = one.commit(vec![replace(dispatched(value, seconds(5)), revision)]).await.remove(0);

    assert!(matches!(late, Err(CommitError::Stale)), "{late:?}");
    assert_eq!(since(&cloud, before), [1, 0, 0, 1, 0], "a refused batch, then a read");
    assert_eq!(one.job(id(1)).await.unwrap().unwrap().value, offered.job);
    let before = requests(&cloud);
    assert!(one.commit(vec![replace(granted(offered.job), Revision(2))]).await[0].is_ok());
    assert_eq!(since(&cloud, before), [0, 0, 0, 1, 0], "the memory is right again");
}

#[tokio::test]
async fn an_unknown_outcome_is_not_remembered() {
    let cloud = Cloud::new(Faults::default(), 0);
    let store = cloud.open().await;
    let first = create(job(1));
    assert!(store.commit(vec![first.clone()]).await[0].is_ok());
    let offered = replace(dispatched(first.job, seconds(9)), Revision(1));
    cloud.database.set_faults(Faults { answers_lost: 1.0, ..Faults::default() });
    let unknown = store.commit(vec![offered.clone()]).await.remove(0);
    cloud.database.set_faults(Faults::default());

    let again = store.commit(vec![replace(granted(offered.job), Revision(2))]).await.remove(0);

    assert!(matches!(unknown, Err(CommitError::Unknown)), "{unknown:?}");
    assert!(matches!(again, Ok(Revision(3))), "{again:?}");
}

// [§9]
#[tokio::test]
async fn documents_have_the_names_of_the_specification() {
    let cloud = Cloud::new(Faults::default(), 0);
    let store = cloud.open().await;
    let first = job(1).commit_at(Expected::Absent, Some(Body("# Do".into())));
    assert!(store.commit(vec![first.clone()]).await[0].is_ok());
    let held = replace(granted(dispatched(first.job, seconds(9))), Revision(1));
    assert!(store.commit(vec![held]).await[0].is_ok());
    store.census().await.unwrap();

    let jobs = cloud.database.items(Container::Jobs);
    let item = |id: &str| jobs.iter().find(|item| item.key.id == id).map(|item| &item.document).unwrap();
    let job_item = item("job");

    for field in ["productId", "jobId", "stage", "rev", "leaseEpoch", "holderFactoryId", "dispatchSeq", "priority"] {
        assert!(job_item.get(field).is_some_and(|value| !value.is_null()), "no `{field}`");
    }
    assert_eq!((job_item.text("stage"), job_item.get("rev")), ("assigned", Some(&2.into())));
    assert!(job_item.get("submission").is_some_and(serde_json::Value::is_object));
    assert_eq!(item("body").text("manifestSnapshot"), "# Do");
    for container in Container::ALL {
        for kept in cloud.database.items(container) {
            for field in container.partition_fields() {
                assert!(!kept.document.text(field).is_empty(), "`{}` has no `{field}`", kept.key.id);
            }
        }
    }
}
