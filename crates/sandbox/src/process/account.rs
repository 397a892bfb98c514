//! Another account of this machine, for untrusted programs [T8].

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};

use crate::dirfd::DirFd;

/// The account that engines, setup and verify commands run under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    name: String,
    uid: u32,
    gid: u32,
}

/// An unusable account.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The machine has no such account.
    #[error("there is no account `{0}` on this machine: make one, or leave `run_as` out")]
    Unknown(String),
    /// It would isolate nothing.
    #[error("account `{0}` is this factory's own, or root: give `run_as` another")]
    NoWall(String),
    /// Only root may run programs under another account.
    #[error("`run_as` needs a factory that runs as root: this one cannot become `{0}`")]
    NotRoot(String),
    /// It cannot enter its working directory.
    #[error("account `{name}` cannot reach {path}: keep the factory's `state` elsewhere, or `chmod o+x` it")]
    Unreachable {
        /// The account.
        name: String,
        /// The first directory that it cannot enter.
        path: PathBuf,
    },
    /// An I/O error.
    #[error("cannot open {path} to account `{name}`")]
    Disk {
        /// The account.
        name: String,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The user database.
const PASSWD: &str = "/etc/passwd";

/// Traverse without list.
const ENTER_ONLY: u32 = 0o710;

impl Account {
    /// The account of this name, if programs can be run under it.
    pub fn named(name: &str) -> Result<Self, AccountError> {
        let passwd = fs::read_to_string(PASSWD).unwrap_or_default();
        let (uid, gid) =
            ids_of(&passwd, name).ok_or_else(|| AccountError::Unknown(domain::escape_for_terminal(name)))?;
        let own = rustix::process::geteuid();
        if uid == 0 || uid == own.as_raw() {
            return Err(AccountError::NoWall(name.to_owned()));
        }
        if !own.is_root() {
            return Err(AccountError::NotRoot(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), uid, gid })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The number of its group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Lets the account traverse `folders`, which are in `root`, without listing them. No other account gains access.
    pub fn let_through(&self, root: &Path, folders: &[PathBuf]) -> Result<(), AccountError> {
        for folder in std::iter::once(root).chain(folders.iter().map(PathBuf::as_path)) {
            let opened = chown(folder, None, Some(self.gid))
                .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(ENTER_ONLY)));
            opened.map_err(|source| self.refused(folder, source))?;
        }
        let closed = root.ancestors().skip(1).find(|above| !self.can_enter(above));
        match closed {
            Some(path) => Err(AccountError::Unreachable { name: self.name.clone(), path: path.to_owned() }),
            None => Ok(()),
        }
    }

    /// Gives it a directory, whose path only the factory can change, with its content.
    pub fn give(&self, path: &Path) -> io::Result<()> {
        DirFd::open(path)?.give(self)
    }

    /// Gives it the directory at `names` below `root`, created if missing. Those on the path stay the factory's, and
    /// are taken back if they were not: the account traverses them and cannot redirect them.
    pub fn give_below<'n>(&self, root: &Path, names: impl IntoIterator<Item = &'n OsStr>) -> io::Result<()> {
        let mut folder = DirFd::open(root)?;
        for name in names {
            folder.own(rustix::process::geteuid().as_raw(), self.gid)?;
            folder.set_mode(ENTER_ONLY)?;
            folder = folder.make(name)?;
        }
        folder.own(self.uid, self.gid)
    }

    /// Lets it read a directory of the factory with its content, and later additions. Only its group changes.
    pub fn let_read(&self, path: &Path) -> io::Result<()> {
        let found = fs::symlink_metadata(path)?;
        if found.is_symlink() {
            return Ok(());
        }
        if found.gid() != self.gid {
            lchown(path, None, Some(self.gid))?;
        }
        let mode = found.mode() & 0o7777;
        let wanted = if found.is_dir() { (mode & 0o700) | 0o2050 } else { (mode & 0o700) | 0o040 };
        if mode != wanted {
            fs::set_permissions(path, fs::Permissions::from_mode(wanted))?;
        }
        if found.is_dir() {
            for entry in fs::read_dir(path)? {
                self.let_read(&entry?.path())?;
            }
        }
        Ok(())
    }

    /// An I/O error while `path` is opened to it.
    pub fn refused(&self, path: &Path, source: io::Error) -> AccountError {
        AccountError::Disk { name: self.name.clone(), path: path.to_owned(), source }
    }

    fn can_enter(&self, folder: &Path) -> bool {
        fs::metadata(folder).is_ok_and(|found| {
            let bit = match () {
                () if found.uid() == self.uid => 0o100,
                () if found.gid() == self.gid => 0o010,
                () => 0o001,
            };
            found.mode() & bit != 0
        })
    }
}

/// The home directories of the current account according to the user database: `HOME` may differ.
pub fn own_homes() -> Vec<PathBuf> {
    let passwd = fs::read_to_string(PASSWD).unwrap_or_default();
    homes_of(&passwd, rustix::process::geteuid().as_raw())
}

/// The homes in lines `name:password:uid:gid:comment:home:…`. A uid can have several names.
fn homes_of(passwd: &str, uid: u32) -> Vec<PathBuf> {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let own = fields.filter(|fields| fields.get(2).and_then(|field| field.parse().ok()) == Some(uid));
    own.filter_map(|fields| fields.get(5).map(PathBuf::from)).collect()
}

/// User and group of a line `name:password:uid:gid:…`.
fn ids_of(passwd: &str, name: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name) && !name.is_empty();
        let (_, uid, gid) = (fields.next()?, fields.next()?, fields.next()?);
        is_it.then(|| Some((uid.parse().ok()?, gid.parse().ok()?)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nagent:x:1001:1002::/home/agent:/bin/sh\n";

        assert_eq!(ids_of(passwd, "agent"), Some((1001, 1002)));
        assert_eq!(ids_of(passwd, "agen"), None);
        assert_eq!(ids_of(passwd, ""), None);
    }

    #[test]
    fn a_home_is_found_by_the_number_of_its_account() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nagent:x:1001:0::/home/agent:/bin/sh\ntoor:x:0:0::/toor:\nbad:x:0\n";

        assert_eq!(homes_of(passwd, 0), [PathBuf::from("/root"), PathBuf::from("/toor")]);
        assert_eq!(homes_of(passwd, 1001), [PathBuf::from("/home/agent")]);
        assert_eq!(homes_of(passwd, 100), [] as [PathBuf; 0]);
    }

    #[test]
    fn root_is_no_wall_and_a_stranger_is_no_account() {
        assert!(matches!(Account::named("root"), Err(AccountError::NoWall(_))));
        assert!(matches!(Account::named("no such account"), Err(AccountError::Unknown(_))));
    }
}
