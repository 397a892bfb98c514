//! Recorded streams of the engines, replayed: the lines for people, the cost and the verdict of each run.
//!
//! Those called `real-…` were printed by the real programs; the others are cut or changed from them to hold a trap.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use clock::ManualClock;
use domain::{Clock, RunInsights};
use engines::{
    Activity, Allowance, ClaudeEngine, CodexEngine, Engine, EngineConfig, EngineContext, EngineEvent, EngineOutput,
    EngineRequest, Exit, Price, Prices, Prompt,
};
use sandbox::{Environment, Launcher, Line, Source};
use testkit::host::{job, run};

use crate::golden;

/// One stream, and how its program ended.
type Played = (&'static str, Exit);

const CLAUDE: [Played; 38] = [
    ("real-ok", Exit::Code(0)),
    ("real-ok", Exit::Lingered),
    ("real-ok", Exit::Code(143)),
    ("real-resumed", Exit::Code(0)),
    ("real-resumed-own-total", Exit::Code(0)),
    ("real-resumed-session-total", Exit::Code(0)),
    ("real-denied", Exit::Code(0)),
    ("question", Exit::Code(0)),
    ("question-then-done", Exit::Code(0)),
    ("real-api-error", Exit::Code(1)),
    ("real-api-error", Exit::Code(0)),
    ("real-overloaded", Exit::Code(1)),
    ("real-unavailable", Exit::Code(1)),
    ("real-unreachable", Exit::Code(1)),
    ("real-credit-too-low", Exit::Code(1)),
    ("real-unknown-model", Exit::Code(1)),
    ("real-bad-key", Exit::Code(1)),
    ("not-logged-in", Exit::Code(1)),
    ("forbidden-login", Exit::Code(1)),
    ("forbidden-model", Exit::Code(1)),
    ("real-session-lost", Exit::Code(1)),
    ("error-during-execution", Exit::Code(1)),
    ("real-max-turns", Exit::Code(1)),
    ("real-max-budget", Exit::Code(1)),
    ("budget-in-subagent", Exit::Code(1)),
    ("real-usage-limit", Exit::Code(1)),
    ("real-rate-limited-key", Exit::Code(1)),
    ("usage-limit-words", Exit::Code(1)),
    ("real-usage-warning", Exit::Code(0)),
    ("warning-then-api-error", Exit::Code(1)),
    ("rejected-then-done", Exit::Code(0)),
    ("rejected-no-result", Exit::Code(143)),
    ("no-result", Exit::Code(0)),
    ("no-result", Exit::Code(143)),
    ("cut-off", Exit::Code(1)),
    ("broken", Exit::Code(0)),
    ("broken", Exit::Code(1)),
    ("nothing", Exit::Code(127)),
];

const CODEX: [Played; 28] = [
    ("real-ok", Exit::Code(0)),
    ("real-ok", Exit::Lingered),
    ("real-ok", Exit::Code(1)),
    ("real-resumed", Exit::Code(0)),
    ("real-denied", Exit::Code(0)),
    ("real-refused", Exit::Code(0)),
    ("tools", Exit::Code(0)),
    ("real-api-error", Exit::Code(1)),
    ("real-unavailable", Exit::Code(1)),
    ("real-unreachable", Exit::Code(1)),
    ("real-quota-exceeded", Exit::Code(1)),
    ("real-unknown-model", Exit::Code(1)),
    ("real-unsupported-model", Exit::Code(1)),
    ("real-bad-key", Exit::Code(1)),
    ("token-not-refreshed", Exit::Code(1)),
    ("forbidden-model", Exit::Code(1)),
    ("turn-failed", Exit::Code(1)),
    ("retries-used-up-429", Exit::Code(1)),
    ("retries-used-up-500", Exit::Code(1)),
    ("real-usage-limit", Exit::Code(1)),
    ("usage-limit-resets-at", Exit::Code(1)),
    ("usage-limit-resets-in", Exit::Code(1)),
    ("usage-limit-days", Exit::Code(1)),
    ("usage-limit-no-time", Exit::Code(1)),
    ("limit-without-turn-end", Exit::Code(1)),
    ("no-turn-end", Exit::Code(143)),
    ("broken", Exit::Code(0)),
    ("nothing", Exit::Code(1)),
];

fn bench(sessions: &Path) -> EngineContext {
    // When the streams were recorded.
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at("2026-11-16T02:42:10Z".parse().unwrap()));
    let price = Price { input: 1.0, output: 10.0, cached: Some(0.1) };
    let prices = [("gpt-5", price), ("claude-opus", price)].map(|(model, price)| (model.to_owned(), price));
    EngineContext {
        launcher: Launcher::unguarded(testkit::host::clock()),
        clock,
        sessions: sessions.to_owned(),
        prices: Prices::new(prices.into()),
        empty_home: sessions.to_owned(),
        open: Vec::new(),
    }
}

fn claude(sessions: &Path) -> Box<dyn Engine> {
    let config = EngineConfig { turns_max: Some(1), ..EngineConfig::default() };
    Box::new(ClaudeEngine::new("claude".parse().unwrap(), &config, Environment::default(), &bench(sessions)))
}

fn codex(sessions: &Path) -> Box<dyn Engine> {
    let config = EngineConfig { model: Some("gpt-5-codex".to_owned()), ..EngineConfig::default() };
    Box::new(CodexEngine::new("codex".parse().unwrap(), &config, Environment::default(), &bench(sessions)))
}

fn request() -> EngineRequest {
    EngineRequest {
        job: job(),
        epoch: run(3).epoch,
        attempt: 1,
        title: "x".to_owned(),
        prompt: Prompt::of_task("do it"),
        model: None,
        session: None,
        worktree: "/w".into(),
        allowance: Allowance { usd: Some(0.0005), ..Allowance::default() },
        tools: None,
    }
}

/// The verdict on a run that printed this stream, for people.
fn play(engine: &dyn Engine, stream: &[u8], exit: Exit) -> String {
    let (_, mut session) = engine.command(&request()).unwrap();
    let mut activity = Activity::begin(Path::new("/w"));
    let mut told = String::new();
    for text in String::from_utf8_lossy(stream).lines() {
        let line = Line { source: Source::Out, text: text.to_owned() };
        let events = session.translate(&line);
        let insights = session.insights();
        for shown in activity.note(&EngineOutput { line, events, insights }) {
            writeln!(told, "  | {shown}").unwrap();
        }
    }
    session.settle();
    let RunInsights { tokens_in, tokens_out, cost_usd, turns, .. } = session.insights();
    writeln!(told, "  tokens {tokens_in:?} in, {tokens_out:?} out; cost {cost_usd:?}; turns {turns:?}").unwrap();
    writeln!(told, "  session {:?}; {:?}", activity.session, session.judge(exit)).unwrap();
    told
}

/// Copies the record that a program kept beside its stream, if there is one, to its original place.
fn lay_out_record(name: &str, stream: &str, bytes: &[u8], sessions: &Path) {
    let Ok(record) = fs::read(golden::file(&format!("{name}-records/{stream}.jsonl"))) else { return };
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let begun: serde_json::Value = serde_json::from_slice(first).unwrap();
    let folder = sessions.join(name).join(job().to_string()).join("sessions/2026/11/16");
    fs::create_dir_all(&folder).unwrap();
    let thread = begun["thread_id"].as_str().unwrap();
    fs::write(folder.join(format!("rollout-2026-11-16T02-42-10-{thread}.jsonl")), record).unwrap();
}

fn play_all(name: &str, engine: impl Fn(&Path) -> Box<dyn Engine>, streams: &[Played]) {
    let mut told = String::new();
    for (stream, exit) in streams {
        let sessions = tempfile::tempdir().unwrap();
        let bytes = fs::read(golden::file(&format!("{name}/{stream}.jsonl"))).unwrap_or_default();
        lay_out_record(name, stream, &bytes, sessions.path());
        let played = play(&*engine(sessions.path()), &bytes, *exit);
        writeln!(told, "{stream}, {exit:?}\n{played}").unwrap();
    }
    golden::check(&format!("{name}.txt"), &told);
}

// [F2]
#[test]
fn claude_is_understood_and_judged() {
    play_all("claude", claude, &CLAUDE);
}

// [F2]
#[test]
fn codex_is_understood_and_judged() {
    play_all("codex", codex, &CODEX);
}

#[test]
fn every_recorded_stream_is_played() {
    for (name, played) in [("claude", &CLAUDE[..]), ("codex", &CODEX[..])] {
        for file in fs::read_dir(golden::file(name)).unwrap() {
            let file = file.unwrap().path();
            let stream = file.file_stem().unwrap().to_str().unwrap();
            assert!(played.iter().any(|(name, _)| *name == stream), "{name}/{stream} is not played");
        }
    }
}

#[test]
fn a_resumed_thread_pays_only_for_its_own_turn() {
    let sessions = tempfile::tempdir().unwrap();
    let engine = codex(sessions.path());
    let stream = |name: &str| fs::read(golden::file(&format!("codex/{name}.jsonl"))).unwrap();

    let first = play(&*engine, &stream("real-ok"), Exit::Code(0));
    let second = play(&*engine, &stream("real-resumed"), Exit::Code(0));

    let figures = |played: &str| played.lines().find(|line| line.contains("tokens ")).map(str::to_owned);
    assert_eq!(figures(&first), figures(&second), "{second}");
}

/// The cost of a run that printed this stream after its session had left this conversation.
fn cost_of_resumed(stream: &str, conversation: &str) -> f64 {
    let (sessions, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let session = "11111111-1111-4111-8111-111111111111";
    let folder = sessions.path().join("claude").join(job().to_string()).join("projects/-w-before");
    fs::create_dir_all(&folder).unwrap();
    let conversation = golden::file(&format!("claude-conversations/{conversation}.jsonl"));
    fs::copy(conversation, folder.join(format!("{session}.jsonl"))).unwrap();
    let request = EngineRequest { session: Some(session.to_owned()), worktree: tree.path().to_owned(), ..request() };
    let (_, mut follower) = claude(sessions.path()).command(&request).unwrap();

    for text in fs::read_to_string(golden::file(&format!("claude/{stream}.jsonl"))).unwrap().lines() {
        follower.translate(&Line { source: Source::Out, text: text.to_owned() });
    }

    (follower.insights().cost_usd.unwrap() * 1e6).round() / 1e6
}

#[test]
fn a_resumed_session_of_claude_pays_only_for_its_own_run() {
    // 2.1.326: the result message has 1.26 for two runs of 0.63 each.
    assert_eq!(cost_of_resumed("real-resumed-session-total", "real-resumed-session-total"), 0.63);
    // 2.1.197: the result message has 0.63, and the conversation records no cost.
    assert_eq!(cost_of_resumed("real-resumed-own-total", "real-resumed-own-total"), 0.63);
    // 2.1.197 after 2.1.326: the record exists, and the result message does not include it.
    assert_eq!(cost_of_resumed("real-resumed-own-total", "real-resumed-session-total"), 0.63);
}

// [F2]
#[test]
fn a_huge_line_and_endless_noise_leave_nothing_behind() {
    let sessions = tempfile::tempdir().unwrap();
    let ok = fs::read_to_string(golden::file("claude/real-ok.jsonl")).unwrap();
    let (_, mut session) = claude(sessions.path()).command(&request()).unwrap();
    let mut hear = |text: String| session.translate(&Line { source: Source::Out, text });

    for _ in 0..200 {
        let huge = format!("{{\"type\":\"user\",\"x\":\"{}\"}}", "y".repeat(1 << 20));
        assert_eq!(hear(huge), [], "nothing in it is for anybody");
        hear("[a line of 5000000 bytes is left out]".to_owned());
    }
    for line in ok.lines() {
        hear(line.to_owned());
    }

    let ended = session.judge(Exit::Code(0));
    assert_eq!(ended, engines::RunVerdict::EndedWell);
}

// [F2]
#[test]
fn no_prefix_of_a_stream_makes_a_session_panic() {
    for (name, engine) in [("claude", claude as fn(&Path) -> Box<dyn Engine>), ("codex", codex)] {
        let sessions = tempfile::tempdir().unwrap();
        let engine = engine(sessions.path());
        for file in fs::read_dir(golden::file(name)).unwrap() {
            let text = String::from_utf8_lossy(&fs::read(file.unwrap().path()).unwrap()).into_owned();
            for (at, _) in text.char_indices().step_by(97) {
                let (_, mut session) = engine.command(&request()).unwrap();
                for line in text[..at].lines() {
                    session.translate(&Line { source: Source::Out, text: line.to_owned() });
                }
                session.judge(Exit::Code(0));
            }
        }
    }
}

// [B6]
#[test]
fn a_question_is_an_event_as_well() {
    let sessions = tempfile::tempdir().unwrap();
    let (_, mut session) = claude(sessions.path()).command(&request()).unwrap();
    let stream = fs::read_to_string(golden::file("claude/question.jsonl")).unwrap();

    let lines = stream.lines().map(|text| Line { source: Source::Out, text: text.to_owned() });
    let events: Vec<EngineEvent> = lines.flat_map(|line| session.translate(&line)).collect();

    let question = EngineEvent::Question { text: "Which database should it use?".to_owned() };
    assert!(events.contains(&question), "{events:?}");
}
