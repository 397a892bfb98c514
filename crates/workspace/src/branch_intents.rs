//! Records of branches that are about to be made, so that one that was made too late is deleted again, also by the next
//! process.

use std::fs;
use std::path::PathBuf;

use domain::{CommitSha, Epoch, JobId, RepoName};
use sandbox::{remove_file, replace_file};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::runs::files_in;
use crate::state::StateDir;

/// A branch that a promotion creates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchIntent {
    /// The version of this format.
    pub v: u32,
    /// The job.
    pub job: JobId,
    /// Its repository.
    pub repo: RepoName,
    /// The branch's intended commit.
    pub sha: CommitSha,
    /// The epoch of the errand that creates it.
    pub lease_epoch: Epoch,
}

/// The records of this factory. Calls block until the disk has synced.
#[derive(Debug, Clone)]
pub struct BranchIntents {
    folder: PathBuf,
}

impl BranchIntents {
    /// The records under a factory's state directory.
    pub fn under(state: &StateDir) -> Self {
        Self { folder: state.branches() }
    }

    /// Writes a record. Once this returns, it survives a crash.
    pub fn save(&self, note: &BranchIntent) -> Result<(), Error> {
        let path = self.path(note);
        let bytes = serde_json::to_vec_pretty(note).map_err(|error| Error::disk("write", &path)(error.into()))?;
        replace_file(&path, &bytes).map_err(Error::disk("write", &path))
    }

    /// Removes all records of a job's branch at this commit: a repeated errand under another epoch makes the branch
    /// wanted, whatever an earlier one has left here. A missing one is already removed.
    pub fn remove(&self, note: &BranchIntent) -> Result<(), Error> {
        for noted in self.list()?.iter().filter(|noted| noted.job == note.job && noted.sha == note.sha) {
            let path = self.path(noted);
            remove_file(&path).map_err(Error::disk("remove", &path))?;
        }
        Ok(())
    }

    /// All readable records.
    pub fn list(&self) -> Result<Vec<BranchIntent>, Error> {
        let files = files_in(&self.folder)?.into_iter();
        Ok(files.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect())
    }

    fn path(&self, note: &BranchIntent) -> PathBuf {
        self.folder.join(format!("{}-e{}.json", note.job, note.lease_epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [F3]
    #[test]
    fn notes_on_a_commit_are_there_until_one_errand_for_it_is_settled() {
        let folder = tempfile::tempdir().unwrap();
        let notes = BranchIntents::under(&StateDir::new(folder.path()).unwrap());
        let note = |sha: &str, epoch| BranchIntent {
            v: 1,
            job: JobId::from_bytes([1; 16]),
            repo: "notes".parse().unwrap(),
            sha: sha.repeat(40).parse().unwrap(),
            lease_epoch: Epoch(epoch),
        };
        for note in [note("a", 3), note("a", 3), note("a", 4), note("b", 5)] {
            notes.save(&note).unwrap();
        }

        let listed = notes.list().unwrap();
        notes.remove(&note("a", 6)).unwrap();
        notes.remove(&note("a", 6)).unwrap();

        assert_eq!(listed, [note("a", 3), note("a", 4), note("b", 5)]);
        assert_eq!(notes.list().unwrap(), [note("b", 5)]);
    }
}
