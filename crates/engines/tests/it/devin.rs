//! Devin in its simple mode, played by a script that behaves as the program is documented to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use domain::{FailureReason, Retryability, RunInsights};
use engines::{
    Allowance, DevinEngine, Engine, EngineConfig, EngineContext, EngineEvent, EngineOutput, EngineRequest, EngineRun,
    EngineRunEnd, LoginState, Presence, Prices, Prompt, RunVerdict,
};
use testkit::host::{clock, environment, guarded, job, roomy, run};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Records its arguments and its prompt, exports a trajectory, answers.
const DEVIN: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo "devin 1.2.3"; exit; fi
echo "$@" > arguments
while [ $# -gt 0 ]; do
  case "$1" in
    --prompt-file) cat "$2" > prompt; shift ;;
    --export) cp "$GOLDEN" "$2"; shift ;;
  esac
  shift
done
echo "All done."
[ ! -e fails ] || { echo "no credits left" >&2; exit 3; }
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        let program = folder.path().join("devin");
        fs::write(&program, DEVIN).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("tree").join(name)).unwrap()
    }

    fn engine(&self) -> DevinEngine {
        let bench = EngineContext {
            launcher: guarded(),
            clock: clock(),
            sessions: self.path("sessions"),
            prices: Prices::default(),
            empty_home: self.path("home"),
            open: Vec::new(),
        };
        let program = Some(self.path("devin").to_str().unwrap().to_owned());
        let config = EngineConfig { program, ..EngineConfig::default() };
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/devin/trajectory.json");
        DevinEngine::new("devin".parse().unwrap(), &config, environment().with("GOLDEN", golden), &bench)
    }

    async fn play(&self, session: Option<&str>) -> (EngineRunEnd, Vec<EngineEvent>) {
        let request = EngineRequest {
            job: job(),
            epoch: run(3).epoch,
            attempt: 1,
            title: "x".to_owned(),
            prompt: Prompt::of_task("write a haiku"),
            model: Some("swe".to_owned()),
            session: session.map(str::to_owned),
            worktree: self.path("tree"),
            allowance: Allowance::default(),
            tools: None,
        };
        let run = EngineRun::start(&self.engine(), &request, &guarded(), roomy()).unwrap();
        let (sender, mut outputs) = mpsc::channel::<EngineOutput>(8);
        let collect = async {
            let mut events = Vec::new();
            while let Some(output) = outputs.recv().await {
                events.extend(output.events);
            }
            events
        };
        let never = CancellationToken::new();
        tokio::join!(run.wait(sender, &never), collect)
    }
}

// [F2]
#[tokio::test]
async fn devin_reads_its_prompt_from_a_file_and_its_trajectory_tells_the_rest() {
    let place = Place::new();

    let (end, events) = place.play(None).await;

    assert_eq!(end.judgement, RunVerdict::EndedWell);
    let prompt = place.read("prompt");
    let asks =
        format!("write the question to the file `.aq_question.md` in `{}` and stop.\n", place.path("tree").display());
    assert!(prompt.starts_with("write a haiku\n") && prompt.ends_with(&asks), "{prompt}");
    let arguments = place.read("arguments");
    assert!(arguments.starts_with("-p --permission-mode dangerous --prompt-file "), "{arguments}");
    assert!(arguments.contains(" --model=swe") && !arguments.contains("--resume"), "{arguments}");
    let started = EngineEvent::SessionStarted { session: "quiet-harbour".to_owned() };
    assert_eq!(events.iter().filter(|event| **event == started).count(), 1, "{events:?}");
    let expected = RunInsights {
        tokens_in: Some(1200),
        tokens_out: Some(80),
        turns: Some(2),
        engine_ms: end.insights.engine_ms,
        ..RunInsights::default()
    };
    assert_eq!(end.insights, expected, "what it cost is not known, and not 0");
}

#[tokio::test]
async fn devin_goes_on_with_a_session_by_its_name_and_only_if_it_is_one() {
    let place = Place::new();

    place.play(Some("quiet-harbour")).await;
    let named = place.read("arguments");
    place.play(Some("--yolo")).await;
    let hostile = place.read("arguments");

    assert!(named.contains(" --resume=quiet-harbour"), "{named}");
    assert!(!hostile.contains("yolo"), "{hostile}");
}

// [F2]
#[tokio::test]
async fn devin_that_fails_is_judged_by_its_exit_and_its_last_words() {
    let place = Place::new();
    fs::write(place.path("tree/fails"), "").unwrap();

    let (end, _) = place.play(None).await;

    let message = "exit code 3: no credits left".to_owned();
    let expected = RunVerdict::Failed { reason: FailureReason::EngineError, again: Retryability::Worthwhile, message };
    assert_eq!(end.judgement, expected);
}

// [B9]
#[tokio::test]
async fn devin_is_found_by_its_version() {
    let place = Place::new();

    let found = place.engine().detect().await;

    assert_eq!(found, Presence::Ready { version: Some("1.2.3".to_owned()), login: LoginState::Unknown });
}
