//! One at a time: whoever brings logins together, for whichever room.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
        let state = note.ancestors().nth(BELOW_STATE).unwrap_or(Path::new("."));
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(state.join(LOCK))?;
        lock.lock()?;
        Ok(Self(lock))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A program that is being started at this moment has a copy of the descriptor, and closing ours would not free it.
        let _ = self.0.unlock();
    }
}
