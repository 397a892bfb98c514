//! Remotes that become unavailable during a run, and the outcome of the work.

use std::fs;
use std::path::PathBuf;

use domain::{FailureReason, JobId, RunOutcome, StageName};
use protocol::AlertCode;
use testkit::host::{PATIENCE, TestRemote, clock, eventually, git};
use workspace::LocalStage;

use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, wait_for};
use super::{LONG, pr_branch};

/// Waits until a run's log contains a text.
async fn until_log_says(fleet: &Fleet, job: JobId, words: &str) {
    let clock = clock();
    loop {
        let log = fleet.log(job).await;
        if log.contains(words) {
            return;
        }
        assert!(clock.monotonic() < PATIENCE, "`{words}` was never said: {log}");
        clock.sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// An engine that waits for a file when its work is done, and that file.
fn waiting_engine(forge: &TestRemote) -> (String, PathBuf, PathBuf) {
    let (begun, gate) = (forge.path("begun"), forge.path("gate"));
    (format!("echo dear > dear.md; touch '{}'; {}", begun.display(), wait_for(&gate)), begun, gate)
}

// [F5]
#[tokio::test]
async fn a_remote_that_is_away_when_the_work_is_done_has_it_once_it_is_back() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (engine, begun, gate) = waiting_engine(&forge);
    let plant = Plant::start(settings("patient", &forge, &engine), fleet.enrol("patient", &line).await);
    let job = fleet.submit("").await;
    eventually("the beginning", || begun.exists()).await;

    fs::rename(forge.remote(), forge.path("away.git")).unwrap();
    fs::write(&gate, "").unwrap();
    until_log_says(&fleet, job, "! waiting for the remote of `notes`").await;
    let told = clock();
    while fleet.progress(job).await.and_then(|progress| progress.doing).as_deref()
        != Some("waits for the remote of `notes`")
    {
        assert!(told.monotonic() < PATIENCE, "nobody sees that it waits");
        told.sleep(std::time::Duration::from_millis(50)).await;
    }
    fs::rename(forge.path("away.git"), forge.remote()).unwrap();

    let done = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let outcomes: Vec<_> = fleet.runs(job).await.into_iter().map(|run| run.outcome).collect();
    assert_eq!((done.attempts, outcomes), (0, vec![Some(RunOutcome::Completed)]));
    assert_eq!(forge.file_at(&forge.shows(&pr_branch(job)).unwrap(), "dear.md").as_deref(), Some("dear\n"));
    until_log_says(&fleet, job, "! the remote of `notes` is back").await;
    eventually("the clean-up", || plant.records().is_empty()).await;
}

// [F3]
#[tokio::test]
async fn a_remote_that_is_away_when_a_run_begins_is_waited_for() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let config = forge.remote().join("config");
    let whole = fs::read(&config).unwrap();
    // Its server fails on this, whatever the request.
    fs::write(&config, "[broken").unwrap();
    let _plant = Plant::start(settings("early", &forge, "echo done > done.md"), fleet.enrol("early", &line).await);
    let job = fleet.submit("").await;

    until_log_says(&fleet, job, "! waiting for the remote of `notes`").await;
    fs::write(&config, whole).unwrap();

    let done = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    assert_eq!((done.attempts, fleet.runs(job).await.len()), (0, 1));
}

// [F3]
#[tokio::test]
async fn a_folder_that_never_was_a_repository_is_not_waited_for() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut own = settings("misled", &forge, "echo done > done.md");
    let empty = forge.path("empty.git");
    fs::create_dir(&empty).unwrap();
    own.repos.values_mut().for_each(|repo| repo.url = empty.to_str().unwrap().to_owned());
    let _plant = Plant::start(own, fleet.enrol("misled", &line).await);

    let job = fleet.submit("retry: {max: 1}\n").await;

    assert_eq!(fleet.first_run(job).await.outcome, Some(RunOutcome::Released));
    let message = fleet.until_alert(AlertCode::RemoteUnavailable, true).await.unwrap();
    assert!(message.contains("`misled`") && message.contains("empty.git"), "{message}");
}

/// Row [I9]: the environment is at fault, so no attempt is counted, and the job does not wait silently.
#[tokio::test]
async fn a_remote_that_is_renamed_away_counts_no_attempt() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (head, away) = (forge.remote().join("HEAD"), forge.path("HEAD.away"));
    let engine = "echo done > done.md";
    let _plant = Plant::start(settings("robbed", &forge, engine), fleet.enrol("robbed", &line).await);
    fleet.until_seats("robbed", 1).await;
    // Its directory stays: only git finds out that it is no repository any more.
    fs::rename(&head, &away).unwrap();

    let job = fleet.submit("retry: {max: 1}\n").await;
    let run = fleet.first_run(job).await;
    let message = fleet.until_alert(AlertCode::RemoteUnavailable, true).await.unwrap();
    let waiting = fleet.job(job).await;
    let unplaced = fleet.until_alert(AlertCode::Unplaceable, true).await.unwrap();
    fs::rename(&away, &head).unwrap();

    assert_eq!(run.outcome, Some(RunOutcome::Released), "{run:?}");
    assert!(message.contains("`robbed`") && message.contains("`notes`"), "{message}");
    assert!(message.contains(forge.remote().to_str().unwrap()), "{message}");
    assert_eq!((waiting.stage, waiting.attempts), (StageName::Queued, 0));
    assert!(unplaced.contains("can reach the remote of `notes`"), "{unplaced}");
    let done = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let outcomes: Vec<_> = fleet.runs(job).await.into_iter().map(|run| run.outcome).collect();
    assert_eq!((done.attempts, outcomes), (0, vec![Some(RunOutcome::Released), Some(RunOutcome::Completed)]));
    fleet.until_alert(AlertCode::RemoteUnavailable, false).await;
}

// [I9]
#[tokio::test]
async fn a_factory_that_reaches_the_remote_takes_the_job_over() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut cut_off = settings("cut-off", &forge, "echo done > done.md");
    let empty = forge.path("empty.git");
    fs::create_dir(&empty).unwrap();
    cut_off.repos.values_mut().for_each(|repo| repo.url = empty.to_str().unwrap().to_owned());
    let _cut_off = Plant::start(cut_off, fleet.enrol("cut-off", &line).await);
    let job = fleet.submit("retry: {max: 1}\n").await;
    fleet.first_run(job).await;

    let _plant = Plant::start(settings("fit", &forge, "echo done > done.md"), fleet.enrol("fit", &line).await);

    let done = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    assert_eq!((done.attempts, fleet.runs(job).await.len()), (0, 2));
}

// [I9]
#[tokio::test]
async fn a_merge_whose_remote_is_away_is_put_off() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (head, away) = (forge.remote().join("HEAD"), forge.path("HEAD.away"));
    let engine = "echo done > done.md";
    let _plant = Plant::start(settings("merging", &forge, engine), fleet.enrol("merging", &line).await);
    let job = fleet.submit("").await;
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    fs::rename(&head, &away).unwrap();

    fleet.act(job, "ship").await;
    fleet.until_alert(AlertCode::RemoteUnavailable, true).await;
    fleet.until(job, "a merge that is put off", |view| view.message.is_some()).await;
    let merging = fleet.job(job).await;
    fs::rename(&away, &head).unwrap();

    fleet.until_stage(job, StageName::Shipped).await;
    assert!(merging.errand.is_some(), "{merging:?}");
}

/// [I9]: the base has a conflicting commit by now.
#[tokio::test]
async fn a_merge_into_a_base_that_was_changed_is_an_alert() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let engine = "echo done > done.md";
    let _plant = Plant::start(settings("late", &forge, engine), fleet.enrol("late", &line).await);
    let job = fleet.submit("").await;
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let clone = forge.path("by-hand");
    git(&forge.remote(), &["clone", "--quiet", ".", clone.to_str().unwrap()]);
    fs::write(clone.join("done.md"), "something else\n").unwrap();
    git(&clone, &["add", "done.md"]);
    git(&clone, &["-c", "user.name=ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "-m", "by hand"]);
    git(&clone, &["push", "--quiet", "origin", "HEAD:main"]);

    fleet.act(job, "ship").await;

    let message = fleet.until_alert(AlertCode::MergeFailed, true).await.unwrap();
    assert!(
        message.contains(&job.short().to_string()) && message.contains("merge failed: conflict in done.md with `main`"),
        "{message}"
    );
}

#[tokio::test]
async fn a_merge_that_conflicts_with_a_shipped_job_names_that_job() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let engine = "echo \"$GIGA_JOB_ID\" > done.md";
    let _plant = Plant::start(settings("twice", &forge, engine), fleet.enrol("twice", &line).await);
    let (first, second) = (fleet.submit("").await, fleet.submit("").await);
    for job in [first, second] {
        fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    }
    fleet.act(first, "ship").await;
    fleet.until_stage(first, StageName::Shipped).await;

    fleet.act(second, "ship").await;

    let failed = fleet.until(second, "a failed merge", |view| view.merge_failure.is_some()).await;
    let failure = failed.merge_failure.unwrap();
    assert_eq!(failure.conflicts_with.map(|other| other.job_id), Some(first));
    assert_eq!((failure.files, failure.given_up), (vec!["done.md".to_owned()], true));
}

// [F5]
#[tokio::test]
async fn a_push_that_is_refused_is_not_tried_again() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let hook = forge.remote().join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho no such names here >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let _plant = Plant::start(settings("refused", &forge, "echo done > done.md"), fleet.enrol("refused", &line).await);

    let job = fleet.submit("retry: {max: 1}\n").await;

    let run = fleet.first_run(job).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed(FailureReason::Crash)));
    assert!(run.message.as_deref().is_some_and(|message| message.contains("pre-receive hook declined")), "{run:?}");
}

// [F5]
#[tokio::test]
async fn a_farewell_does_not_wait_for_a_remote_that_is_away() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (engine, begun, gate) = waiting_engine(&forge);
    let client = fleet.enrol("leaving", &line).await;
    let plant = Plant::start(settings("leaving", &forge, &engine), client.clone());
    let job = fleet.submit("").await;
    eventually("the beginning", || begun.exists()).await;
    fs::rename(forge.remote(), forge.path("away.git")).unwrap();
    fs::write(&gate, "").unwrap();
    until_log_says(&fleet, job, "! waiting for the remote of `notes`").await;

    let state = plant.path().to_owned();
    assert!(tokio::time::timeout(PATIENCE, plant.stop()).await.is_ok(), "it waited for the remote");

    let given_back = fleet.until_stage(job, StageName::Queued).await;
    assert_eq!(given_back.attempts, 0);
    let kept = workspace::Runs::under(&workspace::StateDir::new(&state).unwrap()).list().unwrap().records;
    let worktrees: Vec<_> =
        kept.iter().map(|record| (record.stage, record.worktree.as_ref().unwrap().exists())).collect();
    assert_eq!(worktrees, [(LocalStage::Quarantined, true)], "its worktree is the only copy");
}

// [F5]
#[tokio::test]
async fn a_cancelled_run_does_not_wait_for_a_remote_that_is_away() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (engine, begun, gate) = waiting_engine(&forge);
    let plant = Plant::start(settings("recalled", &forge, &engine), fleet.enrol("recalled", &line).await);
    let job = fleet.submit("").await;
    eventually("the beginning", || begun.exists()).await;
    fs::rename(forge.remote(), forge.path("away.git")).unwrap();
    fs::write(&gate, "").unwrap();
    until_log_says(&fleet, job, "! waiting for the remote of `notes`").await;

    fleet.act(job, "cancel").await;

    let kept = plant.quarantined().await;
    assert_eq!(fs::read_to_string(kept.worktree.unwrap().join("dear.md")).unwrap(), "dear\n");
}

// [B4]
#[tokio::test]
async fn what_backs_a_run_that_ends_during_an_outage_arrives_after_it() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let gate = forge.path("gate");
    let engine = format!("{}; echo done > done.md", wait_for(&gate));
    let plant = Plant::start(settings("backed", &forge, &engine), fleet.enrol("backed", &line).await);
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;

    line.cut();
    fs::write(&gate, "").unwrap();
    plant.holds_back(1).await;
    line.mend();

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let shown = fleet.evidence(job, 1).await;
    assert!(shown.diff.as_deref().is_some_and(|diff| diff.contains("+done")), "{shown:?}");
    assert_eq!(shown.commits.len(), 1);
}

// [B4]
#[tokio::test]
async fn a_change_that_is_too_large_to_be_read_is_shown_by_its_beginning() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    // Longer than any output of git that is read as a whole.
    let large = forge.path("large.txt");
    let engine = format!("yes a line like any other | head -c 70000000 > large.txt; touch '{}'", large.display());
    let _plant = Plant::start(settings("large", &forge, &engine), fleet.enrol("large", &line).await);

    let job = fleet.submit("").await;

    eventually("the change", || large.exists()).await;
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let shown = fleet.evidence(job, 1).await;
    assert_eq!((shown.diff.map(|diff| diff.len()), shown.diff_cut), (Some(protocol::DIFF_BYTES_MAX), true));
    assert_eq!(shown.commits.len(), 1);
}
