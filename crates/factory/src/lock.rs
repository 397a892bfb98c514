//! A lock between processes of one host, which the operating system releases when its holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Clock;

use crate::error::Error;

/// Holds the lock; dropping it, or dying, releases it.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

/// How often a held lock is tried again: short beside a fetch, long beside a system call.
const RETRY_EVERY: Duration = Duration::from_millis(50);

impl FileLock {
    /// Takes the lock if it is free.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>, Error> {
        // Every holder opens the file itself: the lock belongs to the file description, so it also excludes within a
        // process.
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::disk("open the lock", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(Error::Disk { doing: "lock", path: PathBuf::from(path), source }),
        }
    }

    /// Writes the holder's process id into the file, for people, which also sets its time.
    pub(crate) fn sign(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(format!("{}\n", std::process::id()).as_bytes())
    }

    /// A handle that holds the lock as well, for a process that must not outlive it.
    pub(crate) fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Waits for the lock without blocking the async threads.
    pub(crate) async fn take(path: &Path, clock: &dyn Clock, patience: Duration) -> Result<Self, Error> {
        let asked_at = clock.monotonic();
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if clock.monotonic().saturating_sub(asked_at) >= patience {
                return Err(Error::Locked { path: path.to_owned() });
            }
            clock.sleep(RETRY_EVERY).await;
        }
    }
}
