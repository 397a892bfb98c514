//! The outcome of a job when its engine fails permanently, is not signed in, asks, prints too much or dies with its
//! factory.

use std::fs;
use std::time::Duration;

use domain::{FailureReason, JobId, RunOutcome, StageName};
use factory::WorkerSettings;
use protocol::AlertCode;
use sandbox::EnvironmentConfig;
use testkit::host::{PATIENCE, TestRemote, clock, eventually};

use super::agents::{playing, stream};
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings};
use super::{LONG, pr_branch};

async fn until_promoted(fleet: &Fleet, job: JobId) {
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
}

/// Waits until the coordinator knows whether the engine is signed in.
async fn until_signed_in(fleet: &Fleet, factory: &str, is_signed_in: bool) -> Option<String> {
    let clock = clock();
    loop {
        let engine = fleet.engine(factory).await.filter(|engine| engine.signed_in == Some(is_signed_in));
        if let Some(engine) = engine {
            return engine.problem;
        }
        assert!(clock.monotonic() < PATIENCE, "`{factory}` never said so");
        clock.sleep(Duration::from_millis(20)).await;
    }
}

/// A credential with a token.
fn login_with(token: &str) -> String {
    format!(r#"{{"claudeAiOauth":{{"accessToken":"{token}"}}}}"#)
}

/// An engine that accepts a credential only if it is `good`.
fn with_login(forge: &TestRemote, name: &str) -> WorkerSettings {
    with_login_or(forge, name, "real-bad-key")
}

/// The same, with its output for any other credential.
fn with_login_or(forge: &TestRemote, name: &str, otherwise: &str) -> WorkerSettings {
    let home = forge.path("home");
    fs::create_dir_all(home.join(".claude")).unwrap();
    let script = format!(
        "if grep -q good \"$HOME/.claude/.credentials.json\"; then echo made > out.txt; {}; else {}; exit 1; fi",
        stream("real-ok"),
        stream(otherwise)
    );
    let mut settings = playing(name, forge, &script);
    for engine in settings.engines.values_mut() {
        engine.environment = EnvironmentConfig { home: Some(home.clone()), ..EnvironmentConfig::default() };
    }
    settings
}

// [F2] [B9]
#[tokio::test]
async fn a_refused_login_rests_its_engine_counts_nothing_and_a_new_one_is_used_at_once() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let settings = with_login(&forge, "locked");
    let login = forge.path("home/.claude/.credentials.json");
    fs::write(&login, login_with("bad")).unwrap();
    let _plant = Plant::start(settings, fleet.enrol("locked", &line).await);
    let job = fleet.submit("").await;

    let run = fleet.first_run(job).await;
    let problem = until_signed_in(&fleet, "locked", false).await.unwrap();

    assert_eq!(run.outcome, Some(RunOutcome::Released));
    let said = "engine `claude` is not signed in here: Invalid API key · Fix external API key";
    assert_eq!((run.message.as_deref(), run.insights.cost_usd), (Some(said), Some(0.0)));
    assert_eq!(problem, "its login was refused: Invalid API key · Fix external API key");
    let other = fleet.submit("").await;
    let view = fleet.until_stage(job, StageName::Queued).await;
    assert_eq!((view.attempts, view.reason), (0, None));
    fs::write(&login, login_with("good")).unwrap();
    until_promoted(&fleet, job).await;
    until_promoted(&fleet, other).await;
    assert_eq!((fleet.job(job).await.runs, fleet.job(other).await.runs), (2, 1), "nobody tried the bad login again");
}

// [F2]
#[tokio::test]
async fn an_outage_counts_no_attempt_and_another_factory_takes_the_job() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = format!("echo half > half.txt; {}; exit 1", stream("real-overloaded"));
    let _cut_off = Plant::start(playing("cut-off", &forge, &script), fleet.enrol("cut-off", &line).await);
    let job = fleet.submit("retry: { max: 1 }\n").await;

    let run = fleet.first_run(job).await;
    let engine = fleet.engine("cut-off").await.unwrap();

    assert_eq!(run.outcome, Some(RunOutcome::Released));
    let message = run.message.unwrap();
    assert!(message.starts_with("the provider of engine `claude` is not available: the API answered 529"), "{message}");
    assert!(engine.retry_at.is_some(), "{engine:?}");
    let problem = engine.problem.unwrap();
    assert!(problem.starts_with("its provider is not available: the API answered 529"), "{problem}");
    let view = fleet.until_stage(job, StageName::Queued).await;
    assert_eq!((view.attempts, view.reason), (0, None));
    let script = format!("echo made > out.txt; {}", stream("real-ok"));
    let _well = Plant::start(playing("well", &forge, &script), fleet.enrol("well", &line).await);
    until_promoted(&fleet, job).await;
    let sha = forge.shows(&pr_branch(job)).unwrap();
    assert!(forge.file_at(&sha, "half.txt").is_some(), "the work before the outage was saved");
}

// [F2]
#[tokio::test]
async fn an_account_without_credit_is_suspended_until_its_login_changes() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let settings = with_login_or(&forge, "unpaid", "real-credit-too-low");
    let login = forge.path("home/.claude/.credentials.json");
    fs::write(&login, login_with("bad")).unwrap();
    let _plant = Plant::start(settings, fleet.enrol("unpaid", &line).await);
    let job = fleet.submit("retry: { max: 1 }\n").await;

    let run = fleet.first_run(job).await;
    let alert = fleet.until_alert(AlertCode::CredentialExhausted, true).await.unwrap();

    assert_eq!(run.outcome, Some(RunOutcome::QuotaWindow));
    assert!(alert.contains("`unpaid/claude`") && alert.contains("giga credential resume unpaid/claude"), "{alert}");
    let view = fleet.until_stage(job, StageName::Queued).await;
    assert_eq!((view.attempts, view.reason), (0, None));
    let waits = "waiting for credit of claude: add some, then resume it with `giga credential resume unpaid/claude`";
    assert_eq!(view.waiting.map(|waiting| waiting.text).as_deref(), Some(waits));
    fs::write(&login, login_with("good, with another key")).unwrap();
    until_promoted(&fleet, job).await;
    fleet.until_alert(AlertCode::CredentialExhausted, false).await;
}

#[tokio::test]
async fn a_missing_base_branch_fails_the_job_at_once() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("plain", &forge, "echo made > out.txt"), fleet.enrol("plain", &line).await);
    let job = fleet.submit("base: release/9\nretry: { max: 9, backoff: 1s }\n").await;

    let view = fleet.until_stage(job, StageName::Failed).await;

    assert_eq!((view.attempts, view.runs), (0, 1));
    let message = view.message.unwrap();
    assert!(message.contains("has no branch `release/9`: create it, or name another one by `base`"), "{message}");
}

// [F3]
#[tokio::test]
async fn commits_on_other_branches_are_kept_and_reported() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let commit = |file: &str| format!("echo {file} > {file}; git add {file}; git commit -qm {file}");
    let script = format!(
        "git checkout -q -b aside; {}; git checkout -q -; git checkout -q -b main-line; {}",
        commit("aside.txt"),
        commit("out.txt")
    );
    let _plant = Plant::start(settings("branchy", &forge, &script), fleet.enrol("branchy", &line).await);
    let job = fleet.submit("").await;

    until_promoted(&fleet, job).await;

    let sha = forge.shows(&pr_branch(job)).unwrap();
    assert!(forge.file_at(&sha, "out.txt").is_some(), "the branch that it ended on is the work");
    assert!(forge.file_at(&sha, "aside.txt").is_none());
    let evidence = fleet.evidence(job, 1).await;
    let [left] = evidence.left_branches.as_slice() else { panic!("{evidence:?}") };
    assert_eq!(left.name, "aside");
    assert!(left.git_ref.starts_with("aq/wip/"), "{left:?}");
    assert!(forge.file_at(&left.sha, "aside.txt").is_some());
    assert!(forge.shows(&format!("refs/heads/{}", left.git_ref)).is_some());
    let message = fleet.first_run(job).await.message.unwrap();
    assert!(
        message.contains("commits on other branches are kept in `aq/wip/") && message.contains("`aside`"),
        "{message}"
    );
}

// [F6]
#[tokio::test]
async fn a_credential_that_cannot_be_copied_pauses_its_engine() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let settings = with_login(&forge, "walled-in");
    let login = forge.path("home/.claude/.credentials.json");
    fs::write(&login, login_with("good")).unwrap();
    // A file in the place of a directory, as an I/O error would have it.
    let obstacle = settings.state.join("sessions/claude");
    fs::create_dir_all(obstacle.parent().unwrap()).unwrap();
    fs::write(&obstacle, "").unwrap();
    let plant = Plant::start(settings, fleet.enrol("walled-in", &line).await);
    let job = fleet.submit("retry: { max: 1 }\n").await;

    let run = fleet.first_run(job).await;
    let engine = fleet.engine("walled-in").await.unwrap();

    assert_eq!((run.outcome, run.started_at, run.insights.cost_usd), (Some(RunOutcome::Released), None, Some(0.0)));
    let problem = engine.problem.unwrap();
    assert_eq!(run.message, Some(format!("engine `claude` cannot be made ready here: {problem}")));
    assert_eq!(engine.signed_in, Some(true));
    let view = fleet.until_stage(job, StageName::Queued).await;
    assert_eq!((view.attempts, view.reason), (0, None));
    eventually("the clean-up", || plant.records().is_empty()).await;
    fs::remove_file(&obstacle).unwrap();
    fs::write(&login, login_with("good-again")).unwrap();
    until_promoted(&fleet, job).await;
    assert_eq!(fleet.job(job).await.runs, 2);
}

// [B9]
#[tokio::test]
async fn an_agent_that_breaks_its_home_fails_only_its_own_job() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let home = forge.path("home");
    fs::create_dir_all(home.join(".claude")).unwrap();
    fs::write(home.join(".claude/.credentials.json"), login_with("good")).unwrap();
    fs::write(home.join(".claude/settings.json"), r#"{"model":"x"}"#).unwrap();
    let mut settings = playing("spoilt", &forge, "mkdir \"${CLAUDE_CONFIG_DIR:?}/.settings.json.unfinished\"; exit 1");
    for engine in settings.engines.values_mut() {
        engine.environment = EnvironmentConfig { home: Some(home.clone()), ..EnvironmentConfig::default() };
    }
    let _plant = Plant::start(settings, fleet.enrol("spoilt", &line).await);
    let job = fleet.submit("retry: { max: 2, backoff: 10ms }\n").await;

    let view = fleet.until_stage(job, StageName::DeadLetter).await;

    let runs: Vec<_> = fleet.runs(job).await.into_iter().map(|run| (run.outcome, run.started_at.is_some())).collect();
    let failed = Some(RunOutcome::Failed(FailureReason::EngineError));
    assert_eq!((view.attempts, runs), (2, vec![(failed, true), (failed, false)]));
    assert_eq!(fleet.engine("spoilt").await.unwrap().problem, None);
}

// [B9]
#[tokio::test]
async fn a_first_sign_in_reaches_the_scheduler_without_a_restart() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let settings = with_login(&forge, "fresh");
    let _plant = Plant::start(settings, fleet.enrol("fresh", &line).await);
    let clock = clock();
    while fleet.engine("fresh").await.is_none() {
        assert!(clock.monotonic() < PATIENCE, "the engine is not offered");
        clock.sleep(Duration::from_millis(20)).await;
    }

    fs::write(forge.path("home/.claude/.credentials.json"), login_with("good")).unwrap();

    until_signed_in(&fleet, "fresh", true).await;
}

// [F1] [B9]
#[tokio::test]
async fn a_sign_in_while_the_factory_waits_for_its_coordinator_is_not_missed() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let settings = with_login(&forge, "early");
    let client = fleet.enrol("early", &line).await;
    line.cut();
    let _plant = Plant::start(settings, client);
    line.until_called().await;

    fs::write(forge.path("home/.claude/.credentials.json"), login_with("good")).unwrap();
    line.mend();

    until_signed_in(&fleet, "early", true).await;
}

// [F2]
#[tokio::test]
async fn a_refused_tool_that_leaves_no_change_fails_the_job_at_once() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant =
        Plant::start(playing("fenced-in", &forge, &stream("real-denied")), fleet.enrol("fenced-in", &line).await);
    let job = fleet.submit("").await;

    let view = fleet.until_stage(job, StageName::Failed).await;

    assert_eq!((view.reason, view.attempts, view.runs), (Some(FailureReason::EngineError), 0, 1));
    let message = view.message.unwrap();
    assert!(message.contains("the agent was not allowed to use"), "{message}");
}

// [F2]
#[tokio::test]
async fn a_change_after_a_refused_tool_is_done_and_the_refusal_is_evidence() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = format!("echo made > out.txt; {}", stream("real-denied"));
    let _plant = Plant::start(playing("fenced-in", &forge, &script), fleet.enrol("fenced-in", &line).await);
    let job = fleet.submit("verify: [test -f out.txt]\n").await;

    until_promoted(&fleet, job).await;

    assert_eq!(fleet.first_run(job).await.outcome, Some(RunOutcome::Completed));
    let refused = fleet.evidence(job, 1).await.refused;
    assert!(refused.len() == 1 && refused[0].starts_with("Bash ("), "{refused:?}");
}

// [F2]
#[tokio::test]
async fn an_exit_code_that_is_not_listed_fails_the_job_at_once_and_a_listed_one_is_tried_again() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = "[ $GIGA_ATTEMPT = 1 ] && exit 75; echo broken; exit 2";
    let mut settings = settings("strict", &forge, script);
    for engine in settings.engines.values_mut() {
        engine.retryable_exit_codes = Some(vec![75]);
    }
    let _plant = Plant::start(settings, fleet.enrol("strict", &line).await);
    let job = fleet.submit("retry: { max: 9, backoff: 1s }\n").await;

    let view = fleet.until_stage(job, StageName::Failed).await;

    assert_eq!((view.attempts, view.runs, view.message.as_deref()), (1, 2, Some("exit code 2: broken")));
}

// [B6]
#[tokio::test]
async fn a_question_parks_the_job_until_it_is_answered() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = format!(
        "case \"$prompt\" in *'Answer: Postgres.'*) echo \"$prompt\" > out.txt; {};; *) echo half > half.txt; {};; esac",
        stream("real-ok"),
        stream("question")
    );
    let _plant = Plant::start(playing("curious", &forge, &script), fleet.enrol("curious", &line).await);
    let job = fleet.submit("").await;

    let parked = fleet.until_stage(job, StageName::Blocked).await;
    let run = fleet.first_run(job).await;
    fleet.answer(job, "Postgres.").await;
    until_promoted(&fleet, job).await;

    let question = Some("Which database should it use?");
    assert_eq!((parked.message.as_deref(), parked.attempts), (question, 0));
    assert_eq!((run.outcome, run.message.as_deref()), (Some(RunOutcome::Asked), question));
    let sha = forge.shows(&pr_branch(job)).unwrap();
    assert!(forge.file_at(&sha, "half.txt").is_some(), "what was done before the question is kept");
}

// [J5] [F2] [B6]
#[tokio::test]
async fn a_question_in_a_file_parks_the_job_of_any_engine_whatever_it_ended_with_and_is_never_committed() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = "[ -e .aq_question.md ] && exit 9; prompt=$(cat); case \"$prompt\" in \
        *'Answer: North.'*) echo \"$prompt\" > out.txt;; \
        *) echo half > half.md; echo 'Which gate?' > .aq_question.md; git add --force -A; git commit -qm x; exit 3;; esac";
    let _plant = Plant::start(settings("plain", &forge, script), fleet.enrol("plain", &line).await);
    let job = fleet.submit("budget: { usd: 5 }\n").await;

    let parked = fleet.until_stage(job, StageName::Blocked).await;
    let run = fleet.first_run(job).await;
    fleet.answer(job, "North.").await;
    until_promoted(&fleet, job).await;

    assert_eq!((parked.message.as_deref(), parked.attempts), (Some("Which gate?"), 0));
    assert_eq!((run.outcome, run.message.as_deref()), (Some(RunOutcome::Asked), Some("Which gate?")));
    let sha = forge.shows(&pr_branch(job)).unwrap();
    assert_eq!(forge.file_at(&sha, "half.md").as_deref(), Some("half\n"), "what was done before is kept");
    assert_eq!(forge.file_at(&sha, ".aq_question.md"), None);
    let told = testkit::host::git(&forge.remote(), &["log", "--format=%s", sha.as_str(), "--", ".aq_question.md"]);
    assert_eq!(told, "");
}

// [J9] [F2]
#[tokio::test]
async fn an_engine_that_says_more_than_its_log_takes_is_judged_by_its_end() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let script = format!("yes noise | head -n 5000; echo made > out.txt; {}", stream("real-ok"));
    let mut settings = playing("chatty", &forge, &script);
    settings.limits.output_bytes_max = 10_000;
    let _plant = Plant::start(settings, fleet.enrol("chatty", &line).await);
    let job = fleet.submit("").await;

    until_promoted(&fleet, job).await;

    let run = fleet.first_run(job).await;
    assert_eq!((run.insights.tokens_in, run.insights.cost_usd), (Some(200), Some(0.002)));
    let log = fleet.log(job).await;
    assert_eq!(log.lines().filter(|line| *line == "noise").count(), 2_000);
    assert_eq!(log.lines().last(), Some("[the rest is not shown: the limit `factory.limits.output` is reached]"));
}

// [J6] [F6]
#[tokio::test]
async fn what_a_run_had_cost_when_its_factory_was_killed_is_reported_by_the_next_process() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("mortal", &line).await;
    let script = format!("{} | head -n 3; sleep 600 & wait", stream("real-ok"));
    let first = Plant::start(playing("mortal", &forge, &script), client.clone());
    let job = fleet.submit("").await;
    let is_written_down = || first.records().iter().any(|record| record.insights.tokens_in == Some(100));
    eventually("the figures being written down", is_written_down).await;

    first.kill().await;
    let _second = Plant::start(playing("mortal", &forge, &script), client);

    let run = fleet.first_run(job).await;
    assert_eq!((run.outcome, run.insights.tokens_in), (Some(RunOutcome::Released), Some(100)));
    // A million tokens of this model cost 5 dollars in, 25 out.
    assert_eq!(run.insights.cost_usd, Some(100.0 * 5e-6 + 25e-6));
    assert_eq!(fleet.job(job).await.spent.runs_without_cost, 0);
}

// [B4]
#[tokio::test]
async fn a_run_that_fails_verification_shows_its_diff_and_own_ending() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant =
        Plant::start(settings("unproven", &forge, "echo half > half.md"), fleet.enrol("unproven", &line).await);

    let job = fleet.submit("verify: ['exit 4']\nretry: {max: 1}\n").await;

    let message = fleet.first_run(job).await.message;
    let shown = fleet.evidence(job, 1).await;
    assert_eq!(shown.outcome, Some(RunOutcome::Failed(FailureReason::VerifyFailed)));
    assert!(shown.diff.as_ref().is_some_and(|diff| diff.contains("+half")), "{shown:?}");
    assert!(message.is_some() && shown.ending != message, "{shown:?}");
}
