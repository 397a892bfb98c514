//! The two-host rehearsal: two factories that share nothing but a remote, each killed in the middle of a run.

use domain::JobId;
use protocol::JobView;

use super::fleet::Fleet;
use crate::repository;

/// What a run adds to the progress of its job when it comes to its end.
const WHOLE_RUN: &str = "begun\n1\n2\n3\n4\n";

/// What became of a job whose host died.
struct Inheritance {
    job: JobId,
    /// The progress that was saved when the host died.
    saved: String,
    /// The progress on `main`.
    shipped: String,
}

/// Lets `dying` begin a job while `heir` takes nothing, kills it once the work is saved, and has `heir` finish it.
async fn inherited(fleet: &mut Fleet, number: usize, dying: usize, heir: usize) -> Inheritance {
    for index in [dying, heir] {
        fleet.start_factory(index, None).await;
    }
    fleet.until_all_connected().await;
    fleet.drain(heir, true).await;
    let job = fleet.submit(number, "begin, then wait for the signal").await;
    let repo = fleet.path("work.git");
    let progress_at = |place: &str| repository::text(&repo, &format!("{place}:progress-{job}"));
    let saved_by = |job: &JobView| progress_at(job.checkpoint.as_ref()?.sha.as_str());
    let held = fleet.until_job(job, |job| is_held_by(job, dying) && saved_by(job).is_some()).await;
    let saved = saved_by(&held).unwrap();
    fleet.drain(heir, false).await;
    assert_eq!([dying, heir].map(|index| fleet.is_factory_dead(index)), [false; 2], "{}", fleet.logs());

    fleet.kill_factory(dying);
    fleet.until_job(job, |job| is_held_by(job, heir)).await;
    fleet.give_the_signal();
    fleet.until_job(job, |job| job.stage == domain::StageName::Shipped).await;

    std::fs::remove_file(fleet.path("signal")).unwrap();
    Inheritance { job, saved, shipped: progress_at("main").unwrap_or_default() }
}

fn is_held_by(job: &JobView, index: usize) -> bool {
    job.holder_factory_id.as_ref().is_some_and(|id| id.as_str() == format!("factory-{index}"))
}

/// Begun by the one that died, begun again by its heir in what the first had saved, and finished once. On a machine that
/// stalls a job can be lost and begun more often: each such run was written down, and leaves no more than a whole one.
fn assert_resumed(fleet: &Fleet, Inheritance { job, saved, shipped }: &Inheritance) {
    let runs = fleet.journal().keys().filter(|line| line.starts_with(&format!("{job}:"))).count();

    let between = shipped.strip_prefix(saved.as_str()).and_then(|rest| rest.strip_suffix(WHOLE_RUN));
    let lines_max = runs.saturating_sub(2) * WHOLE_RUN.lines().count();
    let is_resumed = between.is_some_and(|more| more.lines().count() <= lines_max);
    assert!(is_resumed, "{runs} runs, saved {saved:?}, shipped {shipped:?}\n{}", fleet.logs());
}

// [I3] [F4]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_of_two_hosts_can_die_in_the_middle_of_a_run_and_the_other_resumes_from_the_checkpoint() {
    let mut fleet = Fleet::new(2);
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;

    let first = inherited(&mut fleet, 0, 0, 1).await;
    let second = inherited(&mut fleet, 1, 1, 0).await;

    assert_resumed(&fleet, &first);
    assert_resumed(&fleet, &second);
    fleet.assert_nothing_lost_or_doubled(&[first.job, second.job].into());
    fleet.end();
}
