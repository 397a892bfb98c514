//! Files of an operator's directory, and the copies of them in a job's home.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sandbox::DirFd;

use crate::registry::SignInMethod;

/// Credentials are a few tokens; settings are written by people.
const BYTES_MAX: u64 = 1024 * 1024;

/// Who can change an operator's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writers {
    /// The operator alone.
    Operator,
    /// Agents too: it is in their home, or in another directory that they can write to.
    Agents,
}

/// A regular file of an operator's directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OperatorFile {
    /// Its directory, without links.
    pub(super) folder: PathBuf,
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads a file of an operator's directory. `None` if it does not exist or is no regular file. An operator may have links in
/// a directory of their own. Where agents can write, no link is followed: it could lead to any file of the factory.
pub(super) fn read_operator_file(operators: &Path, writers: Writers, name: &str) -> io::Result<Option<OperatorFile>> {
    match found(operators, writers, name) {
        Ok(found) => Ok(found),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => {
            let path = operators.join(name);
            Err(io::Error::new(error.kind(), format!("{} cannot be read: {error}", path.display())))
        }
    }
}

fn found(operators: &Path, writers: Writers, name: &str) -> io::Result<Option<OperatorFile>> {
    let (folder, name) = match writers {
        Writers::Agents => (operators.to_owned(), name.to_owned()),
        Writers::Operator => {
            let file = operators.join(name).canonicalize()?;
            let name = file.file_name().and_then(OsStr::to_str);
            let (Some(folder), Some(name)) = (file.parent(), name) else { return Ok(None) };
            (folder.to_owned(), name.to_owned())
        }
    };
    let bytes = read(&DirFd::open_straight(&folder)?, &name)?;
    Ok(Some(OperatorFile { folder, name, bytes }))
}

/// Whether an error means that there is no file, or no regular one with a single hard link.
pub(super) fn is_absence(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::InvalidInput => number.is_none(),
        _ => matches!(number, Some(Errno::LOOP | Errno::NXIO)),
    }
}

/// Whether a file exists, or its state is unknown.
pub(crate) fn may_be_there(file: &Path) -> bool {
    match fs::metadata(file) {
        Ok(found) => found.is_file(),
        Err(error) => !is_absence(&error),
    }
}

/// Copies the part of an operator's settings that applies to a job into its home.
pub(super) fn copy_settings(
    (operators, writers): (&Path, Writers),
    home: &Path,
    method: &SignInMethod,
) -> io::Result<()> {
    for name in method.settings {
        if let Some(file) = read_operator_file(operators, writers, name)?
            && let Some(fit) = (method.fit)(name, file.bytes)
        {
            put(home, name, &fit)?;
        }
    }
    Ok(())
}

/// The content of such a file, up to a limit.
pub(super) fn read(folder: &DirFd, file: impl AsRef<OsStr>) -> io::Result<Vec<u8>> {
    let bytes = folder.read(file, BYTES_MAX + 1)?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length <= BYTES_MAX);
    if is_whole { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

/// Writes a file into a job's home, atomically and only readable by the home's owner.
pub(super) fn put(home: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let owner = fs::metadata(home)?;
    DirFd::open(home)?.put(name, bytes, (owner.uid(), owner.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // [B9]
    #[test]
    fn an_unreadable_file_is_an_error_that_names_it() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("login"), "l").unwrap();
        fs::write(path("one"), "o").unwrap();
        fs::hard_link(path("one"), path("other")).unwrap();
        std::os::unix::fs::symlink(path("round"), path("round")).unwrap();
        fs::write(path("long"), vec![0; 1024 * 1024 + 1]).unwrap();
        let unreachable = path(&"x".repeat(300));

        for writers in [Writers::Operator, Writers::Agents] {
            let look = |name: &str| read_operator_file(place.path(), writers, name);
            assert_eq!(look("login").unwrap().unwrap().bytes, b"l");
            for none in ["missing", "missing/login", "login/login", "one", "round"] {
                assert_eq!(look(none).unwrap(), None, "{none}");
            }
            assert!(look("long").is_err());
            let error = read_operator_file(&unreachable, writers, "login").unwrap_err().to_string();
            let expected = format!("{} cannot be read: ", unreachable.join("login").display());
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(may_be_there(&path("login")) && may_be_there(&unreachable));
        assert!(!may_be_there(&path("missing")) && !may_be_there(&path("login/login")));
    }
}
