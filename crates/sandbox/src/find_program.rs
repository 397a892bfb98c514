//! Finds programs as the system would.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file of a program's name, as `execvp` would find it.
pub fn find_program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let runnable =
        |file: &Path| fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| runnable(file));
    }
    std::env::split_paths(path?)
        .filter(|entry| entry.is_absolute())
        .map(|entry| entry.join(name))
        .find(|file| runnable(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_only_where_an_absolute_path_leads() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        fs::write(&file, "").unwrap();

        assert_eq!(find_program("tool", Some(folder.path().as_os_str())), None, "it may not be run");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();

        assert_eq!(find_program("tool", Some(folder.path().as_os_str())), Some(file));
        assert_eq!(find_program("tool", Some(OsStr::new("."))), None);
    }
}
