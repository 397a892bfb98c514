//! A sandbox by Landlock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, LandlockStatus, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::{PathAccess, SandboxBackend};

/// All rights to read or change files. Listing a directory is not among them: names are no secret, and programs list
/// directories often. No program in the sandbox may create devices.
const HANDLED: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    Execute | ReadFile | WriteFile | Truncate | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym
        | MakeChar | MakeBlock | Refer | ResolveUnix
});
const DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock});
const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile});
/// The rights that a file, rather than a directory, can have.
const OF_FILES: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{Execute | ReadFile | WriteFile | Truncate | ResolveUnix});

const POWERS: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::SYS_MODULE)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::SYS_BOOT)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::MAC_OVERRIDE);

/// Before this ABI nothing can be moved or linked from one directory to another, which git and build tools do all the
/// time.
const ABI_MIN: ABI = ABI::V2;
/// Before this ABI a program can truncate files that it cannot write to.
const ABI_OF_TRUNCATE: ABI = ABI::V3;
/// Before this ABI it can send signals to processes outside.
const ABI_OF_SIGNALS: ABI = ABI::V6;
/// Before this ABI the program can connect to sockets outside.
const ABI_OF_SOCKETS: ABI = ABI::V9;

/// Whether it works here, tried by a thread that ends at once.
pub(super) fn try_out() -> Result<SandboxBackend, String> {
    let status = tried().map_err(|error| {
        format!("Landlock cannot be used here ({error}): allow its system calls, or use `run_as` for another account")
    })?;
    in_words(status)
}

/// Whether programs inside cannot connect to a socket outside that they cannot write to.
pub(super) fn keeps_from_sockets() -> bool {
    matches!(tried(), Ok(LandlockStatus::Available { effective_abi, .. }) if effective_abi >= ABI_OF_SOCKETS)
}

fn tried() -> io::Result<LandlockStatus> {
    let tried = std::thread::spawn(|| enter(BTreeMap::new())).join();
    tried.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

fn in_words(status: LandlockStatus) -> Result<SandboxBackend, String> {
    match status {
        LandlockStatus::Available { effective_abi, .. } if effective_abi < ABI_MIN => Err(
            "this kernel's Landlock is too old to let programs move files between folders: use Linux 6.2 or newer, or \
             `run_as` for another account"
                .to_owned(),
        ),
        LandlockStatus::Available { effective_abi, .. } => Ok(SandboxBackend::of(effective_abi)),
        LandlockStatus::NotEnabled => {
            Err("Landlock is not enabled: add `landlock` to the kernel's `lsm=`, or use `run_as` for another account"
                .to_owned())
        }
        LandlockStatus::NotImplemented => {
            Err("this kernel has no Landlock: use Linux 6.2 or newer, or `run_as` for another account".to_owned())
        }
    }
}

impl SandboxBackend {
    fn of(abi: ABI) -> Self {
        let signals = match abi < ABI_OF_SIGNALS {
            true => ", which lets them signal all processes of their account (Linux 6.12 and newer do not)",
            false => "",
        };
        let gap = (abi < ABI_OF_TRUNCATE).then(|| {
            "this kernel's Landlock lets them empty, though not read or write, files that are closed to them \
             (`truncate`): use Linux 6.2 or newer, or `run_as` for another account"
                .to_owned()
        });
        Self { name: format!("Landlock (ABI {abi}){signals}"), gap }
    }
}

/// Restricts this thread and its children permanently.
pub(super) fn go_inside(marks: BTreeMap<PathBuf, PathAccess>) -> io::Result<()> {
    match enter(marks)? {
        LandlockStatus::Available { effective_abi, .. } if effective_abi >= ABI_MIN => give_up_powers(),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn enter(marks: BTreeMap<PathBuf, PathAccess>) -> io::Result<LandlockStatus> {
    let ruleset = Ruleset::default()
        .handle_access(HANDLED)
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let mut rules = Rules { ruleset, marks };
    let root = look(CWD, Path::new("/"))?;
    let reach = rules.marks.get(Path::new("/")).copied().unwrap_or(PathAccess::Everything);
    rules.walk(&root, Path::new("/"), reach)?;
    let status = rules.ruleset.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced && matches!(status.landlock, LandlockStatus::Available { .. }) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(status.landlock)
}

/// Root bypasses the sandbox with some of its capabilities: into other processes, raw memory, the kernel itself.
/// `no_new_privs` is set, so that nothing started here gains others.
fn give_up_powers() -> io::Result<()> {
    let had = capabilities(None)?;
    let left = |set: CapabilitySet| set.difference(POWERS);
    let (effective, permitted, inheritable) = (left(had.effective), left(had.permitted), left(had.inheritable));
    if permitted != had.permitted || inheritable != had.inheritable {
        set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?;
    }
    Ok(())
}

/// The list under construction. Directories are walked on descriptors: the target of a link has a path of its own.
struct Rules {
    ruleset: RulesetCreated,
    marks: BTreeMap<PathBuf, PathAccess>,
}

impl Rules {
    fn walk(&mut self, folder: &OwnedFd, path: &Path, reach: PathAccess) -> io::Result<()> {
        let below = self.below(path);
        if below.iter().all(|(_, mark)| *mark >= reach) {
            self.add(folder.as_fd(), reach)?;
            for (path, reach) in topmost(below) {
                if let Ok(marked) = look(CWD, &path) {
                    self.walk(&marked, &path, reach)?;
                }
            }
            return Ok(());
        }
        for name in names(folder, path, &below)? {
            let path = path.join(&name);
            // A vanished path needs no right.
            let Ok(found) = look(folder, Path::new(&name)) else { continue };
            match self.marks.get(&path) {
                Some(mark) => self.walk(&found, &path, *mark)?,
                None if self.below(&path).is_empty() => self.add(found.as_fd(), reach)?,
                None => self.walk(&found, &path, reach)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, found: BorrowedFd<'_>, reach: PathAccess) -> io::Result<()> {
        let rights = match reach {
            PathAccess::Nothing => return Ok(()),
            PathAccess::Read => READ,
            PathAccess::Everything => HANDLED & !DEVICES,
        };
        let rights = match FileType::from_raw_mode(fstat(found)?.st_mode) {
            FileType::Symlink => return Ok(()),
            FileType::Directory => rights,
            _ => rights & OF_FILES,
        };
        (&mut self.ruleset).add_rule(PathBeneath::new(found, rights)).map_err(io::Error::other)?;
        Ok(())
    }

    /// The marks below `path`.
    fn below(&self, path: &Path) -> Vec<(PathBuf, PathAccess)> {
        let after = (std::ops::Bound::Excluded(path.to_owned()), std::ops::Bound::Unbounded);
        let marks = self.marks.range(after).take_while(|(marked, _)| marked.starts_with(path));
        marks.map(|(path, reach)| (path.clone(), *reach)).collect()
    }
}

/// Those that are below no other.
fn topmost(marks: Vec<(PathBuf, PathAccess)>) -> Vec<(PathBuf, PathAccess)> {
    let mut top: Vec<(PathBuf, PathAccess)> = Vec::new();
    for (path, reach) in marks {
        if top.last().is_none_or(|(last, _)| !path.starts_with(last)) {
            top.push((path, reach));
        }
    }
    top
}

/// The entries of a directory; of an unreadable one only what is marked.
fn names(folder: &OwnedFd, path: &Path, below: &[(PathBuf, PathAccess)]) -> io::Result<Vec<OsString>> {
    let listing = openat(folder, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let Ok(entries) = listing.and_then(Dir::new) else {
        let first =
            |(marked, _): &(PathBuf, PathAccess)| marked.strip_prefix(path).ok()?.iter().next().map(OsString::from);
        return Ok(below.iter().filter_map(first).collect());
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Opens a path as a reference, not for reading.
fn look(folder: impl AsFd, name: &Path) -> rustix::io::Result<OwnedFd> {
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(effective_abi: ABI) -> Result<SandboxBackend, String> {
        in_words(LandlockStatus::Available { effective_abi, kernel_abi: None })
    }

    #[test]
    fn an_abi_without_moves_fails_and_without_truncate_has_a_gap() {
        assert!(words(ABI::V1).is_err_and(|why| why.contains("move files")));
        let gaps = [ABI::V2, ABI::V3, ABI::V6].map(|abi| words(abi).unwrap().gap);
        assert!(gaps[0].as_ref().is_some_and(|gap| gap.contains("empty")), "{gaps:?}");
        assert_eq!(gaps[1..], [None, None]);
    }

    // [T8] [attack: a prompt-injected agent steals secrets]
    #[test]
    fn a_kernel_that_lets_signals_through_is_told() {
        for abi in [ABI::V2, ABI::V3, ABI::V5] {
            assert!(words(abi).is_ok_and(|means| means.name.contains("signal")), "{abi}");
        }
        assert_eq!(words(ABI::V6), Ok(SandboxBackend { name: "Landlock (ABI 6)".to_owned(), gap: None }));
    }
}
