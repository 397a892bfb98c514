//! Branches that are made after their job no longer needs them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use domain::{JobId, StageName};
use testkit::host::{TestRemote, eventually};

use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, wait_for};
use super::{LONG, pr_branch};

/// A remote that signals a push of a pull request's branch, and blocks the push until a file exists.
fn slow_remote(forge: &TestRemote, hook: &str, is_branch: &str) {
    let path = forge.remote().join("hooks").join(hook);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (came, go) = (forge.path("came"), forge.path("go"));
    let script = format!("#!/bin/sh\n{is_branch} || exit 0\ntouch '{}'\n{}\n", came.display(), wait_for(&go));
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// An engine that does its work once, and then hangs.
fn once(marker: &Path) -> String {
    let marker = marker.display();
    format!("test -e '{marker}' && exec sleep 600; touch '{marker}'; echo done > done.md")
}

/// The work is discarded and started again, while its branch is being pushed.
async fn send_round_again(fleet: &Fleet, job: JobId) {
    fleet.act(job, "cancel").await;
    fleet.act(job, "requeue").await;
    fleet.until(job, "a new beginning", |view| !view.stage.is_terminal()).await;
}

// [I15] [F3] [F5] [row 13]
#[tokio::test]
async fn a_branch_that_is_made_after_its_job_was_sent_round_again_goes_again() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    slow_remote(
        &forge,
        "update",
        "case $1 in refs/heads/aq/job/*) test $3 != 0000000000000000000000000000000000000000;; *) false;; esac",
    );
    let own = settings("late", &forge, &once(&forge.path("marker")));
    let _plant = Plant::start(own, fleet.enrol("late", &line).await);
    let job = fleet.submit("").await;
    eventually("the push", || forge.path("came").exists()).await;

    send_round_again(&fleet, job).await;
    assert_eq!(forge.shows(&pr_branch(job)), None);
    let log = forge.remote().join("hooks/post-receive");
    fs::write(&log, format!("#!/bin/sh\ncat >> '{}'\n", forge.path("received").display())).unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(forge.path("go"), "").unwrap();

    let received = || fs::read_to_string(forge.path("received")).unwrap_or_default();
    let moves = || received().lines().filter(|line| line.ends_with(&pr_branch(job))).count();
    eventually("the branch, and its end", || moves() == 2).await;
    assert_eq!(forge.shows(&pr_branch(job)), None);
}

// [F3] [F6] [row 13]
#[tokio::test]
async fn a_branch_that_was_made_by_a_process_that_died_over_it_goes_when_the_next_one_comes() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    slow_remote(&forge, "post-receive", "grep -q refs/heads/aq/job/");
    let own = settings("mortal", &forge, &once(&forge.path("marker")));
    let client = fleet.enrol("mortal", &line).await;
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    eventually("the branch", || forge.path("came").exists()).await;
    let made = forge.shows(&pr_branch(job));

    plant.kill().await;
    fs::write(forge.path("go"), "").unwrap();
    send_round_again(&fleet, job).await;
    let _next = Plant::start(own, client);

    assert!(made.is_some());
    eventually("the end of the branch", || forge.shows(&pr_branch(job)).is_none()).await;
    let notes = forge.path("mortal/branches");
    eventually("the end of the note", || fs::read_dir(&notes).unwrap().next().is_none()).await;
    fleet.until_stage(job, StageName::Building).await;
}

// [I11] [F3] [row 13]
#[tokio::test]
async fn a_branch_that_is_wanted_outlives_the_process_that_died_over_it() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    slow_remote(&forge, "post-receive", "grep -q refs/heads/aq/job/");
    let own = settings("missed", &forge, &once(&forge.path("marker")));
    let client = fleet.enrol("missed", &line).await;
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    eventually("the branch", || forge.path("came").exists()).await;

    plant.kill().await;
    fs::write(forge.path("go"), "").unwrap();
    let _next = Plant::start(own, client);

    let notes = forge.path("missed/branches");
    eventually("the end of the note", || fs::read_dir(&notes).unwrap().next().is_none()).await;
    let completed = fleet.job(job).await.completed_sha;
    assert!(completed.is_some());
    assert_eq!(forge.shows(&pr_branch(job)), completed);
}
