//! One coordinator at a time has the leadership.

use std::sync::Arc;

use clock::SystemClock;
use domain::{Collection, CommitError, Expected, FleetStore, JobStore, Leader, Revision, StoreError};
use serde_json::json;
use store::conformance::sample::{cancelled, create, dispatched, granted, id, job, replace, seconds};
use store::{PostgresClaim, PostgresOptions, PostgresStore, PostgresUrl};
use tokio::sync::watch;

use super::proxy::{Fault, Proxy};
use super::{Database, PATIENCE, open, psql, until};

const END_THE_KEEPER: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'gigafactory % on %'";
const KEEPERS: &str = "\
    SELECT pid FROM pg_locks JOIN pg_database d ON d.oid = database
    WHERE locktype = 'advisory' AND granted AND d.datname = current_database()";

// [D3] [row 12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_second_coordinator_is_refused_and_told_the_holder() {
    let Some(database) = Database::new() else { return };
    let postgres = database.postgres().await;
    let url = PostgresUrl::parse(&database.url()).unwrap();

    let refused = PostgresStore::open(&url, PostgresOptions::default(), Arc::new(SystemClock::new())).await;

    let told = refused.expect_err("it is refused").to_string();
    let ours = format!("gigafactory {} on ", std::process::id());
    assert!(told.contains("another coordinator uses the database") && told.contains(&ours), "{told}");
    assert!(postgres.commit(vec![create(job(1))]).await.remove(0).is_ok(), "the first one works on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_closed_store_releases_the_leadership() {
    let Some(database) = Database::new() else { return };

    for n in 0..3 {
        let postgres = database.postgres().await;
        postgres.commit(vec![create(job(n))]).await.remove(0).unwrap();
        postgres.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_lock_is_taken_again_if_it_is_free() {
    let Some(database) = Database::new() else { return };
    let postgres = database.postgres().await;
    let administrator = psql(&database).await;
    let keepers = async || {
        let rows = administrator.query(KEEPERS, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>()
    };
    let first = keepers().await;
    assert_eq!(administrator.query(END_THE_KEEPER, &[]).await.unwrap().len(), 1);

    let meanwhile = postgres.commit(vec![create(job(1))]).await.remove(0);
    until("another keeper of the lock", async || matches!(keepers().await[..], [pid] if !first.contains(&pid))).await;

    assert_eq!(first.len(), 1);
    assert!(matches!(meanwhile, Ok(Revision(1))), "{meanwhile:?}");
    assert!(postgres.commit(vec![create(job(2))]).await.remove(0).is_ok());
}

// [D3] [row 12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deposed_leader_cannot_write_jobs() {
    let Some(database) = Database::new() else { return };
    let proxy = Proxy::start(database.server.port()).await;
    let first = open(&proxy.url(), PostgresOptions::default()).await;
    first.commit(vec![create(job(1))]).await.remove(0).unwrap();
    // While it is disconnected, another coordinator takes the leadership.
    proxy.arm(Fault::CutAlways);
    proxy.cut();
    let second = database.postgres().await;
    proxy.arm(Fault::None);

    let seen = first.job(id(1)).await.unwrap().unwrap().value;
    let late = first.commit(vec![replace(cancelled(seen), Revision(1))]).await;

    assert!(matches!(late[..], [Err(CommitError::Store(StoreError::Unavailable(_)))]), "{late:?}");
    tokio::time::timeout(PATIENCE, first.deposed()).await.expect("it gets to know");
    assert_eq!(second.job(id(1)).await.unwrap().unwrap().revision, Revision(1));
    assert!(second.commit(vec![create(job(2))]).await.remove(0).is_ok());
}

// [D3] [row 12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deposed_leader_cannot_write_documents() {
    let Some(database) = Database::new() else { return };
    let proxy = Proxy::start(database.server.port()).await;
    let first = open(&proxy.url(), PostgresOptions::default()).await;
    first.put(Collection::Products, "shop", Expected::Absent, Some(json!("before"))).await.unwrap();
    proxy.arm(Fault::CutAlways);
    proxy.cut();
    let second = database.postgres().await;
    proxy.arm(Fault::None);

    let late = [
        first.put(Collection::Products, "shop", Expected::At(Revision(1)), Some(json!("late"))).await,
        first.put(Collection::Products, "shop", Expected::At(Revision(1)), None).await,
        first.put(Collection::Products, "new", Expected::Absent, Some(json!("late"))).await,
    ];

    for outcome in late {
        assert!(matches!(outcome, Err(CommitError::Store(StoreError::Unavailable(_)))), "{outcome:?}");
    }
    tokio::time::timeout(PATIENCE, first.deposed()).await.expect("it gets to know");
    let left = second.documents(Collection::Products).await.unwrap();
    let left: Vec<_> = left.into_iter().map(|(key, document)| (key, document.value)).collect();
    assert_eq!(left, [("shop".to_owned(), json!("before"))]);
}

/// Two shared stores repeatedly have different cache entries for one job.
// [§9]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shared_stores_never_write_from_an_outdated_cache() {
    let Some(database) = Database::new() else { return };
    let (one, two) = (database.another().await, database.another().await);
    let created = create(job(1));
    let offered = replace(dispatched(created.job.clone(), seconds(9)), Revision(1));
    let held = replace(granted(offered.job.clone()), Revision(2));
    let late = replace(cancelled(created.job.clone()), Revision(1));
    let last = replace(cancelled(held.job.clone()), Revision(3));

    let outcomes = [
        one.commit(vec![created]).await.remove(0),
        two.commit(vec![offered]).await.remove(0),
        one.commit(vec![late]).await.remove(0),
        one.commit(vec![held]).await.remove(0),
        two.commit(vec![last]).await.remove(0),
    ];

    assert!(
        matches!(
            outcomes,
            [Ok(Revision(1)), Ok(Revision(2)), Err(CommitError::Stale), Ok(Revision(3)), Ok(Revision(4))]
        ),
        "{outcomes:?}"
    );
}

async fn lead(url: &PostgresUrl, claim: Option<PostgresClaim>, address: &str) -> PostgresStore {
    let (options, clock) = (PostgresOptions::default(), Arc::new(SystemClock::new()));
    PostgresStore::open_leading(url, options, clock, claim, Some(address.to_owned())).await.unwrap()
}

// [D3] [row 12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_standby_sees_the_leader_and_leads_after_it() {
    let Some(database) = Database::new() else { return };
    let url = PostgresUrl::parse(&database.url()).unwrap();
    let first = lead(&url, None, "https://a").await;
    let (seen, mut leader) = watch::channel(None::<Leader>);
    let standing_by = {
        let url = url.clone();
        tokio_util::task::TaskTracker::new()
            .spawn(async move { PostgresStore::stand_by(&url, Arc::new(SystemClock::new()), &seen).await })
    };
    let shown = tokio::time::timeout(PATIENCE, leader.wait_for(Option::is_some)).await.unwrap().unwrap().clone();
    let shown = shown.unwrap();
    assert_eq!(Some(&shown), first.leader().as_ref());
    assert_eq!(shown.address.as_deref(), Some("https://a"));
    assert!(shown.hop_secret.len() >= 32, "{} characters", shown.hop_secret.len());
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'gigafactory % on %' AND backend_xmin IS NOT NULL";
    let row = psql(&database).await.query_one(waiting, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0, "a standby holds no snapshot");
    assert!(!standing_by.is_finished());

    first.close().await.unwrap();
    let claim = tokio::time::timeout(PATIENCE, standing_by).await.unwrap().unwrap().unwrap();
    let second = lead(&url, claim, "https://b").await;

    let next = second.leader().unwrap();
    assert_eq!((next.term, next.address.as_deref()), (shown.term + 1, Some("https://b")));
    assert_ne!(next.hop_secret, shown.hop_secret);
    assert!(!second.leadership().was_taken_over(), "the first one has resigned");
    assert!(second.commit(vec![create(job(1))]).await.remove(0).is_ok());
}

// [D3] [row 12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_successor_of_a_leader_that_vanished_knows_that_it_took_over() {
    let Some(database) = Database::new() else { return };
    let proxy = Proxy::start(database.server.port()).await;
    let url = PostgresUrl::parse(&database.url()).unwrap();
    let first = open(&proxy.url(), PostgresOptions::default()).await;
    let leadership = first.leadership();
    let proved = leadership.proved_at().unwrap();
    until("another proof", async || leadership.proved_at().unwrap() > proved).await;
    proxy.arm(Fault::CutAlways);
    proxy.cut();

    let (seen, _leader) = watch::channel(None::<Leader>);
    let claim = PostgresStore::stand_by(&url, Arc::new(SystemClock::new()), &seen).await.unwrap();
    let second = lead(&url, claim, "https://b").await;
    let proved = leadership.proved_at().unwrap();
    proxy.arm(Fault::None);

    assert!(second.leadership().was_taken_over());
    tokio::time::timeout(PATIENCE, first.deposed()).await.expect("it gets to know");
    assert!(leadership.proved_at().unwrap() <= proved, "no proof counts any more");
}

// [D3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_standby_of_an_empty_database_may_open_it() {
    let Some(database) = Database::new() else { return };
    let url = PostgresUrl::parse(&database.url()).unwrap();
    let (seen, _leader) = watch::channel(None::<Leader>);

    let claim = PostgresStore::stand_by(&url, Arc::new(SystemClock::new()), &seen).await.unwrap();

    assert!(claim.is_none());
    assert!(lead(&url, claim, "https://a").await.leader().is_some());
}
