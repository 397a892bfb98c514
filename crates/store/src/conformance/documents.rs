//! Small documents by key.

use domain::{Collection, CommitError, Expected, Revision, Versioned};
use serde_json::json;

use super::Harness;

// [§9]
/// The first write expects absence, each later one the revision that was read.
pub async fn a_document_is_compared_and_set(bench: &mut dyn Harness) {
    let fleet = bench.open().await.fleet;
    let put = async |expected, value| fleet.put(Collection::Factories, "forge", expected, Some(value)).await;

    assert!(matches!(put(Expected::At(Revision(1)), json!(0)).await, Err(CommitError::Stale)));
    assert!(matches!(put(Expected::Absent, json!({ "seats": 1 })).await, Ok(Revision(1))));
    assert!(matches!(put(Expected::Absent, json!(2)).await, Err(CommitError::Stale)));
    assert!(matches!(put(Expected::At(Revision(1)), json!({ "seats": 2 })).await, Ok(Revision(2))));
    assert!(matches!(put(Expected::At(Revision(1)), json!(3)).await, Err(CommitError::Stale)));

    let there = fleet.document(Collection::Factories, "forge").await.unwrap();
    assert_eq!(there, Some(Versioned { value: json!({ "seats": 2 }), revision: Revision(2) }));
    assert_eq!(fleet.document(Collection::Products, "forge").await.unwrap(), None);
}

/// A removal fails its compare-and-set like any other write; afterwards the key is free.
pub async fn a_document_is_removed_only_at_its_expected_revision(bench: &mut dyn Harness) {
    let fleet = bench.open().await.fleet;
    let put = async |expected, value| fleet.put(Collection::Tokens, "t", expected, value).await;
    put(Expected::Absent, Some(json!("a"))).await.unwrap();

    assert!(matches!(put(Expected::At(Revision(2)), None).await, Err(CommitError::Stale)));
    assert!(matches!(put(Expected::Absent, None).await, Err(CommitError::Stale)));
    assert!(put(Expected::At(Revision(1)), None).await.is_ok());

    assert_eq!(fleet.document(Collection::Tokens, "t").await.unwrap(), None);
    assert_eq!(fleet.documents(Collection::Tokens).await.unwrap(), []);
    assert!(put(Expected::Absent, None).await.is_ok());
    assert!(put(Expected::Absent, Some(json!("b"))).await.is_ok());
}

/// Each collection is listed by itself.
pub async fn documents_are_listed_in_order_of_key(bench: &mut dyn Harness) {
    let fleet = bench.open().await.fleet;
    for key in ["b", "a/1", "Z", "é", "a"] {
        fleet.put(Collection::Products, key, Expected::Absent, Some(json!({ "key": key }))).await.unwrap();
    }
    fleet.put(Collection::Tokens, "c", Expected::Absent, Some(json!(null))).await.unwrap();

    let listed = fleet.documents(Collection::Products).await.unwrap();

    let expected = ["Z", "a", "a/1", "b", "é"]
        .map(|key| (key.to_owned(), Versioned { value: json!({ "key": key }), revision: Revision(1) }));
    assert_eq!(listed, expected);
}
