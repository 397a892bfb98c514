//! Agents that speak the Agent Client Protocol: a test agent as a real process, and recordings of real ones.

mod agent;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use clock::ManualClock;
use domain::{Clock, FailureReason, Retryability, RunInsights, Timestamp};
use engines::{
    AcpEngine, Allowance, Engine, EngineConfig, EngineEvent, EngineKind, EngineOutput, EngineRequest, EngineRun,
    EngineRunEnd, Exit, Memory, Permissions, Prompt, Reply, RunVerdict, Session, Target,
};
use sandbox::{Launcher, Line, Source};
use serde_json::Value;
use testkit::host::{PATIENCE, clock, environment, eventually, job, myself_as, roomy, run};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A directory to work in, with a file in it, and a secret beside it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        fs::write(folder.path().join("tree/readme.md"), "hello\n").unwrap();
        fs::write(folder.path().join("secret"), "canary").unwrap();
        Self { folder }
    }

    fn tree(&self) -> std::path::PathBuf {
        self.folder.path().join("tree")
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.tree().join(file)).ok()
    }

    fn request(&self, session: Option<&str>) -> EngineRequest {
        EngineRequest {
            job: job(),
            epoch: run(3).epoch,
            attempt: 1,
            title: "x".to_owned(),
            prompt: Prompt::of_task("write a haiku"),
            model: None,
            session: session.map(str::to_owned),
            worktree: self.tree(),
            allowance: Allowance::default(),
            tools: None,
        }
    }
}

/// The engine whose program is this binary, playing an agent with the behaviour `manner`.
fn engine(manner: &str, permissions: Permissions) -> AcpEngine {
    let myself = myself_as("acp::agent::plays_the_agent").into_iter().map(|arg| arg.into_string().unwrap());
    // In one word of the guard's command line, where the test harness does not take it for a test of its own.
    let line = myself.chain([manner.to_owned()]).map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let config = EngineConfig {
        kind: EngineKind::named("acp"),
        argv: vec!["sh".to_owned(), "-c".to_owned(), format!("exec {line}")],
        permissions,
        ..EngineConfig::default()
    };
    AcpEngine::new("agent".parse().unwrap(), &config, environment()).unwrap()
}

async fn play(
    engine: &AcpEngine,
    request: &EngineRequest,
    cancel: &CancellationToken,
) -> (EngineRunEnd, Vec<EngineEvent>) {
    play_by(clock(), engine, request, cancel).await
}

/// The same, with the test's own clock.
async fn play_by(
    clock: Arc<dyn Clock>,
    engine: &AcpEngine,
    request: &EngineRequest,
    cancel: &CancellationToken,
) -> (EngineRunEnd, Vec<EngineEvent>) {
    let launcher = Launcher::guarded(myself_as("guards::plays_the_guard"), clock);
    let run = EngineRun::start(engine, request, &launcher, roomy()).unwrap();
    let (sender, mut outputs) = mpsc::channel::<EngineOutput>(8);
    let collect = async {
        let mut events = Vec::new();
        while let Some(output) = outputs.recv().await {
            events.extend(output.events);
        }
        // The agent's test harness prints a line of its own.
        events.retain(|event| !matches!(event, EngineEvent::Output { .. }));
        events
    };
    tokio::join!(run.wait(sender, cancel), collect)
}

async fn judged(place: &Place, manner: &str, permissions: Permissions) -> RunVerdict {
    let never = CancellationToken::new();
    play(&engine(manner, permissions), &place.request(None), &never).await.0.judgement
}

fn failed(again: Retryability, message: &str) -> RunVerdict {
    RunVerdict::Failed { reason: FailureReason::EngineError, again, message: message.to_owned() }
}

// [F2]
#[tokio::test]
async fn an_agent_is_given_its_prompt_reads_and_writes_files_and_ends_its_turn() {
    let place = Place::new();
    let never = CancellationToken::new();

    let (end, events) = play(&engine("works", Permissions::All), &place.request(None), &never).await;

    assert_eq!(end.judgement, RunVerdict::EndedWell);
    let copied = place.read("src/copy.md").unwrap();
    assert!(copied.starts_with("hello\nwrite a haiku\n"), "{copied}");
    assert_eq!(place.read("permitted").as_deref(), Some("once"));
    let session = EngineEvent::SessionStarted { session: "s-1".to_owned() };
    let edit = Target::Edit(place.tree().join("src/copy.md").to_str().unwrap().to_owned());
    let call = EngineEvent::ToolCall { tool: "Edit".to_owned(), target: Some(edit) };
    let told: Vec<&EngineEvent> = events.iter().filter(|event| !matches!(event, EngineEvent::Usage(_))).collect();
    let message = EngineEvent::Message { text: "I copy it.".to_owned() };
    assert_eq!(told, [&session, &message, &call, &EngineEvent::Ended { why: "it ended its turn".to_owned() }]);
    let RunInsights { tokens_in, tokens_out, cost_usd, .. } = end.insights;
    assert_eq!((tokens_in, tokens_out, cost_usd), (Some(140), Some(20), Some(0.25)));
}

#[tokio::test]
async fn a_refused_permission_is_reported_with_the_end() {
    let place = Place::new();

    let judgement = judged(&place, "works", Permissions::Edits).await;

    assert_eq!(judgement, RunVerdict::EndedWithRefusals { refused: vec!["`touch permitted`".to_owned()] });
    assert_eq!(place.read("permitted"), None);
}

// [F2]
#[tokio::test]
async fn a_file_of_several_mebibytes_comes_through_in_one_line() {
    let place = Place::new();

    let judgement = judged(&place, "writes-much", Permissions::All).await;

    assert_eq!(judgement, RunVerdict::EndedWell);
    assert_eq!(place.read("much").map(|text| text.len()), Some(5 << 20));
}

// [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn an_agent_gets_no_file_outside_its_worktree() {
    let place = Place::new();
    std::os::unix::fs::symlink(place.folder.path(), place.tree().join("up")).unwrap();

    let judgement = judged(&place, "climbs", Permissions::All).await;

    assert_eq!(judgement, RunVerdict::EndedWell);
    let answers: Vec<Value> = serde_json::from_str(&place.read("answers.json").unwrap()).unwrap();
    assert_eq!(answers.len(), 10, "{answers:?}");
    for answer in &answers {
        assert!(answer["error"]["code"].is_i64() && answer.get("result").is_none(), "{answer}");
    }
    assert_eq!(fs::read_to_string(place.folder.path().join("secret")).unwrap(), "canary");
}

// [F4]
#[tokio::test]
async fn a_session_is_resumed_and_only_what_this_run_cost_is_counted() {
    let place = Place::new();
    let never = CancellationToken::new();

    let (end, events) = play(&engine("remembers", Permissions::All), &place.request(Some("s-0")), &never).await;

    assert_eq!(end.judgement, RunVerdict::EndedWell);
    assert_eq!(events.first(), Some(&EngineEvent::SessionStarted { session: "s-0".to_owned() }));
    assert!(!events.contains(&EngineEvent::Message { text: "What I said before.".to_owned() }), "{events:?}");
    assert_eq!(end.insights.cost_usd, Some(0.25));
    assert_eq!(place.read("prompt"), Some(place.request(None).prompt_with(Memory::Resumed)));
}

#[tokio::test]
async fn a_session_that_the_agent_does_not_know_begins_anew() {
    let place = Place::new();
    let never = CancellationToken::new();

    let (end, events) = play(&engine("forgets", Permissions::All), &place.request(Some("s-0")), &never).await;

    assert_eq!(end.judgement, RunVerdict::EndedWell);
    assert_eq!(events.first(), Some(&EngineEvent::SessionStarted { session: "s-1".to_owned() }));
    assert_eq!(place.read("prompt"), Some(place.request(None).prompt_with(Memory::New)));
}

#[tokio::test]
async fn endings_are_judged_by_what_they_are() {
    let place = Place::new();
    let reset = Timestamp::from_millis(1_800_000_000_000);
    let limit =
        RunVerdict::QuotaWindow { window: None, resets_at: Some(reset), message: "Usage limit reached".to_owned() };

    let cases = [
        ("lingers", RunVerdict::EndedWell),
        ("signed-out", RunVerdict::SignedOut { message: "Authentication required".to_owned() }),
        ("limited", limit),
        ("in-trouble", failed(Retryability::Worthwhile, "Internal error")),
        ("refuses", failed(Retryability::Pointless, "it refused to go on")),
        ("runs-out", failed(Retryability::Worthwhile, "it came to the end of its tokens")),
        ("is-too-new", failed(Retryability::Pointless, "it speaks version 9 of the protocol, not 1")),
        ("dies", failed(Retryability::Worthwhile, "it left with exit code 7 before its turn was over: it hurts")),
    ];
    for (manner, expected) in cases {
        assert_eq!(judged(&place, manner, Permissions::All).await, expected, "{manner}");
    }
}

// [F2]
#[tokio::test]
async fn an_agent_that_is_to_stop_is_asked_first() {
    let place = Place::new();
    let cancel = CancellationToken::new();
    let engine = engine("waits", Permissions::All);
    let request = place.request(None);

    let stop = async {
        eventually("the agent being at work", || place.read("at-work").is_some()).await;
        cancel.cancel();
    };
    // Its grace period never ends.
    let playing = play_by(Arc::new(ManualClock::default()), &engine, &request, &cancel);
    let both = async { tokio::join!(playing, stop) };
    let ((end, _), ()) = tokio::time::timeout(2 * PATIENCE, both).await.expect("it was never asked");

    assert_eq!(end.judgement, RunVerdict::Stopped);
    assert_eq!(place.read("cancelled").as_deref(), Some("s-1"));
}

/// Replays the recorded lines of an agent to a session; returns the events, and the answers to the agent's requests.
fn replay(golden: &str, place: &Place, permissions: Permissions) -> (Vec<EngineEvent>, Vec<Value>, RunVerdict) {
    let engine = engine("is not started", permissions);
    let (_, mut session) = engine.command(&place.request(None)).unwrap();
    let (mut events, mut answers) = (Vec::new(), Vec::new());
    drain(&mut *session, &mut answers);
    for line in golden.replace("/w/", &format!("{}/", place.tree().display())).lines() {
        events.extend(session.translate(&Line { source: Source::Out, text: line.to_owned() }));
        drain(&mut *session, &mut answers);
    }
    (events, answers, session.judge(Exit::Lingered))
}

fn drain(session: &mut dyn Session, answers: &mut Vec<Value>) {
    while let Reply::Say(bytes) = session.reply() {
        let said: Value = serde_json::from_slice(&bytes).unwrap();
        if said.get("method").is_none() {
            answers.push(said);
        }
    }
}

fn golden(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/acp").join(name)).unwrap()
}

// [F2]
#[test]
fn the_real_claude_code_adapter_writes_its_file_through_us() {
    let place = Place::new();

    let (events, answers, judgement) = replay(&golden("real-claude-code.jsonl"), &place, Permissions::Edits);

    assert_eq!(judgement, RunVerdict::EndedWell);
    assert_eq!(place.read("out.txt").as_deref(), Some("made by an agent\n"));
    assert_eq!(answers[0]["result"]["outcome"]["optionId"], "allow", "{answers:?}");
    let out = place.tree().join("out.txt").to_str().unwrap().to_owned();
    let expected = [
        EngineEvent::SessionStarted { session: "5f85ef79-0525-4cd7-aacb-3a7513b9cb74".to_owned() },
        EngineEvent::ToolCall { tool: "Edit".to_owned(), target: Some(Target::Edit(out)) },
        EngineEvent::ToolCall {
            tool: "Execute".to_owned(),
            target: Some(Target::Command("echo x > bash.txt".to_owned())),
        },
        EngineEvent::ToolFailed {
            text: "<tool_use_error>Error: No such tool available: mcp__acp__Bash</tool_use_error>".to_owned(),
        },
        EngineEvent::Message { text: "All done.".to_owned() },
        EngineEvent::Ended { why: "it ended its turn".to_owned() },
    ];
    assert_eq!(events, expected);
}

// [F2]
#[test]
fn the_rounds_of_a_real_agent_count_as_its_turns() {
    let place = Place::new();
    let (_, mut session) = engine("is not started", Permissions::Edits).command(&place.request(None)).unwrap();

    for line in golden("real-claude-code.jsonl").replace("/w/", &format!("{}/", place.tree().display())).lines() {
        session.translate(&Line { source: Source::Out, text: line.to_owned() });
        drain(&mut *session, &mut Vec::new());
    }

    assert_eq!(session.insights().turns, Some(3), "a change, a command, and its last words");
}

// [F2]
#[test]
fn the_real_codex_adapter_ends_its_turn_and_tells_no_money() {
    let place = Place::new();
    // It was recorded with a change of its mode, which is answered under its own number.
    let recorded: String = golden("real-codex.jsonl")
        .lines()
        .filter(|line| !line.ends_with("\"id\":4}"))
        .map(|line| format!("{line}\n"))
        .collect();

    let (events, _, judgement) = replay(&recorded, &place, Permissions::All);

    assert_eq!(judgement, RunVerdict::EndedWell);
    let said: Vec<&EngineEvent> = events.iter().filter(|event| matches!(event, EngineEvent::Usage(_))).collect();
    assert_eq!(said, Vec::<&EngineEvent>::new(), "tokens in a context are not tokens spent");
    assert!(matches!(events.last(), Some(EngineEvent::Ended { .. })), "{events:?}");
}

// [F2]
#[test]
fn no_line_of_an_agent_makes_a_session_panic_or_end() {
    let place = Place::new();
    let deep = format!("{{\"id\":0,\"result\":{}", "[".repeat(100_000));
    let lines = [
        "",
        "null",
        "[]",
        "{}",
        "{\"id\":\"x\",\"result\":{}}",
        "{\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}",
        "{\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":\"of the future\"}}}",
        "{\"id\":null,\"method\":\"fs/write_text_file\"}",
        "{\"id\":7,\"method\":\"fs/write_text_file\",\"params\":{\"path\":7}}",
        "{\"id\":8,\"method\":\"terminal/create\",\"params\":{}}",
        "\u{fffd}\u{0}\u{1b}[2J",
        deep.as_str(),
    ];

    let (events, answers, judgement) = replay(&lines.join("\n"), &place, Permissions::All);

    assert!(!events.iter().any(|event| matches!(event, EngineEvent::Ended { .. })));
    let codes: Vec<&Value> = answers.iter().map(|answer| &answer["error"]["code"]).collect();
    assert_eq!(codes, [-32602, -32601]);
    assert_eq!(judgement, failed(Retryability::Worthwhile, "it was ended"));
}
