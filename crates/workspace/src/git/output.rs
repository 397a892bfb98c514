//! The output of a git command, read within bounds.

use std::process::ExitStatus;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::GitError;

/// Lists of changed files are the longest answers; a million names of 60 bytes fit.
pub(super) const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Enough for the lines with the error.
pub(super) const STDERR_BYTES_MAX: u64 = 16 * 1024;

/// The output of a git command.
#[derive(Debug)]
pub(crate) struct GitOutput {
    verb: &'static str,
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl GitOutput {
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

    /// This answer as an error, for a caller that expected another exit code.
    pub(crate) fn failure(&self) -> GitError {
        GitError::failed(self.verb, self.status.code(), &self.stderr)
    }
}

/// The start of a git command's output.
#[derive(Debug)]
pub(crate) struct GitOutputHead {
    pub(crate) bytes: Vec<u8>,
    /// Whether it was truncated.
    pub(crate) is_cut: bool,
}

/// Which part of a long output counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum OutputPart {
    /// All of it, or it is an error.
    Whole,
    /// So many bytes.
    First(usize),
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

/// Reads the first `max` bytes and closes the pipe, so that the writer ends.
pub(super) async fn read_first(pipe: Option<impl AsyncRead + Unpin>, max: usize) -> Read {
    let Some(pipe) = pipe else { return Read::Whole(Vec::new()) };
    let (limit, mut bytes) = (u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1), Vec::new());
    // What was read before an error is the start all the same; the exit code reports the rest.
    let _ = pipe.take(limit).read_to_end(&mut bytes).await;
    if bytes.len() <= max {
        return Read::Whole(bytes);
    }
    bytes.truncate(max);
    Read::Cut(bytes)
}

/// Keeps about the last `max` bytes and reads on, so that the writer never blocks.
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
