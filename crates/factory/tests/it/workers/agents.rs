//! Workers with an engine that plays Claude Code: exhausted usage windows, resumed conversations, and the live view.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use domain::{FailureReason, JobId, RunOutcome, StageName};
use engines::{EngineConfig, EngineKind};
use factory::WorkerSettings;
use protocol::Progress;
use sandbox::{Account, EnvironmentConfig};
use testkit::host::{PATIENCE, TestRemote, clock, eventually};
use testkit::requirement::Requirement;

use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, wait_for};
use super::{LONG, pr_branch};
use crate::golden;

/// A worker whose only engine is a script that plays Claude Code. `$id` is its session, `$how` how it got it.
pub(super) fn playing(name: &str, forge: &TestRemote, script: &str) -> WorkerSettings {
    let program = forge.path(&format!("{name}-claude"));
    let opening = "[ \"$1\" = --version ] && { echo '2.1.197 (Claude Code)'; exit 0; }\n\
        for arg in \"$@\"; do case \"$arg\" in --session-id=*) how=new; id=${arg#*=};; --resume=*) how=resumed; id=${arg#*=};; esac; done\n\
        prompt=$(cat)\n";
    fs::write(&program, format!("#!/bin/sh\n{opening}{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let engine = EngineConfig {
        kind: EngineKind::named("claude"),
        program: Some(program.to_str().unwrap().to_owned()),
        environment: EnvironmentConfig {
            set: [("ANTHROPIC_API_KEY".to_owned(), "a-key-of-nobody".to_owned())].into(),
            ..EnvironmentConfig::default()
        },
        ..EngineConfig::default()
    };
    let mut settings = settings(name, forge, "exit 1");
    settings.engines = [("claude".parse().unwrap(), engine)].into();
    settings
}

/// What the agent does once it has used a tool.
async fn first_progress(fleet: &Fleet, job: JobId) -> Progress {
    progress_with(fleet, job, |progress| progress.tool_calls.is_some()).await
}

/// What the agent does once that is as described.
async fn progress_with(fleet: &Fleet, job: JobId, is_so: impl Fn(&Progress) -> bool) -> Progress {
    let clock = clock();
    loop {
        if let Some(progress) = fleet.progress(job).await.filter(&is_so) {
            return progress;
        }
        assert!(clock.monotonic() < PATIENCE, "no progress was told");
        clock.sleep(Duration::from_millis(50)).await;
    }
}

/// Prints a recorded stream.
pub(super) fn stream(name: &str) -> String {
    format!("cat '{}'", golden::file(&format!("claude/{name}.jsonl")).display())
}

// [B1]
#[tokio::test]
async fn a_used_up_window_gives_the_job_back_and_counts_no_attempt() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = format!(
        "echo half > half.md; {} | sed \"s/1794804129/$(($(date +%s) + 3600))/\"; exit 1",
        stream("real-usage-limit")
    );
    let _plant = Plant::start(playing("spent", &forge, &script), fleet.enrol("spent", &line).await);
    let job = fleet.submit("").await;

    let run = fleet.first_run(job).await;

    assert_eq!(run.outcome, Some(RunOutcome::QuotaWindow));
    assert_eq!((run.insights.cost_usd, run.insights.turns), (Some(0.0), Some(1)));
    let view = fleet.until_stage(job, StageName::Queued).await;
    assert_eq!((view.attempts, view.reason), (0, None), "{view:?}");
    assert!(view.checkpoint.is_some(), "what was done is kept");
}

// [J9]
#[tokio::test]
async fn people_see_what_the_agent_is_doing_and_read_its_work_instead_of_json() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let gate = forge.path("gate");
    let ok = stream("real-ok");
    let script = format!("{ok} | head -n 3; {}; echo made > out.txt; {ok} | tail -n 2", wait_for(&gate));
    let _plant = Plant::start(playing("seen", &forge, &script), fleet.enrol("seen", &line).await);
    let job = fleet.submit("").await;

    let progress = first_progress(&fleet, job).await;
    fs::write(&gate, "").unwrap();
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    assert_eq!((progress.doing.as_deref(), progress.tool_calls), (Some("Write out.txt"), Some(1)));
    assert_eq!((progress.files, progress.tokens_in), (vec!["out.txt".to_owned()], Some(100)));
    let log = fleet.log(job).await;
    assert_eq!(log, "● Write out.txt\nAll done.\n■ ended: 2 turns, 200 tokens in, 40 out, $0.002\n");
    let run = fleet.first_run(job).await;
    assert_eq!((run.insights.tokens_in, run.insights.cost_usd), (Some(200), Some(0.002)));
}

#[tokio::test]
async fn what_people_see_of_an_agent_at_work_holds_no_secret() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let gate = forge.path("gate");
    let leak = "sed 's/out.txt/ghp_0123456789abcdefghijABCDEFGHIJ456789/g'";
    let script = format!("{} | head -n 3 | {leak}; {}; exit 1", stream("real-ok"), wait_for(&gate));
    let _plant = Plant::start(playing("leaks", &forge, &script), fleet.enrol("leaks", &line).await);
    let job = fleet.submit("").await;

    let progress = first_progress(&fleet, job).await;
    fs::write(&gate, "").unwrap();

    assert_eq!(progress.doing.as_deref(), Some("Write ghp_[secret]"));
    assert_eq!(progress.files, ["ghp_[secret]"]);
}

// [F2]
#[tokio::test]
async fn of_a_plain_command_people_see_the_last_line_and_the_files_and_no_secret() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let gate = forge.path("gate");
    let script = format!(
        "echo new > new.md; echo more >> readme.md; echo step one\n\
         printf 'step \\033[31mtwo ghp_0123456789abcdefghijABCDEFGHIJ456789\\n\\n'; {}",
        wait_for(&gate)
    );
    let _plant = Plant::start(settings("plain", &forge, &script), fleet.enrol("plain", &line).await);
    let job = fleet.submit("").await;

    let progress = progress_with(&fleet, job, |progress| !progress.files.is_empty()).await;
    fs::write(&gate, "").unwrap();

    assert_eq!(progress.doing.as_deref(), Some("step \u{fffd}[31mtwo ghp_[secret]"));
    assert_eq!(progress.files, ["new.md", "readme.md"]);
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
}

#[tokio::test]
async fn a_file_that_was_only_given_to_the_account_of_a_command_is_not_shown_as_changed() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    if let Err(error) = Account::named("nobody") {
        Requirement::Root.skip(error);
        return;
    }
    fs::set_permissions(forge.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let line = Line::to(&fleet).await;
    let gate = forge.path("gate");
    let mut settings = settings("walled", &forge, &format!("echo new > new.md; {}", wait_for(&gate)));
    settings.run_as = Some("nobody".to_owned());
    let _plant = Plant::start(settings, fleet.enrol("walled", &line).await);
    let job = fleet.submit("").await;

    let progress = progress_with(&fleet, job, |progress| !progress.files.is_empty()).await;
    fs::write(&gate, "").unwrap();

    assert_eq!((progress.doing, progress.files), (None, vec!["new.md".to_owned()]));
}

/// Keeps its conversation as Claude Code does, and reports whether it found it again.
const CONVERSES: &str = "project=\"$CLAUDE_CONFIG_DIR/projects/$(pwd -P | sed 's/[^a-zA-Z0-9]/-/g')\"\n\
    [ $how = resumed ] && { echo \"$id\" | cmp -s - \"$project/$id.jsonl\" || { echo 'no conversation' >&2; exit 9; }; }\n\
    mkdir -p \"$project\"; echo \"$id\" > \"$project/$id.jsonl\"\n\
    echo \"$how\" >> history.txt\n\
    echo \"$prompt\" | grep -E '^(Please|You worked|An earlier run)' >> history.txt\n\
    echo \"{\\\"type\\\":\\\"system\\\",\\\"subtype\\\":\\\"init\\\",\\\"session_id\\\":\\\"$id\\\"}\"";

// [F4]
#[tokio::test]
async fn a_conversation_goes_on_after_a_kill_on_the_same_host_and_begins_anew_on_another() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let up = forge.path("up");
    let waits = format!("{CONVERSES}; touch '{}'; sleep 600 & wait", up.display());
    let ends = format!("{CONVERSES}; {} | tail -n 1", stream("real-ok"));
    let client = fleet.enrol("home", &line).await;

    let first = Plant::start(playing("home", &forge, &waits), client.clone());
    let job = fleet.submit("").await;
    eventually("the first run", || up.exists()).await;
    let is_written_down = || first.records().iter().any(|record| record.session.is_some());
    eventually("the session being written down", is_written_down).await;
    first.kill().await;
    fs::remove_file(&up).unwrap();
    let second = Plant::start(playing("home", &forge, &waits), client);
    eventually("the second run", || up.exists()).await;
    second.stop().await;
    let _third = Plant::start(playing("away", &forge, &ends), fleet.enrol("away", &line).await);

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let sha = forge.shows(&pr_branch(job)).unwrap();
    let history = forge.file_at(&sha, "history.txt").unwrap();
    let expected = [
        "new",
        "Please.",
        "resumed",
        "Please.",
        "You worked on this job before, in this conversation. This is a new run of it.",
        "new",
        "Please.",
        "An earlier run worked on this job. This run is a new conversation, without the messages of that run.",
    ];
    assert_eq!(history.lines().collect::<Vec<_>>(), expected);
}

// [F4]
#[tokio::test]
async fn a_conversation_goes_on_with_the_engine_that_began_it_where_the_job_names_none() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let up = forge.path("up");
    let waits = format!("{CONVERSES}; touch '{}'; sleep 600 & wait", up.display());
    let ends = format!("{CONVERSES}; {} | tail -n 1", stream("real-ok"));
    let client = fleet.enrol("home", &line).await;
    let first = Plant::start(playing("home", &forge, &waits), client.clone());
    let job = fleet.submit("").await;
    eventually("the first run", || up.exists()).await;
    let is_written_down = || first.records().iter().any(|record| record.session.is_some());
    eventually("the session being written down", is_written_down).await;
    first.stop().await;

    let mut both = playing("home", &forge, &ends);
    let other = ["sh", "-c", "echo other > other.txt"].map(str::to_owned).to_vec();
    both.engines.insert("another".parse().unwrap(), EngineConfig { argv: other, ..EngineConfig::default() });
    let _second = Plant::start(both, client);

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let engines: Vec<_> = fleet.runs(job).await.into_iter().filter_map(|run| run.engine).collect();
    assert_eq!(engines, ["claude", "claude"].map(|name| name.parse().unwrap()));
    let history = forge.file_at(&forge.shows(&pr_branch(job)).unwrap(), "history.txt").unwrap();
    assert_eq!(
        history.lines().filter(|line| ["new", "resumed"].contains(line)).collect::<Vec<_>>(),
        ["new", "resumed"]
    );
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_run_that_changed_no_file() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let history = forge.path("history.txt");
    let converses = CONVERSES.replace("history.txt", &format!("'{}'", history.display()));
    let script = format!("{converses}\n[ $how = resumed ] && echo made > out.txt\n{} | tail -n 1", stream("real-ok"));
    let _plant = Plant::start(playing("home", &forge, &script), fleet.enrol("home", &line).await);

    let job = fleet.submit("retry: { max: 2, backoff: 1s }\n").await;
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    let history = fs::read_to_string(history).unwrap();
    let expected = [
        "new",
        "Please.",
        "resumed",
        "Please.",
        "You worked on this job before, in this conversation. This is a new run of it.",
    ];
    assert_eq!(history.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_prompt_lists_commands_without_their_secrets() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = format!("echo \"$prompt\" > prompt.txt; {} | tail -n 1", stream("real-ok"));
    let _plant = Plant::start(playing("quiet", &forge, &script), fleet.enrol("quiet", &line).await);

    let job = fleet.submit("verify: [test -n ghp_0123456789abcdefghijABCDEFGHIJ456789]\n").await;
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    let prompt = forge.file_at(&forge.shows(&pr_branch(job)).unwrap(), "prompt.txt").unwrap();
    assert!(prompt.contains("  ```sh\n  test -n ghp_[secret]\n  ```\n"), "{prompt}");
}

// [T2] [B8]
#[tokio::test]
async fn money_that_is_spent_up_fails_the_job_for_good_and_says_so() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = format!("{}; exit 1", stream("real-max-budget"));
    let _plant = Plant::start(playing("poor", &forge, &script), fleet.enrol("poor", &line).await);
    let job = fleet.submit("budget: { usd: 0.0009 }\n").await;

    let view = fleet.until_stage(job, StageName::Failed).await;

    assert_eq!(view.reason, Some(FailureReason::BudgetExceeded));
    let run = fleet.first_run(job).await;
    assert_eq!(run.message.as_deref(), Some("it spent $0.001, of $0.0009 left of the job's `budget.usd`"));
    assert_eq!(run.insights.cost_usd, Some(0.001));
}

#[tokio::test]
async fn a_conversation_belongs_to_the_account_that_the_engine_runs_under() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    if let Err(error) = Account::named("nobody") {
        Requirement::Root.skip(error);
        return;
    }
    fs::set_permissions(forge.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let line = Line::to(&fleet).await;
    // The account need not be able to reach the recorded streams.
    let copy = forge.path("stream.jsonl");
    fs::copy(golden::file("claude/real-ok.jsonl"), &copy).unwrap();
    let script = format!("{CONVERSES}; tail -n 1 '{}'", copy.display());
    let mut settings = playing("walled", &forge, &script);
    settings.run_as = Some("nobody".to_owned());
    let _plant = Plant::start(settings, fleet.enrol("walled", &line).await);
    let job = fleet.submit("").await;

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    let history = forge.file_at(&forge.shows(&pr_branch(job)).unwrap(), "history.txt").unwrap();
    assert_eq!(history.lines().next(), Some("new"));
}

// [F7]
#[tokio::test]
async fn a_conversation_is_cleaned_up_once_it_is_no_longer_needed() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("tidy", &line).await;
    let gate = forge.path("gate");
    let script = format!("{CONVERSES}; {}; {} | tail -n 1", wait_for(&gate), stream("real-ok"));
    let settings = playing("tidy", &forge, &script);
    let plant = Plant::start(settings.clone(), client.clone());
    let job = fleet.submit("").await;
    let conversation = settings.state.join(format!("sessions/claude/{job}/projects"));
    let clean_up = |retention| {
        let mut settings = settings.clone();
        settings.housekeeping.retention = retention;
        let gc = settings.gc(client.clone(), clock()).unwrap();
        async move { gc.run().await.unwrap() }
    };
    eventually("the conversation", || conversation.exists()).await;

    clean_up(Duration::ZERO).await;
    assert!(conversation.exists(), "its run goes on");
    fs::write(&gate, "").unwrap();
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    eventually("the end of the run", || plant.records().is_empty()).await;
    clean_up(LONG).await;
    assert!(conversation.exists(), "it may be gone on with");
    clean_up(Duration::ZERO).await;

    assert!(!conversation.exists());
}
