//! The client of a run's socket: one connection for each request, so that nothing is left of a run that has ended.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use protocol::{RUN_LINE_LEN_MAX, RunAnswer, RunRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A checkpoint of a large repository is pushed over the network.
const ANSWER_TIME_MAX: Duration = Duration::from_mins(5);

/// Why a request to the factory failed.
#[derive(Debug, thiserror::Error)]
pub enum RunSocketError {
    /// Nothing listens: the run is over, or the factory stopped.
    #[error("the run of this socket has ended")]
    Ended,
    /// An I/O error of the connection.
    #[error("the factory does not answer: {0}")]
    Io(#[source] io::Error),
    /// The factory took too long.
    #[error("the factory did not answer within {} s", ANSWER_TIME_MAX.as_secs())]
    TimedOut,
    /// The answer cannot be parsed.
    #[error("the factory's answer cannot be read: {0}")]
    Unreadable(String),
}

/// The socket of one run.
#[derive(Debug, Clone)]
pub(super) struct RunSocket {
    path: PathBuf,
}

impl RunSocket {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn call(&self, request: &RunRequest) -> Result<RunAnswer, RunSocketError> {
        match tokio::time::timeout(ANSWER_TIME_MAX, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(RunSocketError::TimedOut),
        }
    }

    async fn exchange(&self, request: &RunRequest) -> Result<RunAnswer, RunSocketError> {
        let connected = UnixStream::connect(&self.path).await;
        let mut stream = connected.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => RunSocketError::Ended,
            _ => RunSocketError::Io(error),
        })?;
        let mut line = serde_json::to_vec(request).map_err(|error| RunSocketError::Unreadable(error.to_string()))?;
        line.push(b'\n');
        stream.write_all(&line).await.map_err(RunSocketError::Io)?;
        stream.shutdown().await.map_err(RunSocketError::Io)?;
        let mut answer = Vec::new();
        let bytes_max = u64::try_from(RUN_LINE_LEN_MAX).unwrap_or(u64::MAX);
        stream.take(bytes_max).read_to_end(&mut answer).await.map_err(RunSocketError::Io)?;
        if answer.is_empty() {
            return Err(RunSocketError::Ended);
        }
        serde_json::from_slice(&answer).map_err(|error| RunSocketError::Unreadable(error.to_string()))
    }
}
