//! Files of an operator's folder, and the copies of them in a job's room.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sandbox::DirFd;

use crate::engine::registry::SignInMethod;

/// Logins are a few tokens; settings are written by people.
const BYTES_MAX: u64 = 1024 * 1024;

/// Who can change what is in an operator's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The operator alone.
    Operators,
    /// Agents too: it is in a home that they were given, or in something else that is open to them.
    Agents,
}

/// An ordinary file of an operator's folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OperatorsFile {
    /// The folder that it is really in.
    pub(super) folder: PathBuf,
    /// What it is called there.
    pub(super) name: String,
    /// What it holds.
    pub(super) bytes: Vec<u8>,
}

/// Looks at a file of an operator's folder. `None` where there is none, or none that we take: that it cannot be told is an
/// error, which says of which file.
pub(super) fn look_at(operators: &Path, whose: Whose, name: &str) -> io::Result<Option<OperatorsFile>> {
    match found(operators, whose, name) {
        Ok(found) => Ok(found),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => {
            let path = operators.join(name);
            Err(io::Error::new(error.kind(), format!("{} cannot be read: {error}", path.display())))
        }
    }
}

fn found(operators: &Path, whose: Whose, name: &str) -> io::Result<Option<OperatorsFile>> {
    let (folder, name) = match whose {
        Whose::Agents => (operators.to_owned(), name.to_owned()),
        Whose::Operators => {
            let file = operators.join(name).canonicalize()?;
            let name = file.file_name().and_then(OsStr::to_str);
            let (Some(folder), Some(name)) = (file.parent(), name) else { return Ok(None) };
            (folder.to_owned(), name.to_owned())
        }
    };
    let bytes = read(&DirFd::open_straight(&folder)?, &name)?;
    Ok(Some(OperatorsFile { folder, name, bytes }))
}

/// Whether an error says that there is nothing, or only something that is no ordinary file of one name.
fn is_absence(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::InvalidInput => number.is_none(),
        _ => matches!(number, Some(Errno::LOOP | Errno::NXIO)),
    }
}

/// Whether a file is there, or that cannot be told.
pub(in crate::engine) fn may_be_there(file: &Path) -> bool {
    match fs::metadata(file) {
        Ok(found) => found.is_file(),
        Err(error) => !is_absence(&error),
    }
}

/// Puts what of an operator's settings is fit for a job into its room.
pub(super) fn bring_settings((operators, whose): (&Path, Whose), room: &Path, login: &SignInMethod) -> io::Result<()> {
    for name in login.settings {
        if let Some(file) = look_at(operators, whose, name)?
            && let Some(fit) = (login.fit)(name, file.bytes)
        {
            put(room, name, &fit)?;
        }
    }
    Ok(())
}

/// What such a file holds, if that is not too much.
pub(super) fn read(folder: &DirFd, file: impl AsRef<OsStr>) -> io::Result<Vec<u8>> {
    let bytes = folder.read(file, BYTES_MAX + 1)?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length <= BYTES_MAX);
    if is_whole { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

/// Puts bytes into a job's folder; whoever has the folder has them.
pub(super) fn put(room: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let owner = fs::metadata(room)?;
    DirFd::open(room)?.put(name, bytes, (owner.uid(), owner.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_or_not_taken_is_none_and_what_cannot_be_told_is_an_error_that_names_the_file() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("login"), "l").unwrap();
        fs::write(path("one"), "o").unwrap();
        fs::hard_link(path("one"), path("other")).unwrap();
        std::os::unix::fs::symlink(path("round"), path("round")).unwrap();
        fs::write(path("long"), vec![0; 1024 * 1024 + 1]).unwrap();
        let unreachable = path(&"x".repeat(300));

        for whose in [Whose::Operators, Whose::Agents] {
            let look = |name: &str| look_at(place.path(), whose, name);
            assert_eq!(look("login").unwrap().unwrap().bytes, b"l");
            for none in ["missing", "missing/login", "login/login", "one", "round"] {
                assert_eq!(look(none).unwrap(), None, "{none}");
            }
            assert!(look("long").is_err());
            let error = look_at(&unreachable, whose, "login").unwrap_err().to_string();
            let expected = format!("{} cannot be read: ", unreachable.join("login").display());
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(may_be_there(&path("login")) && may_be_there(&unreachable));
        assert!(!may_be_there(&path("missing")) && !may_be_there(&path("login/login")));
    }
}
