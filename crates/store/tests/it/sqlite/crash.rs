//! SIGKILL at any moment loses no acknowledged write.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use domain::{Job, JobHistory, JobId, JobStore, Position, Revision, Scope};
use store::conformance::sample::{cancelled, create, dispatched, granted, job, replace, seconds};
use store::{Options, SqliteStore};
use tokio::task::JoinSet;

use super::Database;

const DATABASE: &str = "STORE_TEST_DATABASE";
const ROUND: &str = "STORE_TEST_ROUND";
const WRITERS: u32 = 8;
/// Each round is killed long before its writers have written this many.
const JOBS_MAX: u32 = 1_000_000;

/// Not a test by itself: the process that the test below kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_process_for_the_kill_test() {
    let (Ok(path), Ok(round)) = (std::env::var(DATABASE), std::env::var(ROUND)) else { return };
    let sqlite = Arc::new(SqliteStore::open(path, Options::default()).unwrap());
    let round: u32 = round.parse().unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let sqlite = Arc::clone(&sqlite);
        writers.spawn(async move {
            for n in (writer..JOBS_MAX).step_by(WRITERS as usize) {
                live(&sqlite, job(round * JOBS_MAX + n)).await;
            }
        });
    }
    while writers.join_next().await.is_some() {}
}

/// Takes a job to its end and prints each acknowledged write.
async fn live(sqlite: &SqliteStore, job: Job) {
    let mut unit = create(job);
    for step in [|job| dispatched(job, seconds(9)), granted, cancelled] as [fn(Job) -> Job; 3] {
        let job = unit.job.clone();
        let revision = sqlite.commit(vec![unit]).await.remove(0).unwrap();
        println!("\nacknowledged {} {revision} .", job.id());
        unit = replace(step(job), revision);
    }
}

// [I3]
#[tokio::test]
async fn a_killed_process_keeps_acknowledged_writes() {
    let database = Database::new();
    let mut promised = BTreeMap::new();

    for (round, kill_after) in [1, 40, 333, 1200, 77].into_iter().enumerate() {
        let child = writing_process(database.path(), round);
        promised.extend(killed_after(child, kill_after));

        let sqlite = database.sqlite();
        for (id, revision) in &promised {
            let there = sqlite.job(*id).await.unwrap().expect("an acknowledged job is there");
            assert!(there.revision >= *revision, "job {id} is at {} instead of {revision}", there.revision);
        }
        assert_log_is_whole(&sqlite).await;
        sqlite.close().await.unwrap();
    }

    assert!(promised.len() > 100);
}

fn writing_process(path: PathBuf, round: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::crash::writer_process_for_the_kill_test", "--nocapture"])
        .env(DATABASE, path)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the process after this many acknowledged writes; returns all of them.
fn killed_after(mut child: Child, writes: usize) -> BTreeMap<JobId, Revision> {
    let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut promised = BTreeMap::new();
    let mut heard = 0;
    for line in said {
        // The last line may be cut off by the kill.
        let words: Vec<_> = line.split(' ').collect();
        let ["acknowledged", id, revision, "."] = words[..] else { continue };
        let (id, revision) = (id.parse().unwrap(), revision.parse().unwrap());
        promised.insert(id, Revision(revision));
        heard += 1;
        if heard == writes {
            child.kill().unwrap();
        }
    }
    assert!(!child.wait().unwrap().success());
    assert!(heard >= writes, "it ended by itself");
    promised
}

/// Checks that the log has no gaps and that every job has all of its events.
async fn assert_log_is_whole(sqlite: &SqliteStore) {
    let mut told: BTreeMap<JobId, u64> = BTreeMap::new();
    let mut after = Position(0);
    loop {
        let events = sqlite.events(&Scope::Fleet, after, 1000).await.unwrap();
        let Some(last) = events.last() else { break };
        assert_eq!(last.position.0, after.0 + events.len() as u64);
        after = last.position;
        for event in events {
            *told.entry(event.job).or_default() += 1;
        }
    }
    for (id, events) in told {
        assert_eq!(sqlite.job(id).await.unwrap().expect("an event has its job").value.seq().0, events);
    }
}
