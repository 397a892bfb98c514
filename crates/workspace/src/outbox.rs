//! Reports that could not be delivered yet, in order, on disk [F6].

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandbox::{remove_file, replace_file};
use serde_json::Value;

use crate::error::Error;
use crate::runs::files_in;
use crate::state::StateDir;

/// A queue of reports that survives the factory. One process at a time; clones share it.
#[derive(Debug, Clone)]
pub struct Outbox {
    folder: PathBuf,
    next: Arc<AtomicU64>,
}

/// One waiting report.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxEntry {
    /// Its position in the queue; later reports have higher ones.
    pub number: u64,
    /// The report, opaque to the outbox.
    pub report: Value,
}

/// The pending reports, and the unreadable files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutboxListing {
    /// The reports, oldest first.
    pub entries: Vec<OutboxEntry>,
    /// Files that cannot be read as a report. They stay in place.
    pub torn: Vec<PathBuf>,
}

impl Outbox {
    /// The outbox under a factory's state directory, with the reports of an earlier process.
    pub fn open(state: &StateDir) -> Result<Self, Error> {
        let folder = state.outbox();
        let last = files_in(&folder)?.iter().filter_map(|path| number_of(path)).max();
        Ok(Self { folder, next: Arc::new(AtomicU64::new(last.map_or(1, |last| last + 1))) })
    }

    /// Adds a report at the end. Once this returns, the report survives a crash.
    pub fn append(&self, report: &Value) -> Result<u64, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.path(number);
        replace_file(&path, report.to_string().as_bytes()).map_err(Error::disk("write", &path))?;
        Ok(number)
    }

    /// Pending reports, oldest first.
    pub fn list(&self) -> Result<OutboxListing, Error> {
        let mut listing = OutboxListing::default();
        for path in files_in(&self.folder)? {
            let report = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            match (number_of(&path), report) {
                (Some(number), Some(report)) => listing.entries.push(OutboxEntry { number, report }),
                _ => listing.torn.push(path),
            }
        }
        Ok(listing)
    }

    /// Removes a delivered report. A missing one is already removed.
    pub fn remove(&self, number: u64) -> Result<(), Error> {
        let path = self.path(number);
        remove_file(&path).map_err(Error::disk("remove", &path))
    }

    /// Twenty digits hold every number, so that names sort like numbers.
    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:020}.json"))
    }
}

fn number_of(path: &std::path::Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".json")?.parse().ok()
}
