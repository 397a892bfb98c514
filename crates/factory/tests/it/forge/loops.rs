//! End-to-end tests of jobs with pull requests: workers, a real coordinator, and the fake GitHub.

use std::time::Duration;

use coordinator::Settings;
use domain::{FailureReason, JobId, RetryPolicy, StageName};
use factory::WorkerSettings;
use forge::{ForgeConfig, PullRequestConfig};
use http::Method;
use protocol::JobView;
use testkit::host::{TestRemote, eventually, git, mirror_in, notes};

use super::fake_github::{Fault, GitHub, TOKEN};
use super::{branch, config};
use crate::workers::fleet::{Fleet, Line};
use crate::workers::worker_process::{Plant, settings};

struct Town {
    remote: TestRemote,
    github: GitHub,
    fleet: Fleet,
    line: Line,
}

impl Town {
    /// A fleet that polls pull requests often, and soon reassigns an errand.
    async fn new() -> Self {
        let remote = TestRemote::new();
        let github = GitHub::with(remote.remote()).await;
        let fleet = Fleet::start_with(Duration::from_secs(30), |settings| {
            *settings = Settings {
                look_every: Duration::from_millis(200),
                errand_within: Duration::from_secs(6),
                retry: RetryPolicy { backoff: Duration::from_millis(500), ..settings.retry.clone() },
                ..settings.clone()
            };
        })
        .await;
        let line = Line::to(&fleet).await;
        Self { remote, github, fleet, line }
    }

    fn settings(&self, name: &str, engine: &str) -> WorkerSettings {
        WorkerSettings { forge: config(&self.remote, &self.github), ..settings(name, &self.remote, engine) }
    }

    async fn plant(&self, name: &str, engine: &str) -> Plant {
        Plant::start(self.settings(name, engine), self.fleet.enrol(name, &self.line).await)
    }

    async fn until_requested(&self, job: JobId) -> JobView {
        self.fleet.until(job, "a pull request", |view| view.pull_request.is_some()).await
    }
}

// [J6] [F5]
#[tokio::test]
async fn a_job_goes_from_a_prompt_to_a_merged_pull_request() {
    let town = Town::new().await;
    town.remote.commit("main", "pull_request_template.md", "## What\n\n<!-- be brief -->\n\n## Risks\n\nnone\n");
    let engine = "echo done > done.md; echo 'Writes it down.' > .aq_pr.md";
    let _plant = town.plant("yard", engine).await;

    let job = town.fleet.submit("verify: [\"echo looks good\"]\n").await;
    let requested = town.until_requested(job).await;
    let pull = town.github.pulls().remove(0);

    assert_eq!(requested.pull_request.unwrap().url, "https://github.example/acme/notes/pull/1");
    assert_eq!((pull.title.as_str(), pull.branch.as_str()), ("Write it down", branch(job).as_str()));
    for part in
        ["## What\n\nWrites it down.\n", "## Risks", "✅ `echo looks good`", "looks good\n```", &job.to_string()]
    {
        assert!(pull.body.contains(part), "{part:?} is not in {}", pull.body);
    }
    let sha = requested.promoted_sha.unwrap();
    assert_eq!(town.remote.file_at(&sha, ".aq_pr.md"), None);
    let evidence = town.fleet.evidence(job, 1).await;
    let subjects: Vec<_> = evidence.commits.iter().map(|commit| commit.subject.as_str()).collect();
    assert_eq!((subjects, evidence.sha.as_ref()), (vec!["Write it down"], Some(&sha)));
    assert!(evidence.diff.as_deref().unwrap().contains("+done"), "{evidence:?}");
    town.fleet.act(job, "ship").await;
    town.fleet.until_stage(job, StageName::Shipped).await;
    let parents = git(&town.remote.remote(), &["log", "-1", "--format=%P", "main"]);
    assert!(parents.ends_with(sha.as_str()), "{parents} is not of {sha}");
    eventually("the end of the branch", || town.remote.shows(&format!("refs/heads/{}", branch(job))).is_none()).await;
    let comments = town.github.book(|book| book.comments.clone());
    assert_eq!(comments.len(), 1, "{comments:?}");
    assert!(comments[0].text.contains("**shipped**"), "{comments:?}");
}

// [B5]
#[tokio::test]
async fn a_failed_check_comes_back_to_the_same_branch_with_what_it_said_and_is_mended() {
    let town = Town::new().await;
    let prompts = town.remote.path("prompts");
    let engine = format!("cat >> '{}'; cat done.md 2>/dev/null; echo round >> done.md", prompts.display());
    let _plant = town.plant("yard", &engine).await;
    let job = town.fleet.submit("").await;
    let first = town.until_requested(job).await.promoted_sha.unwrap();

    town.github.book(|book| book.check(&first, "test", Some("failure")));
    let again = town
        .fleet
        .until(job, "a second commit", |view| view.promoted_sha.as_ref().is_some_and(|sha| *sha != first))
        .await;

    let second = again.promoted_sha.unwrap();
    assert_eq!(
        town.remote.file_at(&second, "done.md").as_deref(),
        Some("round\nround\n"),
        "it went on from its own work"
    );
    let told = std::fs::read_to_string(&prompts).unwrap();
    assert!(told.contains("The check `test` failed:") && told.contains("> assertion `left == right` failed"), "{told}");
    assert_eq!((town.github.pulls().len(), again.attempts, again.runs), (1, 0, 2));
    assert_eq!(town.remote.shows(&format!("refs/heads/{}", branch(job))), Some(second));
}

#[tokio::test]
async fn a_pull_request_that_a_person_merges_is_shipped_and_its_branch_is_gone() {
    let town = Town::new().await;
    let _plant = town.plant("yard", "echo done > done.md").await;
    let job = town.fleet.submit("").await;
    town.until_requested(job).await;

    town.github.book(|book| book.merge_by_hand());

    let shipped = town.fleet.until_stage(job, StageName::Shipped).await;
    assert_eq!(shipped.message.as_deref(), Some("merged on the forge by ann"));
    eventually("the end of the branch", || town.remote.shows(&format!("refs/heads/{}", branch(job))).is_none()).await;
}

#[tokio::test]
async fn a_pull_request_that_a_person_closes_cancels_the_job_and_keeps_the_branch() {
    let town = Town::new().await;
    let _plant = town.plant("yard", "echo done > done.md").await;
    let job = town.fleet.submit("").await;
    town.until_requested(job).await;

    town.github.book(|book| book.close());

    let cancelled = town.fleet.until_stage(job, StageName::Failed).await;
    assert_eq!(cancelled.reason, Some(FailureReason::Cancelled));
    assert_eq!(town.remote.shows(&format!("refs/heads/{}", branch(job))), cancelled.promoted_sha);
}

// [F5]
#[tokio::test]
async fn a_pull_request_that_a_factory_made_and_did_not_live_to_report_is_found_by_the_next() {
    let town = Town::new().await;
    let first = town.plant("first", "echo done > done.md").await;
    town.github.fail(Method::POST, "/pulls", Fault::Slow(Duration::from_secs(60)));
    let job = town.fleet.submit("").await;
    eventually("a pull request that nobody heard of", || town.github.pulls().len() == 1).await;
    assert_eq!(town.fleet.job(job).await.pull_request, None);

    first.kill().await;
    let _second = town.plant("second", "exit 1").await;

    let found = town.until_requested(job).await;
    assert_eq!((found.pull_request.unwrap().number, town.github.pulls().len()), (1, 1));
}

// [F5]
#[tokio::test]
async fn a_forge_that_is_away_holds_the_pull_request_up_and_nothing_else() {
    let town = Town::new().await;
    for _ in 0..1_000 {
        town.github.fail(Method::GET, "/pulls", Fault::Instead(503, &[], "away"));
    }
    let _plant = town.plant("yard", "echo done > done.md").await;

    let job = town.fleet.submit("").await;
    let waiting = town.fleet.until(job, "a word of the trouble", |view| view.message.is_some()).await;

    assert_eq!(waiting.stage, StageName::Testing);
    assert!(waiting.message.unwrap().contains("the forge answered 503"));
    assert_eq!(town.remote.shows(&format!("refs/heads/{}", branch(job))), waiting.completed_sha);
    town.github.mend();
    let opened = town.until_requested(job).await;
    assert_eq!(opened.promoted_sha, opened.completed_sha);
}

// [F5]
#[tokio::test]
async fn a_repository_names_its_branches_its_author_and_its_titles() {
    let town = Town::new().await;
    let mut settings = town.settings("yard", "echo done > done.md");
    let own = PullRequestConfig {
        branch: Some("agents/{id}".parse().unwrap()),
        title: Some("[bot] {title}".to_owned()),
        author: Some(domain::CommitAuthor::new("Notes Bot", "bot@example.org").unwrap()),
        delete_branch: Some(false),
        ..PullRequestConfig::default()
    };
    settings.forge = ForgeConfig { repos: [(notes(), own)].into(), ..settings.forge };
    let _plant = Plant::start(settings, town.fleet.enrol("yard", &town.line).await);

    let job = town.fleet.submit("").await;
    let requested = town.until_requested(job).await;
    town.fleet.act(job, "ship").await;
    town.fleet.until_stage(job, StageName::Shipped).await;

    let (pull, sha) = (town.github.pulls().remove(0), requested.promoted_sha.unwrap());
    assert_eq!((pull.title, pull.branch), ("[bot] Write it down".to_owned(), format!("agents/{job}")));
    assert_eq!(
        git(&town.remote.remote(), &["log", "-1", "--format=%an <%ae>", sha.as_str()]),
        "Notes Bot <bot@example.org>"
    );
    assert_eq!(town.remote.shows(&format!("refs/heads/agents/{job}")), Some(sha), "the branch stays, as asked");
}

// [F5]
#[tokio::test]
async fn a_merge_that_is_left_to_the_forge_ships_once_the_checks_have_passed() {
    let town = Town::new().await;
    let mut settings = town.settings("yard", "echo done > done.md");
    settings.forge.pull_requests = PullRequestConfig { auto_merge: Some(true), ..PullRequestConfig::default() };
    let _plant = Plant::start(settings, town.fleet.enrol("yard", &town.line).await);
    let job = town.fleet.submit("").await;
    let sha = town.until_requested(job).await.promoted_sha.unwrap();
    town.github.book(|book| {
        book.required = true;
        book.check(&sha, "test", None);
    });

    town.fleet.act(job, "ship").await;
    let waiting = town.fleet.until(job, "a word of what it waits for", |view| view.message.is_some()).await;
    assert_eq!(waiting.message.as_deref(), Some("pull request 1: checks are still running: test"));
    assert_eq!(waiting.stage, StageName::Testing);
    town.github.book(|book| book.check(&sha, "test", Some("success")));

    town.fleet.until_stage(job, StageName::Shipped).await;
    let parents = git(&town.remote.remote(), &["log", "-1", "--format=%P", "main"]);
    assert!(parents.ends_with(sha.as_str()), "{parents} is not of {sha}");
    eventually("the end of the branch", || town.remote.shows(&format!("refs/heads/{}", branch(job))).is_none()).await;
}

// [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn an_engine_that_looks_everywhere_does_not_find_the_forges_token() {
    let town = Town::new().await;
    let engine = "env; cat /proc/self/environ /proc/$PPID/environ /proc/$PPID/cmdline 2>/dev/null; \
        cat ~/* ~/.* .git/config 2>/dev/null; echo done > done.md; cp done.md .aq_pr.md";
    let plant = town.plant("yard", engine).await;

    let job = town.fleet.submit("verify: [\"env\"]\n").await;
    town.until_requested(job).await;
    plant.stop().await;

    let run = serde_json::to_string(&town.fleet.runs(job).await).unwrap();
    let view = serde_json::to_string(&town.fleet.job(job).await).unwrap();
    let log = town.fleet.log(job).await;
    let pull = format!("{:?}", town.github.pulls());
    let state = grep(&town.remote.path("yard"));
    for (place, text) in [("run", run), ("view", view), ("log", log), ("pull", pull), ("state", state)] {
        assert!(!text.contains(TOKEN), "the token is in the {place}");
    }
}

/// The name of a file below a directory that holds the token, if there is one.
fn grep(folder: &std::path::Path) -> String {
    let found = std::process::Command::new("grep").args(["-rl", TOKEN]).arg(folder).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    if found.is_empty() { found } else { format!("{TOKEN} in {found}") }
}

// [F3]
#[tokio::test]
async fn a_repository_that_its_forge_says_is_big_is_mirrored_without_old_contents_and_worked_on_all_the_same() {
    let town = Town::new().await;
    for setting in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
        git(&town.remote.remote(), &["config", setting, "true"]);
    }
    town.remote.commit("main", "old.txt", &"old\n".repeat(1000));
    town.remote.commit("main", "old.txt", "new\n");
    // In KiB: above and below what is mirrored whole by default.
    for (name, size, left_out) in [("big", r#"{"size": 2097152}"#, 1), ("small", r#"{"size": 1048576}"#, 0)] {
        town.github.fail(Method::GET, "/repos/acme/notes", Fault::Instead(200, &[], size));
        let plant = town.plant(name, &format!("cat old.txt > {name}.txt")).await;

        let job = town.fleet.submit("").await;
        let sha = town.until_requested(job).await.promoted_sha.unwrap();

        assert_eq!(town.remote.file_at(&sha, &format!("{name}.txt")).as_deref(), Some("new\n"));
        let mirror = mirror_in(&town.remote.path(name));
        let missing = git(&mirror, &["rev-list", "--objects", "--all", "--missing=print"]).matches('?').count();
        assert_eq!(missing, left_out, "{name}: what nobody checked out");
        plant.stop().await;
    }
    assert_eq!(town.github.heard(&Method::GET, "/repos/acme/notes").len(), 2, "each is asked once");
}
