//! The agent of the demo: a small program that behaves like an agent, well and badly, as its prompt asks.

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long one step of the demo's work takes.
const STEP: Duration = Duration::from_millis(400);

/// What the demo's reviewer asks for. The agent does it when its prompt has this comment.
pub(super) const COMMENT: &str = "Please paint it red.";

/// What the agent reports as its cost after each step, in cents.
const CENTS_PER_STEP: u32 = 10;

/// What the prompt asks the agent to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentBehaviour {
    /// Works, then ends well.
    Steady,
    /// Fails on its first attempt.
    FailsOnce,
    /// Takes its time, so that there is something to interrupt.
    Slow,
    /// Takes half as long.
    Unhurried,
}

impl AgentBehaviour {
    fn steps(self) -> u32 {
        match self {
            Self::Steady | Self::FailsOnce => 3,
            Self::Unhurried => 8,
            Self::Slow => 16,
        }
    }
}

/// Reads the prompt from standard input and works in the current directory.
pub(crate) fn run() -> ExitCode {
    match work() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("the demo's agent gives up: {error}");
            ExitCode::from(2)
        }
    }
}

fn work() -> std::io::Result<ExitCode> {
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt)?;
    let attempt: u32 = std::env::var("GIGA_ATTEMPT").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let task = task_of(&prompt);
    let (temper, file) = (temper_of(task), file_of(task));
    let is_asked_again = prompt.contains(COMMENT);
    let steps = temper.steps() + u32::from(is_asked_again);
    let done_before = lines_in(&file);
    if is_asked_again {
        say(&format!("the reviewer asks: {COMMENT}"))?;
    } else if done_before > 0 {
        say(&format!("resuming: {done_before} of {steps} steps are here already"))?;
    } else {
        say("reading the task")?;
    }
    for step in done_before + 1..=steps {
        pause();
        let mut notes = std::fs::OpenOptions::new().create(true).append(true).open(&file)?;
        writeln!(notes, "step {step} of {steps}")?;
        let cents = CENTS_PER_STEP * (step - done_before);
        say(&format!("step {step} of {steps}: wrote {file}, cost so far: ${}.{:02}", cents / 100, cents % 100))?;
        if temper == AgentBehaviour::FailsOnce && attempt == 1 && step >= 2 {
            say("something went wrong, giving up this attempt")?;
            return Ok(ExitCode::from(1));
        }
    }
    say("done")?;
    Ok(ExitCode::SUCCESS)
}

/// The job's own text: the persona comes before it, notes for this run after it.
fn task_of(prompt: &str) -> &str {
    let task = prompt.split_once("\n---\n\nThe job:\n").map_or(prompt, |(_, task)| task);
    task.split_once("\n---\n").map_or(task, |(task, _)| task)
}

fn temper_of(prompt: &str) -> AgentBehaviour {
    if prompt.contains("fail on your first attempt") {
        AgentBehaviour::FailsOnce
    } else if prompt.contains("take your time") {
        AgentBehaviour::Slow
    } else if prompt.contains("There is no hurry") {
        AgentBehaviour::Unhurried
    } else {
        AgentBehaviour::Steady
    }
}

/// The file that the prompt names in backticks, or a default one. Only a plain name is taken.
fn file_of(prompt: &str) -> String {
    let named = prompt.split('`').nth(1).unwrap_or("notes.md");
    let is_plain = named.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    if is_plain && !named.is_empty() && !named.starts_with('.') { named.to_owned() } else { "notes.md".to_owned() }
}

fn lines_in(file: &str) -> u32 {
    let text = std::fs::read_to_string(Path::new(file)).unwrap_or_default();
    u32::try_from(text.lines().count()).unwrap_or(0)
}

fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

fn pause() {
    std::thread::sleep(STEP);
}
