//! The folders on disk: names, moves that replace nothing, files that are read once and safely.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::folder::Folder;
use crate::failure::Failure;

/// One byte more than a manifest may have, so that one that is too long is noticed.
const READ_BYTES_MAX: u64 = 1024 * 1024 + 1;

/// A report that is being written; a crash may leave one behind.
const UNFINISHED: &str = ".giga.unfinished";

/// The longest file name that every file system of ours takes.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// The folder queue.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    root: PathBuf,
}

/// Metadata that distinguishes two states of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileStamp {
    inode: u64,
    len: u64,
    modified_s: i64,
    modified_ns: i64,
}

/// A file that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: FileStamp,
}

/// The names that are in each folder.
#[derive(Debug, Default)]
pub(crate) struct Names([BTreeSet<OsString>; 6]);

/// What became of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveOutcome {
    /// It is done.
    Done,
    /// A file with this name already exists; nothing was moved.
    Taken,
    /// There is nothing to move.
    Missing,
}

impl Queue {
    /// The queue in this directory, which is created if missing.
    pub(crate) fn open(root: &Path) -> Result<Self, Failure> {
        for folder in Folder::ALL {
            let path = root.join(folder.as_str());
            let trouble =
                |why: &dyn std::fmt::Display| Failure::failed(format!("cannot use {}: {why}", path.display()));
            std::fs::create_dir_all(&path).map_err(|error| trouble(&error))?;
            let found = std::fs::symlink_metadata(&path).map_err(|error| trouble(&error))?;
            if !found.is_dir() {
                return Err(trouble(&"it is a link or a file").hint("files can only move between real folders"));
            }
        }
        Ok(Self { root: root.to_owned() })
    }

    /// The directory of the queue.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folders that users change.
    pub(crate) fn folders(&self) -> [PathBuf; 6] {
        Folder::ALL.map(|folder| self.root.join(folder.as_str()))
    }

    pub(super) fn path(&self, folder: Folder, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(folder.as_str()).join(name)
    }

    /// Removes what a crash left in the middle of a write. For the one who keeps the queue.
    pub(super) fn clear_unfinished(&self) {
        for folder in Folder::ALL {
            let _ = std::fs::remove_file(self.path(folder, UNFINISHED));
        }
    }

    /// The current content of the folders.
    pub(super) fn names(&self) -> io::Result<Names> {
        let mut names = Names::default();
        for folder in Folder::ALL {
            for entry in std::fs::read_dir(self.root.join(folder.as_str()))? {
                names.0[folder as usize].insert(entry?.file_name());
            }
        }
        Ok(names)
    }

    /// Moves a file in one step. Nothing is ever replaced.
    pub(super) fn shift(&self, from: (Folder, &str), to: (Folder, &str)) -> io::Result<MoveOutcome> {
        let (old, new) = (self.path(from.0, from.1), self.path(to.0, to.1));
        match renameat_with(CWD, &old, CWD, &new, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(MoveOutcome::Done),
            Err(Errno::EXIST) => Ok(MoveOutcome::Taken),
            Err(Errno::NOENT) => Ok(MoveOutcome::Missing),
            // A file system that cannot promise it.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if std::fs::symlink_metadata(&new).is_ok() => {
                Ok(MoveOutcome::Taken)
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => std::fs::rename(&old, &new).map(|()| MoveOutcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// The metadata of this state of a file; `None` if there is no regular file.
    pub(super) fn stamp(&self, folder: Folder, name: &str) -> Option<FileStamp> {
        let found = std::fs::symlink_metadata(self.path(folder, name)).ok()?;
        found.is_file().then(|| FileStamp::of(&found))
    }

    /// Reads an ordinary file, never through a link, never waiting for a pipe, never more than a manifest may have.
    pub(super) fn read(&self, folder: Folder, name: &str) -> io::Result<Content> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(self.path(folder, name), flags, Mode::empty())?);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let mut bytes = Vec::new();
        file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Content { bytes, stamp: FileStamp::of(&found) })
    }

    /// Writes a file as a whole, in one step.
    pub(super) fn write(&self, folder: Folder, name: &str, text: &str) -> io::Result<()> {
        let unfinished = self.path(folder, UNFINISHED);
        let mut file = File::create(&unfinished)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&unfinished, self.path(folder, name))
    }
}

impl Names {
    /// Whether a folder has something with this name.
    pub(super) fn has(&self, folder: Folder, name: &str) -> bool {
        self.0[folder as usize].contains(std::ffi::OsStr::new(name))
    }

    /// Whether any folder has something with this name.
    pub(super) fn has_anywhere(&self, name: &str) -> bool {
        Folder::ALL.into_iter().any(|folder| self.has(folder, name))
    }

    /// The names in a folder.
    pub(super) fn within(&self, folder: Folder) -> &BTreeSet<OsString> {
        &self.0[folder as usize]
    }

    #[cfg(test)]
    pub(super) fn add(&mut self, folder: Folder, name: &str) {
        self.0[folder as usize].insert(name.into());
    }
}

impl FileStamp {
    fn of(found: &std::fs::Metadata) -> Self {
        Self { inode: found.ino(), len: found.size(), modified_s: found.mtime(), modified_ns: found.mtime_nsec() }
    }

    /// A file of this length, last written to at this time.
    #[cfg(test)]
    pub(super) fn written_at(at: domain::Timestamp, len: u64) -> Self {
        let (seconds, millis) = (at.as_millis().div_euclid(1_000), at.as_millis().rem_euclid(1_000));
        Self { inode: 1, len, modified_s: seconds, modified_ns: millis * 1_000_000 }
    }

    /// Metadata that matches no file, so that the file is read before it is used.
    pub(super) const UNKNOWN: Self = Self { inode: 0, len: 0, modified_s: 0, modified_ns: 0 };

    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// When it was last written to, in milliseconds since 1970.
    pub(super) fn modified_ms(self) -> i64 {
        self.modified_s.saturating_mul(1_000).saturating_add(self.modified_ns / 1_000_000)
    }
}

impl Content {
    /// The hash of what was read.
    pub(super) fn sha256(&self) -> String {
        sha256(&self.bytes)
    }
}

/// The hash of a text.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first of `name`, `name-2`, `name-3`, … that is free.
pub(super) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let (stem, ending) = name.rsplit_once('.').map_or((name, String::new()), |(stem, end)| (stem, format!(".{end}")));
    let numbered = (2_u32..).map(|n| format!("{}-{n}{ending}", cut(stem, NAME_BYTES_MAX - ending.len() - 11)));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    candidates.find(|candidate| !is_taken(candidate)).unwrap_or_else(|| name.to_owned())
}

/// The beginning of a text that is no longer than this many bytes.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_replaces_nothing() {
        let root = tempfile::tempdir().unwrap();
        let queue = Queue::open(root.path()).unwrap();
        queue.write(Folder::Inbox, "a.md", "new").unwrap();
        queue.write(Folder::Failed, "a.md", "old").unwrap();

        assert_eq!(queue.shift((Folder::Inbox, "a.md"), (Folder::Failed, "a.md")).unwrap(), MoveOutcome::Taken);
        assert_eq!(queue.shift((Folder::Inbox, "b.md"), (Folder::Failed, "b.md")).unwrap(), MoveOutcome::Missing);
        assert_eq!(queue.shift((Folder::Inbox, "a.md"), (Folder::Shipped, "a.md")).unwrap(), MoveOutcome::Done);

        assert_eq!(queue.read(Folder::Failed, "a.md").unwrap().bytes, b"old");
        assert_eq!(queue.read(Folder::Shipped, "a.md").unwrap().bytes, b"new");
    }

    // [attack: hostile names]
    #[test]
    fn a_link_and_a_pipe_are_never_read() {
        let root = tempfile::tempdir().unwrap();
        let queue = Queue::open(root.path()).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", root.path().join("inbox/link.md")).unwrap();
        std::fs::create_dir(root.path().join("inbox/folder.md")).unwrap();
        let fifo = root.path().join("inbox/pipe.md");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();

        for name in ["link.md", "pipe.md", "folder.md"] {
            assert!(queue.read(Folder::Inbox, name).is_err(), "{name}");
            assert_eq!(queue.stamp(Folder::Inbox, name), None, "{name}");
        }
    }

    #[test]
    fn a_folder_that_is_a_link_is_refused() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("inbox")).unwrap();

        assert!(Queue::open(root.path()).is_err());
    }

    #[test]
    fn a_free_name_keeps_its_ending_and_fits() {
        let taken = ["a.md", "a-2.md"];
        let long = format!("{}.md", "é".repeat(126));

        assert_eq!(free_name("a.md", |name| taken.contains(&name)), "a-3.md");
        assert_eq!(free_name("b.md", |name| taken.contains(&name)), "b.md");
        let other = free_name(&long, |name| name == long);
        assert!(other.len() <= NAME_BYTES_MAX && other.ends_with("-2.md"), "{other}");
    }
}
