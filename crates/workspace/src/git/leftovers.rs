//! Lock files that a killed git leaves behind.
//!
//! Git makes `<file>.lock` beside a file that it rewrites, and fails if one exists. A killed git leaves it forever, and
//! nothing in the file names its owner. These rules decide:
//!
//! - An agent never writes into a mirror. It works in a repository of its own that only borrows objects, so a lock file
//!   of its git (`.git/index.lock`) blocks only itself; the factory keeps an index outside and never uses the agent's.
//! - Every factory process that writes shared files of a mirror (`packed-refs`, `refs/remotes/…`, packs) holds the
//!   mirror's lock, and so does its git, even when the factory that started it is dead.
//! - `refs/gigafactory/<run>` belongs to one run. It is written under the lock of that run's metadata directory.
//!
//! So a process that has just taken one of these locks knows that the lock files in its scope are stale.

use std::fs;
use std::io;
use std::path::Path;

use sandbox::remove_file;

/// The directory of refs that belong to single runs.
const OF_RUNS: &str = "gigafactory";

/// How deep below a directory lock files are searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Here,
    Everywhere,
}

/// Removes the lock files of a mirror's shared files, and returns how many. The caller must hold the mirror's lock.
pub(crate) fn clear_locks(mirror: &Path) -> io::Result<usize> {
    let mut cleared = usize::from(clear_lock(&mirror.join("gc.pid"))?);
    for (folder, depth) in [
        ("", Depth::Here),
        ("refs", Depth::Everywhere),
        ("objects", Depth::Here),
        ("objects/info", Depth::Everywhere),
        ("objects/pack", Depth::Here),
    ] {
        cleared += clear_in(&mirror.join(folder), depth)?;
    }
    Ok(cleared)
}

/// Removes one lock file; returns whether it existed.
pub(crate) fn clear_lock(path: &Path) -> io::Result<bool> {
    let is_there = fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir());
    if is_there {
        remove_file(path)?;
    }
    Ok(is_there)
}

/// Links are not followed: the factory makes none.
fn clear_in(folder: &Path, depth: Depth) -> io::Result<usize> {
    let mut cleared = 0;
    if !fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) {
        return Ok(cleared);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        if is_folder && depth == Depth::Everywhere && entry.file_name() != OF_RUNS {
            cleared += clear_in(&entry.path(), depth)?;
        } else if !is_folder && entry.path().extension().is_some_and(|extension| extension == "lock") {
            cleared += usize::from(clear_lock(&entry.path())?);
        }
    }
    Ok(cleared)
}
