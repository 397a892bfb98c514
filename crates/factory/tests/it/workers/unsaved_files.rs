//! Work that no commit can hold: it is kept, it is reported, and no clean-up removes it [I11].

use std::fs;

use client::Client;
use domain::{FailureReason, JobId, RunOutcome, StageName};
use factory::WorkerSettings;
use testkit::host::{TestRemote, clock, eventually};
use workspace::{GcReport, LocalStage};

use super::LONG;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, with_setup};

/// An agent that clones a template and works in it.
const TEMPLATE: &str = "git init --quiet web; echo page > web/page.html";

/// And that commits it as git proposes: as a link to a commit that exists nowhere else.
const LINK: &str = "git -C web add -A; git -C web -c user.name=a -c user.email=a@example.org commit -qm page; \
    git add -A; git commit -qm all";

/// A clean-up for which everything is old.
async fn clean_up(own: &WorkerSettings, client: &Client) -> GcReport {
    let mut own = own.clone();
    own.housekeeping.retention = std::time::Duration::ZERO;
    own.gc(client.clone(), clock()).unwrap().run().await.unwrap()
}

fn whys(report: &GcReport) -> Vec<&str> {
    report.kept.iter().filter(|item| item.kind == workspace::GcKind::Worktree).map(|item| item.why.as_str()).collect()
}

async fn says(fleet: &Fleet, job: JobId, words: &str) -> bool {
    fleet.log(job).await.contains(words)
}

// [I11] [F7]
#[tokio::test]
async fn a_file_too_large_for_git_goes_to_a_person_at_once_and_outlives_every_clean_up() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("heavy", &line).await;
    let own = settings("heavy", &forge, "echo work > work.md; truncate -s 600M model.bin");
    let plant = Plant::start(own.clone(), client.clone());

    let job = fleet.submit("").await;

    let run = fleet.first_run(job).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed(FailureReason::EngineError)));
    assert!(run.message.as_deref().is_some_and(|message| message.contains("`model.bin` is too large")), "{run:?}");
    fleet.until_stage(job, StageName::Failed).await;
    let worktree = plant.quarantined().await.worktree.unwrap();
    assert!(says(&fleet, job, "! `model.bin` is too large for git").await);
    let report = clean_up(&own, &client).await;
    assert_eq!(
        whys(&report),
        ["`model.bin` is too large for git, and cannot be saved elsewhere: look at it, then delete it"]
    );
    assert!(worktree.join("model.bin").exists());
    fs::remove_file(worktree.join("model.bin")).unwrap();
    let report = clean_up(&own, &client).await;
    assert_eq!((whys(&report), worktree.exists()), (vec![], false));
}

// [I11] [F7]
#[tokio::test]
async fn a_repository_inside_of_completed_work_is_said_to_be_left_out_and_outlives_every_clean_up() {
    for (name, more) in [("apart", ""), ("linked", LINK)] {
        let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
        let line = Line::to(&fleet).await;
        let client = fleet.enrol(name, &line).await;
        let own = settings(name, &forge, &format!("{TEMPLATE}; echo done > done.md; {more}"));
        let plant = Plant::start(own.clone(), client.clone());

        let job = fleet.submit("").await;

        fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
        let worktree = plant.quarantined().await.worktree.unwrap();
        assert!(says(&fleet, job, "is a repository of its own: no commit holds it").await, "{name}");
        fleet.act(job, "ship").await;
        fleet.until_stage(job, StageName::Shipped).await;
        let report = clean_up(&own, &client).await;
        let [why] = whys(&report)[..] else { panic!("{report:#?}") };
        assert!(why.contains("is a repository of its own, and cannot be saved elsewhere"), "{why}");
        assert_eq!(fs::read_to_string(worktree.join("web/page.html")).unwrap(), "page\n", "{name}");
    }
}

// [I11]
#[tokio::test]
async fn work_in_nothing_but_a_repository_of_its_own_goes_to_a_person_at_once() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let plant = Plant::start(settings("inside", &forge, TEMPLATE), fleet.enrol("inside", &line).await);

    let job = fleet.submit("").await;

    let run = fleet.first_run(job).await;
    assert!(
        run.message.as_deref().is_some_and(|message| message.contains("`web/` is a repository of its own")),
        "{run:?}"
    );
    fleet.until_stage(job, StageName::Failed).await;
    assert!(plant.quarantined().await.worktree.unwrap().join("web/page.html").exists());
}

#[tokio::test]
async fn work_that_may_change_nothing_is_done_though_it_looked_into_another_repository_which_is_kept() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let plant = Plant::start(settings("auditor", &forge, TEMPLATE), fleet.enrol("auditor", &line).await);

    let job = fleet.submit("allowEmpty: true\n").await;

    let view = fleet.until_stage(job, StageName::Testing).await;
    assert_eq!((view.runs, view.completed_sha), (1, None));
    assert!(plant.quarantined().await.worktree.unwrap().join("web/page.html").exists());
}

// [F6]
#[tokio::test]
async fn a_killed_station_that_comes_back_keeps_what_cannot_be_saved() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let begun = forge.path("begun");
    let begin = format!("{TEMPLATE}; touch '{}'; exec sleep 600", begun.display());
    let client = fleet.enrol("phoenix", &line).await;
    let plant = Plant::start(settings("phoenix", &forge, &begin), client.clone());
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;
    eventually("the beginning", || begun.exists()).await;

    plant.kill().await;
    let plant = Plant::start(settings("phoenix", &forge, "echo done > done.md"), client);

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let kept: Vec<_> = plant.records().into_iter().filter(|record| record.stage == LocalStage::Quarantined).collect();
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert!(kept.worktree.as_ref().unwrap().join("web/page.html").exists());
}

// [I11]
#[tokio::test]
async fn a_repository_fetched_by_setup_is_not_work() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let own = with_setup(settings("ready", &forge, "echo done > done.md"), &[TEMPLATE]);
    let plant = Plant::start(own, fleet.enrol("ready", &line).await);

    let job = fleet.submit("").await;

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    eventually("the clean-up", || plant.records().is_empty()).await;
}
