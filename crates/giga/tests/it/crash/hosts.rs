//! The two-host rehearsal: two factories that share nothing but a remote, each killed in the middle of a run.

use domain::JobId;

use super::fleet::Fleet;
use crate::repository;

/// Lets `dying` begin a job, kills it once the work is saved, and has `heir` finish it; what is on `main` afterwards.
async fn inherited(fleet: &mut Fleet, number: usize, dying: usize, heir: usize) -> (JobId, String) {
    fleet.start_factory(dying, None).await;
    let job = fleet.submit(number, "begin, then wait for the signal").await;
    let saved = fleet.until_job(job, |job| job.checkpoint.is_some()).await;
    let holder = format!("factory-{dying}");
    assert_eq!(saved.holder_factory_id.as_ref().map(|id| id.as_str()), Some(holder.as_str()));

    fleet.kill_factory(dying);
    fleet.start_factory(heir, None).await;
    let heir = format!("factory-{heir}");
    fleet.until_job(job, |job| job.holder_factory_id.as_ref().is_some_and(|id| id.as_str() == heir)).await;
    fleet.give_the_signal();
    fleet.until_all_shipped(&fleet.jobs().await.unwrap().iter().map(|job| job.id).collect()).await;

    std::fs::remove_file(fleet.path("signal")).unwrap();
    let progress = repository::text(&fleet.path("work.git"), &format!("main:progress-{job}")).unwrap_or_default();
    (job, progress)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_of_two_hosts_can_die_in_the_middle_of_a_run_and_the_other_resumes_from_the_checkpoint() {
    let mut fleet = Fleet::new(2);
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;

    let (first, of_first) = inherited(&mut fleet, 0, 0, 1).await;
    let (second, of_second) = inherited(&mut fleet, 1, 1, 0).await;

    // Begun by the one that died, begun again by its heir in what the first had saved, and finished once.
    let expected = "begun\nbegun\n1\n2\n3\n4\n";
    assert_eq!((of_first.as_str(), of_second.as_str()), (expected, expected), "{}", fleet.logs());
    fleet.assert_nothing_lost_or_doubled(&[first, second].into());
    assert_eq!(fleet.resumed(), 2);
    fleet.end();
}
