//! Files of an operator's folder, and the copies of them in a job's room.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::engine::bench::Login;
use crate::folder::Folder;

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

/// What an ordinary file of an operator's folder holds.
pub(super) fn look_at(operators: &Path, whose: Whose, name: &str) -> Option<Vec<u8>> {
    let (folder, file) = found(operators, whose, name)?;
    read(&folder, &file).ok()
}

/// An ordinary file of an operator's folder, in the folder that it is really in.
pub(super) fn found(operators: &Path, whose: Whose, name: &str) -> Option<(Folder, String)> {
    let (folder, file) = place_of(operators, whose, name)?;
    Some((Folder::open_straight(&folder).ok()?, file))
}

/// Where it really is: the folder, and its name there.
pub(super) fn place_of(operators: &Path, whose: Whose, name: &str) -> Option<(PathBuf, String)> {
    let (folder, name) = match whose {
        Whose::Agents => (operators.to_owned(), name.to_owned()),
        Whose::Operators => {
            let file = operators.join(name).canonicalize().ok()?;
            (file.parent()?.to_owned(), file.file_name()?.to_str()?.to_owned())
        }
    };
    Folder::open_straight(&folder).ok()?.file(&name).ok()?;
    Some((folder, name))
}

/// Puts what of an operator's settings is fit for a job into its room.
pub(super) fn bring_settings((operators, whose): (&Path, Whose), room: &Path, login: &Login) -> io::Result<()> {
    for name in login.settings {
        if let Some((folder, file)) = found(operators, whose, name)
            && let Some(fit) = (login.fit)(name, read(&folder, &file)?)
        {
            put(room, name, &fit)?;
        }
    }
    Ok(())
}

/// What such a file holds, if that is not too much.
pub(super) fn read(folder: &Folder, file: impl AsRef<OsStr>) -> io::Result<Vec<u8>> {
    let bytes = folder.read(file, BYTES_MAX + 1)?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length <= BYTES_MAX);
    if is_whole { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

/// Puts bytes into a job's folder; whoever has the folder has them.
pub(super) fn put(room: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let owner = fs::metadata(room)?;
    Folder::open(room)?.put(name, bytes, (owner.uid(), owner.gid()))
}
