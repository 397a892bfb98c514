//! The prompt of the next run, which part of a run is its work, and what a conflict starts.

use std::fs;

use domain::{CommandStep, FailureReason, RunOutcome, StageName};
use protocol::AlertCode;
use testkit::host::{TestRemote, eventually};

use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, wait_for};
use super::{LONG, pr_branch};

/// Keeps each run's prompt for the test, as `prompt-1`, `prompt-2` and so on.
fn keeping_prompts(forge: &TestRemote, script: &str) -> String {
    let dir = forge.path("prompts");
    fs::create_dir_all(&dir).unwrap();
    let dir = dir.display();
    format!("n=$(($(ls '{dir}' | wc -l) + 1)); cat > '{dir}'/prompt-$n; {script}")
}

fn prompt(forge: &TestRemote, n: u32) -> String {
    fs::read_to_string(forge.path("prompts").join(format!("prompt-{n}"))).unwrap_or_default()
}

// [F2b]
#[tokio::test]
async fn a_retry_is_told_which_verify_command_failed_and_how() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let engine = keeping_prompts(&forge, "echo made >> out.txt");
    let _plant = Plant::start(settings("told", &forge, &engine), fleet.enrol("told", &line).await);
    let verify = "[ \"$GIGA_ATTEMPT\" = 2 ] || { echo expected 4, found 5; exit 3; }";

    let job = fleet.submit(&format!("retry: {{ backoff: 10ms }}\nverify:\n  - |\n    {verify}\n")).await;

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let (first, second) = (prompt(&forge, 1), prompt(&forge, 2));
    assert!(first.starts_with("Please.") && first.contains(verify), "{first}");
    for told in [verify, "(exit code 3)", "expected 4, found 5", "contains the saved work of earlier runs"] {
        assert!(second.contains(told), "{told}: {second}");
    }
    assert!(!second.contains("interrupted"), "{second}");
    let message = fleet.first_run(job).await.message.unwrap();
    assert!(
        message.starts_with("verify command `[ \"$GIGA_ATTEMPT\"")
            && message.ends_with("exit code 3: expected 4, found 5"),
        "{message}"
    );
}

// [J10] [F2b]
#[tokio::test]
async fn a_dead_lettered_job_passes_the_operators_message_on_with_the_failure() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let engine = keeping_prompts(&forge, "echo made >> out.txt");
    let _plant = Plant::start(settings("advised", &forge, &engine), fleet.enrol("advised", &line).await);
    let job = fleet.submit("retry: { max: 1 }\nverify: 'echo no luck; test $(wc -l < out.txt) = 2'\n").await;
    fleet.until_stage(job, StageName::DeadLetter).await;

    fleet.answer(job, "Write two lines.").await;

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let told = prompt(&forge, 2);
    for part in ["Message from an operator:\n\n> Write two lines.", "no luck", "(exit code 1)"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

// [F5]
#[tokio::test]
async fn files_that_verify_writes_are_not_committed() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("tidy", &forge, "echo made > out.txt"), fleet.enrol("tidy", &line).await);
    let writes = "echo {} > package-lock.json; mkdir -p __pycache__; echo x > __pycache__/a.pyc; echo y >> readme.md";

    let job = fleet.submit(&format!("verify:\n  - |\n    {writes}\n  - test -e package-lock.json\n")).await;

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let sha = forge.shows(&pr_branch(job)).unwrap();
    assert_eq!(forge.files_at(&sha), ["out.txt", "readme.md"]);
    assert_eq!(forge.file_at(&sha, "readme.md").as_deref(), Some("hello\n"));
    assert_eq!(fleet.first_run(job).await.insights.files, Some(1));
}

// [F5]
#[tokio::test]
async fn an_idle_agent_has_no_changes_whatever_verify_writes() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let engine = keeping_prompts(&forge, "echo all is well");
    let _plant = Plant::start(settings("idle", &forge, &engine), fleet.enrol("idle", &line).await);

    let job = fleet.submit("retry: { backoff: 10ms }\nverify: echo {} > package-lock.json\n").await;

    let view = fleet.until_stage(job, StageName::Failed).await;
    assert_eq!((view.reason, view.checkpoint), (Some(FailureReason::EngineError), None));
    assert!(view.message.unwrap().contains("without changing any file"));
    assert_eq!(fleet.first_run(job).await.evidence, [], "nothing was there to be verified");
    assert!(prompt(&forge, 2).contains("no file differs from the base branch"), "{}", prompt(&forge, 2));
}

// [F5]
#[tokio::test]
async fn what_prepare_changes_is_part_of_the_work_and_verified() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("neat", &forge, "echo raw > out.txt"), fleet.enrol("neat", &line).await);

    let job = fleet.submit("prepare: sed -i s/raw/neat/ out.txt\nverify: grep -q neat out.txt\n").await;

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let sha = forge.shows(&pr_branch(job)).unwrap();
    assert_eq!(forge.file_at(&sha, "out.txt").as_deref(), Some("neat\n"));
    let steps: Vec<_> = fleet.first_run(job).await.evidence.into_iter().map(|one| (one.step, one.exit)).collect();
    assert_eq!(steps, [(CommandStep::Prepare, Some(0)), (CommandStep::Verify, Some(0))]);
}

// [J1]
#[tokio::test]
async fn a_failed_prepare_command_fails_the_run_and_is_named() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("rough", &forge, "echo raw > out.txt"), fleet.enrol("rough", &line).await);

    let job = fleet.submit("retry: { max: 1 }\nprepare: 'echo syntax error; exit 2'\nverify: 'true'\n").await;

    fleet.until_stage(job, StageName::DeadLetter).await;
    let run = fleet.first_run(job).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed(FailureReason::VerifyFailed)));
    assert_eq!(
        run.message.as_deref(),
        Some("prepare command `echo syntax error; exit 2` failed: exit code 2: syntax error")
    );
    assert_eq!(run.evidence.len(), 1, "nothing is verified after it");
}

#[tokio::test]
async fn work_saved_after_a_failed_verify_is_without_its_by_products() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("clean", &forge, "echo made > out.txt"), fleet.enrol("clean", &line).await);

    let job = fleet.submit("retry: { max: 1 }\nverify: 'echo junk > junk.txt; exit 1'\n").await;

    let view = fleet.until_stage(job, StageName::DeadLetter).await;
    assert_eq!(forge.files_at(&view.checkpoint.unwrap().sha), ["out.txt", "readme.md"]);
}

#[tokio::test]
async fn work_saved_after_a_crash_during_verify_is_without_its_by_products() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("killed", &line).await;
    let own = settings("killed", &forge, "echo made > out.txt");
    let plant = Plant::start(own.clone(), client.clone());
    let (ready, gate) = (forge.path("ready"), forge.path("gate"));
    let verify = format!("echo junk > junk.txt; touch '{}'; {}", ready.display(), wait_for(&gate));
    let job = fleet.submit(&format!("verify:\n  - |\n    {verify}\n")).await;
    eventually("the verify command", || ready.exists()).await;

    plant.kill().await;
    let _plant = Plant::start(own, client);

    let view = fleet.until(job, "saved work", |view| view.checkpoint.is_some()).await;
    assert_eq!(forge.files_at(&view.checkpoint.unwrap().sha), ["out.txt", "readme.md"]);
    fs::write(&gate, "").unwrap();
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
}

// [F2b]
#[tokio::test]
async fn a_resumed_run_merges_the_base_branch_as_it_is_now() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (ready, gate) = (forge.path("ready"), forge.path("gate"));
    let first = "echo one > one.txt; git add one.txt; git commit -q -m one";
    let engine =
        format!("if [ $GIGA_ATTEMPT = 1 ]; then {first}; else git merge -q origin/main && echo two > two.txt; fi");
    let _plant = Plant::start(settings("current", &forge, &engine), fleet.enrol("current", &line).await);
    let verify = format!("touch '{}'; {}; test -e two.txt", ready.display(), wait_for(&gate));
    let job = fleet.submit(&format!("retry: {{ backoff: 10ms }}\nverify:\n  - |\n    {verify}\n")).await;
    eventually("the first verify command", || ready.exists()).await;

    let moved = forge.commit("main", "theirs.txt", "theirs\n");
    fs::write(&gate, "").unwrap();

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let sha = forge.shows(&pr_branch(job)).unwrap();
    assert_eq!(forge.files_at(&sha), ["one.txt", "readme.md", "theirs.txt", "two.txt"]);
    let run = fleet.runs(job).await.into_iter().find(|run| run.n == 2).unwrap();
    assert_eq!(run.insights.files, Some(2), "what the base branch changed is not the work of the job");
    let evidence = fleet.evidence(job, 2).await;
    assert!(!evidence.diff.unwrap().contains("theirs.txt"), "nor shown as such");
    assert_ne!(moved, sha);
}

/// A completed job whose merge conflicts with the current `main`.
async fn conflicting(forge: &TestRemote, fleet: &Fleet) -> domain::JobId {
    let job = fleet.submit("").await;
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    forge.commit("main", "out.txt", "theirs\n");
    job
}

// [F5]
#[tokio::test]
async fn a_merge_conflict_starts_one_rework_round_and_then_escalates() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let engine = keeping_prompts(&forge, "echo ours $GIGA_EPOCH > out.txt");
    let _plant = Plant::start(settings("stuck", &forge, &engine), fleet.enrol("stuck", &line).await);
    let job = conflicting(&forge, &fleet).await;
    let base = forge.shows("refs/heads/main").unwrap();

    fleet.act(job, "ship").await;

    let alert = fleet.until_alert(AlertCode::MergeFailed, true).await.unwrap();
    assert!(alert.contains("merge failed: conflict in out.txt with `main`"), "{alert}");
    let view = fleet.job(job).await;
    assert_eq!((view.stage, view.runs), (StageName::Testing, 2));
    let told = prompt(&forge, 2);
    let expected = ["failed with a merge conflict", base.as_str(), "out.txt", "`git merge origin/main`"];
    for part in expected {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.contains("contains the completed work of an earlier run"), "{told}");
}

// [F5]
#[tokio::test]
async fn a_rework_that_resolves_the_conflict_is_merged() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let resolves = "git merge -q origin/main || { echo both > out.txt; git add out.txt; git commit -q -m merged; }";
    let engine = format!("if git log --oneline | grep -q Write; then {resolves}; else echo ours > out.txt; fi");
    let _plant = Plant::start(settings("solved", &forge, &engine), fleet.enrol("solved", &line).await);
    let job = conflicting(&forge, &fleet).await;

    fleet.act(job, "ship").await;

    let view = fleet.until_stage(job, StageName::Shipped).await;
    assert_eq!(view.runs, 2);
    let merged = forge.shows("refs/heads/main").unwrap();
    assert_eq!(forge.file_at(&merged, "out.txt").as_deref(), Some("both\n"));
}

#[tokio::test]
async fn no_conflict_starts_a_rework_where_none_is_allowed() {
    let forge = TestRemote::new();
    let fleet = Fleet::start_with(LONG, |settings| settings.conflict_rounds_max = 0).await;
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("manual", &forge, "echo ours > out.txt"), fleet.enrol("manual", &line).await);
    let job = conflicting(&forge, &fleet).await;

    fleet.act(job, "ship").await;

    fleet.until_alert(AlertCode::MergeFailed, true).await.unwrap();
    assert_eq!(fleet.job(job).await.runs, 1);
}
