//! A place that agents cannot write to.

use std::path::PathBuf;

use tempfile::TempDir;

/// A directory that no agent can write to. Those below the system's temporary directories are open to all of them, so it
/// is elsewhere, wherever the sources are. It may be inside of the operator's home, of which agents read nothing.
pub(crate) fn closed_place() -> TempDir {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = [Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))), home, Some(PathBuf::from("/var/lib"))];
    let is_open = |place: &PathBuf| {
        let open = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
        open.iter().any(|open| place.starts_with(open))
    };
    let closed = places.into_iter().flatten().filter(|place| !is_open(place));
    match closed.filter_map(|place| tempfile::tempdir_in(place).ok()).next() {
        Some(place) => place,
        None => panic!("run this from a directory, or with a HOME, that is not below a temporary one"),
    }
}
