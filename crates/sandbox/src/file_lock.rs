//! A lock between processes of one host, which the operating system releases when its holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Clock;

/// Holds the lock; dropping it, or dying, releases it.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// An I/O error.
    #[error("cannot {doing} {path}")]
    Disk {
        /// The operation.
        doing: &'static str,
        /// The lock file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another process held it for too long.
    #[error("the lock {path} is held by another process and was not released in time")]
    Held {
        /// The lock file.
        path: PathBuf,
    },
}

/// How often a held lock is tried again: short beside a fetch, long beside a system call.
const RETRY_EVERY: Duration = Duration::from_millis(50);

impl FileLock {
    /// Takes the lock if it is free.
    pub fn try_take(path: &Path) -> Result<Option<Self>, LockError> {
        // Every holder opens the file itself: the lock belongs to the file description, so it also excludes within a
        // process.
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed("open the lock", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed("lock", path)(source)),
        }
    }

    /// Writes the holder's process id into the file, for people, which also sets its time.
    pub fn sign(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(format!("{}\n", std::process::id()).as_bytes())
    }

    /// A handle that holds the lock as well, for a process that must not outlive it.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Waits for the lock without blocking the async threads.
    pub async fn take(path: &Path, clock: &dyn Clock, patience: Duration) -> Result<Self, LockError> {
        let asked_at = clock.monotonic();
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if clock.monotonic().saturating_sub(asked_at) >= patience {
                return Err(LockError::Held { path: path.to_owned() });
            }
            clock.sleep(RETRY_EVERY).await;
        }
    }

    /// The process that holds a lock and has signed it, if one does. Creates no file.
    pub fn holder(path: &Path) -> Option<u32> {
        let number: i32 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
        let process = rustix::process::Pid::from_raw(number)?;
        if matches!(rustix::process::test_kill_process(process), Err(rustix::io::Errno::SRCH)) {
            return None;
        }
        // The pid may be that of another process by now: the lock decides.
        let is_held = match File::open(path).ok()?.try_lock_shared() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => return None,
        };
        is_held.then(|| u32::try_from(number).ok()).flatten()
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LockError {
    move |source| LockError::Disk { doing, path: path.to_owned(), source }
}
