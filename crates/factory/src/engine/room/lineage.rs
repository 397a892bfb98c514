//! A note beside a job's room, of the login that was carried there: where it is from, and what either side has held.
//!
//! It is written before the login is there and goes after it, so that one that a crash left tells of a login that a crash
//! left. It lies where the agent cannot write. Whoever carries the login holds a lock on it, which dies with its process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What the names of these notes end with.
pub(super) const SUFFIX: &str = ".login";

/// A login is refreshed every few hours; nobody goes back further than this.
const KNOWN_MAX: usize = 32;

/// Such a note, and the lock on it.
#[derive(Debug)]
pub(super) struct Lineage {
    path: PathBuf,
    file: File,
    origin: Origin,
    /// Digests of what either side has held, the oldest first.
    known: Vec<String>,
}

/// Where a login is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Origin {
    /// The operator's folder, as it is really called.
    pub(super) folder: PathBuf,
    /// The operator's file in it.
    pub(super) file: String,
    /// What it is called in the room.
    pub(super) name: String,
}

impl Lineage {
    /// Begins a note. Whoever held an earlier one of the same job has lost it.
    pub(super) fn begin(path: &Path, origin: Origin) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        file.try_lock()?;
        let mut line = serde_json::to_vec(&origin)?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.sync_data()?;
        Ok(Self { path: path.to_owned(), file, origin, known: Vec::new() })
    }

    /// The note that an earlier run of a job left, whether that run has ended or not: the job has one room.
    pub(super) fn found(path: &Path) -> Option<Self> {
        let file = OpenOptions::new().read(true).append(true).open(path).ok()?;
        Self::read(path, file)
    }

    /// The note that a run left which has ended: nobody holds it any more.
    pub(super) fn left(path: &Path) -> Option<Self> {
        let file = OpenOptions::new().read(true).append(true).open(path).ok()?;
        file.try_lock().ok()?;
        Self::read(path, file).filter(Self::is_current)
    }

    fn read(path: &Path, file: File) -> Option<Self> {
        let mut lines = BufReader::new(file.try_clone().ok()?).lines().map_while(Result::ok);
        let Some(origin) = lines.next().and_then(|line| serde_json::from_str(&line).ok()) else {
            // Its writer died before anything was carried.
            let _ = fs::remove_file(path);
            return None;
        };
        let known = lines.collect();
        Some(Self { path: path.to_owned(), file, origin, known })
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether no later run of the job has taken the room over.
    pub(super) fn is_current(&self) -> bool {
        let own = self.file.metadata().map(|own| (own.dev(), own.ino()));
        let found = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        matches!((own, found), (Ok(own), Ok(found)) if own == found)
    }

    /// How far along something is that one side has held.
    pub(super) fn position(&self, bytes: &[u8]) -> Option<usize> {
        let digest = digest(bytes);
        self.known.iter().rposition(|known| *known == digest)
    }

    /// Notes what a side is about to hold, and says so before it does.
    pub(super) fn know(&mut self, bytes: &[u8]) -> io::Result<()> {
        let digest = digest(bytes);
        self.file.write_all(format!("{digest}\n").as_bytes())?;
        self.file.sync_data()?;
        self.known.push(digest);
        if self.known.len() > KNOWN_MAX {
            self.known.remove(0);
        }
        Ok(())
    }

    /// Where something is kept that a person has to look at.
    pub(super) fn beside(&self, what: &str) -> PathBuf {
        self.path.with_extension(what)
    }

    /// The login is gone from the room.
    pub(super) fn end(&self) {
        if self.is_current() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin { folder: "/home/ada/.claude".into(), file: "a.json".to_owned(), name: "b.json".to_owned() }
    }

    #[test]
    fn a_note_tells_the_next_process_what_was_known_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.login");
        let mut note = Lineage::begin(&path, origin()).unwrap();
        note.know(b"first-secret").unwrap();
        note.know(b"second-secret").unwrap();

        assert!(Lineage::left(&path).is_none(), "somebody holds it");
        drop(note);
        let left = Lineage::left(&path).unwrap();

        assert_eq!(left.origin(), &origin());
        assert_eq!(
            [b"first-secret".as_slice(), b"second-secret", b"x"].map(|text| left.position(text)),
            [Some(0), Some(1), None]
        );
        assert!(!fs::read_to_string(&path).unwrap().contains("secret"));
    }

    #[test]
    fn a_later_run_takes_the_room_over_and_the_earlier_one_knows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.login");
        let earlier = Lineage::begin(&path, origin()).unwrap();

        let later = Lineage::begin(&path, origin()).unwrap();
        earlier.end();

        assert!(!earlier.is_current() && later.is_current() && path.exists());
        later.end();
        assert!(!path.exists());
    }
}
