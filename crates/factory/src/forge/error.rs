//! Errors of a forge.

use std::time::Duration;

/// Why a forge did not do what it was asked for. No variant ever holds a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The token is missing, wrong or expired.
    #[error("the forge does not take the token of this factory: {0}")]
    Unauthenticated(String),
    /// The forge wants to be left alone for a while.
    #[error("the forge's rate limit is used up, for another {} s", .wait.as_secs())]
    RateLimited {
        /// For how long.
        wait: Duration,
    },
    /// It said no.
    #[error("the forge answered {status} to {what}: {message}")]
    Refused {
        /// What was asked.
        what: String,
        /// Its status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// No answer: it is not known whether it was done.
    #[error("no answer from the forge to {what}: {why}")]
    Away {
        /// What was asked.
        what: String,
        /// What happened instead.
        why: String,
    },
    /// The answer makes no sense.
    #[error("the forge's answer to {what} makes no sense: {why}")]
    Garbled {
        /// What was asked.
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

    /// Whether it may have been done although the answer says nothing about it.
    pub(crate) fn is_unknown(&self) -> bool {
        match self {
            Self::Away { .. } | Self::Garbled { .. } => true,
            Self::Refused { status, .. } => *status >= 500,
            Self::Unauthenticated(_) | Self::RateLimited { .. } => false,
        }
    }
}
