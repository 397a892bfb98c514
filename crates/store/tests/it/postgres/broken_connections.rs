//! Broken connections: when the outcome of a commit is known, and when it is not.

use std::sync::Arc;

use domain::{
    Collection, CommitError, Expected, FleetStore, JobHistory, JobStore, Position, Revision, Scope, StoreError,
};
use serde_json::json;
use store::PostgresStore;
use store::conformance::sample::{cancelled, create, id, job, replace};
use tokio::task::JoinSet;

use super::proxy::{Fault, Proxy};
use super::{Database, SHARED, open, psql, until};

/// A store whose traffic goes through a proxy.
async fn wired() -> Option<(Database, Proxy, Arc<PostgresStore>)> {
    let database = Database::new()?;
    let proxy = Proxy::start(database.server.port()).await;
    let postgres = Arc::new(open(&proxy.url(), SHARED).await);
    Some((database, proxy, postgres))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn row_32_a_commit_with_a_lost_response_is_unknown() {
    let Some((database, proxy, postgres)) = wired().await else { return };
    let direct = database.another().await;
    let first = create(job(1));
    let stopped = replace(cancelled(first.job.clone()), Revision(1));
    postgres.commit(vec![first]).await.remove(0).unwrap();
    proxy.arm(Fault::LoseTheAnswerToAWrite);

    let committing = JoinSet::from_iter([{
        let postgres = Arc::clone(&postgres);
        async move { postgres.commit(vec![stopped, create(job(2))]).await }
    }]);
    until("the commit on the server", async || direct.job(id(2)).await.unwrap().is_some()).await;
    proxy.cut();
    let outcomes = committing.join_all().await.remove(0);

    assert!(matches!(outcomes[..], [Err(CommitError::Unknown), Err(CommitError::Unknown)]), "{outcomes:?}");
    assert_eq!(postgres.job(id(1)).await.unwrap().unwrap().revision, Revision(2));
    let again = postgres.commit(vec![create(job(2)), create(job(3))]).await;
    assert!(matches!(again[..], [Err(CommitError::Stale), Ok(Revision(1))]), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn row_32_a_document_with_a_lost_response_is_unknown() {
    let Some((_database, proxy, postgres)) = wired().await else { return };
    let put = async |expected| postgres.put(Collection::Tokens, "t", expected, Some(json!(1))).await;
    put(Expected::Absent).await.unwrap();
    put(Expected::At(Revision(1))).await.unwrap();
    proxy.arm(Fault::CutAlways);

    let outcome = put(Expected::At(Revision(2))).await;

    assert!(matches!(outcome, Err(CommitError::Unknown)), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transaction_that_was_not_sent_is_retried() {
    let Some((_database, proxy, postgres)) = wired().await else { return };
    proxy.arm(Fault::CutAtBegin);

    let outcome = postgres.commit(vec![create(job(1))]).await.remove(0);

    assert!(matches!(outcome, Ok(Revision(1))), "{outcome:?}");
    assert!(!proxy.is_armed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_unreachable_server_is_unavailable() {
    let Some((database, proxy, postgres)) = wired().await else { return };
    postgres.commit(vec![create(job(1))]).await.remove(0).unwrap();
    proxy.arm(Fault::CutAlways);
    proxy.cut();

    let (written, read) = tokio::join!(postgres.commit(vec![create(job(2))]), postgres.job(id(1)));

    // A write over a connection whose break is not noticed yet may have arrived.
    let is_told = matches!(written[..], [Err(CommitError::Store(StoreError::Unavailable(_)) | CommitError::Unknown)]);
    assert!(is_told, "{written:?}");
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert_eq!(database.another().await.job(id(2)).await.unwrap(), None);
    proxy.arm(Fault::None);
    assert!(postgres.commit(vec![create(job(2))]).await.remove(0).is_ok());
}

// [D3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn closed_connections_are_replaced() {
    let Some(database) = Database::new() else { return };
    let postgres = database.postgres().await;
    let administrator = psql(&database).await;

    for n in 0..5 {
        postgres.commit(vec![create(job(n))]).await.remove(0).unwrap();
        assert_eq!(postgres.events(&Scope::Fleet, Position(0), 100).await.unwrap().len(), n as usize + 1);
        let sql = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gigafactory'";
        let ended = administrator.query(sql, &[]).await.unwrap();
        let ended: Vec<i32> = ended.iter().map(|row| row.get(0)).collect();
        assert!(!ended.is_empty());
        let left = "SELECT pid FROM pg_stat_activity WHERE pid = ANY($1)";
        until("the end of the connections", async || administrator.query(left, &[&ended]).await.unwrap().is_empty())
            .await;
    }
}
