//! A backup of any backend is one SQLite file, so that a fleet can move between backends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clock::SystemClock;
use domain::{
    Backup, Clock, Collection, Commit, CommitError, Expected, FleetStore, Generation, Job, JobFilter, JobHistory,
    JobId, JobStore, Position, Revision, Scope, StoreError, StoreGeneration,
};
use serde_json::{Value, json};
use store::conformance::sample::{cancelled, create, dispatched, granted, id, job, replace, seconds};
use store::{BackupError, Options, PostgresOptions, PostgresStore, SqliteStore, inspect_backup, restore_closed};
use tokio::task::JoinSet;

use super::proxy::{Fault, Proxy};
use super::{Database, open, psql, until};

/// Some jobs in all stages, with dependencies and documents.
async fn populate(store: &(impl JobStore + FleetStore)) {
    for n in 0..40 {
        let mut unit = create(job(n));
        for step in [|job| dispatched(job, seconds(9)), granted, cancelled].iter().take(n as usize % 4) {
            let next = replace((step as &fn(Job) -> Job)(unit.job.clone()), unit.expected.next());
            store.commit(vec![unit]).await.remove(0).unwrap();
            unit = next;
        }
        store.commit(vec![unit]).await.remove(0).unwrap();
    }
    for (collection, key) in [(Collection::Products, "notes"), (Collection::Tokens, "t"), (Collection::Flags, "f")] {
        store.put(collection, key, Expected::Absent, Some(json!({"key": key}))).await.unwrap();
        store.put(collection, key, Expected::At(Revision(1)), Some(json!({"key": key, "n": 2}))).await.unwrap();
    }
}

/// Everything that a store returns, except its generation.
async fn everything(store: &(impl JobStore + JobHistory + FleetStore)) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let mut show = |what: String, shown: String| drop(all.insert(what, Value::String(shown)));
    let page = store.jobs(&JobFilter::default(), None, 1000).await.unwrap();
    for item in &page.items {
        let id = item.job.id();
        show(format!("job {id}"), format!("{item:?}"));
        show(format!("body of {id}"), format!("{:?}", store.body(id).await.unwrap()));
        show(format!("runs of {id}"), format!("{:?}", store.runs(id, 0, 1_000).await.unwrap()));
        show(format!("dependents of {id}"), format!("{:?}", store.dependents(id).await.unwrap()));
        let events = store.events(&Scope::Job(id), Position(0), 100).await.unwrap();
        show(format!("events of {id}"), format!("{events:?}"));
    }
    show("order".to_owned(), format!("{:?}", page.items.iter().map(|item| item.job.id()).collect::<Vec<_>>()));
    show("open".to_owned(), format!("{:?}", store.open(None, 1000).await.unwrap()));
    show("log".to_owned(), format!("{:?}", store.events(&Scope::Fleet, Position(0), 1000).await.unwrap()));
    let product = Scope::Products(vec!["notes".parse().unwrap()]);
    show("log of a product".to_owned(), format!("{:?}", store.events(&product, Position(3), 7).await.unwrap()));
    show("census".to_owned(), format!("{:?}", store.census().await.unwrap()));
    for collection in Collection::ALL.into_iter().filter(|collection| *collection != Collection::Meta) {
        show(collection.name().to_owned(), format!("{:?}", store.documents(collection).await.unwrap()));
    }
    all
}

async fn lineage(store: &impl FleetStore) -> StoreGeneration {
    let document = store.document(Collection::Meta, StoreGeneration::KEY).await.unwrap();
    document.map(|document| serde_json::from_value(document.value).unwrap()).unwrap_or_default()
}

fn sqlite(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options::default()).unwrap()
}

// [D3] [§12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fleet_moves_from_sqlite_to_postgresql_and_back() {
    let Some(database) = Database::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (clock, path) = (SystemClock::new(), |name: &str| folder.path().join(name));
    let first = sqlite(&path("first.db"));
    populate(&first).await;
    let before = everything(&first).await;
    first.back_up(&path("there"), clock.now()).await.unwrap();

    let postgres = database.postgres().await;
    let there = postgres.restore(&path("there"), clock.now()).await.unwrap();
    postgres.close().await.unwrap();
    let postgres = database.postgres().await;
    let moved = everything(&postgres).await;
    let summary = postgres.back_up(&path("back"), clock.now()).await.unwrap();
    restore_closed(&path("back"), &path("second.db"), clock.now()).unwrap();
    let second = sqlite(&path("second.db"));

    assert_eq!(moved, before);
    assert_eq!(everything(&second).await, before);
    assert_eq!((summary.jobs, summary.events), (40, there.backup.events));
    assert_eq!(inspect_backup(&path("back")).unwrap(), summary);
    assert_eq!(lineage(&postgres).await.generation, there.generation);
    assert!(lineage(&second).await.generation > there.generation);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_moved_store_continues_its_log() {
    let Some(database) = Database::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let first = sqlite(&folder.path().join("fleet.db"));
    populate(&first).await;
    let end = first.changed(Position(0)).await.unwrap();
    first.back_up(&folder.path().join("copy"), seconds(1)).await.unwrap();
    let postgres = database.postgres().await;
    postgres.restore(&folder.path().join("copy"), seconds(2)).await.unwrap();
    postgres.close().await.unwrap();

    let postgres = database.postgres().await;
    let next = postgres.job(id(1)).await.unwrap().unwrap();
    let outcomes =
        postgres.commit(vec![replace(cancelled(next.value), next.revision), create(job(99)), create(job(2))]).await;

    assert!(matches!(outcomes[..], [Ok(_), Ok(Revision(1)), Err(CommitError::Stale)]), "{outcomes:?}");
    let log = postgres.events(&Scope::Fleet, end, 10).await.unwrap();
    assert_eq!(log.iter().map(|event| event.position.0 - end.0).collect::<Vec<_>>(), [1, 2]);
    let newest = postgres.jobs(&JobFilter::default(), None, 1).await.unwrap().items.remove(0);
    assert_eq!(newest.job.id(), id(99));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn row_28_a_restore_raises_the_generation_and_keeps_the_old_data() {
    let Some(database) = Database::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let now = SystemClock::new().now();
    let postgres = database.postgres().await;
    populate(&postgres).await;
    postgres.back_up(&copy, now).await.unwrap();
    postgres.commit(vec![create(job(1000))]).await.remove(0).unwrap();

    let once = postgres.restore(&copy, now).await.unwrap();
    let late = postgres.commit(vec![create(job(1001))]).await;
    postgres.close().await.unwrap();
    let postgres = database.postgres().await;
    let again = postgres.restore(&copy, now).await.unwrap();
    postgres.close().await.unwrap();

    assert!(matches!(late[..], [Err(CommitError::Store(StoreError::Unavailable(_)))]), "{late:?}");
    assert!(Generation::default() < once.generation && once.generation < again.generation);
    let kept = once.kept.unwrap().display().to_string();
    let lost = format!("SELECT count(*) FROM {kept}.fleet_jobs");
    assert_eq!(psql(&database).await.query_one(&lost, &[]).await.unwrap().get::<_, i64>(0), 41);
    let postgres = database.postgres().await;
    assert_eq!(postgres.job(id(1000)).await.unwrap(), None);
    assert_eq!(lineage(&postgres).await.generation, again.generation);
}

// [§12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_during_writes_is_one_snapshot() {
    const WRITERS: u32 = 4;
    let Some(database) = Database::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let postgres = Arc::new(database.postgres().await);
    let stop = tokio_util::sync::CancellationToken::new();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (postgres, stop) = (Arc::clone(&postgres), stop.clone());
        writers.spawn(async move {
            for n in (0..).take_while(|_| !stop.is_cancelled()) {
                let first = create(job(writer * 1_000_000 + n));
                let next = replace(dispatched(first.job.clone(), seconds(9)), Revision(1));
                for unit in [first, next] as [Commit; 2] {
                    postgres.commit(vec![unit]).await.remove(0).unwrap();
                }
            }
        });
    }

    let mut before = Position(0);
    for n in 0..5 {
        let copy = folder.path().join(n.to_string());
        postgres.changed(before).await.unwrap();
        let summary = postgres.back_up(&copy, seconds(1)).await.unwrap();
        assert!(summary.position > before, "the writers stood still");
        before = summary.position;

        // The log has no gap, and each job is as its last event left it.
        let copied = sqlite(&copy);
        assert_eq!(summary.events, summary.position.0);
        let mut events: BTreeMap<JobId, u64> = BTreeMap::new();
        let mut after = Position(0);
        loop {
            let page = copied.events(&Scope::Fleet, after, 1000).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.position;
            events.extend(page.iter().map(|event| (event.job, event.seq.0)));
        }
        assert_eq!(events.len() as u64, summary.jobs);
        for open in copied.open(None, 500).await.unwrap() {
            assert_eq!(events[&open.value.id()], open.revision.0);
        }
    }
    stop.cancel();
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
}

// [§12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_restore_changes_nothing_and_can_be_retried() {
    let Some(database) = Database::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (copy, now) = (folder.path().join("copy"), SystemClock::new().now());
    let proxy = Proxy::start(database.server.port()).await;
    let postgres: PostgresStore = open(&proxy.url(), PostgresOptions::default()).await;
    populate(&postgres).await;
    postgres.back_up(&copy, now).await.unwrap();
    postgres.commit(vec![create(job(77))]).await.remove(0).unwrap();
    let before = everything(&postgres).await;

    for fault in [Fault::CutAtCopy, Fault::CutAtSwap] {
        proxy.arm(fault);
        let broken = postgres.restore(&copy, now).await;

        assert!(matches!(broken, Err(BackupError::Server(_))), "{broken:?}");
        assert!(!proxy.is_armed(), "it got as far as that");
        assert_eq!(everything(&postgres).await, before);
    }
    assert!(postgres.restore(&copy, now).await.is_ok());
}

// [§12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn row_32_a_restore_whose_commit_response_is_lost_is_found() {
    let Some(database) = Database::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (copy, now) = (folder.path().join("copy"), SystemClock::new().now());
    let proxy = Proxy::start(database.server.port()).await;
    let postgres = Arc::new(open(&proxy.url(), PostgresOptions::default()).await);
    populate(&*postgres).await;
    postgres.back_up(&copy, now).await.unwrap();
    let before = everything(&*postgres).await;
    postgres.commit(vec![create(job(77))]).await.remove(0).unwrap();
    let beside = psql(&database).await;
    proxy.arm(Fault::LoseTheAnswerToASwap);

    let restoring = JoinSet::from_iter([{
        let postgres = Arc::clone(&postgres);
        async move { postgres.restore(&copy, now).await }
    }]);
    let kept = "SELECT 1 FROM pg_namespace WHERE nspname LIKE 'fleet_before_generation_%'";
    until("the swap on the server", async || !beside.query(kept, &[]).await.unwrap().is_empty()).await;
    proxy.cut();
    let restored = restoring.join_all().await.remove(0).unwrap();
    postgres.close().await.unwrap();

    let again = database.postgres().await;
    assert_eq!(lineage(&again).await.generation, restored.generation);
    assert_eq!(everything(&again).await, before);
}

// [§12]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn row_32_a_restore_disconnected_before_commit_is_rolled_back() {
    let Some(database) = Database::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (copy, now) = (folder.path().join("copy"), SystemClock::new().now());
    let postgres = Arc::new(database.postgres().await);
    populate(&*postgres).await;
    postgres.back_up(&copy, now).await.unwrap();
    postgres.commit(vec![create(job(77))]).await.remove(0).unwrap();
    let (before, blocker, beside) = (everything(&*postgres).await, psql(&database).await, psql(&database).await);
    // The tables cannot be swapped while another connection reads one of them.
    blocker.batch_execute("BEGIN; LOCK TABLE fleet_runs IN ACCESS SHARE MODE").await.unwrap();

    let restoring = JoinSet::from_iter([{
        let postgres = Arc::clone(&postgres);
        async move { postgres.restore(&copy, now).await }
    }]);
    let waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%SET SCHEMA%'";
    until("the last step", async || !beside.query(waits, &[]).await.unwrap().is_empty()).await;
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'gigafactory restore %'";
    assert_eq!(beside.query(end, &[]).await.unwrap().len(), 1);
    let restored = restoring.join_all().await.remove(0);
    blocker.batch_execute("COMMIT").await.unwrap();

    assert!(matches!(restored, Err(BackupError::Server(_))), "{restored:?}");
    assert_eq!(everything(&*postgres).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_that_is_not_a_backup_is_refused() {
    let Some(database) = Database::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "not a database, just some text that is long enough to have a header of its own").unwrap();
    let postgres = database.postgres().await;
    populate(&postgres).await;

    let refused = postgres.restore(&file, seconds(1)).await;

    assert!(matches!(refused, Err(BackupError::NotABackup { .. })), "{refused:?}");
    assert!(postgres.commit(vec![create(job(99))]).await.remove(0).is_ok());
}
