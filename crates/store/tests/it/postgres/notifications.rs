//! Other processes are notified of events, with one message for many commits.

use std::time::Duration;

use clock::SystemClock;
use domain::{Clock, JobStore, Position};
use store::PostgresOptions;
use store::conformance::sample::{create, job};

use super::{Database, PATIENCE, SHARED, open, psql, until};

/// So far away that only a notification can wake a subscriber.
const NEVER: Duration = Duration::from_secs(3600);

/// Minimum interval between notifications.
const TELL_EVERY: Duration = Duration::from_millis(20);

// [D3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_commits_are_notified_in_few_messages() {
    const COMMITS: u32 = 300;
    let Some(database) = Database::new() else { return };
    let options = PostgresOptions { look_every: NEVER, ..SHARED };
    let (one, other) = (open(&database.url(), options).await, open(&database.url(), options).await);

    let clock = SystemClock::new();
    for n in 0..COMMITS {
        one.commit(vec![create(job(n))]).await.remove(0).unwrap();
    }
    let end = Position(u64::from(COMMITS));
    let heard = async {
        let mut at = Position(0);
        while at < end {
            at = other.changed(at).await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("the other hears of the end");

    assert_eq!(one.operations().transactions, u64::from(COMMITS));
    let messages_max = clock.monotonic().as_millis() / TELL_EVERY.as_millis() + 2;
    let messages = one.notifications();
    assert!(messages > 0 && u128::from(messages) <= messages_max, "{messages} of {messages_max}");
    assert_eq!(other.notifications(), 0);
}

// [D3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn events_during_a_disconnect_are_reported_on_reconnect() {
    let Some(database) = Database::new() else { return };
    let options = PostgresOptions { look_every: NEVER, ..SHARED };
    let (one, other) = (open(&database.url(), options).await, open(&database.url(), options).await);
    let administrator = psql(&database).await;
    let listeners = async || {
        let sql =
            "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query LIKE 'SELECT pos FROM fleet_log%'";
        administrator.query(sql, &[]).await.unwrap().len()
    };
    until("both listeners", async || listeners().await >= 2).await;

    administrator
        .batch_execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gigafactory'")
        .await
        .unwrap();
    one.commit(vec![create(job(1))]).await.remove(0).unwrap();
    let heard = tokio::time::timeout(PATIENCE, other.changed(Position(0))).await.expect("it is heard of");

    assert_eq!(heard.unwrap(), Position(1));
}

// [row 25]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_without_a_notification_is_found_by_polling() {
    let Some(database) = Database::new() else { return };
    let options = PostgresOptions { look_every: Duration::from_millis(50), ..SHARED };
    let postgres = open(&database.url(), options).await;

    let (heard, _) = tokio::join!(tokio::time::timeout(PATIENCE, postgres.changed(Position(0))), async {
        until("a poll of the store", async || postgres.operations().sweep_reads > 0).await;
        psql(&database).await.batch_execute("UPDATE fleet_log SET pos = 9").await.unwrap();
    });

    assert_eq!(heard.expect("it is found").unwrap(), Position(9));
}
