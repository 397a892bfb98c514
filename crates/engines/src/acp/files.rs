//! The files that an agent reads and writes through the factory: only those of its worktree.
//!
//! Each path is opened one directory at a time, without following links: concurrent changes by the agent cannot lead
//! outside.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, fchown, fstat, ftruncate, mkdirat, openat, stat, statat,
};
use rustix::io::Errno;

/// The files of one worktree.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    /// The same directory without any link in its path, as the agent may know it.
    real_root: PathBuf,
}

/// Why a file is not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("the path is outside the worktree")]
    Outside,
    #[error("the path goes through a link")]
    Link,
    #[error("git's own files are not served")]
    Git,
    #[error("it is not an ordinary file")]
    NotAFile,
    #[error("there is no such file")]
    Missing,
    #[error("it has more than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("I/O error")]
    Disk(#[source] io::Error),
}

/// The largest file. A source file is far smaller, and one line of the protocol holds all of it.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

impl Files {
    pub(super) fn below(root: &Path) -> Self {
        let real_root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { root: root.to_owned(), real_root }
    }

    /// The text of a file, from a line (counted from 1) and for so many lines.
    pub(super) fn read(&self, path: &Path, line: Option<u32>, limit: Option<u32>) -> Result<String, FileError> {
        let (folder, name) = self.find(path, Folders::MustExist)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&folder, &name, flags, Mode::empty()).map_err(refused)?);
        // A hard link may name a file outside that only the factory can read.
        let found = ordinary(&file)?;
        if found.st_nlink > 1 && found.st_uid != stat(&self.real_root).map_err(refused)?.st_uid {
            return Err(FileError::Link);
        }
        let mut bytes = Vec::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(FileError::Disk)?;
        if u64::try_from(read).is_ok_and(|read| read > FILE_BYTES_MAX) {
            return Err(FileError::TooLarge);
        }
        let text = String::from_utf8_lossy(&bytes);
        if line.is_none() && limit.is_none() {
            return Ok(text.into_owned());
        }
        let before = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
        let count = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        Ok(text.split_inclusive('\n').skip(before).take(count).collect())
    }

    /// Replaces the content of a file. Missing directories are created.
    pub(super) fn write(&self, path: &Path, content: &str) -> Result<(), FileError> {
        let (folder, name) = self.find(path, Folders::Make)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, &name, flags, Mode::from_raw_mode(0o644)).map_err(refused)?);
        // A second hard link may be outside.
        if ordinary(&file)?.st_nlink > 1 {
            return Err(FileError::Link);
        }
        ftruncate(&file, 0).map_err(refused)?;
        self.hand_over(&file)?;
        file.write_all(content.as_bytes()).map_err(FileError::Disk)
    }

    /// The directory that holds the file, open, and the file's name in it.
    fn find(&self, path: &Path, folders: Folders) -> Result<(OwnedFd, OsString), FileError> {
        let names = self.names(path)?;
        let Some((name, on_the_way)) = names.split_last() else { return Err(FileError::NotAFile) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = openat(CWD, &self.real_root, flags, Mode::empty()).map_err(refused)?;
        for name in on_the_way {
            if folders == Folders::Make {
                match mkdirat(&folder, *name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(refused(error)),
                }
            }
            folder = openat(&folder, *name, flags | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|error| through(&folder, name, error))?;
            if folders == Folders::Make {
                self.hand_over(&folder)?;
            }
        }
        Ok((folder, (*name).to_owned()))
    }

    /// New files get the owner of the worktree: an agent may run under another account.
    fn hand_over(&self, made: impl AsFd) -> Result<(), FileError> {
        let owner = stat(&self.real_root).map_err(refused)?;
        let found = fstat(&made).map_err(refused)?;
        if found.st_uid == owner.st_uid {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
        fchown(&made, Some(uid), Some(gid)).map_err(refused)
    }

    /// The path below the worktree, name by name.
    fn names<'p>(&self, path: &'p Path) -> Result<Vec<&'p OsStr>, FileError> {
        let below = path.strip_prefix(&self.root).or_else(|_| path.strip_prefix(&self.real_root));
        let below = below.map_err(|_| FileError::Outside)?;
        let mut names = Vec::new();
        for component in below.components() {
            let Component::Normal(name) = component else { return Err(FileError::Outside) };
            // Some file systems are case-insensitive.
            if name.eq_ignore_ascii_case(".git") {
                return Err(FileError::Git);
            }
            names.push(name);
        }
        Ok(names)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folders {
    MustExist,
    Make,
}

/// The metadata of a file, if it is a regular one.
fn ordinary(file: &File) -> Result<Stat, FileError> {
    let found = fstat(file).map_err(refused)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(FileError::NotAFile);
    }
    Ok(found)
}

/// Why a directory on the path cannot be opened: a link shows as a non-directory.
fn through(folder: &OwnedFd, name: &OsStr, error: Errno) -> FileError {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    match found {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Symlink => FileError::Link,
        _ => refused(error),
    }
}

fn refused(error: Errno) -> FileError {
    match error {
        Errno::NOENT => FileError::Missing,
        Errno::LOOP => FileError::Link,
        Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => FileError::NotAFile,
        error => FileError::Disk(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use testkit::requirement::Requirement;

    use super::*;

    /// A worktree, and beside it a secret.
    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("tree/src")).unwrap();
            fs::write(folder.path().join("tree/src/a.txt"), "one\ntwo\nthree\n").unwrap();
            fs::write(folder.path().join("tree/.git"), "gitdir: elsewhere\n").unwrap();
            fs::write(folder.path().join("secret"), "canary").unwrap();
            Self { folder }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.folder.path().join(below)
        }

        fn files(&self) -> Files {
            Files::below(&self.path("tree"))
        }
    }

    #[test]
    fn a_file_of_the_worktree_is_read_whole_or_in_part() {
        let place = Place::new();
        let read = |line, limit| place.files().read(&place.path("tree/src/a.txt"), line, limit).unwrap();

        assert_eq!(read(None, None), "one\ntwo\nthree\n");
        assert_eq!(read(Some(2), None), "two\nthree\n");
        assert_eq!(read(Some(2), Some(1)), "two\n");
        assert_eq!(read(Some(9), Some(1)), "");
    }

    #[test]
    fn a_file_is_written_in_folders_that_are_made_for_it() {
        let place = Place::new();

        place.files().write(&place.path("tree/new/deep/b.txt"), "first, and longer").unwrap();
        place.files().write(&place.path("tree/new/deep/b.txt"), "second").unwrap();

        assert_eq!(fs::read_to_string(place.path("tree/new/deep/b.txt")).unwrap(), "second");
    }

    #[test]
    fn what_is_made_belongs_to_whom_the_worktree_does() {
        use std::os::unix::fs::MetadataExt;
        let place = Place::new();
        if std::os::unix::fs::chown(place.path("tree"), Some(12_345), Some(12_345)).is_err() {
            Requirement::Root.skip("only root can change the owner of a file");
            return;
        }

        place.files().write(&place.path("tree/new/b.txt"), "x").unwrap();

        let owner = |path: &str| fs::metadata(place.path(path)).map(|found| (found.uid(), found.gid())).unwrap();
        assert_eq!((owner("tree/new"), owner("tree/new/b.txt")), ((12_345, 12_345), (12_345, 12_345)));
    }

    // [attack: a prompt-injected agent steals secrets]
    #[test]
    fn no_way_leads_out_of_the_worktree() {
        let place = Place::new();
        symlink(place.path("secret"), place.path("tree/link")).unwrap();
        symlink(place.folder.path(), place.path("tree/up")).unwrap();
        symlink("/", place.path("tree/root")).unwrap();
        fs::hard_link(place.path("secret"), place.path("tree/second-name")).unwrap();
        let secret = place.path("secret");
        let ways = [
            "/etc/passwd",
            "src/a.txt",
            "../secret",
            secret.to_str().unwrap(),
            "tree/../secret",
            "tree/src/../../secret",
            "tree/link",
            "tree/up/secret",
            "tree/up/tree/src/a.txt",
            "tree/root/etc/passwd",
            "tree/.git",
            "tree/.GIT/config",
            "tree/src/.git/hooks/pre-commit",
            "tree/src",
            "tree",
            "tree-beside/x",
        ];

        for way in ways {
            let path = if way.starts_with("tree") { place.path(way) } else { PathBuf::from(way) };
            assert!(place.files().read(&path, None, None).is_err(), "read {way}");
            assert!(place.files().write(&path, "overwritten").is_err(), "write {way}");
        }
        assert!(place.files().write(&place.path("tree/second-name"), "overwritten").is_err());
        assert_eq!(fs::read_to_string(place.path("secret")).unwrap(), "canary");
        assert_eq!(fs::read_to_string(place.path("tree/.git")).unwrap(), "gitdir: elsewhere\n");
    }

    #[test]
    fn what_is_no_ordinary_file_is_refused_at_once() {
        let place = Place::new();
        rustix::fs::mknodat(CWD, place.path("tree/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();

        let read = place.files().read(&place.path("tree/pipe"), None, None);
        let written = place.files().write(&place.path("tree/pipe"), "x");

        assert!(matches!(read, Err(FileError::NotAFile)), "{read:?}");
        assert!(matches!(written, Err(FileError::NotAFile)), "{written:?}");
    }
}
