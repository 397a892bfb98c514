//! A note beside a job's room, of the login that was carried there: where it is from, and what either side has held.
//!
//! It is written before the login is there and goes after it, so that one that a crash left tells of a login that a crash
//! left. It lies where the agent cannot write. Whoever carries the login holds a lock on it, which dies with its process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sandbox::{UNFINISHED_SUFFIX, remove_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What the names of these notes end with.
pub(super) const SUFFIX: &str = ".login";

/// A login is refreshed every few hours; nobody goes back further than this.
const KNOWN_MAX: usize = 32;

/// What stands behind the digest of a login that the operator's file has held.
const HELD: char = '=';

/// Such a note, and the lock on it.
#[derive(Debug)]
pub(super) struct Lineage {
    path: PathBuf,
    file: File,
    origin: Origin,
    /// Digests of what either side has held, or is about to hold, the oldest first.
    known: Vec<Known>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    digest: String,
    /// Whether the operator's file has held it. What was only about to go there may be nowhere else than in the room.
    was_held: bool,
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
        // Nobody finds it before it is whole and locked.
        let unfinished = path.with_extension(format!("note{UNFINISHED_SUFFIX}"));
        remove_file(&unfinished)?;
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&unfinished)?;
        let written = file.try_lock().map_err(io::Error::from);
        let written = written.and_then(|()| file.write_all(&serde_json::to_vec(&origin)?));
        let written = written.and_then(|()| file.sync_all()).and_then(|()| fs::rename(&unfinished, path));
        if let Err(error) = written {
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Self { path: path.to_owned(), file, origin, known: Vec::new() })
    }

    /// The note that an earlier run of a job left, whether that run has ended or not: the job has one room.
    pub(super) fn found(path: &Path) -> io::Result<Option<Self>> {
        match OpenOptions::new().read(true).append(true).open(path) {
            Ok(file) => Self::read(path, file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The note that a run left which has ended: nobody holds it any more.
    pub(super) fn left(path: &Path) -> io::Result<Option<Self>> {
        let Some(found) = Self::found(path)? else { return Ok(None) };
        match found.file.try_lock() {
            Ok(()) => Ok(if found.is_current()? { Some(found) } else { None }),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn read(path: &Path, mut file: File) -> io::Result<Self> {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines();
        let origin = serde_json::from_str(lines.next().unwrap_or_default())?;
        let mut note = Self { path: path.to_owned(), file, origin, known: Vec::new() };
        for line in lines.filter(|line| !line.is_empty()) {
            let digest = line.trim_end_matches(HELD);
            note.remember(Known { digest: digest.to_owned(), was_held: line.ends_with(HELD) });
        }
        Ok(note)
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether no later run of the job has taken the room over.
    pub(super) fn is_current(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How far along a login is that one side has held.
    pub(super) fn position(&self, login: &[u8]) -> Option<usize> {
        self.find(&digest(login))
    }

    /// Whether the operator's file has held a login.
    pub(super) fn was_held(&self, login: &[u8]) -> bool {
        self.position(login).is_some_and(|position| self.known[position].was_held)
    }

    /// Notes what the operator's file is about to hold, before it does. What it holds until then is not forgotten over it.
    pub(super) fn foresee(&mut self, next: &[u8], current: &[u8]) -> io::Result<()> {
        if self.position(next).is_some() {
            return Ok(());
        }
        if self.known.len() == KNOWN_MAX && self.position(current) == Some(0) {
            let held = self.known[0].clone();
            self.write(held)?;
        }
        self.write(Known { digest: digest(next), was_held: false })
    }

    /// Notes what the operator's file holds.
    pub(super) fn hold(&mut self, login: &[u8]) -> io::Result<()> {
        if self.was_held(login) { Ok(()) } else { self.write(Known { digest: digest(login), was_held: true }) }
    }

    fn write(&mut self, known: Known) -> io::Result<()> {
        let end = if known.was_held { HELD.to_string() } else { String::new() };
        // The line begins with its break: what a full disk has cut off before it is no part of it.
        self.file.write_all(format!("\n{}{end}", known.digest).as_bytes())?;
        self.file.sync_data()?;
        self.remember(known);
        Ok(())
    }

    /// As the note is read as well, so that who wrote it and who reads it know the same.
    fn remember(&mut self, known: Known) {
        match self.find(&known.digest) {
            Some(position) if !self.known[position].was_held => self.known[position] = known,
            _ => self.known.push(known),
        }
        if self.known.len() > KNOWN_MAX {
            self.known.remove(0);
        }
    }

    fn find(&self, digest: &str) -> Option<usize> {
        self.known.iter().rposition(|known| known.digest == digest)
    }

    /// What the job's files are called beside each other.
    pub(super) fn job(&self) -> &str {
        self.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where something is kept that a person has to look at.
    pub(super) fn beside(&self, what: &str) -> PathBuf {
        self.path.with_extension(what)
    }

    /// The login is gone from the room.
    pub(super) fn end(&self) -> io::Result<()> {
        if self.is_current()? { remove_file(&self.path) } else { Ok(()) }
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
        note.hold(b"first-secret").unwrap();
        note.foresee(b"second-secret", b"first-secret").unwrap();

        assert!(Lineage::left(&path).unwrap().is_none(), "somebody holds it");
        drop(note);
        let left = Lineage::left(&path).unwrap().unwrap();

        assert_eq!(left.origin(), &origin());
        assert_eq!(
            [b"first-secret".as_slice(), b"second-secret", b"x"].map(|text| (left.position(text), left.was_held(text))),
            [(Some(0), true), (Some(1), false), (None, false)]
        );
        assert!(!fs::read_to_string(&path).unwrap().contains("secret"));
    }

    #[test]
    fn what_the_operators_file_holds_is_not_forgotten_however_often_something_else_is_to_come() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.login");
        let mut note = Lineage::begin(&path, origin()).unwrap();
        note.hold(b"held").unwrap();

        for number in 0..3 * KNOWN_MAX {
            note.foresee(number.to_string().as_bytes(), b"held").unwrap();
            note.foresee(number.to_string().as_bytes(), b"held").unwrap();
            assert!(note.position(b"held") < note.position(number.to_string().as_bytes()) && note.was_held(b"held"));
        }
        let known = note.known.clone();
        drop(note);

        assert_eq!(Lineage::left(&path).unwrap().unwrap().known, known, "whoever reads it knows the same");
        assert_eq!(known.len(), KNOWN_MAX);
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.login");
        let mut note = Lineage::begin(&path, origin()).unwrap();
        note.file.write_all(b"\n0123").unwrap();
        note.hold(b"held").unwrap();
        drop(note);

        assert!(Lineage::found(&path).unwrap().unwrap().was_held(b"held"));
    }

    #[test]
    fn a_note_that_cannot_be_read_is_left_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.login");
        fs::write(&path, "").unwrap();

        assert!(Lineage::left(&path).is_err() && Lineage::found(&path).is_err() && path.exists());
    }

    #[test]
    fn a_later_run_takes_the_room_over_and_the_earlier_one_knows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.login");
        let earlier = Lineage::begin(&path, origin()).unwrap();

        let later = Lineage::begin(&path, origin()).unwrap();
        earlier.end().unwrap();

        assert!(!earlier.is_current().unwrap() && later.is_current().unwrap() && path.exists());
        later.end().unwrap();
        assert!(!path.exists());
    }
}
