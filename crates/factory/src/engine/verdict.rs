//! The outcome of an engine's run.

use domain::{FailureReason, Retryability, Timestamp};

/// How an engine's program ended, when neither a limit nor a stop request ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code; 128 + n after signal n.
    Code(i32),
    /// It had said its closing word and did not go; we ended it.
    Lingered,
}

/// What a run of an engine came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunVerdict {
    /// It claims to be done.
    EndedWell,
    /// It claims to be done, and was refused tool calls on the way. What it changed decides what that is worth.
    EndedWithRefusals {
        /// The refused calls, for people. Never empty.
        refused: Vec<String>,
    },
    /// It failed.
    Failed {
        /// Why, in the words of the job.
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
    /// Its credential's usage window is used up: not a failure [B1].
    QuotaWindow {
        /// Which window, if the engine names it.
        window: Option<String>,
        /// When the window opens again, if the engine says so.
        resets_at: Option<Timestamp>,
        /// What the engine said.
        message: String,
    },
    /// The provider rejected its credential: the engine is unusable here until the operator signs in. Nothing was done.
    SignedOut {
        /// What the engine said.
        message: String,
    },
    /// The credential's account has no credit left: the engine works again once an operator has added some. Not a failure.
    CreditExhausted {
        /// What the engine said.
        message: String,
    },
    /// The model's provider could not be reached or was not able to answer: not a failure of the job.
    Outage {
        /// What the engine said.
        message: String,
    },
    /// We were asked to stop it.
    Stopped,
}

impl RunVerdict {
    /// Whether the engine started work and ended by itself.
    pub(crate) fn is_the_engines_own(&self) -> bool {
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

    /// A failure that another attempt may not see.
    pub(crate) fn may_pass(reason: FailureReason, message: String) -> Self {
        Self::Failed { reason, again: Retryability::Worthwhile, message }
    }

    /// A model that the provider does not offer to this credential: the job or the engine has to name another one.
    pub(crate) fn unknown_model(message: &str) -> Self {
        let message = format!(
            "unknown model: {message}; name another one, by `model` or `models` in the manifest, or by `model` of the \
             engine in giga.toml"
        );
        Self::stays(FailureReason::EngineError, message)
    }

    /// A failure that another attempt would see too.
    pub(crate) fn stays(reason: FailureReason, message: String) -> Self {
        Self::Failed { reason, again: Retryability::Pointless, message }
    }
}
