//! What every program on a machine needs, whatever it works on.

use std::fs;
use std::path::{Path, PathBuf};

use sandbox::PathAccess;

/// Directories for temporary files.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Devices that hold no user data, and those of shared machines: graphics cards, virtual machines.
const DEVICES: [&str; 13] =
    ["null", "zero", "full", "random", "urandom", "ptmx", "pts", "shm", "mqueue", "dri", "kfd", "dxg", "kvm"];
/// The prefix of a vendor's graphics cards.
const NUMBERED: &str = "nvidia";

/// Whether programs run as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Programs {
    OfRoot,
    OfAnybody,
}

/// Marks for a readable machine with writable shared directories.
pub(super) fn marks(programs: Programs) -> Vec<(PathBuf, PathAccess)> {
    let dev = Path::new("/dev");
    let numbered = fs::read_dir(dev).into_iter().flatten().flatten().map(|entry| entry.path());
    let numbered = numbered.filter(|path| path.file_name().is_some_and(|name| starts_with(name, NUMBERED)));
    let devices = DEVICES.iter().map(|name| dev.join(name)).filter(|path| path.exists()).chain(numbered);
    // An ordinary account changes only its own files there. Root has the kernel start programs, outside.
    let processes = match programs {
        Programs::OfRoot => PathAccess::Read,
        Programs::OfAnybody => PathAccess::Everything,
    };
    let fixed = [("/", PathAccess::Read), ("/dev", PathAccess::Nothing), ("/proc", processes)];
    let fixed = fixed.map(|(path, reach)| (PathBuf::from(path), reach));
    fixed.into_iter().chain(devices.chain(temporary()).map(|path| (path, PathAccess::Everything))).collect()
}

/// Shared directories for temporary files.
pub(super) fn temporary() -> impl Iterator<Item = PathBuf> {
    TEMPORARY.into_iter().map(PathBuf::from).chain([std::env::temp_dir()])
}

fn starts_with(name: &std::ffi::OsStr, beginning: &str) -> bool {
    name.as_encoded_bytes().starts_with(beginning.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::Sandbox;

    #[test]
    fn a_machine_is_readable_and_only_shared_paths_are_writable() {
        let reached = |programs| {
            let none = Sandbox::default();
            let sandbox = marks(programs).into_iter().fold(none, |all, (path, reach)| all.with(path, reach));
            let places = ["/usr/bin", "/etc/crontab", "/sys/fs", "/dev/sda", "/dev/null", "/tmp/x", "/proc/sys"];
            places.map(|path| sandbox.reach_at(Path::new(path)))
        };

        use PathAccess::{Everything, Nothing, Read};
        let (root, anybody) = (reached(Programs::OfRoot), reached(Programs::OfAnybody));
        assert_eq!(root, [Read, Read, Read, Nothing, Everything, Everything, Read]);
        assert_eq!(anybody, [Read, Read, Read, Nothing, Everything, Everything, Everything]);
    }
}
