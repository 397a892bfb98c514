//! The agents' prompts, one golden file per situation, and that each engine passes exactly that on.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use domain::{CommandStep, Evidence, FailedCommand, MergeConflict, PreviousRun, RunEnd};
use engines::{
    Allowance, BaseBranch, ClaudeEngine, CodexEngine, CommandEngine, DevinEngine, Engine, EngineConfig, EngineContext,
    EngineRequest, Memory, Prices, Prompt, WorktreeState,
};
use sandbox::{Environment, Launcher, Program};
use testkit::host::{clock, job, main, run};

use crate::golden;

const DIR: &str = "/work/tree";

/// The environment of a run's agent: the sections of each golden file.
const PLACES: [(&str, Memory, &str); 3] = [
    ("new conversation, same factory", Memory::New, "east"),
    ("resumed conversation, same factory", Memory::Resumed, "east"),
    ("new conversation, other factory", Memory::New, "west"),
];

fn base() -> BaseBranch {
    BaseBranch { name: main(), sha: "b".repeat(40).parse().unwrap() }
}

fn new() -> WorktreeState {
    WorktreeState::New(base())
}

fn saved() -> WorktreeState {
    WorktreeState::Saved(base())
}

fn completed() -> WorktreeState {
    WorktreeState::Completed(base())
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn first() -> Prompt {
    Prompt {
        prepare: vec!["npm run format".to_owned()],
        verify: vec!["npm ci".to_owned(), "npm test -- --ci\nnpm run lint".to_owned()],
        worktree: new(),
        ..Prompt::of_task("# Speed up the search\n\nIt takes four seconds.\n")
    }
}

fn after(worktree: WorktreeState, end: RunEnd) -> Prompt {
    let engine = Some("claude".parse().unwrap());
    let previous = PreviousRun { n: 2, factory: "east".parse().unwrap(), engine, end, work_discarded: false };
    Prompt { worktree, previous: Some(previous), ..first() }
}

fn discarded(mut prompt: Prompt) -> Prompt {
    prompt.worktree = new();
    prompt.previous.iter_mut().for_each(|previous| previous.work_discarded = true);
    prompt
}

fn command(step: CommandStep, exit: Option<i32>, stopped: Option<String>, output: &str) -> RunEnd {
    let (command, output) = ("npm test".to_owned(), output.to_owned());
    RunEnd::CommandFailed(FailedCommand::of(&Evidence { step, command, exit, stopped, output, took_ms: 9 }))
}

fn conflict() -> Option<MergeConflict> {
    let files = vec!["src/a.rs".to_owned(), "src/b.rs".to_owned()];
    Some(MergeConflict { base: main(), base_sha: "c".repeat(40).parse().unwrap(), files })
}

/// Every situation that a run can start in.
fn situations() -> Vec<(&'static str, Prompt)> {
    use CommandStep::{Prepare, Verify};
    let message = || "it ran for longer than 3600s, the limit `factory.limits.wall`".to_owned();
    let output = "> app@1.0.0 test\n```\nexpected 4, found 5\n```\n";
    let long = format!("{}the last line\n", "a line of output\n".repeat(400));
    let sent_back = || Prompt {
        changes: text("The check `lint` failed:\n\n> unused import\n"),
        ..after(completed(), RunEnd::Completed)
    };
    let stopped = text("the commands took longer than 600s, the limit `factory.limits.verify`");
    vec![
        ("first-run", first()),
        ("first-run-without-commands", Prompt { prepare: vec![], verify: vec![], ..first() }),
        ("persona", Prompt { persona: text("You are a designer.\n\n---\n\nYou care for the details.\n"), ..first() }),
        (
            "persona-in-a-further-run",
            Prompt { persona: text("You are a designer."), ..after(saved(), RunEnd::LeaseExpired) },
        ),
        ("first-run-without-repository", Prompt { worktree: WorktreeState::Empty, ..first() }),
        ("verify-failed", after(saved(), command(Verify, Some(1), None, output))),
        ("verify-killed", after(saved(), command(Verify, Some(137), None, &long))),
        ("verify-timed-out", after(saved(), command(Verify, None, stopped, ""))),
        ("prepare-failed", after(saved(), command(Prepare, Some(2), None, "syntax error\n"))),
        ("no-changes", after(new(), RunEnd::NoChanges)),
        ("timed-out", after(saved(), RunEnd::TimedOut { message: message() })),
        (
            "budget-exceeded",
            after(
                saved(),
                RunEnd::BudgetExceeded {
                    message: "it spent $5.01, of $5.00 left of the job's `budget.usd`".to_owned(),
                },
            ),
        ),
        (
            "engine-failed",
            after(saved(), RunEnd::EngineFailed { message: "exit code 1: API error\nretry later".to_owned() }),
        ),
        ("crashed", after(saved(), RunEnd::FactoryFailed { message: "the disk has 3 MiB left".to_owned() })),
        ("merge-conflict", Prompt { conflict: conflict(), ..after(completed(), RunEnd::Completed) }),
        ("merge-conflict-interrupted", Prompt { conflict: conflict(), ..after(saved(), RunEnd::LeaseExpired) }),
        ("changes-requested", sent_back()),
        (
            "changes-requested-then-verify-failed",
            Prompt { changes: text("Use less memory."), ..after(saved(), command(Verify, Some(1), None, output)) },
        ),
        ("changes-requested-fresh", discarded(sent_back())),
        (
            "operator-message",
            Prompt {
                message: text("Ignore the flaky test.\nIt is being fixed."),
                ..after(saved(), command(Verify, Some(1), None, output))
            },
        ),
        ("operator-message-before-the-first-run", Prompt { message: text("Only the search page."), ..first() }),
        (
            "answer",
            Prompt {
                answer: text("Question: Which database?\n\nAnswer: Postgres."),
                ..after(saved(), RunEnd::Asked { question: "Which database?".to_owned() })
            },
        ),
        ("lease-expired", after(saved(), RunEnd::LeaseExpired)),
        ("released", after(saved(), RunEnd::Released { message: text("the factory is stopping") })),
        ("preempted", after(saved(), RunEnd::Preempted)),
        ("quota-exhausted", after(saved(), RunEnd::QuotaExhausted { message: "claude/five_hour".to_owned() })),
        ("credit-exhausted", after(saved(), RunEnd::CreditExhausted)),
        ("store-restored", after(saved(), RunEnd::Restored)),
        ("cancelled-and-requeued", after(saved(), RunEnd::Cancelled { message: text("wrong approach") })),
        ("rejected-and-requeued", after(completed(), RunEnd::Rejected { message: text("too large") })),
        ("completed-and-requeued", after(completed(), RunEnd::Completed)),
        ("requeued-fresh", discarded(after(saved(), command(Verify, Some(1), None, output)))),
        ("saved-work-is-gone", after(new(), RunEnd::LeaseExpired)),
        ("without-repository", after(WorktreeState::Empty, command(Verify, Some(1), None, output))),
        ("reason-not-recorded", Prompt { worktree: saved(), ..first() }),
    ]
}

// [F2b]
#[test]
fn each_situation_has_its_prompt() {
    for (situation, prompt) in situations() {
        let mut shown = String::new();
        for (place, memory, factory) in PLACES {
            let prompt = Prompt { factory: Some(factory.parse().unwrap()), ..prompt.clone() };
            writeln!(shown, "==== {place} ====\n{}", prompt.text(memory, Path::new(DIR))).unwrap();
        }

        golden::check(&format!("prompts/{situation}.txt"), &shown);
    }
}

// [F2b]
#[test]
fn no_prompt_claims_work_that_is_not_there() {
    for (situation, prompt) in situations() {
        for (place, memory, factory) in PLACES {
            for worktree in [new(), WorktreeState::Empty] {
                let prompt = Prompt { worktree, factory: Some(factory.parse().unwrap()), ..prompt.clone() };

                let text = prompt.text(memory, Path::new(DIR));

                for claim in ["contains the", "on the current branch", "Continue from there", "git log", "git merge"] {
                    assert!(!text.contains(claim), "{situation}, {place}: {claim}\n{text}");
                }
            }
        }
    }
}

fn request(prompt: Prompt, session: Option<&str>) -> EngineRequest {
    EngineRequest {
        job: job(),
        epoch: run(3).epoch,
        attempt: 2,
        title: "x".to_owned(),
        prompt,
        model: None,
        session: session.map(str::to_owned),
        worktree: DIR.into(),
        allowance: Allowance::default(),
        tools: None,
    }
}

fn sent_to(engine: &dyn Engine, request: &EngineRequest) -> String {
    let (program, _) = engine.command(request).unwrap();
    let Program { argv, stdin, .. } = program;
    let file = argv.iter().position(|arg| arg == OsStr::new("--prompt-file")).map(|at| &argv[at + 1]);
    file.map_or_else(|| String::from_utf8(stdin).unwrap(), |file| fs::read_to_string(file).unwrap())
}

/// The engines over ACP have the same test in `acp`, where an agent answers.
// [F2b]
#[test]
fn each_engine_passes_exactly_this_prompt_on() {
    let folder = tempfile::tempdir().unwrap();
    let bench = EngineContext {
        launcher: Launcher::unguarded(clock()),
        clock: clock(),
        sessions: folder.path().to_owned(),
        prices: Prices::default(),
        empty_home: folder.path().to_owned(),
        open: Vec::new(),
    };
    let name = |name: &str| name.parse().unwrap();
    let config = EngineConfig { argv: vec!["agent".to_owned()], ..EngineConfig::default() };
    let engines: [Box<dyn Engine>; 4] = [
        Box::new(ClaudeEngine::new(name("claude"), &config, Environment::default(), &bench)),
        Box::new(CodexEngine::new(name("codex"), &config, Environment::default(), &bench)),
        Box::new(DevinEngine::new(name("devin"), &config, Environment::default(), &bench)),
        Box::new(CommandEngine::new(name("command"), &config, Environment::default()).unwrap()),
    ];

    for engine in engines {
        for (situation, prompt) in situations() {
            let request = request(prompt, None);

            let sent = sent_to(&*engine, &request);

            assert_eq!(sent, request.prompt_with(Memory::New), "{situation}, {}", engine.name());
        }
    }
}
