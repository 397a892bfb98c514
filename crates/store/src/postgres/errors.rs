//! Maps errors of PostgreSQL to store errors with a remedy.

use std::error::Error as _;
use std::fmt;

use domain::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Why a request to the server failed.
#[derive(Debug)]
pub(super) enum ServerError {
    /// The server returned an error, or the connection broke.
    Said(Error),
    /// The server did not answer in time.
    Silent,
    /// No connection could be made, for this reason.
    Unreachable(String),
}

/// The cause of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorSource {
    /// The written content: a retry would fail again.
    Content,
    /// A concurrent writer: a retry helps.
    Race,
    /// The connection: the request may or may not have been executed.
    Connection,
    /// The server as a whole.
    Server,
}

impl ServerError {
    pub(super) fn blame(&self) -> ErrorSource {
        let Self::Said(error) = self else { return ErrorSource::Connection };
        let Some(state) = error.code() else {
            // Without an error code, a conversion failed or the connection broke.
            let converting = error.source().is_some_and(|cause| !cause.is::<std::io::Error>());
            return if converting { ErrorSource::Content } else { ErrorSource::Connection };
        };
        match state {
            &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE => ErrorSource::Race,
            &SqlState::ADMIN_SHUTDOWN
            | &SqlState::CRASH_SHUTDOWN
            | &SqlState::CANNOT_CONNECT_NOW
            | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => ErrorSource::Connection,
            state if state.code().starts_with("08") => ErrorSource::Connection,
            state if state.code().starts_with("22") || state.code().starts_with("23") => ErrorSource::Content,
            _ => ErrorSource::Server,
        }
    }

    /// Reports whether another attempt to connect may succeed.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Said(error) => error.code().is_none_or(|state| {
                *state == SqlState::CANNOT_CONNECT_NOW
                    || *state == SqlState::ADMIN_SHUTDOWN
                    || *state == SqlState::TOO_MANY_CONNECTIONS
                    || state.code().starts_with("08")
            }),
            Self::Silent | Self::Unreachable(_) => true,
        }
    }

    /// The same error, of an attempt to connect.
    pub(super) fn while_connecting(self) -> Self {
        Self::Unreachable(self.to_string())
    }

    /// The error for the caller.
    pub(super) fn to_store_error(&self) -> StoreError {
        match (self.blame(), self) {
            (ErrorSource::Content, _) => StoreError::Corrupt(format!("the change conflicts with stored data ({self})")),
            (_, Self::Said(error)) if error.code() == Some(&SqlState::DISK_FULL) => StoreError::DiskFull(
                "free space on the disk of the database server; no acknowledged write is lost".to_owned(),
            ),
            (_, _) => StoreError::Unavailable(format!("PostgreSQL failed ({self})")),
        }
    }
}

impl From<Error> for ServerError {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(error) => f.write_str(&chain(error)),
            Self::Silent => f.write_str("it did not answer in time"),
            Self::Unreachable(why) => f.write_str(why),
        }
    }
}

/// The error with its causes. The server's details are left out: they may quote stored content.
pub(super) fn chain(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} [{}]", said.message(), said.code().code());
    }
    domain::error_chain(error)
}

/// The error of a closed store.
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed: the process is shutting down".to_owned())
}
