//! Errors of a forge.

use std::time::Duration;

/// Errors of a forge. No variant ever holds a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The token is missing, wrong or expired.
    #[error("the forge does not take the token of this factory: {0}")]
    Unauthenticated(String),
    /// The rate limit is exceeded.
    #[error("the forge's rate limit is used up, for another {} s", .wait.as_secs())]
    RateLimited {
        /// For how long.
        wait: Duration,
    },
    /// The forge rejected the request.
    #[error("the forge answered {status} to {what}: {message}")]
    Refused {
        /// The operation.
        what: String,
        /// Its status.
        status: u16,
        /// Its message.
        message: String,
    },
    /// No answer: it is not known whether it was done.
    #[error("no answer from the forge to {what}: {why}")]
    Away {
        /// The operation.
        what: String,
        /// The error.
        why: String,
    },
    /// The answer is invalid.
    #[error("the forge's answer to {what} makes no sense: {why}")]
    Garbled {
        /// The operation.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ForgeError {
    /// The status of a refusal.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unauthenticated(_) | Self::RateLimited { .. } | Self::Away { .. } | Self::Garbled { .. } => None,
        }
    }

    /// Whether the operation may have succeeded although the answer does not show it.
    pub(crate) fn is_unknown(&self) -> bool {
        match self {
            Self::Away { .. } | Self::Garbled { .. } => true,
            Self::Refused { status, .. } => *status >= 500,
            Self::Unauthenticated(_) | Self::RateLimited { .. } => false,
        }
    }
}
