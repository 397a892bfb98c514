//! Which file is which job, and where we put it: one small record per file, beside the store.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use domain::JobId;
use serde::{Deserialize, Serialize};

use super::folder::Folder;
use super::queue::FileStamp;

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
    pub(super) stamp: FileStamp,
}

/// The content of the directory of records.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LoadedRecords {
    /// What is known about each file.
    pub(super) whole: Vec<Record>,
    /// Jobs whose record cannot be read.
    pub(super) torn: Vec<JobId>,
}

/// The directory of records.
#[derive(Debug)]
pub(super) struct Records {
    folder: PathBuf,
}

impl Records {
    /// The records in this directory, which is created if missing.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// The records in this directory, if it exists.
    pub(super) fn existing(folder: &Path) -> Option<Self> {
        folder.is_dir().then(|| Self { folder: folder.to_owned() })
    }

    /// All records. One whose job was replaced by another's is over.
    pub(super) fn list(&self) -> io::Result<LoadedRecords> {
        let mut found = LoadedRecords::default();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let job = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")?.parse::<JobId>().ok());
            let Some(job) = job else { continue };
            match serde_json::from_slice::<Record>(&std::fs::read(&path)?) {
                Ok(record) if record.job == job => found.whole.push(record),
                Ok(_) | Err(_) => found.torn.push(job),
            }
        }
        let replaced: Vec<JobId> = found.whole.iter().filter_map(|record| record.replaces).collect();
        found.whole.retain(|record| !replaced.contains(&record.job));
        found.torn.retain(|job| !replaced.contains(job));
        Ok(found)
    }

    /// Writes a record: whole and on disk before anything follows from it, whatever happens to the machine.
    pub(super) fn keep(&self, record: &Record) -> io::Result<()> {
        let path = self.path(record.job);
        let unfinished = path.with_extension("unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        std::fs::rename(unfinished, path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Removes a record.
    pub(super) fn forget(&self, job: JobId) -> io::Result<()> {
        match std::fs::remove_file(self.path(job)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(job: &str) -> Record {
        let text = format!(
            r#"{{"v":1,"job":"{job}","key":"a.md","name":"a.md","isSubmitted":true,"sha256":"","folder":"inbox",
                "stamp":{{"inode":1,"len":1,"modifiedS":1,"modifiedNs":1}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    // [F8]
    #[test]
    fn a_record_that_is_cut_short_empty_or_anothers_is_known_by_its_name_and_what_is_unfinished_is_nothing() {
        let root = tempfile::tempdir().unwrap();
        let records = Records::open(root.path()).unwrap();
        let [whole, cut, empty, foreign] =
            ["a1", "a2", "a3", "a4"].map(|end| record(&format!("0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b{end}")));
        for record in [&whole, &cut, &empty] {
            records.keep(record).unwrap();
        }
        let text = std::fs::read(records.path(cut.job)).unwrap();
        std::fs::write(records.path(cut.job), &text[..text.len() / 2]).unwrap();
        std::fs::write(records.path(empty.job), "").unwrap();
        std::fs::write(records.path(foreign.job), &text).unwrap();
        std::fs::write(records.path(whole.job).with_extension("unfinished"), "").unwrap();

        let mut found = records.list().unwrap();
        found.torn.sort();

        assert_eq!(found, LoadedRecords { whole: vec![whole], torn: vec![cut.job, empty.job, foreign.job] });
    }
}
