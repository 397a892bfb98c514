//! Every database access is counted, and waiting is not.

use std::time::Duration;

use domain::{Collection, Expected, FleetStore, JobFilter, JobHistory, JobStore, Position, Scope};
use serde_json::json;
use store::Operations;
use store::conformance::sample::{create, id, job};

use super::Database;

// [D4]
#[tokio::test]
async fn each_operation_is_counted_by_its_kind() {
    let database = Database::new();
    let sqlite = database.sqlite();

    sqlite.commit(vec![create(job(1)), create(job(1))]).await;
    sqlite.put(Collection::Tokens, "t", Expected::Absent, Some(json!(1))).await.unwrap();
    sqlite.job(id(1)).await.unwrap();
    sqlite.open(None, 1).await.unwrap();
    sqlite.dependents(id(1)).await.unwrap();
    sqlite.body(id(1)).await.unwrap();
    sqlite.jobs(&JobFilter::default(), None, 1).await.unwrap();
    sqlite.events(&Scope::Fleet, Position(0), 1).await.unwrap();
    let from_memory = sqlite.operations().history_reads;
    sqlite.runs(id(1), 0, 1_000).await.unwrap();
    sqlite.census().await.unwrap();
    sqlite.document(Collection::Tokens, "t").await.unwrap();
    sqlite.documents(Collection::Tokens).await.unwrap();

    let expected = Operations {
        job_reads: 1,
        sweep_reads: 2,
        history_reads: 4,
        document_reads: 2,
        transactions: 2,
        job_units: 2,
        document_units: 1,
        stale_units: 1,
        events: 1,
        index_steps: 0,
        leadership_checks: 0,
    };
    assert_eq!(sqlite.operations(), expected);
    assert_eq!(from_memory, 2, "the latest events are in memory");
    assert_eq!(expected.total(), 11);
}

// [I14]
#[tokio::test]
async fn waiting_for_a_change_counts_no_operation() {
    let database = Database::new();
    let sqlite = database.sqlite();

    let waited = tokio::time::timeout(Duration::from_millis(50), sqlite.changed(Position(0))).await;

    assert!(waited.is_err());
    assert_eq!(sqlite.operations(), Operations::default());
}
