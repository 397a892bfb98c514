//! How the last run of a job ended, as the next run's agent receives it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::{EngineName, FactoryId};
use crate::reason::FailureReason;
use crate::run::{CommandStep, Evidence};
use crate::stage::FailureDetails;

/// Bytes of a failed command's output that the next run receives: about a screen and a half of long lines.
pub const OUTPUT_TAIL_BYTES_MAX: usize = 4 * 1024;

/// The last run whose engine started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviousRun {
    /// Its number among the job's runs, from 1.
    pub n: u32,
    /// The factory that ran it.
    pub factory: FactoryId,
    /// Its engine, if the factory reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// How the run ended.
    pub end: RunEnd,
    /// Whether an operator has discarded the saved work since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub work_discarded: bool,
}

/// How a run ended, with the details for the next agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum RunEnd {
    /// The work was completed and verified.
    Completed,
    /// A prepare or verify command failed.
    CommandFailed(FailedCommand),
    /// The agent finished without changing any file.
    NoChanges,
    /// A time or turn limit was reached.
    TimedOut {
        /// The limit that was reached.
        message: String,
    },
    /// The job's budget was exhausted.
    BudgetExceeded {
        /// The limit that was reached.
        message: String,
    },
    /// The engine ended with an error.
    EngineFailed {
        /// The error.
        message: String,
    },
    /// An error of the factory, not of the agent.
    FactoryFailed {
        /// The error.
        message: String,
    },
    /// The agent asked a question.
    Asked {
        /// The question.
        question: String,
    },
    /// The agent waited for its subtasks.
    AwaitedSubtasks,
    /// A usage window of the engine's credential was exhausted.
    QuotaExhausted {
        /// The window.
        message: String,
    },
    /// The credential's account had no credit left.
    CreditExhausted,
    /// The lease expired: the factory sent no heartbeat.
    LeaseExpired,
    /// The factory released the job.
    Released {
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A more urgent job needed the seat.
    Preempted,
    /// The coordinator's store was restored from a backup.
    Restored,
    /// An operator cancelled the job.
    Cancelled {
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A reviewer or an operator rejected the work.
    Rejected {
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

/// A prepare or verify command that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedCommand {
    /// The step of the command.
    pub step: CommandStep,
    /// The command.
    pub command: String,
    /// Exit code, signal or limit.
    pub ended: String,
    /// The end of its output.
    pub output: String,
    /// Whether the output is truncated at its start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_cut: bool,
}

impl FailedCommand {
    /// The failure shown by a piece of evidence.
    pub fn of(evidence: &Evidence) -> Self {
        let output = evidence.output.trim_end();
        let mut start = output.len().saturating_sub(OUTPUT_TAIL_BYTES_MAX);
        while !output.is_char_boundary(start) {
            start += 1;
        }
        let is_cut = start > 0;
        if is_cut {
            // Drop a partial first line.
            start += output[start..].find('\n').map_or(0, |end| end + 1);
        }
        Self {
            step: evidence.step,
            command: evidence.command.clone(),
            ended: evidence.ended(),
            output: output[start..].to_owned(),
            output_cut: is_cut,
        }
    }
}

impl RunEnd {
    /// The end of a failed attempt.
    pub(crate) fn of_failure(reason: FailureReason, account: &FailureDetails) -> Self {
        let message = account.message.clone().unwrap_or_else(|| reason.to_string());
        match (reason, account.evidence.last()) {
            (FailureReason::VerifyFailed, Some(evidence)) => Self::CommandFailed(FailedCommand::of(evidence)),
            _ if account.no_changes => Self::NoChanges,
            (FailureReason::Timeout, _) => Self::TimedOut { message },
            (FailureReason::BudgetExceeded, _) => Self::BudgetExceeded { message },
            (FailureReason::Crash | FailureReason::CapabilityMismatch | FailureReason::NoEngine, _) => {
                Self::FactoryFailed { message }
            }
            _ => Self::EngineFailed { message },
        }
    }

    /// Whether only a run with a started engine can end this way.
    pub(crate) fn implies_engine(&self) -> bool {
        matches!(
            self,
            Self::Completed | Self::CommandFailed(_) | Self::NoChanges | Self::Asked { .. } | Self::AwaitedSubtasks
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(exit: Option<i32>, output: &str) -> Evidence {
        Evidence {
            step: CommandStep::Verify,
            command: "make test".to_owned(),
            exit,
            stopped: None,
            output: output.to_owned(),
            took_ms: 1,
        }
    }

    #[test]
    fn a_failed_command_keeps_the_end_of_its_output() {
        let long = format!("{}é the end\n", "é".repeat(OUTPUT_TAIL_BYTES_MAX));

        let failed = FailedCommand::of(&evidence(Some(2), &long));

        assert!(failed.output.len() <= OUTPUT_TAIL_BYTES_MAX && failed.output.ends_with("é the end"));
        let lines = FailedCommand::of(&evidence(Some(2), &"a line\n".repeat(OUTPUT_TAIL_BYTES_MAX)));
        assert!(lines.output.starts_with("a line\n") && lines.output_cut);
        assert!(failed.output_cut && !FailedCommand::of(&evidence(Some(2), "short\n")).output_cut);
    }

    #[test]
    fn a_failure_quotes_the_last_nonempty_lines() {
        let output =
            "compiling\ntest a ... ok\ntest b ... FAILED\n  expected 4, found 5\n\n}\n   \n1 test failed\n---\n";
        let failed = Evidence { command: "make test\nmake lint".to_owned(), ..evidence(Some(2), output) };
        let expected =
            "`make test …` failed: exit code 2: test b ... FAILED / expected 4, found 5 / 1 test failed".to_owned();
        assert_eq!(failed.failure(), expected);

        let long = evidence(Some(1), &"x".repeat(10_000)).failure();
        assert!(long.chars().count() < 400 && long.contains(": …xxx"), "{long}");
        assert_eq!(evidence(Some(1), "\n").failure(), "`make test` failed: exit code 1");
    }

    #[test]
    fn a_signal_and_a_limit_are_named() {
        let ended = |exit| evidence(exit, "").ended();

        assert_eq!(ended(Some(2)), "exit code 2");
        assert_eq!(ended(Some(137)), "exit code 137, killed by SIGKILL");
        assert_eq!(ended(Some(200)), "exit code 200");
        assert_eq!(ended(None), "stopped");
        let stopped = Evidence { stopped: Some("no output for 10m".to_owned()), ..evidence(None, "") };
        assert_eq!(stopped.ended(), "stopped: no output for 10m");
    }

    #[test]
    fn each_failure_reason_has_its_own_run_end() {
        let account = |no_changes| FailureDetails {
            message: Some("m".to_owned()),
            evidence: vec![evidence(Some(1), "no")],
            no_changes,
            ..FailureDetails::default()
        };
        let message = "m".to_owned();
        let end = |reason| RunEnd::of_failure(reason, &account(false));

        assert!(matches!(end(FailureReason::VerifyFailed), RunEnd::CommandFailed(_)));
        assert_eq!(end(FailureReason::Timeout), RunEnd::TimedOut { message: message.clone() });
        assert_eq!(end(FailureReason::Crash), RunEnd::FactoryFailed { message: message.clone() });
        assert_eq!(end(FailureReason::EngineError), RunEnd::EngineFailed { message: message.clone() });
        assert_eq!(end(FailureReason::BudgetExceeded), RunEnd::BudgetExceeded { message });
        assert_eq!(RunEnd::of_failure(FailureReason::EngineError, &account(true)), RunEnd::NoChanges);
    }
}
