//! The files of a folder queue, for those who only look at it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use domain::{JobId, Timestamp, clean_line};
use tui::{FolderFile, FolderListing, FolderSource};

use super::debounce::{Kind, kind};
use super::folder::Folder;
use super::records::Records;

/// A longer list is not read by anyone.
const FILES_MAX: usize = 2_000;

/// A folder queue, and the records of its jobs.
#[derive(Debug)]
pub(crate) struct QueueListing {
    root: PathBuf,
    records: PathBuf,
}

impl QueueListing {
    /// The queue in this directory, whose data directory is `data`. Nothing is created.
    pub(crate) fn new(root: &Path, data: &Path) -> Self {
        Self { root: root.to_owned(), records: data.join("files") }
    }

    /// The jobs by the place of their files.
    fn jobs(&self) -> HashMap<(Folder, String), JobId> {
        // A queue that never ran has no records.
        let found = Records::existing(&self.records).and_then(|records| records.list().ok()).unwrap_or_default();
        let places = found.whole.into_iter().flat_map(|record| {
            let next = record.moving_to.map(|folder| ((folder, record.name.clone()), record.job));
            [Some(((record.folder, record.name), record.job)), next].into_iter().flatten()
        });
        places.collect()
    }
}

impl FolderSource for QueueListing {
    fn list(&self) -> Result<FolderListing, String> {
        let jobs = self.jobs();
        let mut files = Vec::new();
        for folder in Folder::ALL {
            let path = self.root.join(folder.as_str());
            let mut here = Vec::new();
            let entries = std::fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            for entry in entries.flatten().filter(|entry| kind(&entry.file_name()) == Kind::Manifest) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let modified = entry.metadata().and_then(|found| found.modified()).ok();
                let millis = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|age| age.as_millis());
                let changed_at = millis.and_then(|millis| i64::try_from(millis).ok()).map(Timestamp::from_millis);
                let job = jobs.get(&(folder, name.clone())).copied();
                here.push(FolderFile { folder: folder.as_str(), name: clean_line(&name), changed_at, job });
            }
            here.sort_by(|one, other| one.name.cmp(&other.name));
            files.extend(here);
        }
        let more = files.len().saturating_sub(FILES_MAX);
        files.truncate(FILES_MAX);
        Ok(FolderListing { files, more })
    }
}
