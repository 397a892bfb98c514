//! Setup, prepare and verify commands: the job author's own programs, run like the engine [F5].

use std::path::Path;
use std::time::Duration;

use domain::{CommandStep, Evidence};
use sandbox::{Bounds, End, Environment, Launcher, Line, Program, Scrubber, Source};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The outcome of a list of commands, with the evidence of those that ran [B4].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandsVerdict {
    /// Each ended with exit code 0.
    Passed(Vec<Evidence>),
    /// The last one of these failed or timed out. Those after it were not run.
    Failed(Vec<Evidence>),
    /// A stop request ended them.
    Cancelled(Vec<Evidence>),
}

/// The end of the output shows the failure; the start of a longer one is not kept.
const EVIDENCE_BYTES_MAX: usize = 16 * 1024;
/// All commands together: a report must fit into one request, escaping included.
const EVIDENCE_BYTES_TOTAL_MAX: usize = 256 * 1024;
const LINES_IN_FLIGHT_MAX: usize = 4;

/// Runs commands one after the other in a worktree, until one fails. `bounds.wall` is for all of them together.
///
/// Each goes through `sh -c`. Only this module uses a shell: the commands come from the job's author, who is trusted as
/// far as the prompt is, and run in the same cleared environment as the engine.
pub async fn run_commands(
    commands: &[String],
    dir: &Path,
    environment: &Environment,
    launcher: &Launcher,
    bounds: &Bounds,
    cancel: &CancellationToken,
) -> CommandsVerdict {
    Commands { step: CommandStep::Verify, lines: commands, dir, environment, launcher }
        .run(bounds, cancel, |_| ())
        .await
}

/// Commands, where they run and how they are started.
pub(crate) struct Commands<'a> {
    /// The kind of their evidence.
    pub(crate) step: CommandStep,
    pub(crate) lines: &'a [String],
    pub(crate) dir: &'a Path,
    pub(crate) environment: &'a Environment,
    pub(crate) launcher: &'a Launcher,
}

impl Commands<'_> {
    /// Like [`run_commands`], with a listener that receives each line of output as it is printed.
    pub(crate) async fn run(
        &self,
        bounds: &Bounds,
        cancel: &CancellationToken,
        hear: impl Fn(&str) + Sync,
    ) -> CommandsVerdict {
        self.run_announced(bounds, cancel, |_| (), hear).await
    }

    /// Like [`Commands::run`], with a listener that is notified when each command starts.
    pub(crate) async fn run_announced(
        &self,
        bounds: &Bounds,
        cancel: &CancellationToken,
        begin: impl Fn(&str) + Sync,
        hear: impl Fn(&str) + Sync,
    ) -> CommandsVerdict {
        let mut evidence = Vec::new();
        let (mut left, in_all) = (bounds.wall, bounds.wall);
        for command in self.lines {
            let bounds = Bounds { wall: left, ..bounds.clone() };
            begin(command);
            let (mut shown, end) = self.run_one(command, bounds, cancel, &hear).await;
            shown.stopped = shown.stopped.or_else(|| stopped(end, in_all));
            left = left.saturating_sub(Duration::from_millis(shown.took_ms));
            evidence.push(shown);
            match end {
                End::Exited(0) => {}
                End::Cancelled => return CommandsVerdict::Cancelled(fit_for_one_report(evidence)),
                End::Exited(_) | End::TimedOut | End::FellSilent => {
                    return CommandsVerdict::Failed(fit_for_one_report(evidence));
                }
            }
        }
        CommandsVerdict::Passed(fit_for_one_report(evidence))
    }

    async fn run_one(
        &self,
        command: &str,
        bounds: Bounds,
        cancel: &CancellationToken,
        hear: &(impl Fn(&str) + Sync),
    ) -> (Evidence, End) {
        let program = Program {
            argv: vec!["sh".into(), "-c".into(), command.into()],
            dir: self.dir.to_owned(),
            environment: self.environment.clone(),
            stdin: Vec::new(),
        };
        let running = match self.launcher.start(program, bounds) {
            Ok(running) => running,
            Err(error) => {
                let output = format!("{error}: {}", error.source);
                hear(&output);
                let stopped = Some("it could not be started".to_owned());
                let (step, command) = (self.step, command.to_owned());
                return (Evidence { step, command, exit: None, stopped, output, took_ms: 0 }, End::Exited(-1));
            }
        };
        let (sender, lines) = mpsc::channel(LINES_IN_FLIGHT_MAX);
        let listening = last_lines(lines, self.launcher.scrubber(), hear);
        let (finished, output) = tokio::join!(running.wait(sender, cancel), listening);
        let exit = match finished.end {
            End::Exited(code) => Some(code),
            End::TimedOut | End::FellSilent | End::Cancelled => None,
        };
        let took_ms = u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX);
        let (step, command) = (self.step, command.to_owned());
        (Evidence { step, command, exit, stopped: None, output, took_ms }, finished.end)
    }
}

/// Why a command was stopped, if it was. The limit is for all commands of a step together.
fn stopped(end: End, in_all: Duration) -> Option<String> {
    match end {
        End::Exited(_) => None,
        End::Cancelled => Some("the run was stopped".to_owned()),
        End::TimedOut => Some(format!("the commands took longer than {in_all:?}, the limit `factory.limits.verify`")),
        End::FellSilent => Some("it printed nothing for too long".to_owned()),
    }
}

/// The end of the output, safe to show. Scrubbed before it is truncated: half a secret is still one.
async fn last_lines(mut lines: mpsc::Receiver<Line>, scrubber: &Scrubber, hear: &(impl Fn(&str) + Sync)) -> String {
    let mut scrub = [scrubber.stream(), scrubber.stream()];
    let mut kept = String::new();
    while let Some(line) = lines.recv().await {
        hear(&line.text);
        let stream = &mut scrub[usize::from(line.source == Source::Err)];
        let mut decided = stream.push(line.text.as_bytes());
        decided.extend(stream.push(b"\n"));
        keep(&mut kept, &decided);
        // Truncated rarely, to a half, so that the cost stays linear in the output.
        if kept.len() > 2 * EVIDENCE_BYTES_MAX {
            cut_front(&mut kept, EVIDENCE_BYTES_MAX);
        }
    }
    for stream in scrub {
        keep(&mut kept, &stream.finish());
    }
    cut_front(&mut kept, EVIDENCE_BYTES_MAX);
    kept
}

fn keep(kept: &mut String, bytes: &[u8]) {
    let is_safe = |c: char| matches!(c, '\t' | '\n') || domain::is_terminal_safe(c);
    kept.extend(String::from_utf8_lossy(bytes).chars().map(|c| if is_safe(c) { c } else { '\u{fffd}' }));
}

/// Keeps the ends of the last commands' output, where a failure is, and notes what was cut from the others.
fn fit_for_one_report(mut evidence: Vec<Evidence>) -> Vec<Evidence> {
    let mut room = EVIDENCE_BYTES_TOTAL_MAX;
    for shown in evidence.iter_mut().rev() {
        let cut = cut_front(&mut shown.output, room);
        room -= shown.output.len();
        if cut > 0 {
            shown.output.insert_str(0, &format!("[{cut} bytes left out]\n"));
        }
    }
    evidence
}

/// Truncates a text to its end, and notes how much is gone.
fn cut_front(text: &mut String, size_max: usize) -> usize {
    let mut surplus = text.len().saturating_sub(size_max);
    while !text.is_char_boundary(surplus) {
        surplus += 1;
    }
    text.drain(..surplus);
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_keeps_the_end_and_whole_characters() {
        let mut text = "é".repeat(EVIDENCE_BYTES_MAX) + "x";

        cut_front(&mut text, EVIDENCE_BYTES_MAX);

        assert!(text.ends_with("éx"));
        assert!(text.len() <= EVIDENCE_BYTES_MAX);
    }

    // [B4]
    #[test]
    fn the_evidence_of_many_commands_fits_into_one_report_and_keeps_the_last_whole() {
        let talkative = |_| Evidence {
            command: "make".to_owned(),
            exit: Some(0),
            output: "y".repeat(EVIDENCE_BYTES_MAX - 24),
            took_ms: 1,
            ..Evidence::default()
        };

        let fitted = fit_for_one_report((0..40).map(talkative).collect());

        let total: usize = fitted.iter().map(|shown| shown.output.len()).sum();
        assert!(total < EVIDENCE_BYTES_TOTAL_MAX + 40 * 32, "{total}");
        assert_eq!(fitted.last(), Some(&talkative(39)));
        assert_eq!(fitted[0].output, format!("[{} bytes left out]\n", EVIDENCE_BYTES_MAX - 24));
    }
}
