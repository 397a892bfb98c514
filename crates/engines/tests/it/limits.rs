//! Engines with a dialogue, that do not exit, and that exceed limits: real processes, each ended for its own reason.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clock::ManualClock;
use domain::{EngineName, FailureReason, Retryability, RunInsights};
use engines::{
    Allowance, ClaudeEngine, CodexEngine, CommandEngine, DiskAllowance, Engine, EngineConfig, EngineContext,
    EngineError, EngineEvent, EngineOutput, EngineRequest, EngineRun, EngineRunEnd, Exit, LoginState, Memory,
    OutputPattern, OutputPatterns, Pending, Presence, Prices, Prompt, Reply, RunVerdict, Session,
};
use sandbox::{Bounds, Launcher, Limits, Line, Program, Source};
use tempfile::TempDir;
use testkit::host::{PATIENCE, becomes_so, clock, environment, guarded, job, myself_as, pid_in, roomy, run, runs};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::golden;

/// A directory with a program in it that plays an engine.
struct Play {
    folder: TempDir,
}

impl Play {
    fn of(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("engine");
        fs::write(&program, format!("#!/bin/sh\necho $$ > pid\ntrap 'touch told; exit 0' TERM\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn bench(&self) -> EngineContext {
        EngineContext {
            launcher: Launcher::unguarded(clock()),
            clock: clock(),
            sessions: self.path("sessions"),
            prices: Prices::default(),
            empty_home: self.folder.path().to_owned(),
            open: Vec::new(),
        }
    }

    fn config(&self) -> EngineConfig {
        let program = Some(self.path("engine").to_str().unwrap().to_owned());
        EngineConfig { program, ..EngineConfig::default() }
    }

    /// The program as Claude Code.
    fn claude(&self) -> ClaudeEngine {
        ClaudeEngine::new("claude".parse().unwrap(), &self.config(), environment(), &self.bench())
    }

    /// The program as Codex.
    fn codex(&self) -> CodexEngine {
        CodexEngine::new("codex".parse().unwrap(), &self.config(), environment(), &self.bench())
    }

    /// The program as a command that prints its metrics.
    fn command(&self) -> CommandEngine {
        let reads = OutputPatterns {
            cost_usd: Some(OutputPattern::Regex(r"spent \$([0-9.]+)".to_owned())),
            turns: Some(OutputPattern::Regex(r"turn ([0-9]+)".to_owned())),
            ..OutputPatterns::default()
        };
        let argv = vec![self.path("engine").to_str().unwrap().to_owned()];
        let config = EngineConfig { argv, reads, ..EngineConfig::default() };
        CommandEngine::new(EngineName::command(), &config, environment()).unwrap()
    }

    fn request(&self, allowance: Allowance) -> EngineRequest {
        EngineRequest {
            job: job(),
            epoch: run(3).epoch,
            attempt: 1,
            title: "x".to_owned(),
            prompt: Prompt::of_task("do it\n"),
            model: None,
            session: None,
            worktree: self.folder.path().to_owned(),
            allowance,
            tools: None,
        }
    }

    async fn run(&self, engine: &dyn Engine, allowance: Allowance, bounds: Bounds) -> EngineRunEnd {
        let run = EngineRun::start(engine, &self.request(allowance), &guarded(), bounds).unwrap();
        let (output, mut outputs) = mpsc::channel(8);
        let never = CancellationToken::new();
        let drain = async { while outputs.recv().await.is_some() {} };
        let (end, ()) = tokio::join!(run.wait(output, &never), drain);
        assert!(end.finished.took < PATIENCE, "{end:?}");
        end
    }

    /// The program recorded its pid, got SIGTERM, and is gone.
    fn ended_politely(&self) {
        assert!(self.path("told").exists(), "it was not told before it was killed");
        assert!(!runs(pid_in(&self.path("pid")).unwrap()));
    }
}

/// Does not exit by itself. Every program of these tests records a SIGTERM.
const STAY: &str = "sleep 600 & wait";

/// How many grace periods pass before a program is killed: one after its result message, one after SIGTERM, and one
/// more for a late timer.
const LINGERS_MAX: usize = 3;

/// Gives a program all the time it needs to record its SIGTERM.
fn patient() -> Bounds {
    Bounds { grace: PATIENCE, ..roomy() }
}

fn failed(reason: FailureReason, again: Retryability, message: &str) -> RunVerdict {
    RunVerdict::Failed { reason, again, message: message.to_owned() }
}

// [F2]
#[tokio::test]
async fn an_engine_that_does_not_go_after_its_result_is_ended_and_judged_by_the_result() {
    let stream = golden::file("claude/real-ok.jsonl");
    let play = Play::of(&format!("cat > prompt; cat '{}'; {STAY}", stream.display()));

    let time = ManualClock::default();
    let launcher = Launcher::guarded(myself_as("guards::plays_the_guard"), Arc::new(time.clone()));
    let bounds = Bounds { wall: 100 * PATIENCE, ..patient() };
    let run = EngineRun::start(&play.claude(), &play.request(Allowance::default()), &launcher, bounds).unwrap();
    let (output, mut outputs) = mpsc::channel(8);

    let never = CancellationToken::new();
    let wait_until_it_lingers = async {
        let is_last = |output: &EngineOutput| matches!(output.events[..], [.., EngineEvent::Ended { .. }]);
        while outputs.recv().await.is_some_and(|output| !is_last(&output)) {}
        // Only so that the second grace period does not end it.
        clock().sleep(Duration::from_millis(10)).await;
        for _ in 0..LINGERS_MAX {
            time.advance(PATIENCE);
            if becomes_so(PATIENCE / 4, || play.path("told").exists()).await {
                return;
            }
        }
    };
    let (end, ()) = tokio::join!(run.wait(output, &never), wait_until_it_lingers);

    assert_eq!(end.judgement, RunVerdict::EndedWell);
    let prompt = play.request(Allowance::default()).prompt_with(Memory::New);
    assert_eq!(fs::read_to_string(play.path("prompt")).unwrap(), prompt);
    let figures = (end.insights.tokens_in, end.insights.tokens_out, end.insights.cost_usd, end.insights.turns);
    assert_eq!(figures, (Some(200), Some(40), Some(0.002), Some(2)));
    play.ended_politely();
}

// [T8]
#[tokio::test]
async fn tokens_over_the_jobs_budget_end_the_engine() {
    let stream = golden::file("claude/cut-off.jsonl");
    let play = Play::of(&format!("cat > prompt; cat '{}'; {STAY}", stream.display()));
    let allowance = Allowance { tokens: Some(1_000), ..Allowance::default() };

    let end = play.run(&play.claude(), allowance, patient()).await;

    // Its usage until it was stopped counts too.
    let used = end.insights.tokens_in.unwrap() + end.insights.tokens_out.unwrap();
    let message = format!("it used {} tokens, of 1,000 left of the job's `budget.tokens`", domain::grouped(used));
    assert_eq!(end.judgement, failed(FailureReason::BudgetExceeded, Retryability::Pointless, &message));
    assert!(used >= 1057, "{used}");
    play.ended_politely();
}

// [T2] [T8] [F2] [B8]
#[tokio::test]
async fn tokens_that_codex_has_written_down_but_not_told_end_it_while_it_runs() {
    let count =
        r#"{"payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":1000,"output_tokens":57}}}}"#;
    let play = Play::of(&format!(
        "cat > prompt; echo '{{\"type\":\"thread.started\",\"thread_id\":\"t-1\"}}'\n\
         day=\"$CODEX_HOME/sessions/2026/11/16\"; mkdir -p \"$day\"\n\
         echo '{count}' > \"$day/rollout-2026-11-16T02-42-10-t-1.jsonl\"; {STAY}"
    ));
    let allowance = Allowance { tokens: Some(1_000), ..Allowance::default() };

    let end = play.run(&play.codex(), allowance, patient()).await;

    let message = "it used 1,057 tokens, of 1,000 left of the job's `budget.tokens`";
    assert_eq!(end.judgement, failed(FailureReason::BudgetExceeded, Retryability::Pointless, message));
    assert_eq!((end.insights.tokens_in, end.insights.tokens_out), (Some(1_000), Some(57)));
    play.ended_politely();
}

#[tokio::test]
async fn tokens_that_are_told_with_the_last_line_count_against_the_budget() {
    let stream = golden::file("codex/real-ok.jsonl");
    let play = Play::of(&format!("cat > prompt; cat '{}'", stream.display()));
    let allowance = Allowance { tokens: Some(10), ..Allowance::default() };

    let end = play.run(&play.codex(), allowance, patient()).await;

    let used = domain::grouped(end.insights.tokens_in.unwrap() + end.insights.tokens_out.unwrap());
    let message = format!("it used {used} tokens, of 10 left of the job's `budget.tokens`");
    assert_eq!(end.judgement, failed(FailureReason::BudgetExceeded, Retryability::Pointless, &message));
}

// [T8] [F2] [B8]
#[tokio::test]
async fn money_over_the_jobs_budget_ends_the_engine() {
    let play = Play::of(&format!("echo 'spent $0.50'; echo 'spent $2.75'; {STAY}"));
    let allowance = Allowance { usd: Some(2.5), ..Allowance::default() };

    let end = play.run(&play.command(), allowance, patient()).await;

    let message = "it spent $2.75, of $2.50 left of the job's `budget.usd`";
    assert_eq!(end.judgement, failed(FailureReason::BudgetExceeded, Retryability::Pointless, message));
    assert_eq!(end.insights.cost_usd, Some(2.75), "what was spent is known although it was ended");
    play.ended_politely();
}

// [J6]
#[tokio::test]
async fn an_impossible_figure_counts_as_unknown() {
    for cost in ["-1", "1e308", "1000001", "1e400"] {
        let usage = r#""usage":{"input_tokens":7,"output_tokens":2}"#;
        let line = format!(
            r#"{{"type":"result","subtype":"success","result":"done","is_error":false,"num_turns":1,"total_cost_usd":{cost},{usage}}}"#
        );
        let play = Play::of(&format!("echo '{line}'"));

        let end = play.run(&play.claude(), Allowance::default(), patient()).await;

        assert_eq!(end.insights.check(), Ok(()), "{cost}");
        assert_eq!(end.insights.cost_usd, None, "{cost}");
    }
    let play = Play::of("echo 'turn 4000000000'; echo 'spent $1000000.5'");
    let end = play.run(&play.command(), Allowance::default(), patient()).await;
    assert_eq!((end.insights.turns, end.insights.cost_usd), (None, None));
}

// [T8]
#[tokio::test]
async fn too_many_turns_end_the_engine() {
    let play = Play::of(&format!("echo 'turn 1'; echo 'turn 2'; echo 'turn 3'; {STAY}"));
    let allowance = Allowance { turns: Some(2), ..Allowance::default() };

    let end = play.run(&play.command(), allowance, patient()).await;

    let message = "it took 3 turns, the limit `turns_max` is 2";
    assert_eq!(end.judgement, failed(FailureReason::Timeout, Retryability::Worthwhile, message));
    play.ended_politely();
}

// [F2]
#[tokio::test]
async fn too_many_answers_within_its_one_turn_end_codex() {
    let stream = golden::file("codex/real-ok.jsonl");
    let play = Play::of(&format!("cat > prompt; grep -v turn.completed '{}'; {STAY}", stream.display()));
    let allowance = Allowance { turns: Some(1), ..Allowance::default() };

    let end = play.run(&play.codex(), allowance, roomy()).await;

    let message = "it took 2 turns, the limit `turns_max` is 1";
    assert_eq!(end.judgement, failed(FailureReason::Timeout, Retryability::Worthwhile, message));
    play.ended_politely();
}

// [T8] [B10]
#[tokio::test]
async fn a_worktree_that_grows_too_much_ends_the_engine() {
    let play = Play::of(&format!("head -c 6000000 /dev/urandom > big; {STAY}"));
    let disk = DiskAllowance { growth_bytes_max: 4 << 20, free_bytes_min: 0, every: Duration::from_millis(20) };
    let allowance = Allowance { disk: Some(disk), ..Allowance::default() };

    let end = play.run(&play.command(), allowance, roomy()).await;

    let RunVerdict::Failed { reason, message, .. } = end.judgement else { panic!("{end:?}") };
    assert_eq!(reason, FailureReason::EngineError);
    assert!(message.ends_with("MiB, the limit `factory.limits.disk` is 4"), "{message}");
}

// [T8] [B10]
#[tokio::test]
async fn a_disk_that_gets_full_ends_the_engine() {
    let play = Play::of(STAY);
    let disk = DiskAllowance { growth_bytes_max: 1 << 40, free_bytes_min: 1 << 62, every: Duration::from_millis(300) };
    let allowance = Allowance { disk: Some(disk), ..Allowance::default() };

    let end = play.run(&play.command(), allowance, roomy()).await;

    let RunVerdict::Failed { reason, message, .. } = end.judgement else { panic!("{end:?}") };
    assert_eq!(reason, FailureReason::Crash);
    assert!(message.contains("the limit `factory.limits.disk_free` is 4398046511104"), "{message}");
}

// [T8]
#[tokio::test]
async fn a_wall_clock_is_the_hosts_limit_or_the_jobs_budget() {
    let wall = Duration::from_millis(700);
    let bounds = Bounds { wall, ..roomy() };
    let play = Play::of(STAY);

    let of_host = play.run(&play.command(), Allowance::default(), bounds.clone()).await;
    let of_job = play.run(&play.command(), Allowance { wall: Some(wall), ..Allowance::default() }, bounds).await;

    let message = "it ran for longer than 700ms, the limit `factory.limits.wall`";
    assert_eq!(of_host.judgement, failed(FailureReason::Timeout, Retryability::Worthwhile, message));
    let message = "it ran for longer than 700ms, the job's `budget.wall`";
    assert_eq!(of_job.judgement, failed(FailureReason::BudgetExceeded, Retryability::Pointless, message));
}

// [T2] [T8]
#[test]
fn a_job_gets_no_more_time_than_its_host_gives() {
    let limits = Limits { engine_wall_ms: 60_000, ..Limits::default() };
    let wall = |left: Option<u64>| Bounds::engine(&limits, left.map(Duration::from_secs)).wall;

    let minute = Duration::from_secs(60);
    assert_eq!([wall(None), wall(Some(7_200)), wall(Some(5))], [minute, minute, Duration::from_secs(5)]);
}

// [F2]
#[tokio::test]
async fn an_engine_that_says_too_much_is_still_heard_to_its_end() {
    let stream = golden::file("claude/real-ok.jsonl");
    let noise =
        "head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 1000; head -c 20000000 /dev/zero | tr '\\0' 'y'; echo";
    let play = Play::of(&format!("{noise}; cat '{}'", stream.display()));
    let limits = Limits { output_bytes_max: 1_000, ..Limits::default() };

    let end = play.run(&play.claude(), Allowance::default(), Bounds::engine(&limits, None)).await;

    assert_eq!((end.judgement, end.finished.lines_left_out), (RunVerdict::EndedWell, 1));
    assert_eq!((end.insights.tokens_in, end.insights.cost_usd), (Some(200), Some(0.002)));
}

// [T8]
#[tokio::test]
async fn silence_ends_the_engine() {
    let play = Play::of(STAY);
    let bounds = Bounds { idle: Some(Duration::from_millis(700)), ..roomy() };

    let end = play.run(&play.command(), Allowance::default(), bounds).await;

    let message = "it said nothing for 700ms, the limit `factory.limits.idle`";
    assert_eq!(end.judgement, failed(FailureReason::Timeout, Retryability::Worthwhile, message));
}

// [F2]
#[tokio::test]
async fn silence_during_a_tool_call_has_a_limit_of_its_own() {
    let call = |id: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"m-{id}","content":[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}]}}}}"#
        )
    };
    let result = |id: &str| {
        format!(r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}"}}]}}}}"#)
    };
    let script = format!("echo '{}'; sleep 2; echo '{}'; echo '{}'; {STAY}", call("t1"), result("t1"), call("t2"));
    let play = Play::of(&script);
    let (idle, tool_idle) = (Some(Duration::from_millis(700)), Some(Duration::from_secs(4)));

    let end = play.run(&play.claude(), Allowance::default(), Bounds { idle, tool_idle, ..roomy() }).await;

    let message = "a tool call of it said nothing for 4s, the limit `factory.limits.tool_idle`";
    assert_eq!(end.judgement, failed(FailureReason::Timeout, Retryability::Worthwhile, message));
    assert!(end.finished.took >= Duration::from_secs(6), "the first call outlived the limit of silence");

    let play = Play::of(&format!("echo '{}'; echo '{}'; {STAY}", call("t1"), result("t1")));
    let end = play.run(&play.claude(), Allowance::default(), Bounds { idle, tool_idle, ..roomy() }).await;
    let message = "it said nothing for 700ms, the limit `factory.limits.idle`";
    assert_eq!(end.judgement, failed(FailureReason::Timeout, Retryability::Worthwhile, message));
}

/// An engine with a dialogue.
struct Talker {
    program: PathBuf,
    name: EngineName,
}

#[derive(Default)]
struct Talk {
    heard: Vec<String>,
    said: usize,
}

#[async_trait]
impl Engine for Talker {
    fn name(&self) -> &EngineName {
        &self.name
    }

    async fn detect(&self) -> Presence {
        Presence::Ready { version: None, login: LoginState::Unknown }
    }

    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError> {
        let program = Program {
            argv: vec![self.program.clone().into()],
            dir: request.worktree.clone(),
            environment: environment(),
            stdin: request.prompt_with(Memory::New).into_bytes(),
        };
        Ok((program, Box::new(Talk::default())))
    }
}

impl Session for Talk {
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent> {
        if line.source == Source::Out && line.text.starts_with("heard") {
            self.heard.push(line.text.clone());
        }
        Vec::new()
    }

    fn reply(&mut self) -> Reply {
        if self.said >= self.heard.len() {
            return Reply::Wait;
        }
        self.said += 1;
        if self.said > 3 { Reply::HangUp } else { Reply::Say(format!("answer {}\n", self.said).into_bytes()) }
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll_files(&mut self) {}

    fn settle(&mut self) {}

    fn judge(&mut self, exit: Exit) -> RunVerdict {
        RunVerdict::Asked { question: format!("{:?} {exit:?}", self.heard) }
    }

    fn insights(&self) -> RunInsights {
        RunInsights::default()
    }

    fn pending(&self) -> Pending {
        Pending::Answer
    }
}

#[tokio::test]
async fn an_engine_can_be_talked_with() {
    let play = Play::of(
        "while read line; do case $line in 'do it'|answer*) echo \"heard $line\";; esac; done; echo over > over",
    );
    for launcher in [Launcher::unguarded(clock()), guarded()] {
        let _ = fs::remove_file(play.path("over"));
        let engine = Talker { program: play.path("engine"), name: "talker".parse().unwrap() };
        let run = EngineRun::start(&engine, &play.request(Allowance::default()), &launcher, roomy()).unwrap();
        let (output, mut outputs) = mpsc::channel(8);
        let never = CancellationToken::new();

        let drain = async { while outputs.recv().await.is_some() {} };
        let (end, ()) = tokio::join!(run.wait(output, &never), drain);

        let heard = ["heard do it", "heard answer 1", "heard answer 2", "heard answer 3"];
        assert_eq!(end.judgement, RunVerdict::Asked { question: format!("{heard:?} Code(0)") });
        assert!(play.path("over").exists(), "its input was closed");
    }
}

#[tokio::test]
async fn an_engine_that_never_listens_does_not_block_its_own_end() {
    let play = Play::of(&format!("i=0; while [ $i -lt 300 ]; do echo \"heard $i\"; i=$((i+1)); done; {STAY}"));
    let engine = Talker { program: play.path("engine"), name: "talker".parse().unwrap() };
    let bounds = Bounds { idle: Some(Duration::from_millis(700)), ..roomy() };

    let end = play.run(&engine, Allowance::default(), bounds).await;

    let message = "it said nothing for 700ms, the limit `factory.limits.idle`";
    assert_eq!(end.judgement, failed(FailureReason::Timeout, Retryability::Worthwhile, message));
}
