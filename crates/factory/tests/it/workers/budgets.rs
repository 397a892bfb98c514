//! Budgets of jobs whose engine plays Codex, which reports its usage only at the end of its turn.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use domain::RunOutcome;
use engines::{EngineConfig, EngineKind};
use factory::WorkerSettings;
use sandbox::EnvironmentConfig;
use testkit::host::{TestRemote, eventually};

use super::LONG;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings};

/// What Codex calls the record of the thread.
const RECORD: &str = "rollout-2026-11-16T02-42-10-t-1.jsonl";

const BUDGET: &str = "budget: { usd: 5, tokens: 100000 }\n";

/// The functions of a script that plays Codex. `$how` tells whether its thread is resumed.
const OPENING: &str = r#"[ "$1" = --version ] && { echo 'codex-cli 0.166.0'; exit 0; }
how=new; for arg in "$@"; do [ "$arg" = resume ] && how=resumed; done
cat > /dev/null
begin() { echo '{"type":"thread.started","thread_id":"t-1"}'; echo '{"type":"turn.started"}'; }
complete() { echo "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":$1,\"output_tokens\":0}}"; }
write_down() {
  day="$CODEX_HOME/sessions/2026/11/16"; mkdir -p "$day"
  usage="{\"type\":\"token_count\",\"info\":{\"total_token_usage\":{\"input_tokens\":$1}}}"
  { echo '{"type":"turn_context","payload":{"model":"gpt-5.3-codex"}}'; echo "{\"payload\":$usage}"; } \
    >> "$day/rollout-2026-11-16T02-42-10-t-1.jsonl"
}
"#;

fn playing(name: &str, forge: &TestRemote, script: &str) -> WorkerSettings {
    let program = forge.path(&format!("{name}-codex"));
    fs::write(&program, format!("#!/bin/sh\n{OPENING}{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let engine = EngineConfig {
        kind: EngineKind::named("codex"),
        program: Some(program.to_str().unwrap().to_owned()),
        model: Some("gpt-5.3-codex".to_owned()),
        environment: EnvironmentConfig {
            set: [("CODEX_API_KEY".to_owned(), "a-key-of-nobody".to_owned())].into(),
            ..EnvironmentConfig::default()
        },
        ..EngineConfig::default()
    };
    let mut settings = settings(name, forge, "exit 1");
    settings.engines = [("codex".parse().unwrap(), engine)].into();
    settings
}

// [J6] [F6] [B8]
#[tokio::test]
async fn what_codex_had_written_down_when_its_factory_was_killed_is_charged_and_the_job_goes_on() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("mortal", &line).await;
    let script = "begin\n\
        if [ $how = new ]; then echo half > half.md; write_down 1000; sleep 600 & wait\n\
        else echo made > out.txt; write_down 1500; complete 1500; fi";
    let first = Plant::start(playing("mortal", &forge, script), client.clone());
    let job = fleet.submit(BUDGET).await;
    let record = first.path().join(format!("sessions/codex/{job}/sessions/2026/11/16/{RECORD}"));
    let is_known = || first.records().iter().any(|record| record.session.as_deref() == Some("codex:t-1"));
    let is_written_down = || fs::read_to_string(&record).is_ok_and(|text| text.contains("token_count"));
    eventually("the thread and its record", || is_written_down() && is_known()).await;

    first.kill().await;
    let _second = Plant::start(playing("mortal", &forge, script), client);
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    let runs = fleet.runs(job).await;
    let tokens: Vec<_> = runs.iter().map(|run| (run.outcome, run.insights.tokens_in)).collect();
    let (released, completed) = (Some(RunOutcome::Released), Some(RunOutcome::Completed));
    assert_eq!(tokens, [(released, Some(1_000)), (completed, Some(500))]);
    // A million tokens of this model cost 1.75 dollars in.
    assert_eq!(runs[0].insights.cost_usd, Some(1_000.0 * 1.75 / 1e6));
    assert_eq!(fleet.job(job).await.spent.runs_without_cost, 0);
}

// [T2] [B8]
#[tokio::test]
async fn a_job_with_a_budget_goes_on_after_an_interruption_of_unknown_cost_and_says_so() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("unheard", &line).await;
    let up = forge.path("up");
    let script = format!(
        "begin\nif [ ! -e '{up}' ]; then touch '{up}'; sleep 600 & wait; else echo made > out.txt; complete 500; fi",
        up = up.display()
    );
    let first = Plant::start(playing("unheard", &forge, &script), client.clone());
    let job = fleet.submit(BUDGET).await;
    eventually("the first run", || up.exists()).await;
    fleet.until_stage(job, domain::StageName::Building).await;

    first.kill().await;
    let _second = Plant::start(playing("unheard", &forge, &script), client);
    let view = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    let spent = view.spent;
    assert_eq!((spent.runs_without_cost, spent.interrupted_without_cost, spent.tokens), (1, 1, Some(500)));
    let said =
        "[what 1 interrupted run used of the job's `budget.usd` is not known: this one has what is known to be left]";
    let log = fleet.log(job).await;
    assert!(log.lines().any(|line| line == said), "{log}");
}

// [B8]
#[tokio::test]
async fn a_usage_limit_on_an_engine_of_unknown_cost_is_waited_out_and_the_job_goes_on() {
    let forge = TestRemote::new();
    let fleet = Fleet::start_with(LONG, |settings| settings.windows.spread = Duration::ZERO).await;
    let line = Line::to(&fleet).await;
    let hit = forge.path("hit");
    let script = format!(
        "begin\nif [ -e '{hit}' ]; then echo made > out.txt; complete 500; exit 0; fi\ntouch '{hit}'\n\
         echo '{{\"type\":\"turn.failed\",\"error\":{{\"message\":\"usage_limit_reached: resets_in_seconds: 1\"}}}}'; exit 1",
        hit = hit.display()
    );
    let _plant = Plant::start(playing("spent", &forge, &script), fleet.enrol("spent", &line).await);
    let job = fleet.submit(BUDGET).await;

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;

    let runs = fleet.runs(job).await;
    let told: Vec<_> = runs.iter().map(|run| (run.outcome, run.insights.tokens_in)).collect();
    let expected = [(Some(RunOutcome::QuotaWindow), None), (Some(RunOutcome::Completed), Some(500))];
    assert_eq!(told, expected);
}
