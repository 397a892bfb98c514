//! The outcome of an engine's run.

use domain::{FailureReason, Retryability, Timestamp};

/// How an engine's program ended, when neither a limit nor a stop request ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code; 128 + n after signal n.
    Code(i32),
    /// It had sent its result message and did not exit; the factory killed it.
    Lingered,
}

/// The outcome of an engine's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunVerdict {
    /// It claims to be done.
    EndedWell,
    /// It claims to be done, and tool calls were refused on the way. Its changes decide whether that matters.
    EndedWithRefusals {
        /// The refused calls, for people. Never empty.
        refused: Vec<String>,
    },
    /// It failed.
    Failed {
        /// The failure reason of the job.
        reason: FailureReason,
        /// Whether it may be worth another attempt.
        again: Retryability,
        /// What happened, for people.
        message: String,
    },
    /// It waits for a person.
    Asked {
        /// The question.
        question: String,
    },
    /// Its credential's usage window is exhausted: not a failure [B1].
    QuotaWindow {
        /// Which window, if the engine names it.
        window: Option<String>,
        /// When the window resets, if the engine reports it.
        resets_at: Option<Timestamp>,
        /// The engine's message.
        message: String,
    },
    /// The provider rejected its credential: the engine is unusable here until the operator signs in. Nothing was done.
    SignedOut {
        /// The engine's message.
        message: String,
    },
    /// The credential's account has no credit left: the engine works again once the operator has added some. Not a
    /// failure.
    CreditExhausted {
        /// The engine's message.
        message: String,
    },
    /// The model's provider was unavailable: not a failure of the job.
    Outage {
        /// The engine's message.
        message: String,
    },
    /// A stop request ended it.
    Stopped,
}

impl RunVerdict {
    /// Whether the engine started work and ended by itself.
    pub fn is_the_engines_own(&self) -> bool {
        match self {
            Self::EndedWell
            | Self::EndedWithRefusals { .. }
            | Self::Failed { .. }
            | Self::Asked { .. }
            | Self::QuotaWindow { .. } => true,
            Self::CreditExhausted { .. } | Self::Outage { .. } => true,
            Self::SignedOut { .. } | Self::Stopped => false,
        }
    }

    /// A failure that another attempt may avoid.
    pub(crate) fn may_pass(reason: FailureReason, message: String) -> Self {
        Self::Failed { reason, again: Retryability::Worthwhile, message }
    }

    /// The provider does not offer the model to this credential: the job or the engine has to name another one.
    pub(crate) fn unknown_model(message: &str) -> Self {
        let message = format!(
            "unknown model: {message}; name another one, by `model` or `models` in the manifest, or by `model` of the \
             engine in giga.toml"
        );
        Self::stays(FailureReason::EngineError, message)
    }

    /// A failure that another attempt would repeat.
    pub(crate) fn stays(reason: FailureReason, message: String) -> Self {
        Self::Failed { reason, again: Retryability::Pointless, message }
    }
}
