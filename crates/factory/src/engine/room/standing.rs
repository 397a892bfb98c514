//! How what lies in a job's room stands to what the operator has.

use std::ffi::OsStr;
use std::io;

use rustix::io::Errno;
use sandbox::DirFd;

use super::lineage::Lineage;
use super::operators::read;
use super::refreshed::{Moment, refreshed};
use super::signed::essence;
use crate::engine::registry::SignInMethod;

/// What is in the place of a login. That it cannot be told is an error, and never any of these.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// An ordinary file.
    File(Vec<u8>),
    /// Something that is no login, whatever is in it.
    Odd(&'static str),
}

impl Found {
    /// What is in a folder under a name.
    pub(super) fn look(folder: &DirFd, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let error = match read(folder, name) {
            Ok(bytes) => return Ok(Self::File(bytes)),
            Err(error) => error,
        };
        match (error.kind(), error.raw_os_error().map(Errno::from_raw_os_error)) {
            (io::ErrorKind::NotFound, _) => Ok(Self::Nothing),
            (io::ErrorKind::FileTooLarge, _) => Ok(Self::Odd("it is too long")),
            (io::ErrorKind::InvalidInput, None) => Ok(Self::Odd("it is no ordinary file, or has another name")),
            (_, Some(Errno::LOOP | Errno::NXIO)) => Ok(Self::Odd("it is no ordinary file")),
            _ => Err(error),
        }
    }
}

/// How what lies in the room stands to what the operator has.
#[derive(Debug)]
pub(super) enum Standing {
    /// Nothing is in the room, or a login that the operator has or had.
    Even,
    /// The engine has refreshed it.
    Newer(Refresh),
    /// Somebody else has changed the operator's.
    Older { outside: Vec<u8>, inside: Vec<u8>, elsewhere: Elsewhere },
    /// It was changed, and not by a refresh.
    Refused { inside: Option<Vec<u8>>, why: &'static str },
}

/// Whether the login of a room is worth anything beside the operator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// The operator had it, and has another since.
    Too,
    /// It may be the only one of its kind.
    Not,
}

/// A refreshed login, and the operator's file with it.
#[derive(Debug)]
pub(super) struct Refresh {
    pub(super) inside: Vec<u8>,
    pub(super) outside: Vec<u8>,
    pub(super) merged: Vec<u8>,
}

impl Standing {
    /// Compares what is in the room with what the operator has. That is asked for only where it matters.
    pub(super) fn of(
        inside: Found,
        outside: impl FnOnce() -> io::Result<Found>,
        lineage: &Lineage,
        (login, moment): (&SignInMethod, Moment),
    ) -> io::Result<Self> {
        let inside = match inside {
            Found::Nothing => return Ok(Self::Even),
            Found::Odd(why) => return Ok(Self::Refused { inside: None, why }),
            Found::File(inside) => inside,
        };
        let inner = essence(&inside, login);
        let was_held = lineage.was_held(&inner);
        let outside = match outside() {
            Ok(Found::File(outside)) => outside,
            _ if was_held => return Ok(Self::Even),
            Ok(Found::Nothing) => return Ok(Self::Refused { inside: Some(inside), why: "the operator's is gone" }),
            Ok(Found::Odd(_)) => {
                return Ok(Self::Refused { inside: Some(inside), why: "the operator's is no ordinary file any more" });
            }
            Err(error) => return Err(error),
        };
        let outer = essence(&outside, login);
        if inner == outer {
            return Ok(Self::Even);
        }
        let (inner_at, outer_at) = (lineage.position(&inner), lineage.position(&outer));
        let is_after = outer_at.is_some_and(|outer_at| inner_at.is_none_or(|inner_at| inner_at > outer_at));
        // A refresh begins with what was there. Whatever else the operator's file has become is not undone by it, also where
        // it is again what it once was.
        if was_held || !is_after {
            let elsewhere = if was_held && !is_after { Elsewhere::Too } else { Elsewhere::Not };
            return Ok(Self::Older { outside, inside, elsewhere });
        }
        Ok(match refreshed(&outside, &inside, &login.refreshes, moment) {
            Ok(merged) => Self::Newer(Refresh { inside, outside, merged }),
            Err(why) => Self::Refused { inside: Some(inside), why },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use domain::Timestamp;

    use super::super::lineage::Origin;
    use super::super::refreshed::Service;
    use super::*;

    #[test]
    fn only_what_is_not_there_is_nothing_and_what_cannot_be_told_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("file"), "login").unwrap();
        fs::write(path("long"), vec![0; 1024 * 1024 + 1]).unwrap();
        fs::create_dir(path("folder")).unwrap();
        symlink(path("file"), path("link")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        let folder = DirFd::open(place.path()).unwrap();
        let look = |name: &str| Found::look(&folder, name);

        assert_eq!(look("missing").unwrap(), Found::Nothing);
        assert_eq!(look("file").unwrap(), Found::File(b"login".to_vec()));
        assert_eq!(look("long").unwrap(), Found::Odd("it is too long"));
        for name in ["folder", "link", "socket"] {
            assert!(matches!(look(name), Ok(Found::Odd(_))), "{name}");
        }
        assert!(look(&"x".repeat(300)).is_err());
    }

    #[test]
    fn an_operators_file_that_cannot_be_read_leaves_only_what_it_has_held_to_be_cleared() {
        let place = tempfile::tempdir().unwrap();
        let origin = Origin { folder: "/o".into(), file: "f".to_owned(), name: ".credentials.json".to_owned() };
        let mut lineage = Lineage::begin(&place.path().join("j.login"), origin).unwrap();
        lineage.hold(b"carried").unwrap();
        lineage.foresee(b"noted", b"carried").unwrap();
        let moment = Moment { now: Timestamp::from_millis(0), service: Service::Silent };
        let of = |inside: &[u8]| {
            let unreadable = || Err(io::Error::other("the disk is broken"));
            let login = &crate::engine::claude::LOGIN;
            Standing::of(Found::File(inside.to_vec()), unreadable, &lineage, (login, moment))
        };

        assert!(matches!(of(b"carried"), Ok(Standing::Even)));
        assert!(of(b"noted").is_err() && of(b"unknown").is_err());
    }
}
