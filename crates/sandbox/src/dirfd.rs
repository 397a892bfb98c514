//! A directory that another account may change concurrently.
//!
//! The factory may be root, and its agents own their working directories. A path may lead elsewhere once an agent puts
//! a link into it, so every step here uses a descriptor, one name at a time, and follows no link.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, chmodat, fchmod, fchown, flock, fstat,
    fsync, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::process::Account;

/// An open directory.
#[derive(Debug)]
pub struct DirFd(OwnedFd);

/// The deepest nesting: a program may nest directories without end.
const DEPTH_MAX: u32 = 256;

/// Directories on the path are traversed, not read.
#[cfg(target_os = "linux")]
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const ON_THE_WAY: OFlags = FOLDER;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Does not block on a pipe.
const TO_READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const TO_MAKE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl DirFd {
    /// Opens a directory by a path that only the factory can change. The directory itself must not be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// Opens a directory by a whole path without any link, also under concurrent changes.
    pub fn open_straight(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name), true) = (path.parent(), path.file_name(), path.is_absolute()) else {
            return Err(refusal("it is no whole path to a folder"));
        };
        let mut way = openat(CWD, "/", ON_THE_WAY, Mode::empty())?;
        for part in parent.components().skip_while(|part| *part == Component::RootDir) {
            let Component::Normal(part) = part else { return Err(refusal("its path goes back")) };
            way = openat(&way, part, ON_THE_WAY, Mode::empty())?;
        }
        Ok(Self(openat(&way, name, FOLDER, Mode::empty())?))
    }

    /// Opens a directory that the operator names, perhaps by a link.
    pub fn open_named(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?))
    }

    /// The directory of this name in it.
    pub fn enter(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        Ok(Self(openat(&self.0, name.as_ref(), FOLDER, Mode::empty())?))
    }

    /// The subdirectory of this name, created if it is missing.
    pub fn make(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        match mkdirat(&self.0, name.as_ref(), Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => self.enter(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Its entries, links included.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// A regular file with a single hard link: a second one may lead to a file outside of the agent's reach.
    pub fn file(&self, name: impl AsRef<OsStr>) -> io::Result<(File, Stat)> {
        let file = File::from(openat(&self.0, name.as_ref(), TO_READ, Mode::empty())?);
        let found = fstat(&file)?;
        if kind(&found) != FileType::RegularFile || found.st_nlink != 1 {
            return Err(refusal("it is not an ordinary file, or has another name"));
        }
        Ok((file, found))
    }

    /// The content of such a file, up to `bytes_max`.
    pub fn read(&self, name: impl AsRef<OsStr>, bytes_max: u64) -> io::Result<Vec<u8>> {
        let (file, _) = self.file(name)?;
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Copies an open file to `name`, atomically, with the owner of the original.
    pub fn copy_in(&self, name: &str, from: (File, Stat), bytes_max: u64) -> io::Result<()> {
        let (file, found) = from;
        if u64::try_from(found.st_size).unwrap_or(u64::MAX) > bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.put(name, file.take(bytes_max), (found.st_uid, found.st_gid))
    }

    /// Writes bytes to `name`, atomically, with the user and the group of `owner`.
    pub fn put(&self, name: &str, bytes: impl Read, owner: (u32, u32)) -> io::Result<()> {
        let unfinished = format!(".{name}{}", crate::disk::UNFINISHED_SUFFIX);
        self.prepare(unfinished, bytes, FileAttributes { owner, mode: 0o600 })?.install(name)
    }

    /// Writes bytes to the disk under a name that only its writer uses, for a file with the owner and mode of another.
    pub fn prepare(&self, name: String, mut bytes: impl Read, like: FileAttributes) -> io::Result<PendingFile<'_>> {
        self.remove(&name)?;
        let mut copy = File::from(openat(&self.0, &name, TO_MAKE, Mode::from_raw_mode(0o600))?);
        let unfinished = PendingFile { folder: self, name, is_installed: false };
        io::copy(&mut bytes, &mut copy)?;
        like.dress(&copy)?;
        copy.sync_all()?;
        Ok(unfinished)
    }

    /// Locks the directory against other holders of its lock, or returns `None` while there is one. A file system that
    /// cannot lock directories (some network ones) is not locked.
    pub fn try_lock(&self) -> io::Result<Option<DirLock>> {
        let directory = Self(self.0.try_clone()?);
        match flock(&directory.0, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            Ok(()) | Err(Errno::BADF | Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS) => Ok(Some(DirLock(directory))),
            Err(error) => Err(error.into()),
        }
    }

    /// Syncs the directory to disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }

    /// Removes a file or a link. A missing one is already removed.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match unlinkat(&self.0, name.as_ref(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Listens on a socket of this name in it, for every account that can enter it; one that is there is replaced. By
    /// the descriptor where the system allows it: `path`, the directory's own, may be too long for a socket, or lead
    /// elsewhere by now.
    pub fn listen(&self, name: &str, path: &Path) -> io::Result<UnixListener> {
        self.remove(name)?;
        let folder = match cfg!(target_os = "linux") {
            true => PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd())),
            false => path.to_owned(),
        };
        let listener = UnixListener::bind(folder.join(name))?;
        chmodat(&self.0, name, Mode::from_raw_mode(0o666), AtFlags::empty())?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Whether there is a directory of this name in it.
    pub fn is_folder(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        match statat(&self.0, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(kind(&found) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Visits every file below it, at most `depth` directories deep, together with the file's directory.
    pub fn each_file(&self, depth: u32, look: &mut dyn FnMut(&Self, &OsStr)) {
        for name in self.names().unwrap_or_default() {
            match statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW).map(|found| kind(&found)) {
                Ok(FileType::RegularFile) => look(self, &name),
                Ok(FileType::Directory) if depth > 0 => {
                    if let Ok(inner) = self.enter(&name) {
                        inner.each_file(depth - 1, look);
                    }
                }
                _ => {}
            }
        }
    }

    /// Gives it to an account, with the directories and files in it. Links keep their owner: the directory's owner can
    /// read and replace them. Another account's file with a second hard link is not given away, and is reported.
    pub fn give(&self, account: &Account) -> io::Result<()> {
        self.give_within(account, DEPTH_MAX)
    }

    fn give_within(&self, account: &Account, depth: u32) -> io::Result<()> {
        let own = |found: &Stat| found.st_uid == account.uid();
        for name in self.names()? {
            let found = match statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            match kind(&found) {
                FileType::Directory if depth == 0 => return Err(refusal("its folders go too deep")),
                FileType::Directory => self.enter(&name)?.give_within(account, depth - 1)?,
                FileType::RegularFile if !own(&found) => {
                    let (file, found) = self.file(&name)?;
                    if !own(&found) {
                        fchown(&file, Some(Uid::from_raw(account.uid())), Some(Gid::from_raw(account.gid())))?;
                    }
                }
                _ => {}
            }
        }
        // Last: until then only the factory can change its content, if it was the owner.
        self.own(account.uid(), account.gid())
    }

    /// Gives only the directory to a user and a group.
    pub fn own(&self, uid: u32, gid: u32) -> io::Result<()> {
        let found = fstat(&self.0)?;
        if (found.st_uid, found.st_gid) != (uid, gid) {
            fchown(&self.0, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(())
    }

    /// Sets the mode of the directory itself.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// Restores the factory's right to change it and every directory below it.
    pub(crate) fn open_up(&self) -> io::Result<()> {
        self.open_up_within(DEPTH_MAX)
    }

    fn open_up_within(&self, depth: u32) -> io::Result<()> {
        self.set_mode(0o700)?;
        for name in self.names()? {
            let found = statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            if kind(&found) != FileType::Directory || depth == 0 {
                continue;
            }
            let inner = self.enter(&name).or_else(|_| {
                // An unreadable one has to be opened by its name. Root, whom a link could mislead, never needs to.
                chmodat(&self.0, &name, Mode::from_raw_mode(0o700), AtFlags::empty())?;
                self.enter(&name)
            });
            inner?.open_up_within(depth - 1)?;
        }
        Ok(())
    }
}

/// A locked directory, until it is dropped or the process ends.
#[derive(Debug)]
pub struct DirLock(DirFd);

impl std::ops::Deref for DirLock {
    type Target = DirFd;

    fn deref(&self) -> &DirFd {
        &self.0
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // A program that is being started has a copy of the descriptor: closing it would not release the lock.
        let _ = flock(&self.0.0, FlockOperation::Unlock);
    }
}

/// The owner and mode of a file.
#[derive(Debug, Clone, Copy)]
pub struct FileAttributes {
    /// Its user and its group.
    pub owner: (u32, u32),
    /// What they and others may do.
    pub mode: u32,
}

impl FileAttributes {
    /// As a file that was found.
    pub fn found(found: &Stat) -> Self {
        Self { owner: (found.st_uid, found.st_gid), mode: found.st_mode & 0o777 }
    }

    fn dress(self, file: &File) -> io::Result<()> {
        let (found, (uid, gid), mut mode) = (fstat(file)?, self.owner, self.mode);
        if found.st_uid != uid {
            fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        } else if found.st_gid != gid && fchown(file, None, Some(Gid::from_raw(gid))).is_err() {
            // The permissions of one group do not apply to another.
            mode &= 0o707;
        }
        if mode != 0o600 {
            fchmod(file, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }
}

/// A complete file that is not yet in its place. Dropping it removes it.
#[derive(Debug)]
pub struct PendingFile<'a> {
    folder: &'a DirFd,
    name: String,
    is_installed: bool,
}

impl PendingFile<'_> {
    /// Renames it into its place. Durable.
    pub fn install(mut self, name: &str) -> io::Result<()> {
        renameat(&self.folder.0, &self.name, &self.folder.0, name)?;
        self.is_installed = true;
        self.folder.sync()
    }
}

impl Drop for PendingFile<'_> {
    fn drop(&mut self) {
        if !self.is_installed {
            let _ = self.folder.remove(&self.name);
        }
    }
}

fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn refusal(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use rustix::fs::mknodat;

    use testkit::requirement::Requirement;

    use super::*;

    // [T8] [attack: a prompt-injected agent steals secrets]
    #[test]
    fn only_an_ordinary_file_with_one_name_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("plain"), "words").unwrap();
        fs::write(path("secret"), "canary").unwrap();
        fs::hard_link(path("secret"), path("second-name")).unwrap();
        symlink(path("plain"), path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let folder = DirFd::open(place.path()).unwrap();

        let read = |name: &str| folder.read(name, 3).ok();

        assert_eq!(read("plain"), Some(b"wor".to_vec()));
        for name in ["second-name", "secret", "link", "folder", "pipe", "missing"] {
            assert_eq!(read(name), None, "{name}");
        }
        assert!(folder.enter("link").is_err() && folder.make("link").is_err() && folder.enter("folder").is_ok());
    }

    #[test]
    fn a_straight_way_has_no_link_in_any_part_of_it() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o100)).unwrap();
        symlink(root.join("a"), root.join("link")).unwrap();
        symlink(root.join("a/b/c"), root.join("a/link")).unwrap();

        let opened =
            ["a/b/c", "link/b/c", "a/link", "a/../a/b/c"].map(|path| DirFd::open_straight(&root.join(path)).is_ok());

        assert_eq!(opened, [true, false, false, false]);
        fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
    }

    // [T8]
    #[test]
    fn a_hard_link_to_another_accounts_file_is_not_given_away() {
        let Ok(account) = Account::named("nobody") else {
            Requirement::Root.skip("changing the owner of a file needs root and an account `nobody`");
            return;
        };
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("room/deep")).unwrap();
        fs::write(path("room/deep/own"), "").unwrap();
        fs::write(path("secret"), "").unwrap();
        symlink(path("secret"), path("room/link")).unwrap();
        let owner = |name: &str| fs::symlink_metadata(path(name)).unwrap().uid();

        account.give(&path("room")).unwrap();
        let given = ["room", "room/deep", "room/deep/own"].map(owner);
        fs::hard_link(path("secret"), path("room/deep/second-name")).unwrap();
        let refused = account.give(&path("room"));

        assert_eq!(given, [account.uid(); 3]);
        assert!(refused.is_err());
        assert_eq!((owner("secret"), owner("room/link")), (0, 0));
    }

    // [T8]
    #[test]
    fn the_way_to_a_cache_is_not_the_agents_to_change() {
        let Ok(account) = Account::named("nobody") else {
            Requirement::Root.skip("changing the owner of a file needs root and an account `nobody`");
            return;
        };
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let names = || ["product", "repo", "target"].map(OsStr::new);
        account.give_below(place.path(), names()).unwrap();
        let owner = |name: &str| fs::metadata(path(name)).map(|found| (found.uid(), found.mode() & 0o777)).unwrap();
        let owners = ["product", "product/repo", "product/repo/target"].map(owner);

        // As an agent that could change it would redirect it.
        fs::rename(path("product/repo"), path("moved")).unwrap();
        fs::create_dir(path("etc")).unwrap();
        symlink(path("etc"), path("product/repo")).unwrap();
        let refused = account.give_below(place.path(), names());

        assert_eq!(owners, [(0, 0o710), (0, 0o710), (account.uid(), 0o700)]);
        assert!(refused.is_err());
        assert_eq!(fs::read_dir(path("etc")).unwrap().count(), 0);
    }

    // [T8]
    #[test]
    fn folders_that_may_not_be_read_are_opened_up_and_links_are_left() {
        let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let inner = place.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o500)).unwrap();
        symlink(outside.path(), place.path().join("a/link")).unwrap();
        for folder in [&inner, &place.path().join("a")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o100)).unwrap();
        }

        DirFd::open(place.path()).unwrap().open_up().unwrap();

        assert_eq!((mode(&inner), mode(outside.path())), (0o700, 0o500));
    }
}
