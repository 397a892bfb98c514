//! Atomic file writes that survive a crash, and complete removal of directories.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dirfd::DirFd;

/// Marks a file that is being written. A crash may leave one behind; readers ignore it.
pub const UNFINISHED_SUFFIX: &str = ".unfinished";

/// Creates a directory, and its parents, that only the factory's user can enter.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file atomically: after a crash it holds the old bytes or the new ones, on disk.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_through(UNFINISHED_SUFFIX, path, bytes)
}

/// The same where other writers may replace that file concurrently: the last writer wins and readers never see a
/// partial file.
pub fn replace_shared_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    replace_through(&format!(".{}-{number}{UNFINISHED_SUFFIX}", std::process::id()), path, bytes)
}

fn replace_through(suffix: &str, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(suffix);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    File::open(folder)?.sync_all()
}

/// Removes a file durably. A missing one is already removed.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a directory and its content, read-only files included. A missing one is already removed.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                open_up(path)?;
                fs::remove_dir_all(path)
            }
            _ => Err(error),
        }),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The disk usage of a directory. Links are not followed; files that vanish meanwhile count nothing.
pub fn folder_bytes(path: &Path) -> u64 {
    const BLOCK_BYTES: u64 = 512;
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    let mut bytes = found.blocks() * BLOCK_BYTES;
    let mut open = if found.is_dir() { vec![path.to_owned()] } else { Vec::new() };
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            bytes += found.blocks() * BLOCK_BYTES;
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
    bytes
}

/// The free space at `path`, or `None` where the system does not report it.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Restores the right to change every directory below `path`. Links are not followed.
fn open_up(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    DirFd::open(path)?.open_up()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_holds_the_new_bytes_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");

        replace_file(&path, b"old").unwrap();
        replace_file(&path, b"new").unwrap();

        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    // [I11]
    #[test]
    fn removing_twice_is_removing_once() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o500)).unwrap();

        remove_folder(&folder.path().join("a")).unwrap();
        remove_folder(&folder.path().join("a")).unwrap();

        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    // [B10]
    #[test]
    fn the_size_of_a_folder_counts_what_is_in_it_and_not_where_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("big"), vec![7; 1 << 20]).unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/file"), vec![7; 64 * 1024]).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();

        let bytes = folder_bytes(folder.path());

        assert!((64 * 1024..512 * 1024).contains(&bytes), "{bytes}");
        assert_eq!(folder_bytes(&folder.path().join("nothing")), 0);
    }

    // [I11]
    #[test]
    fn removing_a_link_leaves_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let link = folder.path().join("link");
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();

        remove_folder(&link).unwrap();

        assert!(target.is_dir());
        assert!(!link.exists());
    }
}
