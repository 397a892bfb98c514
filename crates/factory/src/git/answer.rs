//! What a git command said, read within bounds.

use std::process::ExitStatus;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::GitError;

/// Lists of changed files are the longest answers; a million names of 60 bytes fit.
pub(super) const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Enough for the lines that say what went wrong.
pub(super) const STDERR_BYTES_MAX: u64 = 16 * 1024;

/// What a git command said.
#[derive(Debug)]
pub(crate) struct Answer {
    verb: &'static str,
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Answer {
    pub(super) fn new(verb: &'static str, status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        Self { verb, status, stdout, stderr }
    }

    pub(super) fn is_success(&self) -> bool {
        self.status.success()
    }

    pub(super) fn into_stdout(self) -> Vec<u8> {
        self.stdout
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn stdout(&self) -> &[u8] {
        &self.stdout
    }

    /// The error that this answer is, for a caller that expected another exit code.
    pub(crate) fn failure(&self) -> GitError {
        GitError::failed(self.verb, self.status.code(), &self.stderr)
    }
}

pub(super) enum Read {
    Whole(Vec<u8>),
    Cut(Vec<u8>),
}

impl Read {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) | Self::Cut(bytes) => bytes,
        }
    }
}

/// Keeps the last `max` bytes or so and reads on, so that the writer never waits for us.
pub(super) async fn read_up_to(pipe: Option<impl AsyncRead + Unpin>, max: u64) -> Read {
    let Some(mut pipe) = pipe else { return Read::Whole(Vec::new()) };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let mut kept = Vec::new();
    let mut cut = false;
    let mut chunk = vec![0; 32 * 1024];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        if kept.len() + read > max {
            cut = true;
            kept.drain(..kept.len() / 2);
        }
        kept.extend_from_slice(&chunk[..read]);
    }
    if cut { Read::Cut(kept) } else { Read::Whole(kept) }
}
