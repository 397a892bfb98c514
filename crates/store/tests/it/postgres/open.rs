//! Opening a database: migrations, and refusals with a remedy.

use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use domain::{JobHistory, JobStore, Position, Scope};
use store::conformance::sample::{create, id, job};
use store::{Exclusivity, PostgresOptions, PostgresRoom, PostgresStore, PostgresUrl};
use tokio::task::JoinSet;

use super::{Database, SHARED, open, psql};

/// How often a server on a busy machine is asked again.
const ATTEMPTS_MAX: u32 = 5;

/// The error of an attempt to open the store. A time-out of a busy machine proves nothing and is tried again.
async fn refusal(url: &str) -> String {
    let url = PostgresUrl::parse(url).unwrap();
    let mut text = String::new();
    for _ in 0..ATTEMPTS_MAX {
        let opened = PostgresStore::open(&url, PostgresOptions::default(), Arc::new(SystemClock::new())).await;
        text = opened.expect_err("it is refused").to_string();
        if !text.contains("did not answer in time") {
            break;
        }
    }
    text
}

// [D3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_coordinators_start_at_once_on_an_empty_database() {
    let Some(database) = Database::new() else { return };
    let mut stores = JoinSet::new();
    for n in 0..10 {
        let url = database.url();
        stores.spawn(async move {
            let postgres = open(&url, SHARED).await;
            postgres.commit(vec![create(job(n))]).await.remove(0).unwrap();
            postgres.close().await.unwrap();
        });
    }
    stores.join_all().await;

    let postgres = database.postgres().await;
    assert_eq!(postgres.events(&Scope::Fleet, Position(0), 100).await.unwrap().len(), 10);
    let versions = psql(&database).await.query("SELECT version FROM fleet_schema", &[]).await.unwrap();
    assert_eq!(versions.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [4]);
}

// [§9]
#[tokio::test]
async fn a_newer_schema_is_refused_and_not_changed() {
    let Some(database) = Database::new() else { return };
    database.postgres().await.close().await.unwrap();
    let administrator = psql(&database).await;
    administrator.batch_execute("UPDATE fleet_schema SET version = 7").await.unwrap();

    let told = refusal(&database.url()).await;

    assert!(told.contains("has schema 7, this version supports up to 4: use the newer version"), "{told}");
    let version = administrator.query_one("SELECT version FROM fleet_schema", &[]).await.unwrap();
    assert_eq!(version.get::<_, i32>(0), 7);
}

// [D3]
#[tokio::test]
async fn fsync_off_is_refused_unless_accepted() {
    let Some(database) = Database::new() else { return };

    let told = refusal(&database.server.url()).await;

    assert!(told.contains("runs with fsync=off"), "{told}");
    database.postgres().await.close().await.unwrap();
}

// [attack: secrets in logs, events, artifacts]
#[tokio::test]
async fn an_unreachable_server_is_named_without_the_password() {
    let told = refusal("postgres://ada:s3cret@127.0.0.1:1/fleet").await;

    assert!(told.contains("postgres://ada:…@127.0.0.1:1/fleet"), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
}

// [D3]
#[tokio::test]
async fn a_role_with_synchronous_commit_off_is_overridden() {
    let Some(database) = Database::new() else { return };
    let administrator = psql(&database).await;
    administrator.batch_execute("ALTER ROLE postgres SET synchronous_commit = off").await.unwrap();
    administrator
        .batch_execute(
            "CREATE TABLE seen (setting text);
             CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$",
        )
        .await
        .unwrap();
    let postgres = database.postgres().await;
    administrator
        .batch_execute("CREATE TRIGGER see AFTER UPDATE ON fleet_log FOR EACH ROW EXECUTE FUNCTION see()")
        .await
        .unwrap();

    postgres.commit(vec![create(job(1))]).await.remove(0).unwrap();

    let seen = administrator.query_one("SELECT setting FROM seen", &[]).await.unwrap();
    assert_eq!(seen.get::<_, String>(0), "on");
}

// [D3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_tls_connection_verifies_the_server() {
    let Some(mut database) = Database::new() else { return };
    let ours = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let stranger = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("{}&sslmode=require&sslrootcert={}", database.url(), path.display())
    };
    let (known, unknown) = (authority("ours.pem", ours.cert.pem()), authority("other.pem", stranger.cert.pem()));
    let in_plain_text = refusal(&known).await;
    database.server.restart_with_tls(&ours.cert.pem(), &ours.signing_key.serialize_pem()).unwrap();

    let postgres = open(&known, PostgresOptions::default()).await;
    postgres.commit(vec![create(job(1))]).await.remove(0).unwrap();
    let found = postgres.job(id(1)).await.unwrap();
    let not_trusted = refusal(&unknown).await;

    assert!(found.is_some());
    assert!(in_plain_text.contains("TLS"), "{in_plain_text}");
    assert!(not_trusted.contains("certificate"), "{not_trusted}");
    let sql = "SELECT count(*) FROM pg_stat_ssl WHERE NOT ssl AND pid IN
               (SELECT pid FROM pg_stat_activity WHERE application_name = 'gigafactory')";
    assert_eq!(psql(&database).await.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
}

// [D3]
#[tokio::test]
async fn a_silent_server_times_out() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = PostgresUrl::parse(&format!("postgres://user@{}/none", silent.local_addr().unwrap())).unwrap();

    let opening = PostgresStore::open(&url, PostgresOptions::default(), Arc::new(SystemClock::new()));
    let opened = tokio::time::timeout(Duration::from_secs(15), opening).await;

    let refused = opened.expect("the attempt ends before the statement timeout");
    assert!(refused.is_err());
}

// [D3] [row 12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_schema_in_use_is_not_migrated() {
    let Some(database) = Database::new() else { return };
    let working = database.postgres().await;
    let administrator = psql(&database).await;
    let as_before = "ALTER TABLE fleet_jobs ADD COLUMN due bigint; DROP TABLE fleet_terms, fleet_index, fleet_children;
        UPDATE fleet_schema SET version = 1";
    administrator.batch_execute(as_before).await.unwrap();

    let told = refusal(&database.url()).await;

    assert!(told.contains("another coordinator uses the database"), "{told}");
    administrator.query("SELECT due FROM fleet_jobs", &[]).await.expect("the column is still there");
    working.close().await.unwrap();
    database.postgres().await.close().await.unwrap();
    administrator.query("SELECT due FROM fleet_jobs", &[]).await.expect_err("now it is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_guest_creates_and_migrates_nothing() {
    let Some(database) = Database::new() else { return };
    let guest = PostgresOptions { tenancy: Exclusivity::Guest, ..PostgresOptions::default() };
    let url = PostgresUrl::parse(&database.url()).unwrap();
    let visit = async || PostgresStore::open(&url, guest, Arc::new(SystemClock::new())).await;

    let to_nothing = visit().await.expect_err("there is nothing yet").to_string();
    let tables = psql(&database).await.query("SELECT 1 FROM pg_tables WHERE tablename LIKE 'fleet%'", &[]).await;
    let working = database.postgres().await;
    working.commit(vec![create(job(1))]).await.remove(0).unwrap();
    let seen = visit().await.unwrap().job(id(1)).await.unwrap();

    assert!(to_nothing.contains("has schema 0"), "{to_nothing}");
    assert!(tables.unwrap().is_empty());
    assert!(seen.is_some());
}

// [D3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_scratch_schema_is_isolated_and_stale_ones_are_removed() {
    let Some(database) = Database::new() else { return };
    let working = database.postgres().await;
    let url = PostgresUrl::parse(&database.url()).unwrap();
    let clock = || Arc::new(SystemClock::new());
    let left = PostgresRoom::make(&url, 11, |_| false, clock()).await.unwrap();
    drop(left);

    let room = PostgresRoom::make(&url, 12, |process| process == 11, clock()).await.unwrap();
    let inside = open(&room.address(&database.url()), PostgresOptions::default()).await;
    inside.commit(vec![create(job(1))]).await.remove(0).unwrap();
    let (here, there) = (inside.job(id(1)).await.unwrap(), working.job(id(1)).await.unwrap());
    inside.close().await.unwrap();
    room.remove().await.unwrap();

    assert!(here.is_some() && there.is_none());
    let rooms = psql(&database).await.query("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'giga%'", &[]).await;
    assert!(rooms.unwrap().is_empty());
}
