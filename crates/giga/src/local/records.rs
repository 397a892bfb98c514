//! Which file is which job, and where we put it: one small record per file, beside the store.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use domain::JobId;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::folder::Folder;
use super::queue::Stamp;

/// What is known about one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The version of this document.
    pub(super) v: u32,
    /// The job: known before it is submitted, because its id follows from its key.
    pub(super) job: JobId,
    /// The key that it is submitted under, chosen while no job had it.
    pub(super) key: String,
    /// The file's name.
    pub(super) name: String,
    /// Its name before the move that gave it another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) was: Option<String>,
    /// The folder that we put it into, or found it in.
    pub(super) folder: Folder,
    /// The folder that we are about to move it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) moving_to: Option<Folder>,
    /// Whether the job is known to be in the store.
    pub(super) is_submitted: bool,
    /// A job that ends when this one is submitted: its file was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replaces: Option<JobId>,
    /// The hash of the manifest as it was submitted.
    pub(super) sha256: String,
    /// What the file looked like then.
    pub(super) stamp: Stamp,
}

/// The folder of records.
#[derive(Debug)]
pub(super) struct Records {
    folder: PathBuf,
}

impl Records {
    /// The records in this folder, made if it is not there.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// All records. One whose job was replaced by another's is over.
    pub(super) fn list(&self) -> io::Result<Vec<Record>> {
        let mut records: Vec<Record> = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|ending| ending != "json") {
                continue;
            }
            match serde_json::from_slice(&std::fs::read(&path)?) {
                Ok(record) => records.push(record),
                Err(error) => warn!(%error, "The record {} cannot be read", path.display()),
            }
        }
        let replaced: Vec<JobId> = records.iter().filter_map(|record| record.replaces).collect();
        records.retain(|record| !replaced.contains(&record.job));
        Ok(records)
    }

    /// Writes a record that nothing may lose: on disk before anything follows from it.
    pub(super) fn keep(&self, record: &Record) -> io::Result<()> {
        self.write(record)?.sync_all()?;
        self.finish(record.job)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Writes a record that could be worked out again.
    pub(super) fn note(&self, record: &Record) -> io::Result<()> {
        self.write(record)?;
        self.finish(record.job)
    }

    /// Removes a record.
    pub(super) fn forget(&self, job: JobId) -> io::Result<()> {
        match std::fs::remove_file(self.path(job)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, record: &Record) -> io::Result<File> {
        let mut file = File::create(self.path(record.job).with_extension("unfinished"))?;
        file.write_all(&serde_json::to_vec(record)?)?;
        Ok(file)
    }

    fn finish(&self, job: JobId) -> io::Result<()> {
        let path = self.path(job);
        std::fs::rename(path.with_extension("unfinished"), path)
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.json"))
    }
}
