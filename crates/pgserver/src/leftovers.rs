//! Removes the data directories of killed processes.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, test_kill_process};

const PREFIX: &str = "giga-postgres-of-";

/// Prefix of the names of this process's directories.
pub(crate) fn prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

/// Removes the directories whose process and server have both ended.
pub(crate) fn remove() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if owner.is_some_and(|owner| !is_alive(owner)) && !is_served(&entry.path()) {
            // Another process may remove the same directory at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_served(folder: &Path) -> bool {
    let status = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
    status.lines().next().is_some_and(is_alive)
}

/// Reports whether a process with this id exists. Text that is not a number counts as alive and is not removed.
fn is_alive(pid: &str) -> bool {
    let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) else { return true };
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_ended_processes_are_removed() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let folder = |owner: u32| std::env::temp_dir().join(format!("{PREFIX}{owner}-test"));
        let (abandoned, ours) = (folder(child.id()), folder(std::process::id()));
        fs::create_dir_all(abandoned.join("data")).unwrap();
        fs::create_dir_all(&ours).unwrap();

        remove();

        let left = [abandoned.exists(), ours.exists()];
        fs::remove_dir(&ours).unwrap();
        assert_eq!(left, [false, true]);
    }
}
