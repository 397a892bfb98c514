//! A lock file beside the database, for one process at a time. The kernel releases it when its holder dies.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::open_error::OpenError;
use crate::private;

/// Exclusive access to the database. Dropping it, or the end of the process, releases it.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Acquires the lock of the database at `path`; creates its directory.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::create_directory(folder).map_err(OpenError::files(folder))?;
        }
        let beside = beside(path);
        let mut options = private::file();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&beside).map_err(OpenError::files(&beside))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse { path: path.to_owned(), holder: holder(file) });
            }
            Err(TryLockError::Error(source)) => return Err(OpenError::Files { path: beside, source }),
        }
        sign(&mut file).map_err(OpenError::files(&beside))?;
        Ok(Self { _file: file })
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    PathBuf::from(name)
}

fn sign(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

fn holder(mut file: File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
