//! Missing capabilities, jobs that may be empty, and the live view during verification.

use std::fs;
use std::path::Path;
use std::time::Duration;

use domain::{FailureReason, JobId, RunOutcome, StageName};
use factory::WorkerSettings;
use testkit::host::{PATIENCE, TestRemote, clock, eventually, git};

use super::agents::{playing, stream};
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, wait_for, with_setup};
use super::{LONG, pr_branch};

/// The same worker, which detects capabilities only while `eyes` exists.
fn looking_by(mut settings: WorkerSettings, eyes: &Path) -> WorkerSettings {
    fs::write(eyes, "").unwrap();
    settings.tools = [("eyes".to_owned(), ["sh", "-c", &wait_for(eyes)].map(str::to_owned).to_vec())].into();
    settings
}

async fn until_without_engine(fleet: &Fleet, factory: &str) {
    let clock = clock();
    while fleet.engine(factory).await.is_some() {
        assert!(clock.monotonic() < PATIENCE, "`{factory}` still offers an engine");
        clock.sleep(Duration::from_millis(20)).await;
    }
}

// [J5] [F6]
#[tokio::test]
async fn an_engine_that_is_uninstalled_before_it_starts_is_no_engine() {
    for is_noticed in [true, false] {
        let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
        let line = Line::to(&fleet).await;
        let (ready, gate, eyes) = (forge.path("ready"), forge.path("gate"), forge.path("eyes"));
        let settings = looking_by(playing("bare", &forge, &stream("real-ok")), &eyes);
        let settings = with_setup(settings, &[&format!("touch '{}'", ready.display()), &wait_for(&gate)]);
        let _plant = Plant::start(settings, fleet.enrol("bare", &line).await);
        let job = fleet.submit("retry: {max: 1}\n").await;
        eventually("the setup", || ready.exists()).await;

        if !is_noticed {
            fs::remove_file(&eyes).unwrap();
        }
        fs::remove_file(forge.path("bare-claude")).unwrap();
        if is_noticed {
            until_without_engine(&fleet, "bare").await;
        }
        fs::write(&gate, "").unwrap();

        let run = fleet.first_run(job).await;
        assert_eq!(run.outcome, Some(RunOutcome::Failed(FailureReason::NoEngine)), "{run:?}");
        let message = run.message.unwrap();
        let expected = if is_noticed {
            "none of the engines `claude` is available on this factory"
        } else {
            "bare-claude` is gone"
        };
        assert!(message.contains(expected), "{message}");
    }
}

// [F3] [F6]
#[tokio::test]
async fn a_repository_that_is_taken_away_before_the_work_begins_is_a_capability_that_is_missing() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (base, eyes) = (forge.path("base"), forge.path("eyes"));
    fs::create_dir(&base).unwrap();
    git(&base, &["clone", "--quiet", "--bare", forge.remote().to_str().unwrap(), "notes.git"]);
    let mut settings = looking_by(settings("robbed", &forge, "echo done > done.md"), &eyes);
    (settings.repos, settings.repo_base) = (Default::default(), Some(base.clone()));
    let _plant = Plant::start(settings, fleet.enrol("robbed", &line).await);
    fleet.until_seats("robbed", 1).await;

    fs::remove_file(&eyes).unwrap();
    fs::rename(base.join("notes.git"), forge.path("elsewhere.git")).unwrap();
    let job = fleet.submit("retry: {max: 1}\n").await;

    let run = fleet.first_run(job).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed(FailureReason::CapabilityMismatch)), "{run:?}");
    assert_eq!(run.message.as_deref(), Some("this factory does not have repository `notes`"));
}

// [B4]
#[tokio::test]
async fn work_that_may_change_nothing_ships_without_a_branch_and_opens_what_waits_for_it() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("auditor", &forge, "echo all is well"), fleet.enrol("auditor", &line).await);
    let job = fleet.submit("allowEmpty: true\nverify: ['true']\n").await;
    let next = fleet.submit(&format!("allowEmpty: true\ndeps: [{job}]\n")).await;

    let run = fleet.first_run(job).await;
    let done = fleet.until_stage(job, StageName::Testing).await;
    fleet.act(job, "ship").await;

    assert_eq!((run.outcome, run.sha, run.insights.files), (Some(RunOutcome::Completed), None, Some(0)));
    assert_eq!((done.completed_sha, done.promoted_sha), (None, None));
    assert_eq!(fleet.job(job).await.stage, StageName::Shipped);
    fleet.until_stage(next, StageName::Testing).await;
    assert_eq!(refs_of(&forge, job), "", "nothing was pushed");
}

fn refs_of(forge: &TestRemote, job: JobId) -> String {
    git(&forge.remote(), &["for-each-ref", "--format=%(refname)", &pr_branch(job), &format!("refs/heads/aq/run/{job}")])
}

// [J5] [B4]
#[tokio::test]
async fn work_that_changed_nothing_is_tried_once_more_and_then_left_to_a_person() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("idler", &forge, "echo all is well"), fleet.enrol("idler", &line).await);

    let job = fleet.submit("retry: { max: 9, backoff: 10ms }\n").await;

    let view = fleet.until_stage(job, StageName::Failed).await;
    assert_eq!((view.reason, view.runs), (Some(FailureReason::EngineError), 2));
    let message = view.message.unwrap();
    assert!(message.contains("without changing any file") && message.contains("`allowEmpty: true`"), "{message}");
}

// [F2]
#[tokio::test]
async fn people_see_which_command_proves_the_work_and_what_it_prints_while_it_runs() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let gate = forge.path("gate");
    let _plant = Plant::start(settings("proving", &forge, "echo made > out.txt"), fleet.enrol("proving", &line).await);
    let job = fleet.submit(&format!("verify:\n  - |\n    echo looking\n    {}\n", wait_for(&gate))).await;

    let clock = clock();
    let doing = loop {
        let doing = fleet.progress(job).await.and_then(|progress| progress.doing);
        let log = fleet.log(job).await;
        match doing.filter(|doing| doing.starts_with("verify: ") && log.ends_with("\nlooking\n")) {
            Some(doing) => break doing,
            None => assert!(clock.monotonic() < PATIENCE, "nobody says so: {log}"),
        }
        clock.sleep(Duration::from_millis(20)).await;
    };
    fs::write(&gate, "").unwrap();

    assert!(doing.starts_with("verify: echo looking while [ ! -e"), "{doing}");
    assert!(doing.chars().count() <= 200, "{doing}");
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    assert!(fleet.log(job).await.starts_with("● verify: echo looking while"));
}
