//! The command engine, from its template to its verdict.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use domain::{EngineName, FailureReason, Retryability};
use engines::{
    Allowance, CommandEngine, EngineConfig, EngineOutput, EngineRequest, EngineRun, EngineRunEnd, Memory, Prompt,
    RunVerdict,
};
use sandbox::{Environment, EnvironmentConfig};
use testkit::host::{TestRemote, environment, guarded, job, roomy, run};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

fn engine(argv: &[&str], environment: Environment) -> CommandEngine {
    let config = EngineConfig {
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        retryable_exit_codes: Some(vec![75]),
        model: Some("small".to_owned()),
        ..EngineConfig::default()
    };
    CommandEngine::new(EngineName::command(), &config, environment).unwrap()
}

fn request(worktree: &Path, title: &str) -> EngineRequest {
    EngineRequest {
        job: job(),
        epoch: run(3).epoch,
        attempt: 2,
        title: title.to_owned(),
        prompt: Prompt::of_task("write a haiku\n"),
        model: None,
        session: None,
        worktree: worktree.to_owned(),
        allowance: Allowance::default(),
        tools: None,
    }
}

async fn play(engine: &CommandEngine, request: &EngineRequest) -> (EngineRunEnd, Vec<String>) {
    let run = EngineRun::start(engine, request, &guarded(), roomy()).unwrap();
    let (sender, mut outputs) = mpsc::channel::<EngineOutput>(8);
    let collect = async {
        let mut said = Vec::new();
        while let Some(output) = outputs.recv().await {
            said.push(output.line.text);
        }
        said
    };
    let never = CancellationToken::new();
    tokio::join!(run.wait(sender, &never), collect)
}

// [F2]
#[tokio::test]
async fn an_engine_reads_its_prompt_works_in_its_worktree_and_ends_well() {
    let forge = TestRemote::new();
    let (_, worktree) = forge.worktree(&forge.host("host"), run(3)).await;
    let script =
        "cat > prompt.txt; echo \"$1 $GIGA_JOB_ID $GIGA_EPOCH $GIGA_ATTEMPT\" > names.txt; git commit -qam x || :";
    let engine = engine(&["sh", "-c", script, "sh", "{model}:{title}"], environment());

    let (end, _) = play(&engine, &request(worktree.path(), "A haiku")).await;

    assert_eq!(end.judgement, RunVerdict::EndedWell);
    let prompt = request(worktree.path(), "A haiku").prompt_with(Memory::New);
    assert_eq!(fs::read_to_string(worktree.path().join("prompt.txt")).unwrap(), prompt);
    let names = fs::read_to_string(worktree.path().join("names.txt")).unwrap();
    assert_eq!(names, format!("small:A haiku {} 3 2\n", job()));
    assert!(end.insights.engine_ms.is_some());
}

// [F2]
#[tokio::test]
async fn a_configured_exit_code_is_worth_another_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&["sh", "-c", "echo overloaded >&2; exit 75"], environment());

    let (end, _) = play(&engine, &request(folder.path(), "x")).await;

    let RunVerdict::Failed { reason, again, message } = end.judgement else { panic!("{:?}", end.judgement) };
    assert_eq!((reason, again), (FailureReason::EngineError, Retryability::Worthwhile));
    // The guard of this test is the test's own program, which prints too.
    assert!(message.starts_with("exit code 75: ") && message.ends_with("overloaded"), "{message}");
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn an_engines_environment_holds_no_secret_of_the_factory() {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let secrets =
        ["AQ_FLEET_TOKEN", "GIGA_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY"];
    let ours = secrets.map(|name| (OsString::from(name), OsString::from("canary-secret")));
    let config = EnvironmentConfig {
        home: None,
        pass: vec!["AQ_FLEET_TOKEN".to_owned(), "GIGA_TOKEN".to_owned()],
        set: BTreeMap::from([("GIGA_TOKEN".to_owned(), "canary-secret".to_owned())]),
    };
    let cleared = Environment::cleared(ours.into_iter().chain(std::env::vars_os()), home.path(), &config);
    let dump = "env; tr '\\0' '\\n' < /proc/$$/environ; tr '\\0' '\\n' < /proc/$PPID/environ; \
        tr '\\0' ' ' < /proc/$PPID/cmdline; ls -lR \"$HOME\" /proc/$$/fd; echo \"home=$HOME\"";

    let (end, said) = play(&engine(&["sh", "-c", dump], cleared), &request(folder.path(), "x")).await;

    let said = said.join("\n");
    assert_eq!(end.judgement, RunVerdict::EndedWell, "{said}");
    assert!(said.contains(&format!("home={}", home.path().display())), "{said}");
    assert!(!said.contains("canary-secret"), "{said}");
    let names: Vec<&str> = said.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    for name in secrets {
        assert!(!names.contains(&name), "{name} is set");
    }
}

// [attack: hostile names]
#[tokio::test]
async fn a_title_never_reaches_a_shell_or_becomes_an_option() {
    let folder = tempfile::tempdir().unwrap();
    for title in ["$(touch canary)", "`touch canary`", "; touch canary", "| touch canary", "--\n touch canary", "-c"] {
        let engine = engine(&["printf", "%s\n", "{title}"], environment());

        let (end, _) = play(&engine, &request(folder.path(), title)).await;

        assert_eq!(end.judgement, RunVerdict::EndedWell, "{title:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
