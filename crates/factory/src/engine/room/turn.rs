//! One at a time: whoever brings logins together, for whichever room.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tokio::runtime::{Handle, RuntimeFlavor};

/// The right to look at rooms and at operators' files and to change them, until it is dropped. It is held for a few writes
/// only: a note says who has a room, this says who acts.
#[derive(Debug)]
pub(super) struct Turn(File);

/// `<state>/sessions/<engine>/<job>.login`
const BELOW_STATE: usize = 3;
const LOCK: &str = "logins.lock";

impl Turn {
    /// Waits for it. `note` is one of those that share it: all of a state folder.
    pub(super) fn take(note: &Path) -> io::Result<Self> {
        let lock = open(note)?;
        lock.lock()?;
        Ok(Self(lock))
    }

    /// The same, or `None` while somebody else has it.
    pub(super) fn take_if_free(note: &Path) -> io::Result<Option<Self>> {
        let lock = open(note)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self(lock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn open(note: &Path) -> io::Result<File> {
    let state = note.ancestors().nth(BELOW_STATE).unwrap_or(Path::new("."));
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(state.join(LOCK))
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A program that is being started at this moment has a copy of the descriptor, and closing ours would not free it.
        let _ = self.0.unlock();
    }
}

/// Does what may have to wait for a turn or for the disk, while other threads take over what else this one had to do. A
/// runtime without others waits with it.
pub(super) fn patiently<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
