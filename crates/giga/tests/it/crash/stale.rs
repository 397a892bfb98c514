//! A factory that sleeps through the loss of its lease and wakes when another has done the work (row 13).

use domain::StageName;

use super::fleet::{Fleet, KillAt};
use crate::repository;

// [I1]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_13_a_factory_that_wakes_after_its_job_was_granted_again_changes_nothing_that_counts() {
    let mut fleet = Fleet::new(2);
    fleet.start_coordinator(None);
    fleet.start_factory(0, None).await;
    let job = fleet.submit(0, "wait for the signal").await;
    fleet.until("the first run", || !fleet.journal().is_empty()).await;
    let first = fleet.until_job(job, |job| job.holder_factory_id.is_some()).await.lease_epoch;

    // Its engine runs to its end; the factory itself receives and does nothing until it is resumed.
    fleet.freeze_factory(0);
    fleet.give_the_signal();
    fleet.start_factory(1, None).await;
    let done = fleet.until_job(job, |job| job.promoted_sha.is_some() && job.errand.is_none()).await;
    let repo = fleet.path("work.git");
    let (shown, main) = (repository::refs(&repo, "refs/heads/aq/job"), repository::refs(&repo, "refs/heads/main"));
    fleet.thaw_factories();
    // It has dealt with what it found when it takes work again.
    fleet.kill_factory(1);
    let next = fleet.submit(1, "do some work").await;
    fleet.until_job(next, |job| job.promoted_sha.is_some() && job.errand.is_none()).await;

    let completed = done.completed_sha.as_ref().unwrap().to_string();
    let of_job: Vec<_> = repository::refs(&repo, "refs/heads/aq/job")
        .into_iter()
        .filter(|(name, _)| name.ends_with(&job.to_string()))
        .collect();
    assert_eq!(of_job, [(format!("refs/heads/aq/job/{job}"), completed.clone())], "{}", fleet.logs());
    assert_eq!(of_job, shown);
    assert_eq!(repository::refs(&repo, "refs/heads/main"), main);

    fleet.ship_by_itself().await;
    let shipped = fleet.run(&["ship", &job.to_string(), "--wait"], None);
    assert!(shipped.status.success(), "{}", String::from_utf8_lossy(&shipped.stderr));
    assert!(repository::is_on_main(&repo, &completed));
    let stale: Vec<_> = repository::refs(&repo, "refs/heads/aq")
        .into_iter()
        .filter(|(name, _)| name.ends_with(&format!("{job}/e{first}")) || name.ends_with(&format!("{job}-e{first}")))
        .filter(|(_, sha)| *sha != completed && repository::is_on_main(&repo, sha))
        .collect();
    assert_eq!(stale, [], "what the stale run pushed has shipped");
    fleet.end();
}

/// A factory stops dead at a step of its promotion, and wakes when another has promoted, shipped and deleted the branch.
async fn wakes_after_the_merge_at(step: &'static str) {
    let mut fleet = Fleet::new(2);
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;
    fleet.start_factory(0, Some(KillAt(step, 1))).await;
    let job = fleet.submit(0, "do some work").await;
    fleet.until("the stop", || fleet.is_factory_stopped(0)).await;
    fleet.start_factory(1, None).await;
    fleet.until_job(job, |job| job.stage == StageName::Shipped).await;
    let repo = fleet.path("work.git");
    fleet.until("the end of the branch", || repository::refs(&repo, "refs/heads/aq/job").is_empty()).await;
    let main = repository::refs(&repo, "refs/heads/main");

    fleet.thaw_factories();
    let records = fleet.path("factory-0").join("runs");
    fleet.until("the end of the late run", || std::fs::read_dir(&records).unwrap().next().is_none()).await;

    assert_eq!(repository::refs(&repo, "refs/heads/aq/job"), [], "{}", fleet.logs());
    assert_eq!(repository::refs(&repo, "refs/heads/main"), main);
    fleet.end();
}

// [I15]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_13_a_promotion_that_was_put_off_until_after_the_merge_is_not_made() {
    wakes_after_the_merge_at("~factory::before_promotion").await;
}

// [I15]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_13_a_promotion_that_slept_between_its_last_question_and_its_push_leaves_no_branch() {
    wakes_after_the_merge_at("~factory::promotion_confirmed").await;
}
