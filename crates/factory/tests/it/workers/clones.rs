//! Repositories that are working clones, with a remote and without one, and names that two machines use differently [F3].

use std::path::{Path, PathBuf};

use domain::StageName;
use factory::WorkerSettings;
use protocol::AlertCode;
use testkit::host::{TestRemote, eventually, git, main, notes};
use workspace::RepoConfig;

use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings};
use super::{LONG, pr_branch};

/// A working clone of the forge's repository.
fn clone_of(forge: &TestRemote, name: &str) -> PathBuf {
    let clone = forge.path(name);
    std::fs::create_dir_all(clone.parent().unwrap()).unwrap();
    git(clone.parent().unwrap(), &["clone", "--quiet", forge.remote().to_str().unwrap(), clone.to_str().unwrap()]);
    clone
}

/// What the operator would notice in a clone: its branches, what is checked out, and files that differ.
fn seen_in(clone: &Path) -> [String; 3] {
    let branches = git(clone, &["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/main"]);
    [branches, git(clone, &["symbolic-ref", "HEAD"]), git(clone, &["status", "--porcelain"])]
}

fn at(mut settings: WorkerSettings, url: &Path) -> WorkerSettings {
    settings.repos = [(notes(), RepoConfig::at(url.to_str().unwrap(), main()))].into();
    settings
}

// [F3]
#[tokio::test]
async fn clones_on_two_machines_share_checkpoints_and_ship_to_their_origin() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let clones = ["one/notes", "two/notes"].map(|name| clone_of(&forge, name));
    let before = clones.each_ref().map(|clone| seen_in(clone));
    let begun = forge.path("begun");
    let engine = format!("echo half > half.md; touch '{}'; exec sleep 600", begun.display());
    let mut first = settings("first", &forge, &engine);
    (first.repos, first.repo_base) = (Default::default(), Some(forge.path("one")));
    let plant = Plant::start(first, fleet.enrol("first", &line).await);
    let job = fleet.submit("").await;
    eventually("the beginning", || begun.exists()).await;

    plant.stop().await;
    let saved = fleet.until(job, "saved work", |view| view.checkpoint.is_some()).await.checkpoint.unwrap();
    let second = at(settings("second", &forge, "cat half.md > whole.md"), &clones[1]);
    let _plant = Plant::start(second, fleet.enrol("second", &line).await);
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    fleet.act(job, "ship").await;
    fleet.until_stage(job, StageName::Shipped).await;

    assert!(saved.repository.unwrap().as_str().ends_with("/remote.git"), "it stands for its origin");
    let tip = forge.shows("refs/heads/main").unwrap();
    assert_eq!(forge.file_at(&tip, "whole.md").as_deref(), Some("half\n"), "the work went on where it was saved");
    assert_eq!(clones.each_ref().map(|clone| seen_in(clone)), before, "the clones were not changed");
    assert_eq!(git(&clones[0], &["for-each-ref", "refs/heads/aq"]), "");
}

// [F3]
#[tokio::test]
async fn saved_work_waits_for_the_repository_that_it_was_saved_in() {
    let (forge, other, fleet) = (TestRemote::new(), TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let begun = forge.path("begun");
    let engine = format!(
        "test -e half.md && exec cp half.md whole.md; echo half > half.md; touch '{}'; exec sleep 600",
        begun.display()
    );
    let own = settings("own", &forge, &engine);
    let client = fleet.enrol("own", &line).await;
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    eventually("the beginning", || begun.exists()).await;
    plant.stop().await;
    fleet.until(job, "saved work", |view| view.checkpoint.is_some()).await;

    // Another machine calls another repository by the same name.
    let stranger = at(settings("stranger", &other, "echo astray > astray.md"), &other.remote());
    let _stranger = Plant::start(stranger, fleet.enrol("stranger", &line).await);
    fleet.until_seats("stranger", 1).await;
    let away = fleet.until_alert(AlertCode::NoLiveFactory, true).await.unwrap();
    let explained = fleet.explain(job).await;
    let runs = fleet.runs(job).await.len();
    let _plant = Plant::start(own, client);
    let done = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    let saved_in = forge.remote().canonicalize().unwrap();
    assert!(away.contains("`own`"), "the only factory that has it: {away}");
    let fits = explained.now.factories.iter().find(|fit| fit.factory.as_str() == "stranger").unwrap();
    let why: Vec<String> = fits.unfit.iter().map(ToString::to_string).collect();
    assert!(why.iter().any(|why| why.contains(saved_in.to_str().unwrap())), "{why:?}");
    assert_eq!((runs, done.attempts), (1, 0), "the stranger got it");
    assert_eq!(forge.file_at(&forge.shows(&pr_branch(job)).unwrap(), "whole.md").as_deref(), Some("half\n"));
}

// [F3]
#[tokio::test]
async fn a_branch_that_is_checked_out_is_left_to_its_operator() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let clone = clone_of(&forge, "alone");
    git(&clone, &["remote", "remove", "origin"]);
    // Not even where the operator allows it.
    git(&clone, &["config", "receive.denyCurrentBranch", "updateInstead"]);
    let before = seen_in(&clone);
    let own = at(settings("local", &forge, "echo done > done.md"), &clone);
    let _plant = Plant::start(own, fleet.enrol("local", &line).await);
    let job = fleet.submit("").await;
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    fleet.act(job, "ship").await;
    let left = fleet.until(job, "a merge that is left", |view| view.message.is_some() && view.errand.is_none()).await;
    let after = seen_in(&clone);
    let branch = format!("aq/job/{job}");
    git(&clone, &["merge", "--quiet", "--no-edit", &branch]);
    fleet.act(job, "ship").await;
    fleet.until_stage(job, StageName::Shipped).await;

    assert_eq!(after, before);
    let message = left.message.unwrap();
    let remedy = format!("merge it there with `git -C {} merge {branch}`", clone.display());
    assert!(left.stage == StageName::Testing && message.contains(&remedy), "{message}");
    assert!(clone.join("done.md").exists());
    assert_eq!(git(&clone, &["branch", "--list", &branch]), "", "what was merged is tidied away");
}
