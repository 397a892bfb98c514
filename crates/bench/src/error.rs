//! Why a benchmark did not work.

use std::fmt;
use std::io;

use client::ClientError;
use store::StoreOpenError;

/// Why a benchmark did not work, with the remedy if it is known.
#[derive(Debug)]
pub struct Error {
    /// The cause.
    pub kind: ErrorKind,
    /// The remedy.
    pub hint: Option<String>,
}

/// The cause of a benchmark's failure.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// The options contradict each other, or name what a benchmark must not load.
    #[error("{0}")]
    Usage(String),
    /// The measurement failed.
    #[error("{0}")]
    Failed(String),
    /// A request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    /// A file or a process could not be used.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        ErrorKind::Failed(message.into()).into()
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        ErrorKind::Usage(message.into()).into()
    }

    /// The same, with the remedy.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl<K: Into<ErrorKind>> From<K> for Error {
    fn from(kind: K) -> Self {
        Self { kind: kind.into(), hint: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}
