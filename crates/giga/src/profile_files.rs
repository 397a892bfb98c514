//! Profiles as files: `profiles/NAME.md` beside `giga.toml`, or in the directory of a folder queue.

use std::io::Read;
use std::path::{Path, PathBuf};

use domain::ProfileName;

/// More than a profile may have, so that one that is too long is reported.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// A directory with more files holds something else.
const FILES_MAX: usize = 500;

/// A profile in a file. Its name is that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProfileFile {
    /// The profile.
    pub(crate) name: ProfileName,
    /// The file.
    pub(crate) path: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// The profiles of a directory, in order of name, and what is wrong with the files that are none. A directory that does
/// not exist has none.
pub(crate) fn profiles_in(directory: &Path) -> (Vec<ProfileFile>, Vec<String>) {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Default::default(),
        Err(error) => return (Vec::new(), vec![format!("{}: {error}", directory.display())]),
    };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| is_profile(p)).collect();
    paths.sort();
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    if paths.len() > FILES_MAX {
        problems.push(format!(
            "{} has {} profiles, only the first {FILES_MAX} are read",
            directory.display(),
            paths.len()
        ));
        paths.truncate(FILES_MAX);
    }
    for path in paths {
        match read(&path) {
            Ok(file) => files.push(file),
            Err(why) => problems.push(format!("{}: {why}", path.display())),
        }
    }
    (files, problems)
}

/// The profile of one file.
pub(crate) fn read(path: &Path) -> Result<ProfileFile, String> {
    let name = name_of(path)?;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(ProfileFile { name, path: path.to_owned(), text })
}

/// The name of a file's profile.
pub(crate) fn name_of(path: &Path) -> Result<ProfileName, String> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.parse().map_err(|error: domain::NameError| error.to_string())
}

fn is_profile(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    !is_hidden && path.extension().is_some_and(|extension| extension == "md") && path.is_file()
}
