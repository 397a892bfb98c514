//! Records of a factory's runs that survive a kill.

use std::fs;
use std::path::{Path, PathBuf};

use domain::{ClaimNonce, DispatchSeq, Epoch, JobId, RepoName, RunInsights, RunKey};
use sandbox::{ProcessMark, UNFINISHED_SUFFIX, remove_file, replace_file};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::state::StateDir;

/// One run of this factory, written before each step that could be interrupted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The version of this format.
    pub v: u32,
    /// The job.
    pub job: JobId,
    /// The dispatch that was accepted, or is about to be. With the job it names the record.
    pub dispatch_seq: DispatchSeq,
    /// The nonce of its accept: a repeated request gets the same answer.
    pub nonce: ClaimNonce,
    /// The epoch, once granted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epoch: Option<Epoch>,
    /// The repository, once known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repo: Option<RepoName>,
    /// The engine's guard, while there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub guard: Option<ProcessMark>,
    /// Where the engine works.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worktree: Option<PathBuf>,
    /// The engine's own session, prefixed with the engine's name, once it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// The engine's cost so far, as last recorded.
    #[serde(default)]
    pub insights: RunInsights,
    /// The phase of the run.
    pub stage: LocalStage,
}

impl RunRecord {
    /// Whether it is this run, and not another of the same job.
    pub fn is_of(&self, run: RunKey) -> bool {
        self.job == run.job && self.epoch == Some(run.epoch)
    }
}

/// The phase of a run on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalStage {
    /// It was accepted; the answer is not known.
    Accepting,
    /// The lease is granted; the worktree is being made.
    Preparing,
    /// The engine runs.
    Running,
    /// The engine ended; verify commands run.
    Verifying,
    /// Commit, push, report and promotion are in progress.
    Finishing,
    /// It was fenced; the worktree is kept for a person.
    Quarantined,
}

/// The records, and the unreadable files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunListing {
    /// The records, by file name.
    pub records: Vec<RunRecord>,
    /// Files that cannot be read as a record. They stay in place.
    pub torn: Vec<PathBuf>,
}

/// The records of this factory's runs. Calls block until the disk has synced.
#[derive(Debug, Clone)]
pub struct Runs {
    folder: PathBuf,
}

impl Runs {
    /// The records under a factory's state directory.
    pub fn under(state: &StateDir) -> Self {
        Self { folder: state.runs() }
    }

    /// Replaces a record atomically. After a crash the one or the other is there.
    pub fn save(&self, record: &RunRecord) -> Result<(), Error> {
        let path = self.path(record.job, record.dispatch_seq);
        let bytes = serde_json::to_vec_pretty(record).map_err(|error| Error::disk("write", &path)(error.into()))?;
        replace_file(&path, &bytes).map_err(Error::disk("write", &path))
    }

    /// Removes a record. A missing one is already removed.
    pub fn remove(&self, job: JobId, seq: DispatchSeq) -> Result<(), Error> {
        let path = self.path(job, seq);
        remove_file(&path).map_err(Error::disk("remove", &path))
    }

    /// All records.
    pub fn list(&self) -> Result<RunListing, Error> {
        let mut listing = RunListing::default();
        for path in files_in(&self.folder)? {
            match fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                Some(record) => listing.records.push(record),
                None => listing.torn.push(path),
            }
        }
        Ok(listing)
    }

    /// Where a record is.
    pub(crate) fn path_of(&self, record: &RunRecord) -> PathBuf {
        self.path(record.job, record.dispatch_seq)
    }

    fn path(&self, job: JobId, seq: DispatchSeq) -> PathBuf {
        self.folder.join(format!("{job}-d{seq}.json"))
    }
}

/// Complete files of a directory, sorted by name.
pub(crate) fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::disk("list", folder))? {
        let path = entry.map_err(Error::disk("list", folder))?.path();
        if !path.to_string_lossy().ends_with(UNFINISHED_SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
