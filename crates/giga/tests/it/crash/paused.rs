//! A factory process that is stopped for longer than its lease: its guards end what it runs (rows 14 and 35, [I7]).

use std::time::Duration;

use super::fleet::Fleet;
use crate::repository;

/// Three times the lease of the fleet.
const STOPPED_FOR: Duration = Duration::from_secs(9);

/// Where the program runs that does not end by itself.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    Setup,
    Engine,
    Verify,
}

/// Stops a factory with SIGSTOP while it runs a program that ignores SIGTERM, and lets another factory take the job over.
/// The program appends its epoch to a file outside of the worktree every 50 ms.
async fn at_most_one_program_runs(what: Where) {
    let mut fleet = Fleet::new(2);
    if what == Where::Setup {
        fleet.set_up_with(&fleet.beat_command());
    }
    fleet.start_coordinator(None);
    fleet.start_factory(0, None).await;
    let verify = format!("verify:\n  - {}\n", fleet.beat_command());
    let job = match what {
        Where::Setup => fleet.submit(0, "do some work").await,
        Where::Engine => fleet.submit(0, "beat until the signal").await,
        Where::Verify => fleet.submit_with(0, &verify, "do some work").await,
    };
    fleet.until("the first program", || !fleet.beats().is_empty()).await;

    fleet.freeze_factory(0);
    fleet.start_factory(1, None).await;
    fleet.until("the program of the new holder", || fleet.beats().len() > 1).await;
    fleet.pause(STOPPED_FOR).await;

    let beats = fleet.beats();
    assert_eq!(beats.len(), 2, "two programs wrote side by side: {beats:?}\n{}", fleet.logs());
    fleet.thaw_factories();
    let quarantined = fleet.path("factory-0").join("runs");
    let is_kept = || {
        let records = std::fs::read_dir(&quarantined)
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        records.into_iter().any(|record| record.contains("\"quarantined\""))
    };
    fleet.until("the resumed factory to find that it is fenced", is_kept).await;
    assert_eq!(fleet.beats(), beats, "the resumed factory runs a program");

    fleet.give_the_signal();
    let done = fleet.until_job(job, |job| job.promoted_sha.is_some() && job.errand.is_none()).await;
    let completed = done.completed_sha.as_ref().unwrap().to_string();
    assert_eq!((done.attempts, done.lost_leases), (0, 1), "{}", fleet.logs());
    let shown = repository::refs(&fleet.path("work.git"), "refs/heads/aq/job");
    assert_eq!(shown, [(format!("refs/heads/aq/job/{job}"), completed)]);
    fleet.end();
}

// [I7]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_35_a_stopped_factorys_engine_ends_with_its_lease() {
    at_most_one_program_runs(Where::Engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_35_a_stopped_factorys_verify_command_ends_with_its_lease() {
    at_most_one_program_runs(Where::Verify).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_35_a_stopped_factorys_setup_command_ends_with_its_lease() {
    at_most_one_program_runs(Where::Setup).await;
}
