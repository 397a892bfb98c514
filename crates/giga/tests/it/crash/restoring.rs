//! Row 28 with real processes: a store is lost and put back while factories go on with what it no longer knows.

use std::collections::{BTreeMap, BTreeSet};

use domain::{JobId, StageName};

use super::fleet::{Fleet, KillAt};
use crate::repository;

/// How often each job was merged into `main`.
fn merges(fleet: &Fleet) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for job in repository::merged_jobs(&fleet.path("work.git")) {
        *times.entry(job).or_insert(0) += 1;
    }
    times
}

/// The runs of a job that the engine wrote down, by epoch.
fn runs_of(fleet: &Fleet, job: JobId) -> Vec<u64> {
    let journal = fleet.journal();
    let of_job = journal.keys().filter_map(|line| line.strip_prefix(&format!("{job}:")));
    of_job.map(|epoch| epoch.parse().unwrap()).collect()
}

async fn shipped(fleet: &Fleet, jobs: &[JobId]) {
    fleet.until_all_shipped(&jobs.iter().copied().collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_28_factories_that_knew_the_lost_future_are_fenced_and_nothing_ships_twice() {
    let mut fleet = Fleet::new(1);
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;
    fleet.start_factory(0, None).await;
    let done = fleet.submit(0, "do some work").await;
    shipped(&fleet, &[done]).await;

    // Three seats: the fourth job is queued when the backup is taken, and granted in the future that is lost.
    let mut held = Vec::new();
    for n in 1..=3 {
        held.push(fleet.submit(n, "wait for the signal").await);
    }
    let started = |jobs: &[JobId]| jobs.iter().all(|job| !runs_of(&fleet, *job).is_empty());
    fleet.until("three runs", || started(&held)).await;
    let queued = fleet.submit(4, "wait for the signal").await;
    let backup = fleet.path("backup.db");
    let taken = fleet.run(&["backup", "create", backup.to_str().unwrap()], None);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    let cancelled = fleet.run(&["cancel", &held[0].to_string()], None);
    assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
    fleet.until("the fourth run", || started(&[queued])).await;
    fleet.run(&["cancel", &held[1].to_string()], None);
    let forgotten = fleet.submit(5, "do some work").await;
    let forgotten_merge = forgotten.to_string();
    fleet.until("a merge that the backup does not know", || merges(&fleet).contains_key(&forgotten_merge)).await;
    let lost: BTreeSet<u64> = held.iter().chain([&queued]).flat_map(|job| runs_of(&fleet, *job)).collect();

    fleet.kill_coordinator();
    let restored = fleet.run(&["backup", "restore", "--yes", backup.to_str().unwrap()], None);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    fleet.start_coordinator(None);
    let is_again = |job: &JobId| runs_of(&fleet, *job).iter().any(|epoch| !lost.contains(epoch));
    fleet.until("the seats' new runs", || held.iter().chain([&queued]).filter(|job| is_again(job)).count() >= 3).await;
    fleet.give_the_signal();
    let all = [&[done, queued][..], &held].concat();
    shipped(&fleet, &all).await;
    let again = fleet.submit(5, "do some work").await;
    let settled = async || {
        let jobs = fleet.jobs().await.unwrap_or_default();
        let job = jobs.into_iter().find(|job| job.id == again)?;
        (job.stage == StageName::Testing && job.errand.is_none()).then_some(job.message).flatten()
    };
    let why = fleet.insist(settled).await;

    assert_eq!(again, forgotten, "one key is one job, in every future");
    assert!(why.contains("holds another merge of this job"), "{why}");
    let times = merges(&fleet);
    assert!(times.values().all(|times| *times == 1), "merged twice: {times:?}");
    assert_eq!(times.len(), all.len() + 1);
    fleet.assert_nothing_lost_or_doubled(&all.iter().copied().collect());
    let zombies: Vec<_> = held.iter().chain([&queued]).map(|job| runs_of(&fleet, *job).len()).collect();
    assert!(zombies.iter().all(|runs| *runs >= 2), "a run of the lost future was carried on: {zombies:?}");
    fleet.end();
}

/// A fleet with job 0 in the backup, and job 1 submitted since.
async fn with_backup() -> (Fleet, String, [JobId; 2]) {
    let mut fleet = Fleet::new(1);
    fleet.start_coordinator(None);
    let first = fleet.submit(0, "do some work").await;
    let backup = fleet.path("backup.db").to_str().unwrap().to_owned();
    let taken = fleet.run(&["backup", "create", &backup], None);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    let second = fleet.submit(1, "do some work").await;
    (fleet, backup, [first, second])
}

/// The jobs that a coordinator knows, started on whatever a death has left.
async fn known(fleet: &mut Fleet) -> BTreeSet<JobId> {
    fleet.start_coordinator(None);
    let jobs = fleet.insist(async || fleet.jobs().await).await;
    jobs.into_iter().map(|job| job.id).collect()
}

async fn restore_dies_at(step: &'static str, expected: usize) {
    let (mut fleet, backup, jobs) = with_backup().await;
    fleet.kill_coordinator();

    let ended = fleet.run(&["backup", "restore", "--yes", &backup], Some(KillAt(step, 1)));
    let found = known(&mut fleet).await;

    assert_eq!(ended.status.code(), None, "no process died at {step}");
    assert_eq!(found, jobs[..expected].iter().copied().collect(), "after a death at {step}");
    fleet.end();
}

async fn coordinator_dies_at(step: &'static str, expected: usize) {
    let (mut fleet, backup, jobs) = with_backup().await;
    fleet.kill_coordinator();
    fleet.start_coordinator(Some(KillAt(step, 1)));
    fleet.insist(async || fleet.jobs().await).await;

    let restoring = fleet.start(&["backup", "restore", "--yes", &backup]);
    fleet.until_coordinator_dies().await;
    Fleet::give_up(restoring);
    let found = known(&mut fleet).await;

    assert_eq!(found, jobs[..expected].iter().copied().collect(), "after a death at {step}");
    fleet.end();
}

macro_rules! dies_at {
    ($($name:ident: $who:ident at $step:literal leaves $jobs:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $who($step, $jobs).await;
            }
        )*
    };
}

dies_at! {
    a_restore_that_dies_before_it_counts_leaves_the_old_store: restore_dies_at at "restore::ready" leaves 2;
    a_restore_that_dies_once_it_counts_is_finished: restore_dies_at at "restore::staged" leaves 1;
    a_restore_that_dies_after_the_log_went_aside_is_finished: restore_dies_at at "restore::log_aside" leaves 1;
    a_restore_that_dies_between_the_two_stores_is_finished: restore_dies_at at "restore::old_aside" leaves 1;
    a_restore_that_dies_at_the_very_end_is_done: restore_dies_at at "restore::in_place" leaves 1;
    a_coordinator_that_dies_before_a_restore_counts_keeps_its_store: coordinator_dies_at at "restore::ready" leaves 2;
    a_coordinator_that_dies_once_a_restore_counts_finishes_it: coordinator_dies_at at "restore::staged" leaves 1;
    a_coordinator_that_dies_between_the_two_stores_finishes_it: coordinator_dies_at at "restore::old_aside" leaves 1;
    a_coordinator_that_dies_while_it_lifts_jobs_lifts_them_at_the_next_start: coordinator_dies_at at "lift::before_commit" leaves 1;
}
